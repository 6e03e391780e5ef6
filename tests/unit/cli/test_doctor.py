"""What `doctor` finds in nodes, pools and namespaces of a file, and in what only a live cluster has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from builders import H100, MI300X, gpupool, node, runtime_class
from cli_room import MIXED, Command
from doctor_room import (
    Cluster,
    Doctor,
    Object,
    bad,
    changed,
    deployment,
    monitor,
    namespace,
    of_check,
    pod_with,
    prometheus,
    with_status,
)
from hypothesis import given
from hypothesis import strategies as st

from gpujob import __version__
from gpujob.cli.doctor.finding import Found, Level
from gpujob.cli.doctor.monitoring import matches
from gpujob.cli.doctor.namespace import RIGHTS
from gpujob.cli.output.findings import summary
from tests.unit.api.test_served_crds import without

BARE = {"node.kubernetes.io/instance-type": "own"}


def without_devices(name: str, labels: dict[str, str]) -> Object:
    return node(name, labels=labels)


NFD = "feature.node.kubernetes.io"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([node("a", H100)], []),
        ([without_devices("a", {f"{NFD}/pci-0302_10de.present": "true"}), node("b", MI300X)],
         [("Error", "1 nodes have NVIDIA GPUs by their labels and offer none to pods (a)")]),
        ([without_devices("a", {"nvidia.com/gpu.present": "true"})],
         [("Error", "1 nodes have NVIDIA GPUs by their labels and offer none to pods (a)")]),
        ([without_devices(name, {f"{NFD}/pci-1200_1002.present": "true"}) for name in "abcd"] + [node("z", H100)],
         [("Error", "4 nodes have AMD GPUs by their labels and offer none to pods (a, b, c and 1 more)")]),
        ([without_devices("a", {f"{NFD}/amd-gpu": "true"}), node("z", H100)],
         [("Error", "1 nodes have AMD GPUs by their labels and offer none to pods (a)")]),
        # A network card of the vendor is no GPU.
        ([without_devices("a", {f"{NFD}/pci-0200_10de.present": "true"}), node("z", H100)], []),
        ([node("a", MI300X, allocatable={"amd.com/gpu": "0"}), node("z", H100)],
         [("Error", "1 nodes count AMD GPUs of which none is usable (a)")]),
        ([node("cpu")], [("Error", "no node offers GPUs to pods")]),
    ],
)  # fmt: skip
def test_device_plugins(doctor: Doctor, objects: list[Object], expected: list[tuple[str, str]]) -> None:
    assert of_check(doctor(*objects), "device-plugins") == expected


def test_a_node_without_labels_is_told_by_vendor(doctor: Doctor) -> None:
    nodes = [
        node("a", labels=BARE, devices={"nvidia.com/gpu": "8"}),
        node("b", labels=BARE, devices={"amd.com/gpu": "8"}),
    ]
    assert [message.partition(" (")[0] for _, message in of_check(doctor(*nodes), "labellers")] == [
        "1 nodes offer NVIDIA GPUs without the label nvidia.com/gpu.product",
        "1 nodes offer AMD GPUs without the label amd.com/gpu.device-id",
    ]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([node("a", H100)], []),
        ([node("a", H100, handlers=["", "runc"]), runtime_class("nvidia", "nvidia")],
         [("Error", "1 nodes lack the handler nvidia of RuntimeClass nvidia (a), and pods do not start there")]),
        ([node("a", H100, handlers=["", "nvidia"]), runtime_class("nvidia", "nvidia")], []),
        ([node("a", H100, handlers=["", "nvidia"])],
         [("Warning", "1 nodes have the handler nvidia (a) and there is no RuntimeClass nvidia, so pods use it only where it "
           "is the default runtime")]),
        ([node("a", MI300X, handlers=["", "runc"]), runtime_class("nvidia", "nvidia")], []),
    ],
)  # fmt: skip
def test_runtime_classes(doctor: Doctor, objects: list[Object], expected: list[tuple[str, str]]) -> None:
    assert of_check(doctor(*objects), "runtime-class") == expected


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([node("a", H100)], []),
        ([node("a", H100, taints=["nvidia.com/gpu=present:NoSchedule"])], []),
        ([node("a", H100, taints=["team=vision:NoSchedule"])],
         [("Warning", "no job gets these GPUs: its node has taint team=vision:NoSchedule")]),
        ([node("a", H100, taints=["team=vision:NoSchedule"]),
          gpupool("p", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, tolerations=[{"key": "team"}])], []),
        ([node("a", H100), node("b", H100, cordoned=True), node("c", H100, cordoned=True)],
         [("Warning", "no job gets the GPUs of 2 of 3 nodes: node b is cordoned, and so on 1 more node")]),
        ([node("a", H100, ready=False)], [("Warning", "no job gets the GPUs of 1 of 1 node: node a is not Ready")]),
    ],
)  # fmt: skip
def test_nodes_that_accept_no_jobs(doctor: Doctor, objects: list[Object], expected: list[tuple[str, str]]) -> None:
    assert of_check(doctor(*objects), "node-state") == expected


def test_no_letter_of_a_finding_is_cut_from_the_table(gpujob: Command) -> None:
    """Whatever the widths of its columns: the words of the table are those of the JSON."""
    nodes = [node(f"n{number}", H100, taints=[f"a-team-with-a-long-name-{number}:NoSchedule"]) for number in range(3)]
    stdin = yaml.safe_dump_all(nodes)
    found = json.loads(gpujob("doctor", "--cluster", "-", "-o", "json", stdin=stdin).out)["findings"]
    lines = gpujob("doctor", "--cluster", "-", stdin=stdin).out.splitlines()
    starts = [lines[0].index(header) for header in ("FINDING", "REMEDY")]
    remedies = "".join(line[starts[1] :] for line in lines[1:-1])
    letters = "".join(
        str(each["remedy"])
        for each in sorted(
            (each for each in found if each["level"] != "OK"), key=lambda each: [*Level].index(each["level"])
        )
    )
    assert remedies.replace(" ", "") == letters.replace(" ", "")


@pytest.mark.parametrize(
    ("image", "level"),
    [
        ("nvcr.io/nvidia/k8s/container-toolkit:v1.17.7-ubuntu20.04", "Error"),
        ("nvcr.io/nvidia/k8s/container-toolkit:v1.9.0", "Error"),
        ("nvcr.io/nvidia/k8s/container-toolkit:v1.17.8-ubuntu20.04", "OK"),
        ("registry.example/mirror/container-toolkit:1.20.0@sha256:" + "0" * 64, "OK"),
        ("nvcr.io/nvidia/k8s/container-toolkit:latest", "Unknown"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.0", "Unknown"),
    ],
)
def test_a_toolkit_with_a_known_hole_is_an_error(doctor: Doctor, image: str, level: str) -> None:
    found = of_check(doctor(node("a", H100), pod_with(image), every=True), "container-toolkit")
    assert [each for each, _ in found] == [level]


@pytest.mark.parametrize(
    ("kernel", "level"),
    [
        ("6.8.0-45-generic", "OK"),
        ("5.14.0-503.el9.x86_64", "OK"),
        ("4.18.0-553.el8_10.x86_64", "OK"),
        ("4.18.0-80.generic", "Warning"),
        ("5.4.0-190-generic", "Warning"),
        ("", "Unknown"),
        ("linux", "Unknown"),
    ],
)
def test_kernels_of_amd_nodes(doctor: Doctor, kernel: str, level: str) -> None:
    raw = with_status(node("a", MI300X), nodeInfo={"kernelVersion": kernel})
    assert [each for each, _ in of_check(doctor(raw, every=True), "amd-kernel")] == [level]
    nvidia = with_status(node("a", H100), nodeInfo={"kernelVersion": kernel})
    assert of_check(doctor(nvidia, every=True), "amd-kernel") == []


def test_a_driver_is_held_against_the_images_of_the_catalog(doctor: Doctor) -> None:
    old = {"nvidia.com/cuda.driver.major": "470", "nvidia.com/cuda.driver.minor": "57", "nvidia.com/cuda.driver.rev": "02",
           "nvidia.com/cuda.driver-version.full": "470.57.02"}  # fmt: skip
    ((level, check, about, message, remedy),) = (
        each for each in doctor(node("a", H100, labels=old)) if each[1] == "drivers"
    )
    assert (level, check) == ("Error", "drivers")
    assert about is not None
    assert message.startswith("driver 470.57.02 is too old for ")
    assert remedy is not None
    assert remedy.startswith("update the driver to ")


def test_groups_of_device_files_are_asked_for_on_amd(doctor: Doctor) -> None:
    own = node("a", MI300X, labels={"rack": "a"})
    assert len(of_check(doctor(own), "render-groups")) == 1
    assert of_check(doctor(own, gpupool("p", {"rack": "a"}, supplementalGroups=[109])), "render-groups") == []
    assert of_check(doctor(node("b", H100)), "render-groups") == []


@pytest.mark.parametrize(
    ("gpu", "sign", "told_by"),
    [
        (H100, {"conditions": [{"type": "AcceleratedHardwareReady", "status": "True"}]}, "EKS"),
        (H100, {"conditions": [{"type": "KernelDeadlock", "status": "False"}]}, None),
        (MI300X, {"conditions": [{"type": "AMDGPUXgmi", "status": "False"}]}, "AMD"),
        (H100, {"conditions": [{"type": "AMDGPUXgmi", "status": "False"}]}, None),
        (MI300X, {"conditions": [{"type": "Ready", "status": "True"}]}, None),
        (H100, {"conditions": [{"type": "GpuMemWatch", "status": "False"}]}, "NVSentinel"),
        # Placement reads it by its words.
        (H100, {"conditions": [{"type": "GPUHealthy", "status": "True"}]}, "condition GPUHealthy"),
    ],
)
def test_somebody_tells_of_faults_of_each_vendor(doctor: Doctor, gpu: Any, sign: Object, told_by: str | None) -> None:
    (found,) = of_check(doctor(with_status(node("a", gpu), **sign), every=True), "health-signals")
    if told_by:
        assert found == ("OK", f"the health of {'AMD' if gpu is MI300X else 'NVIDIA'} nodes is reported by {told_by}")
    else:
        assert found[0] == "Warning"


def test_prices_that_are_missing_or_of_nothing_here(doctor: Doctor) -> None:
    known = [node("a", H100)]
    found = of_check(doctor(*known), "prices")
    assert [(level, message.partition(": ")[0]) for level, message in found] == [
        ("Warning", "the price is no price of yours")
    ]
    assert of_check(doctor(*known, options=["--price", "H100=2"]), "prices") == []
    assert of_check(doctor(*known, options=["--price", "H100=2", "--price", "p5.49xlarge=2"]), "prices") == [
        ("Warning", "prices.p5.49xlarge is of no pool: there is no such accelerator or instance type here")
    ]


@pytest.mark.parametrize(
    ("level", "pool", "warned"),
    [
        ("privileged", {"deviceMode": "HostDevices"}, False),
        ("baseline", {"deviceMode": "HostDevices"}, True),
        ("restricted", {"deviceMode": "HostDevices"}, True),
        ("restricted", {}, False),
    ],
)
def test_pod_security_against_what_pools_need(doctor: Doctor, level: str, pool: Object, warned: bool) -> None:
    objects = [
        node("a", MI300X, labels={"rack": "a"}),
        gpupool("p", {"rack": "a"}, accelerator="MI300X", **pool),
        namespace("team", **{"pod-security.kubernetes.io/enforce": level}),
    ]
    found = of_check(doctor(*objects, options=["-n", "team"]), "pod-security")
    said = f"namespace team enforces {level}, and p need device files or the network of the host"
    assert found == ([("Warning", said)] if warned else [])


def site_map(**members: Any) -> Object:
    metadata = {"name": "gpujob-site", "namespace": "gpujob-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"site.yaml": json.dumps(members)}}


FORBIDDEN_DEVICES = (
    "the chart's admission.hostDevices is false, and p give pods device files of the host",
    "upgrade the release with --set admission.hostDevices=true, or change spec.deviceMode of the GPUPool",
)
FORBIDDEN_NETWORK = (
    "the chart's admission.hostNetwork is false, and p give gangs the network of the host",
    "upgrade the release with --set admission.hostNetwork=true, or change spec.fabric.hostNetwork of the GPUPool",
)


@pytest.mark.parametrize(
    ("allowed", "pool", "expected"),
    [
        ([], {"deviceMode": "HostDevices"}, [FORBIDDEN_DEVICES]),
        ([], {"fabric": {"hostNetwork": True}}, [FORBIDDEN_NETWORK]),
        (["hostNetwork"], {"deviceMode": "HostDevices", "fabric": {"hostNetwork": True}}, [FORBIDDEN_DEVICES]),
        (["hostDevices", "hostNetwork"], {"deviceMode": "HostDevices", "fabric": {"hostNetwork": True}}, []),
        ([], {"fabric": {"capabilities": ["IPC_LOCK"]}}, []),
        (None, {"deviceMode": "HostDevices"}, []),
    ],
)
def test_the_chart_against_what_pools_give_of_the_host(
    doctor: Doctor, allowed: list[str] | None, pool: Object, expected: list[tuple[str, str]]
) -> None:
    pools = [node("a", MI300X, labels={"rack": "a"}), gpupool("p", {"rack": "a"}, accelerator="MI300X", **pool)]
    site = [] if allowed is None else [site_map(hostAccess=allowed)]
    found = [
        (level, message, remedy) for level, check, _, message, remedy in doctor(*pools, *site) if check == "host-access"
    ]
    assert found == [("Warning", *said) for said in expected]


def test_a_namespace_that_no_pool_lets_in(doctor: Doctor) -> None:
    pool = gpupool("p", {"rack": "a"}, namespaceSelector={"matchLabels": {"team": "x"}})
    objects = [node("a", MI300X, labels={"rack": "a"}), pool, namespace("team")]
    (found,) = of_check(doctor(*objects, options=["-n", "team"]), "namespace")
    assert found == ("Error", "no pool is open to namespace team: p select others")
    (found,) = of_check(doctor(*objects, options=["-n", "elsewhere"]), "pod-security")
    assert found == ("Error", "there is no namespace elsewhere")


def test_contradicting_labels_are_told(doctor: Doctor) -> None:
    broken = node("a", H100, labels={"nvidia.com/gpu.memory": "1000"})
    assert of_check(doctor(broken), "labels"), "a card of 80 GB whose label says 1 GB"


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([], "0 errors, 0 warnings, 0 unknown, 0 in order"),
        (["Error", "Warning", "Unknown", "OK"], "1 error, 1 warning, 1 unknown, 1 in order"),
        (["Error", "Error", "Warning", "Warning"], "2 errors, 2 warnings, 0 unknown, 0 in order"),
    ],
)
def test_findings_are_counted_in_words(levels: list[str], expected: str) -> None:
    assert summary([Found("c", Level(level), "m") for level in levels]) == expected


def test_the_table_has_the_worst_first_and_counts_the_rest(gpujob: Command) -> None:
    answer = gpujob("doctor", "--cluster", MIXED)
    lines = answer.out.splitlines()
    levels = [line.split()[0] for line in lines[1:-1] if not line.startswith(" ")]
    assert max(map(len, lines)) <= 120
    assert levels == sorted(levels, key=["Error", "Warning", "Unknown"].index)
    assert answer.out.splitlines()[-1].startswith("0 errors, 4 warnings, 2 unknown, ")
    assert answer.code == 0
    wide = gpujob("doctor", "--cluster", MIXED, "-o", "wide").out
    assert "OK" in [line.split()[0] for line in wide.splitlines()]


# --- A live cluster ---------------------------------------------------------------------------------------------------


OF_LIVE = ("kubernetes", "crds", "operator", "rights", "prometheus", "grafana")


def test_a_cluster_in_order(live: Callable[..., Any]) -> None:
    code, found = live(Cluster())
    assert code == 0
    assert bad(found, *OF_LIVE) == []
    assert [message for level, check, message, _ in found if check in ("kubernetes", "crds", "operator")] == [
        "Kubernetes v1.36.2",
        f"the CRDs have all fields of {__version__}",
        "2 of 2 operator pods are ready",
        "operator-0 leads",
    ]


LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpujob-system/leases/gpujob-operator"
DEPLOYMENTS = "/apis/apps/v1/namespaces/gpujob-system/deployments"
SCHEMAS = "/openapi/v3/apis/gpujob.dev/v1alpha1"


@pytest.mark.parametrize(
    ("cluster", "code", "expected"),
    [
        (changed(objects={"/version": {"gitVersion": "v1.30.4"}}), 5,
         [("Error", "kubernetes", "Kubernetes v1.30.4 is older than 1.31")]),
        (changed(statuses={SCHEMAS: 404}), 5, [("Error", "crds", "the CRDs are not installed")]),
        (changed(statuses={SCHEMAS: 403}), 0, [("Unknown", "crds", "the schemas of the CRDs may not be read")]),
        (changed(objects={SCHEMAS: without("gpujobs", ("properties", "spec", "properties", "retries"))}), 0,
         [("Warning", "crds", "the CRD gpujobs.gpujob.dev lacks spec.retries, so what people write there is lost")]),
        (changed(objects={SCHEMAS: without("gpupools", ("properties", "status", "properties", "gpus"))}), 5,
         [("Error", "crds", "the CRD gpupools.gpujob.dev lacks status.gpus, which this version writes, so it does not act")]),
        (changed(lists={DEPLOYMENTS: []}), 5, [("Error", "operator", "no operator is installed in namespace gpujob-system")]),
        (changed(lists={DEPLOYMENTS: [deployment(0)]}), 5, [("Error", "operator", "none of 2 operator pods is ready")]),
        (changed(lists={DEPLOYMENTS: [deployment(0, 0)]}), 5,
         [("Error", "operator", "replicaCount is 0, so no operator runs")]),
        (changed(lists={DEPLOYMENTS: [deployment(version="9.9.9")]}), 0,
         [("Warning", "operator", f"the operator is 9.9.9, this command line is {__version__}: they may decide differently")]),
        (changed(statuses={DEPLOYMENTS: 403}), 0,
         [("Unknown", "operator", "Deployments of namespace gpujob-system may not be read")]),
        (changed(objects={LEASE: {"spec": {"holderIdentity": ""}}}), 5,
         [("Error", "operator", "no operator leads: none holds the Lease gpujob-operator")]),
        (changed(denied={"create gpujobs"}), 5,
         [("Error", "rights", "you may not create gpujobs in namespace team: submit GPUJobs")]),
        (changed(denied={"create pods", "get pods/proxy"}), 5,
         [("Error", "rights", "you may not create pods in namespace team: create pods, without which a GPUJob is refused"),
          ("Warning", "rights", "you may not get pods/proxy in namespace team: see live speeds in top")]),
        (changed(lists={"/apis/monitoring.coreos.com/v1/prometheuses": []}), 0,
         [("Unknown", "prometheus", "the cluster has no Prometheus object: what scrapes the operator cannot be seen")]),
    ],
)  # fmt: skip
def test_what_is_wrong_of_an_installation(
    live: Callable[..., Any], cluster: Cluster, code: int, expected: list[tuple[str, str, str]]
) -> None:
    exit_code, found = live(cluster)
    assert [each[:3] for each in bad(found, *OF_LIVE)] == expected
    assert all(each[3] for each in bad(found, *OF_LIVE)), "each has its remedy"
    assert exit_code == code


@pytest.mark.parametrize(
    ("spec", "labels", "selected"),
    [
        ({}, {"release": "stack"}, True),
        ({}, {"release": "other"}, False),
        ({"serviceMonitorSelector": {}}, {"a": "b"}, True),
        ({"serviceMonitorSelector": None}, {"release": "stack"}, False),
        ({"serviceMonitorNamespaceSelector": None}, {"release": "stack"}, False),
        ({"serviceMonitorNamespaceSelector": {"matchLabels": {"team": "x"}}}, {"release": "stack"}, False),
        ({"serviceMonitorSelector": {"matchExpressions": [{"key": "release", "operator": "In", "values": ["a", "b"]}]}},
         {"release": "b"}, True),
    ],
)  # fmt: skip
def test_a_prometheus_that_does_not_select_the_chart_s_monitor(
    live: Callable[..., Any], spec: Object, labels: dict[str, str], selected: bool
) -> None:
    cluster = Cluster()
    cluster.lists["/apis/monitoring.coreos.com/v1/prometheuses"] = [prometheus(**spec)]
    cluster.lists["/apis/monitoring.coreos.com/v1/servicemonitors"] = [monitor("ServiceMonitor", **labels)]
    _, found = live(cluster)
    findings = bad(found, "prometheus")
    assert [each[2] for each in findings] == (
        [] if selected else ["no Prometheus selects ServiceMonitor gpujob-system/gpujob-operator"]
    )
    if spec == {} and not selected:
        remedy = """upgrade the release with --set-json 'monitoring.serviceMonitor.labels={"release":"stack"}'"""
        assert findings[0][3] == remedy


def sidecar(*, container: str = "grafana-sc-dashboard", **env: str) -> Object:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    pod = pod_with("quay.io/kiwigrid/k8s-sidecar:1.30.0", env=variables)
    pod["spec"]["containers"][0]["name"] = container
    return {**pod, "metadata": {"name": container, "namespace": "monitoring"}}


def boards(namespace: str = "gpujob-system", **labels: str) -> list[Object]:
    """A dashboard of the chart, and a ConfigMap of it without one."""
    metadata = {"name": "gpujob-fleet", "namespace": namespace, "labels": labels}
    return [
        {"metadata": metadata, "data": {"fleet.json": "{}"}},
        {"metadata": {"name": "gpujob-site"}, "data": {"site.yaml": ""}},
    ]


BY_LABEL = """--set-json 'monitoring.dashboards.labels={"dash":"yes"}'"""
INTO = "--set monitoring.dashboards.namespace=monitoring"
DASH = {"LABEL": "dash", "LABEL_VALUE": "yes"}
NOT_THERE = "Grafana's sidecar is there and the chart's dashboards are not installed"
OTHER_LABEL = "Grafana's sidecar looks for the label dash=yes, which gpujob-fleet lack"


@pytest.mark.parametrize(
    ("env", "made", "message", "options"),
    [
        ({"NAMESPACE": "ALL"}, [], NOT_THERE, f"--set monitoring.dashboards.enabled=true {BY_LABEL}"),
        ({}, [], NOT_THERE, f"--set monitoring.dashboards.enabled=true {BY_LABEL} {INTO}"),
        ({"NAMESPACE": "ALL"}, boards(grafana_dashboard="1"), OTHER_LABEL, BY_LABEL),
        ({}, boards(grafana_dashboard="1"), OTHER_LABEL, f"{BY_LABEL} {INTO}"),
        ({"NAMESPACE": "ALL"}, boards(dash="yes"), "", ""),
        ({"NAMESPACE": "a, gpujob-system"}, boards(dash="yes"), "", ""),
        ({}, boards("monitoring", dash="yes"), "", ""),
        ({}, boards(dash="yes"), "Grafana's sidecar looks in monitoring alone, where gpujob-fleet are not", INTO),
    ],
)
def test_grafana_s_sidecar_looks_for_another_label_or_elsewhere(
    live: Callable[..., Any], env: dict[str, str], made: list[Object], message: str, options: str
) -> None:
    cluster = Cluster()
    # The sidecars for other things have labels of their own.
    others = [
        sidecar(container=f"grafana-sc-{each}", LABEL="a") for each in ("datasources", "alerts", "plugins", "notifiers")
    ]
    cluster.lists["/api/v1/pods"] = [*others, sidecar(**DASH, **env)]
    cluster.lists["/api/v1/configmaps"] = made
    expected = [(message, f"upgrade the release with {options}")] if message else []
    assert [each[2:] for each in bad(live(cluster)[1], "grafana")] == expected


def test_who_may_read_nothing_is_told_so(live: Callable[..., Any]) -> None:
    code, found = live(changed(statuses={"/api/v1/nodes": 403, "/api/v1/namespaces": 403}))
    assert bad(found, "device-plugins") == [
        ("Unknown", "device-plugins", "no node can be read", "ask for the right to list nodes, or use --cluster FILE")
    ]
    assert code == 0


def test_every_right_is_asked_for(live: Callable[..., Any]) -> None:
    words = {f"{verb} {resource}" for verb, _, resource, _ in RIGHTS}
    _, found = live(changed(denied=words))
    assert len(bad(found, "rights")) == len(RIGHTS)


VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(VALUES, VALUES)
def test_a_selector_of_labels_selects_what_has_them(wanted: dict[str, str], labels: dict[str, str]) -> None:
    assert matches({"matchLabels": wanted}, labels) is (wanted.items() <= labels.items())
    exact = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    assert matches({"matchExpressions": exact}, labels) is (wanted.items() <= labels.items())
    none = [{"key": key, "operator": "DoesNotExist"} for key in wanted]
    assert matches({"matchExpressions": none}, labels) is not bool(wanted.keys() & labels.keys())


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
    st.sampled_from(["metadata", "spec", "status", "labels", "containers", "capacity", "allocatable", "conditions", "name"]), inner,
    max_size=3), max_leaves=12))  # fmt: skip
def test_a_node_or_pod_of_any_form_ends_no_check(raw: Any) -> None:
    from gpujob.catalog.files.load import load_catalog
    from gpujob.cli.doctor.checks import findings
    from gpujob.cli.doctor.facts import Facts, Live
    from gpujob.fleet.pools.fleet import Fleet

    one = raw if isinstance(raw, dict) else {"metadata": raw, "spec": raw, "status": raw}
    live = Live(schemas=one, deployments=[one], lease=one, prometheuses=[one], monitors=[one], dashboards=[one])
    kinds = {"Node": [one], "Pod": [one], "Namespace": [one]}
    findings(Facts(kinds, Fleet(), load_catalog(), "team", "gpujob-system", "2026-11-29T00:00:00+00:00", live))


def test_gpuruntimes_that_cannot_be_read_are_told(doctor: Doctor) -> None:
    def runtime(name: str, **spec: Any) -> Object:
        return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPURuntime", "metadata": {"name": name}, "spec": spec}

    found = doctor(node("a", H100), runtime("x", extends="zz"), runtime("y", extends="y"), runtime("z", image="i"))
    sentences = [message for _, message in of_check(found, "catalog")]
    end = "in the catalog; kubectl gpujob catalog runtimes lists them"
    said = [each for each in sentences if each.startswith("GPURuntime ")]
    assert sorted(said)[:2] == [
        f"GPURuntime {name} cannot be read, so it is not used: extends: there is no row {row} {end}"
        for name, row in (("x", "zz"), ("y", "y"))
    ]
    assert len(said) == 3
    remedies = {remedy for _, _, _, message, remedy in found if message in said}
    assert remedies == {"correct the GPURuntime; jobs that name it are refused"}


def job_in(state: str, name: str, namespace: str = "team", **spec: Any) -> Object:
    status = {"status": {"state": state}} if state else {}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, **status}


def crd(plural: str, *, keep: bool = True, by: str = "Helm") -> Object:
    annotations = {"helm.sh/resource-policy": "keep"} if keep else {}
    labels = {"app.kubernetes.io/managed-by": by}
    return {"metadata": {"name": f"{plural}.gpujob.dev", "labels": labels, "annotations": annotations}}


KINDS = ("gpujobs", "gpujobprofiles", "gpupools", "gpuruntimes")
ALL_JOBS = "/apis/gpujob.dev/v1alpha1/gpujobs"
NO_RUN = (
    "until an operator is installed again their statuses stay as they are, and nothing restarts them, counts their costs, or "
    "ends them"
)


def uninstalling(*jobs: Object, **crds: Any) -> Cluster:
    cluster = Cluster()
    cluster.lists[ALL_JOBS] = list(jobs)
    for plural in KINDS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.gpujob.dev"
        cluster.objects[path] = crd(plural, **crds)
    return cluster


def test_before_an_uninstallation_nothing_is_lost_where_nothing_runs(live: Callable[..., Any]) -> None:
    ended = [job_in("Succeeded", "a"), job_in("Failed", "b"), job_in("Suspended", "c", suspend=True)]
    code, found = live(uninstalling(*ended), "--before-uninstall")
    assert code == 0
    assert [(level, check, message) for level, check, message, _ in found] == [
        ("OK", "uninstall-crds", "the CRDs stay, and with them GPUJobs, GPUPools, GPURuntimes and GPUJobProfiles"),
        ("OK", "uninstall-running", "no GPUJob has pods"),
        ("OK", "uninstall-waiting", "no GPUJob waits"),
        ("OK", "uninstall-ttl", "no GPUJob is to be deleted after its end"),
    ]


def test_before_an_uninstallation_jobs_are_named_with_what_becomes_of_them(live: Callable[..., Any]) -> None:
    jobs = [job_in("Running", "a"), job_in("Starting", "b", "other"), job_in("Placed", "c"), job_in("Queued", "d"), job_in("", "e"),
            job_in("Restarting", "f"), job_in("Succeeded", "g", ttlSecondsAfterFinished=60)]  # fmt: skip
    code, found = live(uninstalling(*jobs), "--before-uninstall")
    assert code == 0
    said = {check: (level, message, remedy) for level, check, message, remedy in found}
    assert said["uninstall-running"] == (
        "Warning",
        f"pods of 3 GPUJobs go on to their end (other/b, team/a, team/c); {NO_RUN} at a deadline or a budget",
        'to give their GPUs back first, kubectl -n NAMESPACE patch gpujob NAME --type merge -p \'{"spec":{"suspend":true}}\' for '
        "each, and wait until it is Suspended",
    )
    assert said["uninstall-waiting"] == (
        "Warning",
        "no pods come for 3 GPUJobs that have not ended (team/d, team/e, team/f) until an operator is installed again",
        "delete those that are not to run then",
    )
    assert said["uninstall-ttl"][1] == (
        "ttlSecondsAfterFinished of 1 GPUJob (team/g) does nothing until an operator is installed again"
    )


@pytest.mark.parametrize(
    ("crds", "level"),
    [
        ({}, "OK"),
        ({"keep": False}, "Error"),
        # What another tool manages stays when a release goes.
        ({"keep": False, "by": "olm"}, "OK"),
    ],
)
def test_crds_that_go_with_the_release_are_an_error(live: Callable[..., Any], crds: Any, level: str) -> None:
    code, found = live(uninstalling(**crds), "--before-uninstall")
    (crd_finding,) = [each for each in found if each[1] == "uninstall-crds"]
    assert crd_finding[0] == level
    assert code == (5 if level == "Error" else 0)
    if level == "Error":
        assert crd_finding[2] == (
            "the chart's crds.keep is false, so that helm deletes gpujobprofiles.gpujob.dev, gpujobs.gpujob.dev, "
            "gpupools.gpujob.dev and 1 more with every object of them and every pod of a GPUJob"
        )


def test_who_may_not_list_jobs_is_told_who_may(live: Callable[..., Any]) -> None:
    cluster = uninstalling()
    cluster.statuses[ALL_JOBS] = 403
    cluster.statuses["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpupools.gpujob.dev"] = 403
    _, found = live(cluster, "--before-uninstall")
    assert [(level, check) for level, check, *_ in found] == [
        ("Unknown", "uninstall-crds"), ("Unknown", "uninstall-running"), ("Unknown", "uninstall-waiting"),
    ]  # fmt: skip


def test_an_uninstallation_can_be_asked_of_a_capture(doctor: Doctor) -> None:
    running = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", **job_in("Running", "a\nb", command=["x"])}
    found = doctor(node("a", H100), running, options=["--before-uninstall"])
    assert [(level, check, message.partition(";")[0]) for level, check, _, message, _ in found] == [
        ("Unknown", "uninstall-crds", "a file does not say whether helm deletes the CRDs"),
        ("Warning", "uninstall-running", "pods of 1 GPUJob go on to their end (team/a\\nb)"),
    ]
