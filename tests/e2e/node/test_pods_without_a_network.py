"""A node whose network plugin fails, on real nodes: the attempt ends within its bound, says why, goes elsewhere, and holds no GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.api_server import NODES, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node.impatient_operator import STUCK
from tests.e2e.node.test_volumes_that_no_node_attaches import said
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

WORDS = "no IP addresses available in range set"
REMEDY = "check the node's volumes, network and RuntimeClass handler"


@pytest.fixture
def impatient(resident: OperatorProcess) -> Iterator[OperatorProcess]:
    """The operator of this folder with shorter bounds for what does not start."""
    resident.stop()
    resident.module = "tests.e2e.node.impatient_operator"
    before = len(resident.errors())
    resident.start_without_waiting_for_the_lease()
    yield resident
    assert resident.errors()[before:] == []
    resident.stop()
    resident.brisk().start_without_waiting_for_the_lease()


@pytest.fixture
def without_addresses(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Takes all addresses of pods off a node's network plugin, as a subnet that is used up; they come back with the test."""
    held: dict[Path, str] = {}

    def take(node: str) -> None:
        path = cluster.dir / node / "cni" / "10-bridge.conflist"
        held[path] = path.read_text()
        network = json.loads(held[path])
        (addresses,) = network["plugins"][0]["ipam"]["ranges"][0]
        # The bridge itself has this one.
        addresses |= {"rangeStart": addresses["gateway"], "rangeEnd": addresses["gateway"]}
        write(path, json.dumps(network))

    yield take
    for path, text in held.items():
        write(path, text)


def write(path: Path, text: str) -> None:
    """Replaces a file in one step: the container runtime reads it as soon as it changes."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


@pytest.fixture
def only_first(api: ApiServer) -> Iterator[Callable[[bool], None]]:
    """Cordons the second AMD node, or takes it back."""

    def cordon(away: bool) -> None:
        api.patch(NODES, "amd-1", {"spec": {"unschedulable": away or None}})

    yield cordon
    with suppress(AssertionError):
        cordon(False)


def test_an_attempt_whose_pod_gets_no_network_ends_and_goes_on_at_another_node(
    impatient: OperatorProcess,
    team: Trainers,
    without_addresses: Callable[[str], None],
    only_first: Callable[[bool], None],
) -> None:
    without_addresses("amd-0")
    without_addresses("nvidia-0")
    only_first(True)
    moves = team.run("moves", "python3", "-c", "pass", placement={"vendors": ["AMD"]})
    fails = team.run("fails", "python3", "-c", "pass", placement={"vendors": ["NVIDIA"]}, retries={"infrastructure": 0})
    assert WORDS in said(team, "moves", WORDS, timeout=60)
    assert team.state("moves") == "Starting"
    only_first(False)

    last = team.until("fails", "Failed", timeout=STUCK + 60)
    failed = team.condition("fails", "Failed")
    assert (failed["reason"], last["attempts"][0]["blame"]) == ("ContainerNotStarted", "Infrastructure")
    assert f"on node nvidia-0 could not start a container within {STUCK:g} seconds: " in failed["message"]
    assert WORDS in failed["message"]
    assert REMEDY in failed["message"]
    eventually(lambda: team.pods(fails) == [], 60, what="no pod that holds a GPU")

    assert team.until("moves", "Succeeded", "Failed", timeout=120)["state"] == "Succeeded"
    first, second = team.status("moves")["attempts"]
    assert (first["reason"], first["blame"], first["nodes"]) == ("ContainerNotStarted", "Infrastructure", ["amd-0"])
    assert second["nodes"] == ["amd-1"]
    assert [each["name"] for each in team.status("moves")["excludedNodes"]] == ["amd-0"]
    assert {pod["spec"]["nodeName"] for pod in team.pods(moves)} == {"amd-1"}
