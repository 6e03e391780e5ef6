"""New nodes without devices: which of them are still waited for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from builders import H100, Object, node, resource_slice
from test_suspect_nodes import Cluster

from gpujob.cluster.index.node_reader import NodesWithoutDevices
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.pools.arriving import Arriving
from gpujob.status.attempts.waits import end_of_wait, still_arriving

NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)


def bare(name: str = "n", created: Any = "2026-11-28T11:50:00Z", **more: Any) -> Node:
    made: Object = node(name, None, **more)
    made["metadata"]["creationTimestamp"] = created
    return read_node(made)


def known(*nodes: Node) -> NodesWithoutDevices:
    found = NodesWithoutDevices()
    for each in nodes:
        found.put(each.name, each)
    return found


def test_a_new_node_is_waited_for_until_its_time_is_over() -> None:
    (found,) = known(bare()).nodes(NOW, 900)
    assert found == (bare(), Arriving("n", "2026-11-28T11:50:00Z", "2026-11-28T12:05:00Z"))
    assert list(still_arriving([found[1]], NOW)) == [found[1]]


def test_one_that_is_over_is_told_of_as_long_again_but_not_waited_for() -> None:
    late = bare("late", "2026-11-28T11:40:00Z")
    (found,) = known(late, bare("old", "2026-11-28T11:29:00Z")).nodes(NOW, 900)
    assert found[0].name == "late"
    assert list(still_arriving([found[1]], NOW)) == []


def test_one_that_is_not_ready_yet_is_waited_for_like_one_that_is() -> None:
    ((found, _),) = known(bare(ready=False)).nodes(NOW, 900)
    assert found.name == "n"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(bare(devices={"nvidia.com/gpu": "8"}), id="devices"),
        pytest.param(bare(created=None), id="no-time"),
        pytest.param(bare(created="soon"), id="no-date"),
        pytest.param(bare(created=7), id="a-number"),
        pytest.param(None, id="gone"),
    ],
)
def test_others_are_no_newcomers(other: Node | None) -> None:
    found = known(bare())
    found.put("n", other)
    assert list(found.nodes(NOW, 900)) == []


def test_devices_that_are_not_allocatable_yet_make_it_no_less_bare() -> None:
    assert list(known(bare(devices={"nvidia.com/gpu": "0"}, labels=H100.labels(8, "x"))).nodes(NOW, 900))


@pytest.mark.parametrize(
    ("begun", "came", "end"),
    [
        ("11:50", None, "12:05"),
        ("11:50", "11:58", "12:13"),
        ("11:50", "11:40", "12:05"),
        # A node that comes after the wait, and another, and another: the wait is lengthened once.
        ("11:50", "12:10", "12:20"),
    ],
)
def test_pods_wait_for_the_devices_of_a_node_that_came_once(begun: str, came: str | None, end: str) -> None:
    def at(time: str) -> datetime:
        return datetime.fromisoformat(f"2026-11-28T{time}:00+00:00")

    node = bare(created=f"2026-11-28T{came}:00Z") if came else None
    (arriving,) = (each for _, each in known(node).nodes(at("11:50"), 900)) if node else (None,)
    assert end_of_wait(at(begun), arriving, 900) == at(end)


def test_a_node_that_offers_devices_to_resource_claims_is_no_newcomer() -> None:
    cluster = Cluster()
    made: Object = node("c")
    made["metadata"]["creationTimestamp"] = "2026-11-28T11:50:00Z"
    cluster.write("nodes", "ADDED", made)
    assert [each.name for each, _ in cluster.index.newcomers(NOW, 900)] == ["c"]
    device = {"name": "gpu-0", "memory": "80Gi", "productName": "NVIDIA H100 80GB HBM3", "type": "gpu"}
    cluster.write("resourceslices", "ADDED", resource_slice("c", "gpu.nvidia.com", device))
    assert list(cluster.index.newcomers(NOW, 900)) == []
