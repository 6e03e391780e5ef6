"""Pods that wait for an autoscaler: they run once their node is there, and go elsewhere when none comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.api_server import GPUPOOLS, ApiServer
from tests.e2e.cluster import eventually
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
