"""Pods that wait for an autoscaler: they run once their node is there, and go elsewhere when none comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.api_server import GPUPOOLS, NODES, ApiServer, Object
from tests.e2e.cluster import eventually, simulated_nodes
from tests.e2e.conftest import MADE_BY, Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

Grow = Callable[..., None]


@pytest.fixture
def growing(api: ApiServer) -> Iterator[Grow]:
    """Makes a GPUPool that an autoscaler may add nodes to; it goes with the test."""
    made: list[str] = []

    def make(name: str, label: str, accelerator: str, **spec: Any) -> None:
        spec = {
            "nodeSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "accelerator": accelerator,
            "price": {"perGPUHour": "0.01"},
            "provision": {"maxNodes": 2, "gpusPerNode": 8, "cpu": "96", "memory": "1000Gi"},
            **spec,
        }
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}
        api.create(GPUPOOLS, body)
        made.append(name)

    yield make
    for name in made:
        api.delete(GPUPOOLS, name)


def test_a_gang_runs_once_its_nodes_are_there(
    operator: OperatorProcess, fleet: Fleet, team: Team, growing: Grow
) -> None:
    growing("grows", MADE_BY, "H100-SXM")
    uid = team.submit("waits", nodes=2, gpusPerNode=8, placement={"pools": {"allow": ["grows"]}})
    placement = team.until("waits", "Placed")["placement"]
    assert (placement["pool"], placement["provision"], placement.get("nodeNames")) == ("grows", True, None)
    # A third node would be one too many.
    team.submit("too-much", gpusPerNode=8, placement={"pools": {"allow": ["grows"]}})
    team.until("too-much", "Queued", "Impossible")
    eventually(lambda: len(team.pods(uid)) == 2, what="two pods that wait")
    fleet(h100=2)
    team.until("waits", "Running")
    assert len({pod["spec"]["nodeName"] for pod in team.pods(uid)}) == 2


def test_a_job_whose_nodes_do_not_come_goes_to_the_next_pool(
    no_operator: None, operators: Operators, fleet: Fleet, team: Team, growing: Grow
) -> None:
    hasty = operators("hasty")
    hasty.settings["GPUJOB_PROVISION_SECONDS"] = "4"
    hasty.start_without_waiting_for_the_lease()
    growing("never", "nowhere", "MI300X")
    fleet(h100=1)
    # Without patience the job would take the node that is there.
    uid = team.submit("moves", runs_for="0s", placement={"waitSeconds": 600})
    assert team.until("moves", "Placed")["placement"]["pool"] == "never"
    team.until("moves", "Succeeded")
    status = team.status("moves")
    assert status["placement"]["accelerator"] == "H100-SXM"
    assert (status["attempt"], status["excludedPools"][0]["name"]) == (2, "never")
    eventually(lambda: len(team.jobs(uid)) == 1, what="the first attempt gone")
    hasty.stop()
    assert hasty.errors() == []


Bare = Callable[[str], Object]


@pytest.fixture
def bare(api: ApiServer) -> Iterator[Bare]:
    """Makes a node that an autoscaler added, before its driver and plugin are there: no device, and no label of one.

    Tests name it before their team, so that pods end on their node before that goes.
    """
    made: list[str] = []

    def make(label: str) -> Object:
        (node,) = simulated_nodes({"h100": 1})
        node["metadata"]["name"] = name = f"bare-{label}"
        node["metadata"]["labels"] = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", label: "yes"}
        whole = {part: dict(node["status"][part]) for part in ("capacity", "allocatable")}
        for part in whole:
            del node["status"][part]["nvidia.com/gpu"]
        api.create(NODES, node)
        made.append(name)
        return {"status": whole}

    yield make
    for name in made:
        api.delete(NODES, name)


def test_a_node_that_came_is_given_time_for_its_devices(
    no_operator: None, operators: Operators, api: ApiServer, bare: Bare, fleet: Fleet, team: Team, growing: Grow
) -> None:
    """The pods alone were given 30 seconds; those of the node begin when it comes."""
    hasty = operators("patient")
    hasty.settings["GPUJOB_PROVISION_SECONDS"] = "30"
    hasty.start_without_waiting_for_the_lease()
    growing("comes", "comes", "H100-SXM")
    fleet(mi210=1)
    uid = team.submit("waits", placement={"waitSeconds": 600})
    assert team.until("waits", "Placed")["placement"]["pool"] == "comes"
    begun = team.job("waits")["metadata"]["creationTimestamp"]
    eventually(lambda: seconds_since(begun) >= 15, what="half of the pods' time over")
    devices = bare("comes")

    def told() -> Object | None:
        running = team.condition("waits", "Running")
        return running if running.get("reason") == "WaitingForDevices" else None

    said = eventually(told, what="the word that the node has no devices yet")
    assert said is not None
    assert "node bare-comes came at " in said["message"]
    eventually(lambda: seconds_since(begun) >= 31, what="all of the pods' time over")
    assert (len(team.jobs(uid)), team.status("waits")["placement"]["pool"]) == (1, "comes")
    api.patch(NODES, "bare-comes", devices, subresource="status")
    team.until("waits", "Running")
    (pod,) = team.pods(uid)
    status = team.status("waits")
    assert (pod["spec"]["nodeName"], status["attempt"], status.get("failures")) == ("bare-comes", 1, None)
    hasty.stop()
    assert hasty.errors() == []


def test_a_job_whose_node_never_gets_devices_goes_to_the_next_pool(
    no_operator: None, operators: Operators, bare: Bare, fleet: Fleet, team: Team, growing: Grow
) -> None:
    hasty = operators("hurried")
    hasty.settings["GPUJOB_PROVISION_SECONDS"] = "4"
    hasty.start_without_waiting_for_the_lease()
    growing("broken", "broken", "H100-SXM")
    fleet(mi210=1)
    team.submit("moves", placement={"waitSeconds": 600})
    assert team.until("moves", "Placed")["placement"]["pool"] == "broken"
    bare("broken")
    team.until("moves", "Running", timeout=60)
    status = team.status("moves")
    assert (status["attempt"], status["placement"]["accelerator"]) == (2, "MI210")
    assert status["excludedPools"][0]["name"] == "broken"
    hasty.stop()
    assert hasty.errors() == []


def seconds_since(begun: str) -> float:
    """Seconds of this machine's clock since a time that the API server wrote."""
    return (datetime.now(UTC) - datetime.fromisoformat(begun)).total_seconds()
