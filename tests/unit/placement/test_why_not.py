"""Why a pool was not chosen, and what would make it win: every "would" is true when it is tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import ANY_IMAGES, H100, MI210, MI300X, Object, decision, demand, fleet, gpupool, node

from gpujob.placement.engine.decide import decide
from gpujob.placement.report.why_not import WhyNot, why_not
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.errors import BadInput

CHEAP, DEAR = node("a", MI300X, price="2.10"), node("n", H100, price="2.50")


def answer(pool: str, *objects: Object, **spec: object) -> WhyNot:
    found = fleet(*objects, catalog=ANY_IMAGES)
    return why_not(decide(demand(**spec), found, ANY_IMAGES), pool, found, ANY_IMAGES)


def test_the_chosen_pool() -> None:
    assert answer("mi300x-ondemand", CHEAP, DEAR, placement={"objective": "Cost"}).change == "it was chosen"


def test_a_dearer_pool_would_win_at_a_lower_price() -> None:
    said = answer("h100-sxm-ondemand", CHEAP, DEAR, placement={"objective": "Cost"})
    assert said.change == ("it fits too, and would win over mi300x-ondemand at $2.10 a GPU-hour or less (now $2.50)")
    at = decision(CHEAP, node("n", H100, price="2.10"), catalog=ANY_IMAGES, placement={"objective": "Cost"})
    above = decision(CHEAP, node("n", H100, price="2.11"), catalog=ANY_IMAGES, placement={"objective": "Cost"})
    assert [d.candidates[0].pool.accelerator_id for d in (at, above)] == ["H100-SXM", "MI300X"]


def test_of_a_price_that_is_shown_as_the_present_one_any_lower_one_would_win() -> None:
    equal = node("n", H100, price="2.504"), node("m", MI300X, price="2.503")
    said = answer("h100-sxm-ondemand", *equal, placement={"objective": "Cost"})
    assert said.change.endswith(" at any lower price (now $2.50)")


def test_a_pool_without_a_price_would_win_with_one() -> None:
    said = answer("h100-sxm-ondemand", CHEAP, node("n", H100, price="no"), placement={"objective": "Cost"})
    assert "a GPU-hour or less (now " in said.change


def test_a_busy_pool_would_be_chosen_when_it_is_free() -> None:
    busy = node("n", H100, price="1", allocatable={"nvidia.com/gpu": "0"})
    said = answer("h100-sxm-ondemand", CHEAP, busy)
    free = "with all its GPUs free it would be chosen"
    assert said.change == f"{free}; placement.waitSeconds makes the job wait for it"
    assert answer("h100-sxm-ondemand", busy).change == free


def test_a_dear_busy_pool_would_still_come_after() -> None:
    busy = node("n", H100, price="9", allocatable={"nvidia.com/gpu": "0"})
    said = answer("h100-sxm-ondemand", CHEAP, busy, placement={"objective": "Cost"})
    assert said.change == "even with all its GPUs free it would come after mi300x-ondemand"


def test_a_pool_that_is_too_small_says_what_would_fit() -> None:
    said = answer("h100-sxm-ondemand", CHEAP, DEAR, gpuMemory="100G", placement={"objective": "Speed"})
    assert said.fix is not None
    assert (
        said.change
        == f"with spec.gpuMemory {said.fix.changes[0].after} instead of 100G it would fit pool h100-sxm-ondemand and be chosen"
    )
    again = decide(demand(gpuMemory=str(said.fix.changes[0].after)), fleet(DEAR, catalog=ANY_IMAGES), ANY_IMAGES)
    assert again.choice is not None


def test_a_pool_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="there is no pool b200; known pools are h100-sxm and mi300x"):
        answer("b200", CHEAP, DEAR)


def test_a_pool_without_a_price_is_told_which_would_win_and_where_to_write_it() -> None:
    known = fleet(node("h", H100, price="3"), node("m", MI210))
    found = decide(demand(command=["x"], placement={"objective": "Cost"}), known, ANY_IMAGES)
    assert why_not(found, "mi210-ondemand", known, ANY_IMAGES).change == (
        "it fits too, and would win over h100-sxm-ondemand at $2.99 a GPU-hour or less, but no price of it is known; give it "
        "one in a GPUPool (spec.price)"
    )


def quota(name: str, used: dict[str, str], **hard: str) -> Object:
    """A ResourceQuota of the job's namespace."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used},
    }  # fmt: skip


