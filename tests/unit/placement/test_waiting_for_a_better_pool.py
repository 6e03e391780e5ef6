"""placement.waitSeconds: a better pool that is busy is waited for, before the next best is taken."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Object, decision, gpupool, node

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
