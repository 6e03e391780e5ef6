"""What an admin's GPUPool gives to pods, on a real API server: host devices where Pod Security allows them, and a fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api_server import GPUPOOLS, NAMESPACES, ApiServer, Object
from tests.e2e.chart import set_values
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import MADE_BY, Operators
from tests.e2e.dra_drivers import Drivers
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

ENFORCE = "pod-security.kubernetes.io/enforce"
Give = Callable[..., None]


@pytest.fixture
def bare(api: ApiServer) -> Iterator[Drivers]:
    """Makes nodes that offer no devices."""
    made = Drivers(api, "bare")
    yield made
    made.clear()


@pytest.fixture
def give(api: ApiServer, bare: Drivers, team: Team) -> Iterator[Give]:
    """Makes the GPUPool of the bare nodes; it goes with the test."""

    def make(name: str, **spec: Any) -> None:
        spec = {"nodeSelector": {"matchLabels": {MADE_BY: "bare"}}, "accelerator": "MI300X", **spec}
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}
        api.create(GPUPOOLS, body)

    yield make
    team.clear()
    api.delete(GPUPOOLS, "given")


@pytest.fixture
def installed_with(
    cluster: Cluster, api: ApiServer, no_operator: None, operators: Operators, tmp_path: Path
) -> Iterator[Callable[..., None]]:
    """Starts an operator again with what the chart renders for it after an upgrade to these values of `admission`."""
    process = operators("with-values")
    site = tmp_path / "site.yaml"
    process.settings["GPUJOB_SITE"] = str(site)

    def start(**values: bool) -> None:
        process.stop()
        set_values(cluster, **{f"admission.{name}": value for name, value in values.items()})
        rendered = api.get("/api/v1/namespaces/gpujob-system/configmaps", "gpujob-site")
        site.write_text(rendered["data"]["site.yaml"])
        process.start_without_waiting_for_the_lease()

    yield start
    process.stop()
    set_values(cluster, **{"admission.hostDevices": True, "admission.hostNetwork": True})


def label(api: ApiServer, namespace: str, **labels: str) -> None:
    api.patch(
        NAMESPACES, namespace, {"metadata": {"labels": {key.replace("__", ENFORCE): labels[key] for key in labels}}}
    )


def test_host_devices_need_the_namespace_s_level_and_a_whole_node(
    operator: OperatorProcess, api: ApiServer, bare: Drivers, team: Team, give: Give
) -> None:
    node = bare.node("a")
    label(api, team.namespace, __="baseline")
    give("given", deviceMode="HostDevices", gpusPerNode=8, namespaceSelector={"matchLabels": {"team": "a"}})
    only = {"pools": {"allow": ["given"]}}
    team.submit("first", gpusPerNode=8, placement=only)
    team.until("first", "Impossible")
    assert "for namespaces with the label team=a" in team.condition("first", "Placed")["message"]
    label(api, team.namespace, team="a")
    team.until("first", "Misconfigured")
    assert f"label it {ENFORCE}=privileged" in team.condition("first", "Placed")["message"]
    assert team.pods() == []
    label(api, team.namespace, __="privileged")
    uid = team.job("first")["metadata"]["uid"]
    team.until("first", "Running")
    (pod,) = team.pods(uid)
    assert pod["spec"]["nodeName"] == node
    assert pod["spec"]["containers"][0]["securityContext"]["privileged"] is True
    paths = {volume["hostPath"]["path"] for volume in pod["spec"]["volumes"] if "hostPath" in volume}
    assert paths == {"/dev/kfd", "/dev/dri"}
    team.submit("second", gpusPerNode=8, placement=only)
    team.until("second", "Queued")
    team.delete("first")
    team.until("second", "Running")


@pytest.mark.parametrize(
    ("value", "spec", "gives"),
    [
        ("hostDevices", {"deviceMode": "HostDevices", "gpusPerNode": 8}, "the host's device files"),
        ("hostNetwork", {"fabric": {"hostNetwork": True}}, "the host's network"),
    ],
)
def test_the_chart_s_value_lets_a_pool_give_of_the_host(
    installed_with: Callable[..., None],
    api: ApiServer,
    bare: Drivers,
    team: Team,
    give: Give,
    value: str,
    spec: Object,
    gives: str,
) -> None:
    """Both are false by default; here each is true alone, after neither was."""
    for name in ("a", "b"):
        node = bare.node(name)
        if value == "hostNetwork":
            offered = {"amd.com/gpu": "8"}
            api.patch("/api/v1/nodes", node, {"status": {"capacity": offered, "allocatable": offered}}, "status")
    give("given", **spec)
    gang: dict[str, Any] = {"nodes": 2, "gpusPerNode": 8, "placement": {"pools": {"allow": ["given"]}}}
    installed_with(hostDevices=False, hostNetwork=False)
    team.submit("gang", **gang)
    team.until("gang", "Misconfigured")
    placed = team.condition("gang", "Placed")
    assert placed["reason"] == "HostAccessDenied"
    assert gives in placed["message"]
    assert f"admission.{value}" in placed["message"]
    assert team.pods() == []
    installed_with(**{"hostDevices": False, "hostNetwork": False, value: True})
    team.until("gang", "Running")
    assert len(team.pods()) == 2


def test_two_pods_with_host_devices_never_share_a_node(
    operator: OperatorProcess, api: ApiServer, bare: Drivers, team: Team, give: Give
) -> None:
    """Even where a user copies such a pod: the scheduler keeps them apart."""
    bare.node("a")
    give("given", deviceMode="HostDevices", gpusPerNode=8)
    uid = team.submit("first", gpusPerNode=8, placement={"pools": {"allow": ["given"]}})
    team.until("first", "Running")
    (pod,) = team.pods(uid)
    spec = {key: pod["spec"][key] for key in ("affinity", "volumes")}
    spec["containers"] = [{"name": "train", "image": "none"}]
    copy: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copy", "labels": {"gpujob.dev/host-devices": "true"}},
        "spec": {**spec, "restartPolicy": "Never", "automountServiceAccountToken": False},
    }
    path = f"{NAMESPACES.rpartition('/')[0]}/namespaces/{team.namespace}/pods"
    api.create(path, copy)

    def answer() -> str:
        conditions = api.get(path, "copy").get("status", {}).get("conditions", [])
        return next((str(each.get("message")) for each in conditions if each["type"] == "PodScheduled"), "")

    said = eventually(answer, 30, what="the scheduler's answer", every=0.2)
    api.delete(path, "copy")
    assert "anti-affinity" in str(said)


def test_a_gang_gets_the_fabric_and_waits_for_it(
    operator: OperatorProcess, api: ApiServer, bare: Drivers, team: Team, give: Give
) -> None:
    for name, leaf in (("a", "l1"), ("b", "l2"), ("c", "l2")):
        node = bare.node(name)
        api.patch("/api/v1/nodes", node, {"metadata": {"labels": {"example.com/leaf": leaf}}})
        offered = {"amd.com/gpu": "8", "rdma/hca": "1"}
        api.patch("/api/v1/nodes", node, {"status": {"capacity": offered, "allocatable": offered}}, "status")
    fabric = {
        "resources": {"rdma/hca": "1"},
        "capabilities": ["IPC_LOCK"],
        "annotations": {"k8s.v1.cni.cncf.io/networks": "rail-a"},
        "hostNetwork": True,
        "topologyKey": "example.com/leaf",
    }
    give("given", fabric=fabric)
    only = {"pools": {"allow": ["given"]}}
    uid = team.submit("gang", nodes=2, gpusPerNode=2, placement=only)
    team.until("gang", "Running")
    pods = team.pods(uid)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"bare-b", "bare-c"}
    spec = pods[0]["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert pods[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rail-a"
    team.submit("second", nodes=2, gpusPerNode=2, placement=only)
    team.until("second", "Queued")
    assert (
        "needs 1 rdma/hca on each of 2 nodes (spec.fabric), 0 of 2 nodes"
        in team.condition("second", "Placed")["message"]
    )
    team.submit("alone", gpusPerNode=2, placement=only)
    team.until("alone", "Running")
    team.delete("gang")
    team.until("second", "Running")
