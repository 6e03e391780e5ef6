"""A pending pod that kube-scheduler has nominated for a node after a preemption counts there, as for kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, Object, decision, fleet, node, pod, pool_of

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.status.records.read_objects import read_pod_record
from gpujob.values.vocabulary import Verdict

THERE = node("a", H100, 8, price="1", allocatable={"cpu": "96"})


def nominated(on: str = "a", gpus: int = 6, phase: str = "Pending", **more: Any) -> Object:
    """A pod without a node whose status nominates one."""
    one = pod("p", "", {"nvidia.com/gpu": gpus}, phase, **more)
    del one["spec"]["nodeName"]
    one["status"]["nominatedNodeName"] = on
    return one


@pytest.mark.parametrize(("one", "verdict"), [
    (nominated(), Verdict.WAITING),
    (nominated("b"), Verdict.PLACED),
    (nominated(""), Verdict.PLACED),
    (nominated(gpus=5), Verdict.PLACED),
    (nominated(phase="Failed"), Verdict.PLACED),
    (nominated(gpus=1, cpu="90"), Verdict.WAITING),
])  # fmt: skip
def test_a_job_takes_only_what_a_nominated_pod_leaves(one: Object, verdict: Verdict) -> None:
    assert decision(THERE, one, gpusPerNode=3, resources={"cpu": "10"}).verdict is verdict


def test_a_nomination_moves_with_the_pod() -> None:
    catalog = load_catalog()
    a, b = (read_node(node(name, H100, 8, price="1")) for name in "ab")
    index = FleetIndex(catalog)
    for each in (a, b):
        index.put_node(each, groups_of(each, catalog))
    bound = pod("p", "b", {"nvidia.com/gpu": 6})
    for raw, free in ((nominated(), (2, 8)), (nominated("b"), (8, 2)), (bound, (8, 2)), (nominated(""), (8, 8))):
        index.put_pod(("default", "p"), read_pod(raw))
        (pool,) = index.fleet().pools
        assert tuple(each.free for each in pool.nodes) == free


def test_the_node_of_a_running_attempt_is_no_nomination() -> None:
    raw = nominated()
    raw["metadata"]["labels"] = {"gpujob.dev/job-uid": "uid-of-j"}
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    state = read_pod_record(raw).state
    assert state is not None
    assert (state.node, state.waiting_reason) == ("", "Unschedulable")


def test_victims_that_still_end_count_beside_the_pod_that_is_to_follow_them() -> None:
    victim = pod("v", "a", {"nvidia.com/gpu": 8})
    assert pool_of(fleet(THERE, victim, nominated()), "a").free == 0