GPUS = "requests.nvidia.com/gpu"
FULL = quota("team", {GPUS: "8"}, **{GPUS: "8"})
TAKEN, CORDONED = {"allocatable": {"nvidia.com/gpu": "0"}}, {"cordoned": True}


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        # A quota that is used up, beside free GPUs.
        ([node("n", H100, price="1"), FULL], "with room in ResourceQuota team it would be chosen"),
        (
            [node("n", H100, price="1"), FULL, quota("two", {"requests.nvidia.com/gpu": "1"}, **{GPUS: "1"})],
            "with room in ResourceQuota team and two it would be chosen",
        ),
        # A dear pool comes later whatever its quota has.
        (
            [node("n", H100, price="9"), FULL],
            "even with room in ResourceQuota team and all its GPUs free it would come after mi300x-ondemand",
        ),
        # Two things at once.
        (
            [node("n", H100, price="1", **TAKEN), FULL],
            "with room in ResourceQuota team and all its GPUs free it would be chosen",
        ),
        # A node that takes no pods, although its GPUs are free.
        ([node("n", H100, price="1", **CORDONED)], "with its nodes uncordoned it would be chosen"),
        ([node("n", H100, price="1", ready=False)], "with its nodes ready it would be chosen"),
        ([node("n", H100, price="1", **CORDONED), FULL], "with room in ResourceQuota team and its nodes uncordoned it would be chosen"),
        ([node("n", H100, price="1", **TAKEN)], "with all its GPUs free it would be chosen"),
        # One of two nodes is free again, or uncordoned: either is enough, and the first is said.
        (
            [node("n", H100, price="1", **CORDONED), node("o", H100, price="1", **TAKEN)],
            "with its nodes uncordoned it would be chosen",
        ),
    ],
)  # fmt: skip
def test_what_is_in_the_way_of_a_busy_pool_is_what_it_says(objects: list[Object], sentence: str) -> None:
    known = fleet(CHEAP, *objects, catalog=ANY_IMAGES)
    asks = replace(demand(placement={"objective": "Cost"}), namespace="default")
    said = why_not(decide(asks, known, ANY_IMAGES), "h100-sxm-ondemand", known, ANY_IMAGES).change
    assert said.partition(";")[0] == sentence


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("provision", [{"maxNodes": 1}, {"maxNodes": 2}])
def test_nodes_to_be_added_that_other_jobs_wait_for_are_in_the_way_too(jobs: int, provision: dict[str, int]) -> None:
    """Pools that rank equally: the name decides, as it did for the first job."""
    admin = {"accelerator": "H100-SXM", "price": {"perGPUHour": "2"}}
    pools = [gpupool(name, {"pool": name}, provision={**provision, "gpusPerNode": 8}, **admin) for name in "abc"]
    known = fleet(*pools, catalog=ANY_IMAGES)
    taken = jobs * provision["maxNodes"]
    waiting = [PendingJob(f"{number}", "", demand(gpusPerNode=8)) for number in range(taken + 1)]
    last = list(place_all(waiting, known, ANY_IMAGES))[-1].answer
    assert last.pick.choice is not None
    assert last.pick.choice.candidate.pool.name == "abc"[jobs]
    for name in "abc"[:jobs]:
        assert (
            why_not(last.decision, name, last.fleet, ANY_IMAGES).change == "with all its GPUs free it would be chosen"
        )
