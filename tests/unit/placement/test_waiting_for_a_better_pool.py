"""placement.waitSeconds: a better pool that is busy is waited for, before the next best is taken."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Amd, Nvidia, Object, decision, demand, fleet, gpupool, node, pod

from gpujob.placement.engine.choose import choose
from gpujob.placement.report.decision_json import plan
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Verdict

BUSY = node("busy", MI300X, price="1", allocatable={"amd.com/gpu": "0"})
FREE = node("free", H100, price="2")


def decided(*objects: Object, wait: int = 600, **placement: Any) -> Decision:
    placement = {"waitSeconds": wait, "objective": "Cost", **placement}
    return decision(*objects, catalog=ANY_IMAGES, placement=placement)


def test_a_cheaper_pool_that_is_busy_is_waited_for() -> None:
    found = decided(BUSY, FREE)
    assert found.verdict is Verdict.WAITING
    assert summary(found) == (
        "waits up to 600 seconds from its creation for pool mi300x-ondemand, which has no usable node now: "
        "node busy shows 0 of 8 devices as allocatable; pool h100-sxm-ondemand has room now"
    )
    assert plan(found)["chosen"] is None


def test_without_patience_what_is_free_is_taken() -> None:
    assert decided(BUSY, FREE, wait=0).verdict is Verdict.PLACED
    assert decision(BUSY, FREE, catalog=ANY_IMAGES, placement={"objective": "Cost"}).verdict is Verdict.PLACED


@pytest.mark.parametrize("price", ["2", "2.01"])
def test_what_is_no_better_is_not_waited_for(price: str) -> None:
    busy = node("busy", MI300X, price=price, allocatable={"amd.com/gpu": "0"})
    assert decided(busy, FREE).verdict is Verdict.PLACED


def test_what_can_never_run_the_job_is_not_waited_for() -> None:
    assert decided(BUSY, FREE, vendors=["NVIDIA"]).verdict is Verdict.PLACED


def test_more_nodes_that_nobody_promised_are_not_waited_for() -> None:
    grows = node("l", L4, 1, price="0.1", labels={"karpenter.sh/nodepool": "l4"})
    found = decision(
        grows, FREE, node("free2", H100, price="2"), catalog=ANY_IMAGES,
        nodes=2, placement={"waitSeconds": 600, "objective": "Cost"},
    )  # fmt: skip
    assert found.verdict is Verdict.PLACED


def test_a_pool_that_an_autoscaler_brings_is_taken_at_once() -> None:
    new = gpupool("new", {"a": "b"}, accelerator="MI300X", price={"perGPUHour": "1"},
                  provision={"maxNodes": 1, "gpusPerNode": 1, "cpu": "8", "memory": "64Gi"})  # fmt: skip
    found = decided(new, FREE)
    assert found.candidates[0].outcome is Outcome.CHOSEN
    assert found.candidates[0].pool.name == "new"


def with_condition(kind: str, each: Object) -> Object:
    each["status"]["conditions"].append({"type": kind, "status": "True"})
    return each


def taken(name: str, gpu: Amd | Nvidia, price: str, condition: str = "") -> list[Object]:
    """A node of one GPU that a pod holds."""
    each = node(name, gpu, 1, price=price)
    used = pod(f"of-{name}", name, {"amd.com/gpu" if isinstance(gpu, Amd) else "nvidia.com/gpu": 1})
    return [with_condition(condition, each) if condition else each, used]


ILL, PLANNED = "XIDErrors", "MaintenancePlanned"


@pytest.mark.parametrize(
    ("objects", "waits_for"),
    [
        # A busy node in trouble is not waited for, however cheap it is.
        ([node("l", L4, 1, price="0.5"), *taken("h", H100, "0.4", ILL)], None),
        ([node("l", L4, 1, price="0.5"), *taken("m", MI300X, "0.1", "AMDGPUXgmi")], None),
        # Of two in trouble the cheaper one is better.
        ([with_condition(ILL, node("l", L4, 1, price="0.5")), *taken("h", H100, "5", ILL)], None),
        ([with_condition(ILL, node("l", L4, 1, price="0.5")), *taken("h", H100, "0.4", ILL)], "h100-sxm-ondemand"),
        # A healthy one is better, whatever it costs.
        ([with_condition(ILL, node("l", L4, 1, price="0.5")), *taken("h", H100, "5")], "h100-sxm-ondemand"),
        ([with_condition(ILL, node("l", L4, 1, price="0.5")), *taken("h", H100, "5"), *taken("m", MI300X, "1", ILL)],
         "h100-sxm-ondemand"),
        # Announced maintenance counts as a fifth of the price: 0.54 and 0.48 beside 0.50.
        ([node("l", L4, 1, price="0.5"), *taken("h", H100, "0.45", PLANNED)], None),
        ([node("l", L4, 1, price="0.5"), *taken("h", H100, "0.40", PLANNED)], "h100-sxm-ondemand"),
        # Of a pool with nodes of both kinds the healthy one is waited for.
        ([node("l", L4, 1, price="0.5"), *taken("h1", H100, "0.4", ILL), *taken("h2", H100, "0.4")],
         "h100-sxm-ondemand"),
    ],
)  # fmt: skip
def test_the_trouble_of_a_busy_node_counts_as_that_of_a_free_one(objects: list[Object], waits_for: str | None) -> None:
    found = decided(*objects)
    assert found.verdict is (Verdict.WAITING if waits_for else Verdict.PLACED)
    assert found.candidates[0].pool.name == (waits_for or "l4-ondemand")
    wish = demand(placement={"waitSeconds": 600, "objective": "Cost"})
    assert choose(wish, fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES).verdict is found.verdict


def test_a_gang_waits_for_nodes_of_which_enough_are_healthy() -> None:
    free = [node(f"l{i}", L4, 1, price="0.5") for i in range(2)]
    ill, well, other = taken("h1", H100, "0.4", ILL), taken("h2", H100, "0.4"), taken("h3", H100, "0.4")
    gang = {"nodes": 2, "placement": {"waitSeconds": 600, "objective": "Cost"}}
    assert decision(*free, *ill, *well, catalog=ANY_IMAGES, **gang).verdict is Verdict.PLACED
    assert decision(*free, *ill, *well, *other, catalog=ANY_IMAGES, **gang).verdict is Verdict.WAITING
