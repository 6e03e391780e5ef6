"""What `doctor` says to do is done as it stands there, on a real API server, and the finding goes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import H100, MI300X, gpupool, node

from tests.contract.chart_in_cluster import ensure_namespace, get, gpujob, helm, kubectl, names
from tests.contract.test_chart_rendering import CHART
from tests.e2e.cluster import Cluster
from tests.e2e.cluster.state import REPOSITORY

pytestmark = pytest.mark.e2e

Object = dict[str, Any]
PROGRAM = Path(sys.executable).parent / "kubectl-gpujob"
ENFORCE = "pod-security.kubernetes.io/enforce"


def doctor(cluster: Cluster, *options: str, user: str = "") -> list[dict[str, str]]:
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
    """Runs a command as a reader types it; what follows ", or" or ", for" is prose."""
    paths = f"{Path(cluster.tool('kubectl')).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", re.split(r", (?=or |for )", command)[0]], cwd=REPOSITORY, env={**cluster.environment(), "PATH": paths},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stderr}"


def upgrade(cluster: Cluster, *values: str) -> None:
    helm(cluster, "upgrade", str(CHART), "--reset-then-reuse-values", *values)


def told_value(remedy: str) -> str:
    """The option of helm that a remedy names."""
    (found,) = re.findall(r"^upgrade the release with (--set \S+?)(?:,| before|$)", remedy)
    return str(found).replace("--set ", "--set=")


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
    assert told_value(remedy) == f"--set=admission.{value}=true"
    upgrade(cluster, told_value(remedy))
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
    upgrade(cluster, told_value(remedy))
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
    upgrade(cluster, told_value(first))
    assert get(cluster, "deployment", "gpujob-operator", "-ngpujob-system")["spec"]["replicas"] == 2
    assert "replicaCount is 0, so no operator runs" not in {each["message"] for each in doctor(cluster)}
