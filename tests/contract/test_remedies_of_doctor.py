"""What `doctor` says to do is done as it stands there, on a real API server, and the finding goes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import H100, MI300X, gpupool, node

from tests.contract.chart_in_cluster import ensure_namespace, get, gpujob, helm, kubeconfig_of, kubectl, names, run
from tests.contract.test_chart_rendering import CHART, NAMESPACE
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import REPOSITORY

pytestmark = pytest.mark.e2e

Object = dict[str, Any]
PROGRAM = Path(sys.executable).parent / "kubectl-gpujob"
ENFORCE = "pod-security.kubernetes.io/enforce"


def doctor(cluster: Cluster, *options: str) -> list[dict[str, str]]:
    """What is not in order."""
    done = subprocess.run(
        [PROGRAM, "doctor", "-o", "json", *options],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 5), done.stderr
    return [each for each in json.loads(done.stdout)["findings"] if each["level"] != "OK"]


def remedies(cluster: Cluster, check: str, *options: str) -> list[str]:
    return [each["remedy"] for each in doctor(cluster, *options) if each["check"] == check]


def do(cluster: Cluster, command: str) -> None:
    """Runs a command as a reader types it; what follows ", or", ", for" or ", by" is prose."""
    paths = f"{Path(cluster.tool('kubectl')).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", re.split(r", (?=or |for |by )", command)[0]], cwd=REPOSITORY, env={**cluster.environment(), "PATH": paths},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stderr}"


def upgrade(cluster: Cluster, *values: str) -> None:
    helm(cluster, "upgrade", str(CHART), "--reset-then-reuse-values", *values)


def told_values(remedy: str) -> list[str]:
    """The options of helm that a remedy names, as a shell reads them."""
    (found,) = re.findall(r"^upgrade the release with (--set.*?)(?:, or .*| before .*)?$", remedy)
    return shlex.split(found)


@pytest.fixture
def made(cluster: Cluster, installed: None) -> Iterator[Callable[..., None]]:
    """Makes objects that go with the test; nodes get their status too."""
    kept: list[tuple[str, str]] = []

    def make(*objects: Object) -> None:
        for raw in objects:
            kubectl(cluster, "create", "-f", "-", stdin=json.dumps(raw))
            kind, name = raw["kind"].lower(), raw["metadata"]["name"]
            kept.append((kind, name))
            if "status" in raw:
                patch = json.dumps({"status": raw["status"]})
                kubectl(cluster, "patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)

    yield make
    for kind, name in reversed(kept):
        kubectl(cluster, "delete", kind, name, "--ignore-not-found")


@pytest.fixture
def values(cluster: Cluster, installed: None) -> Iterator[None]:
    """The values of the release, as they were before the test, again after it."""
    revision = re.findall(r"^REVISION: (\d+)", helm(cluster, "status"), re.MULTILINE)
    yield
    helm(cluster, "rollback", *revision)


def test_a_namespace_gets_the_pod_security_level_that_a_pool_needs(cluster: Cluster, made: Callable[..., None]) -> None:
    for level in ("baseline", "restricted"):
        where = ensure_namespace(cluster, next(names), **{ENFORCE: level})
        # IPC_LOCK is beyond `baseline` too.
        for number, spec in enumerate(({"deviceMode": "HostDevices"}, {"fabric": {"capabilities": ["IPC_LOCK"]}})):
            name = f"secured-{level}-{number}"
            made(node(name, MI300X, labels={"rack": name}), gpupool(name, {"rack": name}, accelerator="MI300X", **spec))
        first, second = remedies(cluster, "pod-security", "-n", where)
        assert (
            first
            == second
            == f"kubectl label --overwrite namespace {where} {ENFORCE}=privileged, or use other pools there"
        )
        do(cluster, first)
        assert remedies(cluster, "pod-security", "-n", where) == []


def test_a_namespace_that_is_missing_is_created(cluster: Cluster, installed: None) -> None:
    where = next(names)
    (remedy,) = remedies(cluster, "pod-security", "-n", where)
    do(cluster, remedy)
    assert remedies(cluster, "pod-security", "-n", where) == []


def test_a_namespace_gets_the_labels_that_pools_select(cluster: Cluster, made: Callable[..., None]) -> None:
    where = ensure_namespace(cluster, next(names), tier="b")
    labels = {"team": "vision", "tier": "a"}
    made(
        node("selected", H100, labels={"rack": "s"}),
        gpupool("s", {"rack": "s"}, namespaceSelector={"matchLabels": labels}),
    )
    (remedy,) = remedies(cluster, "namespace", "-n", where)
    assert remedy == f"kubectl label --overwrite namespace {where} team=vision tier=a, for s"
    do(cluster, remedy)
    assert remedies(cluster, "namespace", "-n", where) == []


def test_a_runtime_class_is_created(cluster: Cluster, made: Callable[..., None]) -> None:
    raw = node("handled", H100)
    raw["status"]["runtimeHandlers"] = [{"name": "runc"}, {"name": "nvidia"}]
    made(raw)
    (remedy,) = remedies(cluster, "runtime-class")
    try:
        do(cluster, remedy)
        assert remedies(cluster, "runtime-class") == []
    finally:
        kubectl(cluster, "delete", "runtimeclass", "nvidia", "--ignore-not-found")


@pytest.mark.parametrize(
    ("spec", "value"),
    [({"deviceMode": "HostDevices"}, "hostDevices"), ({"fabric": {"hostNetwork": True}}, "hostNetwork")],
)
def test_what_a_pool_gives_of_the_host_is_allowed(
    cluster: Cluster, made: Callable[..., None], values: None, spec: Object, value: str
) -> None:
    made(node("given", MI300X, labels={"rack": "g"}), gpupool("g", {"rack": "g"}, accelerator="MI300X", **spec))
    (remedy,) = remedies(cluster, "host-access")
    assert told_values(remedy) == ["--set", f"admission.{value}=true"]
    upgrade(cluster, *told_values(remedy))
    assert remedies(cluster, "host-access") == []


def test_a_price_is_set_by_the_name_that_is_said(cluster: Cluster, made: Callable[..., None], values: None) -> None:
    """Of an accelerator, of a machine whose devices are unknown, and of devices of which nothing is known."""
    unknown = node("strange", labels={"node.kubernetes.io/instance-type": "rack-9"})
    for part in ("capacity", "allocatable"):
        unknown["status"].setdefault(part, {})["nvidia.com/gpu"] = "8"
    made(node("priced", MI300X), unknown)

    def missing() -> set[str]:
        said = remedies(cluster, "prices")
        return {match[1] for each in said if (match := re.match(r"set the chart's prices\.(\S+), or", each))}

    assert missing() == {"MI300X", "rack-9"}
    upgrade(cluster, *(f"--set=prices.{word}=3.5" for word in missing()))
    assert remedies(cluster, "prices") == []


def test_a_pool_says_groups_accelerator_and_driver(cluster: Cluster, made: Callable[..., None]) -> None:
    bare = node("undescribed", labels={"rack": "u"})
    for part in ("capacity", "allocatable"):
        bare["status"].setdefault(part, {})["amd.com/gpu"] = "8"
    made(bare)
    before = {each["check"] for each in doctor(cluster)}
    assert {"render-groups", "labellers", "drivers"} <= before
    made(gpupool("u", {"rack": "u"}, accelerator="MI300X", supplementalGroups=[44, 109]))
    (remedy,) = remedies(cluster, "drivers")
    (label,) = re.findall(r"writes (\S+);", remedy)
    kubectl(cluster, "label", "node", "undescribed", f"{label}=6.14.14")
    assert not {"render-groups", "labellers", "drivers"} & {each["check"] for each in doctor(cluster)}


def test_device_files_and_dra_drivers_need_no_device_plugin(cluster: Cluster, made: Callable[..., None]) -> None:
    """The remedy of a node whose devices no plugin offers may be a GPUPool with another way."""
    made(node("no-plugin", labels={"rack": "n", "feature.node.kubernetes.io/amd-gpu": "true"}))
    assert any("no-plugin" in each["message"] for each in doctor(cluster) if each["check"] == "device-plugins")
    made(gpupool("n", {"rack": "n"}, accelerator="MI300X", deviceMode="HostDevices", gpusPerNode=8))
    assert [each for each in doctor(cluster) if each["check"] == "device-plugins"] == []


def test_the_crds_are_kept_before_an_uninstallation(cluster: Cluster, installed: None, values: None) -> None:
    upgrade(cluster, "--set=crds.keep=false")
    (remedy,) = remedies(cluster, "uninstall-crds", "--before-uninstall")
    upgrade(cluster, *told_values(remedy))
    assert remedies(cluster, "uninstall-crds", "--before-uninstall") == []


def test_running_jobs_are_suspended_by_the_command_that_is_said(cluster: Cluster, installed: None) -> None:
    """No operator is here: that its pods then end is in tests/e2e/test_suspended_jobs_hold_nothing.py."""
    where = ensure_namespace(cluster, next(names))
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("runs", where))
    state = json.dumps({"status": {"state": "Running"}})
    kubectl(cluster, "patch", "gpujob", "runs", f"-n{where}", "--subresource=status", "--type=merge", "-p", state)
    (remedy,) = remedies(cluster, "uninstall-running", "--before-uninstall")
    (command,) = re.findall(r"first, (kubectl .*) for each,", remedy)
    do(cluster, command.replace("NAMESPACE", where).replace(" NAME ", " runs "))
    assert get(cluster, "gpujob", "runs", f"-n{where}")["spec"]["suspend"] is True
    kubectl(cluster, "delete", "gpujob", "runs", f"-n{where}")


def test_without_replicas_the_release_gets_them(cluster: Cluster, installed: None, values: None) -> None:
    (first, *_) = [each["remedy"] for each in doctor(cluster) if each["check"] == "operator"]
    upgrade(cluster, *told_values(first))
    assert get(cluster, "deployment", "gpujob-operator", "-ngpujob-system")["spec"]["replicas"] == 2
    assert "replicaCount is 0, so no operator runs" not in {each["message"] for each in doctor(cluster)}


def test_an_account_gets_its_rights_by_the_bindings_that_are_said(
    cluster: Cluster, installed: None, tmp_path: Path
) -> None:
    where = ensure_namespace(cluster, next(names))
    kubectl(cluster, "create", "serviceaccount", "ci", f"-n{where}")
    options = ("-n", where, "--kubeconfig", str(kubeconfig_of(cluster, "ci", where, tmp_path)))
    with_less = ["without it plans use the published pools", "without it top shows those of the status"]
    said = remedies(cluster, "rights", *options)
    assert (len(said), said[-2:]) == (6, with_less)
    commands = sorted(set(said[:-2]))
    assert len(commands) == 3
    try:
        for command in commands:
            do(cluster, command)
        eventually(lambda: remedies(cluster, "rights", *options) == with_less, what="rights in force")
    finally:
        for command in commands:
            _, _, kind, name, *_ = shlex.split(command)
            kubectl(cluster, "delete", kind, name, f"-n{where}", "--ignore-not-found")


def definition(kind: str) -> Object:
    """A CRD of prometheus-operator, without its schema: `doctor` and the chart read and write no more than what is asked here."""
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "monitoring.coreos.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}}  # fmt: skip
    metadata = {"name": f"{plural}.monitoring.coreos.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


MONITORS = ("ServiceMonitor", "PodMonitor", "PrometheusRule")


@pytest.fixture
def prometheus(cluster: Cluster, installed: None) -> Iterator[None]:
    """The kinds of prometheus-operator, and a Prometheus that selects all namespaces with a label, and in them by a label."""
    definitions = [definition(kind) for kind in ("Prometheus", *MONITORS)]
    kubectl(cluster, "create", "-f", "-", stdin="\n---\n".join(map(json.dumps, definitions)))
    kubectl(cluster, "wait", "--for=condition=Established", "crd", *(each["metadata"]["name"] for each in definitions))
    where = ensure_namespace(cluster, "prometheus")
    by_label, of_namespace = {"matchLabels": {"release": "stack"}}, {"matchLabels": {"monitored": "yes"}}
    fields = ("serviceMonitor", "podMonitor", "rule")
    spec = {f"{each}Selector": by_label for each in fields} | {
        f"{each}NamespaceSelector": of_namespace for each in fields
    }
    raw = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Prometheus",
        "metadata": {"name": "p", "namespace": where},
        "spec": spec,
    }
    eventually(
        lambda: run(cluster, "kubectl", "create", "-f", "-", stdin=json.dumps(raw)).returncode == 0, what="a Prometheus"
    )
    yield
    kubectl(cluster, "delete", "crd", *(each["metadata"]["name"] for each in definitions))
    kubectl(cluster, "label", "namespace", NAMESPACE, "monitored-")


def test_a_prometheus_selects_the_monitors_after_the_upgrade_that_is_said(
    cluster: Cluster, prometheus: None, values: None
) -> None:
    missing = doctor(cluster)
    assert [each["message"] for each in missing if each["check"] == "prometheus"] == [
        f"there is no {kind} of the chart" for kind in MONITORS
    ]
    upgrade(
        cluster, *(word for each in missing if each["check"] == "prometheus" for word in told_values(each["remedy"]))
    )
    said = remedies(cluster, "prometheus")
    assert len(said) == len(MONITORS)
    for remedy in said:
        label, _, change = remedy.partition(", and ")
        do(cluster, label)
        upgrade(cluster, *told_values(change))
    assert remedies(cluster, "prometheus") == []


def test_grafanas_sidecar_finds_the_dashboards_after_the_upgrade_that_is_said(
    cluster: Cluster, installed: None, values: None
) -> None:
    where = ensure_namespace(cluster, next(names))
    for number, (key, value) in enumerate((("dash.example/board", "yes"), ("other", ""))):
        env = [{"name": "LABEL", "value": key}, {"name": "LABEL_VALUE", "value": value}]
        container = {"name": "sidecar", "image": "quay.io/kiwigrid/k8s-sidecar:1.30.0", "env": env}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"grafana-{number}"},
            "spec": {"containers": [container]},
        }
        kubectl(cluster, "create", f"-n{where}", "-f", "-", stdin=json.dumps(pod))
        (remedy,) = remedies(cluster, "grafana")
        # At first there are no dashboards; then they have another label.
        assert ("monitoring.dashboards.enabled=true" in remedy) == (number == 0)
        upgrade(cluster, *told_values(remedy))
        assert remedies(cluster, "grafana") == []
        kubectl(cluster, "delete", "pod", f"grafana-{number}", f"-n{where}", "--wait")
