"""New nodes that labels promise devices of, before a plugin offers them: a matter of time, not of a fix."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, gpupool, node

from gpujob.fleet.pools.arriving import Arriving
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict


def bare(name: str) -> Object:
    return node(name, H100, devices={}, price="1")


def decided(*objects: Object, new: tuple[str, ...] = (), **spec: Any) -> Decision:
    arriving = tuple(Arriving(name, "2026-11-28T11:50:00Z", "2026-11-28T12:05:00Z") for name in new)
    wish = demand(**spec).but(arriving=arriving)
    known = fleet(*objects, catalog=ANY_IMAGES)
    found = decide(wish, known, ANY_IMAGES)
    assert choose(wish, known, ANY_IMAGES).verdict is found.verdict
    return found


def test_a_job_waits_for_the_devices_of_a_new_node_by_its_name() -> None:
    found = decided(bare("n"), new=("n",))
    assert found.verdict is Verdict.WAITING
    assert summary.reason(found) is Reason.WAITING_FOR_DEVICES
    assert summary.summary(found) == (
        "fits pool h100-sxm-ondemand, which has no usable node now: node n came at 2026-11-28T11:50:00Z and offers no GPUs yet; "
        "they are waited for until 2026-11-28T12:05:00Z"
    )


@pytest.mark.parametrize("new", [(), ("other",)])
def test_one_that_has_been_there_for_long_must_be_mended(new: tuple[str, ...]) -> None:
    found = decided(bare("n"), new=new)
    assert (found.verdict, summary.reason(found)) == (Verdict.MISCONFIGURED, Reason.NO_DEVICE_PLUGIN)


def test_a_gang_needs_as_many_new_nodes() -> None:
    assert decided(bare("a"), bare("b"), new=("a",), nodes=2).verdict is Verdict.MISCONFIGURED
    assert decided(bare("a"), bare("b"), new=("a", "b"), nodes=2).verdict is Verdict.WAITING


def test_what_has_devices_now_is_taken_unless_the_job_waits_for_better() -> None:
    objects = (bare("n"), node("a", MI300X, price="3"))
    now = decided(*objects, new=("n",), placement={"objective": "Cost"})
    assert (now.verdict, now.candidates[1].outcome) == (Verdict.PLACED, Outcome.BUSY)
    patient = decided(*objects, new=("n",), placement={"objective": "Cost", "waitSeconds": 60})
    assert (patient.verdict, patient.candidates[0].pool.name) == (Verdict.WAITING, "h100-sxm-ondemand")


def test_a_node_of_a_pool_beside_others_says_what_it_waits_for() -> None:
    pool = gpupool("x", {"pool": "x"})
    old = node("old", H100, labels={"pool": "x"}, cordoned=True)
    fresh = bare("new")
    fresh["metadata"]["labels"]["pool"] = "x"
    found = decided(old, fresh, pool, new=("new",), nodes=2)
    assert [reason.reason for reason in found.candidates[0].reasons] == [Reason.WAITING_FOR_DEVICES, Reason.CORDONED]


def test_a_device_that_is_unhealthy_on_an_old_node_is_no_newcomer() -> None:
    found = decided(node("n", H100, allocatable={"nvidia.com/gpu": "0"}))
    assert [reason.reason for reason in found.candidates[0].reasons] == [Reason.NO_ALLOCATABLE]
