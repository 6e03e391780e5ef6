"""A finding of `doctor` is gone once its remedy is done: the cluster gets what a command does, or the facts that the remedy promises.

The commands themselves run on a real API server in tests/contract/test_remedies_of_doctor.py and test_chart_comes_and_goes.py.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from builders import H100, MI300X, MI355X, gpupool, node, runtime_class
from doctor_room import (
    Cluster,
    Doctor,
    Object,
    bad,
    changed,
    deployment,
    monitor,
    namespace,
    pod_with,
    prometheus,
    with_status,
)
from hypothesis import given
from hypothesis import strategies as st

from gpujob import __version__
from gpujob.cli.doctor import pools as checks_of_pools
from gpujob.cli.doctor.checks import BEFORE_UNINSTALL, CHECKS
from gpujob.cli.doctor.monitoring import _lacking, matches
from tests.unit.cli.test_doctor import DEPLOYMENTS, SCHEMAS, uninstalling

ROOT: Final = Path(__file__).parents[3]
HERE: Final = "tests/unit/cli/test_doctor_remedies.py"
REAL: Final = "tests/contract/test_remedies_of_doctor.py"
COMES: Final = "tests/contract/test_chart_comes_and_goes.py"


def remedies(doctor: Doctor, check: str, *objects: Object, options: tuple[str, ...] = ()) -> list[str]:
    return [str(remedy) for _, name, _, _, remedy in doctor(*objects, options=options) if name == check]


def versions(number: str) -> Mapping[str, str]:
    """The labels that gpu-feature-discovery writes of a driver."""
    major, minor, *rest = number.split(".")
    parts = {"major": major, "minor": minor, "rev": ".".join(rest), "version.full": number}
    return {f"nvidia.com/cuda.driver{'-' if '.' in key else '.'}{key}": each for key, each in parts.items()}


def one_before(version: str) -> str:
    """The version before one, by its last number that is not 0."""
    numbers = [int(each) for each in version.split(".")]
    at = max(number for number, each in enumerate(numbers) if each)
    return ".".join(str(each - (number == at)) for number, each in enumerate(numbers))


def test_tainted_and_cordoned_nodes_accept_jobs_after_what_is_said(doctor: Doctor) -> None:
    tainted = node("a", H100, taints=["team=vision:NoSchedule"])
    (remedy,) = remedies(doctor, "node-state", tainted)
    assert remedy == "tolerate it in a GPUPool (spec.tolerations) or remove it"
    tolerant = gpupool("p", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, tolerations=[{"key": "team"}])
    assert remedies(doctor, "node-state", tainted, tolerant) == []
    (remedy,) = remedies(doctor, "node-state", node("a", H100, cordoned=True))
    assert remedy.startswith("run kubectl uncordon a ")
    assert remedies(doctor, "node-state", node("a", H100)) == []


@pytest.mark.parametrize("old", ["470.57.02", "525.60.13", "550.54.15"])
def test_an_nvidia_driver_is_new_enough_at_the_version_that_is_said(doctor: Doctor, old: str) -> None:
    (remedy,) = remedies(doctor, "drivers", node("a", H100, labels=versions(old)))
    (needed,) = re.findall(r"^update the driver to (\S+) or newer$", remedy)
    assert remedies(doctor, "drivers", node("a", H100, labels=versions(needed))) == []
    assert remedies(doctor, "drivers", node("a", H100, labels=versions(one_before(needed)))) == [remedy]


def test_an_amd_driver_is_new_enough_at_the_version_that_is_said(doctor: Doctor) -> None:
    def with_driver(version: str | None) -> Object:
        return node("a", MI355X, labels={"amd.com/gpu.driver-version": version})

    (remedy,) = remedies(doctor, "drivers", with_driver("6.10.5"))
    (needed,) = re.findall(r"^update the driver to (\S+) or newer$", remedy)
    assert remedies(doctor, "drivers", with_driver(needed)) == []
    assert remedies(doctor, "drivers", with_driver(one_before(needed))) == [remedy]
    (remedy,) = remedies(doctor, "drivers", with_driver(None))
    (label,) = re.findall(r"writes (\S+);", remedy)
    assert label == "amd.com/gpu.driver-version"


def test_gpu_feature_discovery_says_model_and_driver(doctor: Doctor) -> None:
    bare = node("a", devices={"nvidia.com/gpu": "8"})
    agents = {*remedies(doctor, "drivers", bare), *remedies(doctor, "labellers", bare)}
    assert all(each.startswith("install gpu-feature-discovery") for each in agents)
    assert len(agents) == 2
    labelled = node("a", H100)
    assert remedies(doctor, "drivers", labelled) + remedies(doctor, "labellers", labelled) == []


def test_the_toolkit_is_safe_at_the_version_that_is_said(doctor: Doctor) -> None:
    (remedy,) = remedies(doctor, "container-toolkit", node("a", H100), pod_with("nvidia/container-toolkit:v1.16.2"))
    (safe,) = re.findall(r"^update the toolkit to (\S+) or newer", remedy)
    # The forms of the image that the GPU operator runs.
    for image in (f"nvcr.io/nvidia/k8s/container-toolkit:v{safe}-ubuntu20.04", f"mirror/container-toolkit:{safe}"):
        assert remedies(doctor, "container-toolkit", node("a", H100), pod_with(image)) == []
    before = pod_with(f"nvidia/container-toolkit:v{one_before(safe)}")
    assert remedies(doctor, "container-toolkit", node("a", H100), before) == [remedy]


@pytest.mark.parametrize(
    "kernel",
    ["5.15.0-157-generic", "6.8.0-85-generic", "6.14.0-33-generic", "5.14.0-611.5.1.el9_7.x86_64", "6.12.0-124.8.1.el10_1.x86_64",
     "4.18.0-553.84.1.el8_10.x86_64", "6.4.0-150700.53.22-default", "5.15.0-313.189.5.3.el8uek.x86_64", "6.1.0-41-amd64",
     "6.12.57+deb13-amd64", "6.6.104.2-4.azl3"],
)  # fmt: skip
def test_the_kernel_of_each_system_of_rocms_requirements_is_new_enough(doctor: Doctor, kernel: str) -> None:
    """Ubuntu 22.04 and 24.04, RHEL 8 to 10, SLES 15, Oracle Linux 8, Debian 12 and 13, Azure Linux 3."""

    def of(version: str) -> Object:
        return with_status(node("a", MI300X), nodeInfo={"kernelVersion": version})

    said = ["update the nodes to a system of ROCm's system requirements"]
    assert remedies(doctor, "amd-kernel", of("5.4.0-190-generic")) == said
    assert remedies(doctor, "amd-kernel", of(kernel)) == []


AGENTS: Final = {
    "NVSentinel": {"type": "GpuThermalWatch", "status": "False"},
    "the cloud's agent": {"type": "AcceleratedHardwareReady", "status": "True"},
    "AMD's device-metrics-exporter with node-problem-detector": {
        "type": "AMDGPUDeviceMetricsExporter",
        "status": "False",
    },
}
"""What each agent that a remedy names writes of a node that is well."""


@pytest.mark.parametrize("gpu", [H100, MI300X], ids=["NVIDIA", "AMD"])
def test_an_agent_that_is_said_is_seen_once_it_is_there(doctor: Doctor, gpu: Any) -> None:
    (remedy,) = remedies(doctor, "health-signals", node("a", gpu))
    (names,) = re.findall(r"^install (.*); until then", remedy)
    for name in names.split(" or "):
        assert remedies(doctor, "health-signals", with_status(node("a", gpu), conditions=[AGENTS[name]])) == []


def test_a_node_that_is_repaired_is_reported_no_more(doctor: Doctor) -> None:
    def with_condition(status: str) -> Object:
        return with_status(node("a", H100), conditions=[{"type": "GpuMemWatch", "status": status, "reason": "R"}])

    assert remedies(doctor, "health-signals", with_condition("True")) == ["repair or drain the node"]
    assert remedies(doctor, "health-signals", with_condition("False")) == []


def test_a_handler_is_there_after_its_container_runtime_is_configured(doctor: Doctor) -> None:
    def with_handlers(*names: str) -> tuple[Object, Object]:
        return node("a", H100, handlers=names), runtime_class("nvidia", "nvidia")

    (remedy,) = remedies(doctor, "runtime-class", *with_handlers("", "runc"))
    assert remedy.startswith("run nvidia-ctk runtime configure on these nodes")
    assert remedies(doctor, "runtime-class", *with_handlers("", "runc", "nvidia")) == []


def test_contradicting_labels_are_corrected(doctor: Doctor) -> None:
    def with_memory(memory: str) -> Object:
        return node("a", H100, labels={"nvidia.com/gpu.memory": memory, "rack": "r"})

    said = ["correct the labels of its nodes"]
    assert remedies(doctor, "labels", with_memory("1000")) == said
    # A GPUPool changes nothing of what the labels report.
    pool = gpupool("p", {"rack": "r"}, accelerator="H100-SXM", memoryPerGPU="80Gi")
    assert remedies(doctor, "labels", with_memory("1000"), pool) == said
    assert remedies(doctor, "labels", with_memory("81559")) == []


def test_a_device_without_a_name_gets_one_by_a_gpupool(doctor: Doctor) -> None:
    def pool(accelerator: str) -> Object:
        return gpupool("p", {"rack": "r"}, accelerator=accelerator, memoryPerGPU="80Gi")

    unknown = node("a", devices={"nvidia.com/gpu": "8"}, labels={"rack": "r"})
    said = "correct the labels of its nodes, or write a GPUPool with accelerator for them"
    assert remedies(doctor, "labels", unknown) == [said]
    assert remedies(doctor, "labels", unknown, pool("H100")) == ["correct the labels of its nodes, or the GPUPool"]
    assert remedies(doctor, "labels", unknown, pool("H100-SXM")) == []


def test_old_list_prices_matter_no_more_where_pools_have_their_own(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks_of_pools, "OLD_PRICES", -1)
    (remedy,) = remedies(doctor, "catalog", node("a", H100))
    assert remedy == "upgrade gpujob-operator, or set the chart's prices"
    assert remedies(doctor, "catalog", node("a", H100), options=("--price", "H100-SXM=2.5")) == []


# --- A live cluster ---------------------------------------------------------------------------------------------------

Live = Callable[..., Any]


def apply(remedy: str, cluster: Cluster, kind: str) -> None:
    """Does what a remedy of monitoring says to a cluster: labels of a namespace, values of the chart."""
    plural = f"/apis/monitoring.coreos.com/v1/{kind.lower()}s"
    for step in remedy.split(", and "):
        words = shlex.split(step.removeprefix("upgrade the release with "))
        if words[:4] == ["kubectl", "label", "--overwrite", "namespace"]:
            (found,) = [each for each in cluster.lists["/api/v1/namespaces"] if each["metadata"]["name"] == words[4]]
            found["metadata"]["labels"] |= dict(word.split("=") for word in words[5:])
            continue
        for option, word in zip(words[::2], words[1::2], strict=True):
            path, _, value = word.partition("=")
            assert path.startswith(f"monitoring.{kind[0].lower()}{kind[1:]}."), path
            if option == "--set-json":
                (found,) = cluster.lists[plural]
                found["metadata"]["labels"] |= json.loads(value)
            else:
                assert (option, path.rpartition(".")[2], value) == ("--set", "enabled", "true")
                cluster.lists[plural] = [monitor(kind)]


EXPRESSIONS: Final = {
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "c"]}, {"key": "on", "operator": "Exists"}]
}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor", "PrometheusRule"])
@pytest.mark.parametrize(
    ("selector", "of_namespaces", "steps"),
    [
        ({"matchLabels": {"release": "it's"}}, {}, 1),
        ({"matchLabels": {"app.kubernetes.io/part-of": "x.y", "a": "b"}}, {}, 1),
        (EXPRESSIONS, {}, 1),
        ({}, {"matchLabels": {"monitored": "yes"}}, 1),
        ({"matchLabels": {"release": "other"}}, EXPRESSIONS, 2),
        (None, None, 0),
        ({"matchExpressions": [{"key": "release", "operator": "DoesNotExist"}]}, {}, 0),
    ],
    ids=str,
)
def test_a_prometheus_selects_the_object_after_the_remedy(
    live: Live, kind: str, selector: Any, of_namespaces: Any, steps: int
) -> None:
    field = "rule" if kind == "PrometheusRule" else f"{kind[0].lower()}{kind[1:]}"
    asked = {f"{field}Selector": selector, f"{field}NamespaceSelector": of_namespaces}
    cluster = changed(lists={"/apis/monitoring.coreos.com/v1/prometheuses": [prometheus(**asked)]})
    ((*_, remedy),) = bad(live(cluster)[1], "prometheus")
    if steps == 0:
        assert remedy == f"let a Prometheus select it by {field}Selector and {field}NamespaceSelector"
        return
    assert len(remedy.split(", and ")) == steps
    apply(remedy, cluster, kind)
    assert bad(live(cluster)[1], "prometheus") == []


def test_a_monitor_that_is_missing_is_made_by_its_value(live: Live) -> None:
    cluster = changed(lists={"/apis/monitoring.coreos.com/v1/podmonitors": []})
    ((*_, remedy),) = bad(live(cluster)[1], "prometheus")
    apply(remedy, cluster, "PodMonitor")
    assert bad(live(cluster)[1], "prometheus") == []


WORDS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": WORDS,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {
                    "key": st.sampled_from("abc"),
                    "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Like"]),
                    "values": st.lists(st.sampled_from("xyz"), max_size=2),
                }
            ),
            max_size=2,
        ),
    },
)


@given(SELECTORS, WORDS)
def test_lacking_labels_are_those_that_make_a_selector_select(selector: Object, labels: dict[str, str]) -> None:
    lacking = _lacking(selector, labels)
    if lacking is not None:
        assert matches(selector, {**labels, **lacking})
        assert not any(matches(selector, {**labels, **lacking, key: labels.get(key, "")}) for key in lacking)
    else:
        assert not matches(selector, labels)


@pytest.mark.parametrize(
    ("denied", "command"),
    [
        ("create gpujobs", "kubectl create rolebinding gpujob-editor-of-{user} --clusterrole=gpujob-editor --user={user} -n team"),
        ("create pods", "kubectl create rolebinding gpujob-editor-of-{user} --clusterrole=gpujob-editor --user={user} -n team"),
        ("get pods/log", "kubectl create rolebinding view-of-{user} --clusterrole=view --user={user} -n team"),
        ("list gpupools",
         "kubectl create clusterrolebinding gpujob-pool-viewer-of-{user} --clusterrole=gpujob-pool-viewer --user={user}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("user", ["ada@example.com", "system:serviceaccount:team:ci", ""])
def test_a_right_that_is_missing_comes_with_the_binding_that_gives_it(
    live: Live, denied: str, command: str, user: str
) -> None:
    ((*_, remedy),) = bad(live(changed(denied={denied}, user=user))[1], "rights")
    assert remedy == f"{command.format(user=user or 'USER')}, by an admin"


def test_the_name_of_a_user_is_one_word_of_the_command(live: Live) -> None:
    ((*_, remedy),) = bad(live(changed(denied={"create pods"}, user="a/b; rm -rf ~"))[1], "rights")
    words = shlex.split(remedy.removesuffix(", by an admin"))
    assert words[3:6] == ["gpujob-editor-of-a-b; rm -rf ~", "--clusterrole=gpujob-editor", "--user=a/b; rm -rf ~"]


def test_versions_that_are_said_are_those_that_end_the_finding(live: Live) -> None:
    old = changed(objects={"/version": {"gitVersion": "v1.30.4"}})
    ((_, _, message, _),) = bad(live(old)[1], "kubernetes")
    (needed,) = re.findall(r"older than (\S+)$", message)
    old.objects["/version"] = {"gitVersion": f"v{needed}.0"}
    assert bad(live(old)[1], "kubernetes") == []
    other = changed(lists={DEPLOYMENTS: [deployment(version="9.9.9")]})
    ((*_, remedy),) = bad(live(other)[1], "operator")
    assert remedy == "install gpujob-operator 9.9.9 here, or upgrade the chart"
    other.lists[DEPLOYMENTS] = [deployment(version=__version__)]
    assert bad(live(other)[1], "operator") == []


def test_who_may_discover_sees_the_crds(live: Live) -> None:
    cluster = changed(statuses={SCHEMAS: 403})
    ((*_, remedy),) = bad(live(cluster)[1], "crds")
    assert remedy == "ask for the role system:discovery"
    del cluster.statuses[SCHEMAS]
    assert bad(live(cluster)[1], "crds") == []


def test_jobs_that_are_deleted_wait_and_leave_nothing(live: Live) -> None:
    waiting = {"metadata": {"name": "w", "namespace": "team"}, "spec": {"ttlSecondsAfterFinished": 60}}
    checks = ("uninstall-waiting", "uninstall-ttl")
    found = bad(live(uninstalling(waiting), "--before-uninstall")[1], *checks)
    assert [each[3].partition(" ")[0] for each in found] == ["delete", "delete"]
    assert bad(live(uninstalling(), "--before-uninstall")[1], *checks) == []


# --- Budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["abc", "5,000", "-1", "0"])
def test_a_budget_can_be_read_after_the_annotation_that_is_said(doctor: Doctor, written: str) -> None:
    def of(budget: str) -> dict[str, Any]:
        made = namespace("team")
        return {**made, "metadata": {**made["metadata"], "annotations": {"gpujob.dev/monthly-budget": budget}}}

    (remedy,) = remedies(doctor, "monthly-budget", of(written))
    command = shlex.split(remedy.partition(", with ")[0])
    key, _, budget = command.pop().partition("=")
    assert (command, key) == (["kubectl", "annotate", "--overwrite", "namespace", "team"], "gpujob.dev/monthly-budget")
    assert remedies(doctor, "monthly-budget", of(budget)) == []


# --- All checks -------------------------------------------------------------------------------------------------------

DONE: Final[dict[str, tuple[str, str]]] = {
    "kubernetes": (HERE, "test_versions_that_are_said_are_those_that_end_the_finding"),
    "crds": (COMES, "test_doctor_says_how_missing_crds_come"),
    "operator": (REAL, "test_without_replicas_the_release_gets_them"),
    "device-plugins": (REAL, "test_device_files_and_dra_drivers_need_no_device_plugin"),
    "labellers": (HERE, "test_gpu_feature_discovery_says_model_and_driver"),
    "labels": (HERE, "test_contradicting_labels_are_corrected"),
    "node-state": (HERE, "test_tainted_and_cordoned_nodes_accept_jobs_after_what_is_said"),
    "runtime-class": (REAL, "test_a_runtime_class_is_created"),
    "container-toolkit": (HERE, "test_the_toolkit_is_safe_at_the_version_that_is_said"),
    "drivers": (HERE, "test_an_nvidia_driver_is_new_enough_at_the_version_that_is_said"),
    "amd-kernel": (HERE, "test_the_kernel_of_each_system_of_rocms_requirements_is_new_enough"),
    "render-groups": (REAL, "test_a_pool_says_groups_accelerator_and_driver"),
    "host-access": (REAL, "test_what_a_pool_gives_of_the_host_is_allowed"),
    "health-signals": (HERE, "test_an_agent_that_is_said_is_seen_once_it_is_there"),
    "prices": (REAL, "test_a_price_is_set_by_the_name_that_is_said"),
    "catalog": (HERE, "test_old_list_prices_matter_no_more_where_pools_have_their_own"),
    "pod-security": (REAL, "test_a_namespace_gets_the_pod_security_level_that_a_pool_needs"),
    "monthly-budget": (HERE, "test_a_budget_can_be_read_after_the_annotation_that_is_said"),
    "namespace": (REAL, "test_a_namespace_gets_the_labels_that_pools_select"),
    "rights": (REAL, "test_an_account_gets_its_rights_by_the_bindings_that_are_said"),
    "prometheus": (REAL, "test_a_prometheus_selects_the_monitors_after_the_upgrade_that_is_said"),
    "grafana": (REAL, "test_grafanas_sidecar_finds_the_dashboards_after_the_upgrade_that_is_said"),
    "uninstall-crds": (REAL, "test_the_crds_are_kept_before_an_uninstallation"),
    "uninstall-running": (REAL, "test_running_jobs_are_suspended_by_the_command_that_is_said"),
    "uninstall-waiting": (HERE, "test_jobs_that_are_deleted_wait_and_leave_nothing"),
    "uninstall-ttl": (HERE, "test_jobs_that_are_deleted_wait_and_leave_nothing"),
}
"""For each check, a test that does what its remedy says and sees the finding gone: file and name."""


def test_every_check_has_a_test_of_its_remedy() -> None:
    checks = (*CHECKS, *BEFORE_UNINSTALL)
    assert len(DONE) == len(checks)
    for name, check in zip(DONE, checks, strict=True):
        assert f'"{name}"' in inspect.getsource(check)
    tests = {path: {each.name for each in ast.parse((ROOT / path).read_text()).body if isinstance(each, ast.FunctionDef)}
             for path in {path for path, _ in DONE.values()}}  # fmt: skip
    assert [(path, name) for path, name in DONE.values() if name not in tests[path]] == []


def test_the_tests_of_this_file_see_findings_go_from_a_namespace_too(doctor: Doctor) -> None:
    """Of a capture, without an API server: the namespace's labels are those that the remedy says."""
    pool = gpupool("p", {"rack": "a"}, namespaceSelector={"matchLabels": {"team": "x"}})
    objects = [node("a", MI300X, labels={"rack": "a"}), pool]
    (remedy,) = remedies(doctor, "namespace", *objects, namespace("team"), options=("-n", "team"))
    labels = dict(word.split("=") for word in shlex.split(remedy.partition(", for ")[0])[5:])
    assert remedies(doctor, "namespace", *objects, namespace("team", **labels), options=("-n", "team")) == []
