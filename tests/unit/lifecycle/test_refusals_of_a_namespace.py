"""Pods that the API server refuses on two pools in the same words: the job's namespace refuses them, and no other pool is tried."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from builders import A100_40, ANY_IMAGES, H100, MI300X, demand, fleet, node
from test_bounded_waits import ALONE, BEGAN, GANG, PLACEMENT, TIMINGS, Watch, child, pod

from gpujob.lifecycle.actions import GiveBack, WriteStatus
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.status.attempts.waits import next_change, timely, with_refusal, write_time
from gpujob.status.records.objects import ChildRecord
from gpujob.status.records.refused_pods import is_same_refusal
from gpujob.values.vocabulary import Verdict

POLICY = "ValidatingAdmissionPolicy 'no-pods' with binding 'no-pods' denied request: no Pods today"
OTHER = "ValidatingAdmissionPolicy 'no-h100' with binding 'no-h100' denied request: no H100 for this team"
REST = TIMINGS.unbound * TIMINGS.rest_factor


def resting(pool: str, words: str, seconds: float = REST) -> dict[str, str]:
    """An entry of status.excludedPools that was written `seconds` before its end."""
    until = write_time(BEGAN + timedelta(seconds=seconds))
    return {"name": pool, "until": until, "reason": "Unschedulable", "message": "refused", "refusal": words}


def ended(watch: Watch, second: float, its: ChildRecord, words: str | None) -> dict[str, Any] | None:
    """The status with which the attempt gives its GPUs back now; None if it goes on."""
    action = watch.look(second, its, refused=words).action
    return dict(action.status) if isinstance(action, GiveBack) else None


def test_the_first_refusal_holds_the_whole_time_and_the_second_in_the_same_words_ends_at_once() -> None:
    first = Watch()
    ended(first, 0.0, ALONE, None)
    assert ended(first, TIMINGS.unbound - 1, ALONE, POLICY) is None
    status = ended(first, TIMINGS.unbound, ALONE, POLICY)
    assert status is not None
    (entry,) = status["excludedPools"]
    assert (entry["name"], entry["refusal"], "othersUntil" in entry) == ("h100", POLICY, False)

    second = Watch(excludedPools=status["excludedPools"], placement=PLACEMENT | {"pool": "mi300x"})
    assert ended(second, TIMINGS.unbound, ALONE, None) is None
    status = ended(second, TIMINGS.unbound + TIMINGS.refused, ALONE, POLICY)
    assert status is not None
    assert [each["name"] for each in status["excludedPools"]] == ["h100", "mi300x"]
    again = write_time(BEGAN + timedelta(seconds=TIMINGS.unbound + TIMINGS.refused + REST))
    assert {each["othersUntil"] for each in status["excludedPools"]} == {again}
    (placed,) = (each for each in status["conditions"] if each["type"] == "Placed")
    assert POLICY in placed["message"]
    assert f"as on pool h100 before, so that no pool is tried until {again}" in placed["message"]


@pytest.mark.parametrize("its", [ALONE, GANG, child(new_nodes=True)], ids=["one", "gang", "new nodes"])
def test_pods_of_every_kind_of_attempt(its: ChildRecord) -> None:
    watch = Watch(excludedPools=[resting("a", POLICY)])
    assert ended(watch, 0.0, its, None) is None
    assert ended(watch, 15.0, its, POLICY) is not None


def test_pods_that_are_refused_wait_for_no_new_nodes() -> None:
    """Without pods no autoscaler adds a node."""
    watch, its = Watch(), child(new_nodes=True)
    ended(watch, 0.0, its, None)
    ended(watch, 15.0, its, POLICY)
    assert ended(watch, 15.0 + TIMINGS.unbound - 1, its, POLICY) is None
    status = ended(watch, 15.0 + TIMINGS.unbound, its, POLICY)
    assert status is not None
    assert status["excludedPools"][0]["reason"] == "Unschedulable"


@pytest.mark.parametrize(
    "held",
    [resting("a", OTHER), resting("a", ""), resting("h100", POLICY), resting("a", POLICY, -1.0)],
    ids=["other words", "the scheduler's", "the same pool", "long ago"],
)
def test_any_other_refusal_is_of_the_pool(held: dict[str, str]) -> None:
    watch = Watch(excludedPools=[held])
    ended(watch, 0.0, ALONE, None)
    assert ended(watch, TIMINGS.unbound - 1, ALONE, POLICY) is None
    status = ended(watch, TIMINGS.unbound, ALONE, POLICY)
    assert status is not None
    assert not any("othersUntil" in each for each in status["excludedPools"])


def test_pods_that_are_there_and_wait_for_the_scheduler_are_not_refused() -> None:
    watch = Watch(excludedPools=[resting("a", POLICY)])
    watch.look(0.0, ALONE, pod(0))
    action = watch.look(20.0, ALONE, pod(0), refused=POLICY).action
    assert not isinstance(action, GiveBack)
    done = watch.look(TIMINGS.unbound, ALONE, pod(0), refused=POLICY).action
    assert isinstance(done, GiveBack)
    assert "refusal" not in done.status["excludedPools"][-1]


POOLS = (node("cheap", H100, price="1"), node("dear", MI300X, price="3"), node("dearest", A100_40, price="9"))


def chosen(status: dict[str, Any], seconds: float) -> str:
    """The node that a job with this status gets at this second; empty if it waits."""
    now = BEGAN + timedelta(seconds=seconds)
    here = fleet(*POOLS, catalog=ANY_IMAGES)
    found = plan(decide(timely(demand(), write_time(BEGAN), status, now), here, ANY_IMAGES))
    assert found["chosen"] or found["verdict"] == Verdict.WAITING
    return str(found["chosen"]["nodeNames"][0]) if found["chosen"] else ""


def test_one_refusal_leads_to_the_next_pool_and_two_to_none() -> None:
    pools = {each.nodes[0].name: each.name for each in fleet(*POOLS, catalog=ANY_IMAGES).pools}
    status: dict[str, Any] = {}
    assert chosen(status, 0) == "cheap"
    status = refused(status, pools["cheap"], 300)
    assert chosen(status, 300) == "dear"
    status = refused(status, pools["dear"], 315)
    assert [chosen(status, second) for second in (315, 316, 1214)] == ["", "", ""]
    found = decide(
        timely(demand(), write_time(BEGAN), status, BEGAN + timedelta(seconds=400)),
        fleet(*POOLS, catalog=ANY_IMAGES),
        ANY_IMAGES,
    )
    (dearest,) = (each for each in found.candidates if each.pool.name == pools["dearest"])
    assert [each.message for each in dearest.reasons] == [
        f"the API server refuses the job's pods whatever the pool ({POLICY}); tried again at 2026-01-01T12:20:15Z"
    ]
    assert next_change(demand(), write_time(BEGAN), status, BEGAN + timedelta(seconds=400)) == 815


def test_a_pool_that_was_not_tried_has_its_turn_after_each_rest() -> None:
    """The same words may speak of pools all the same: the one that would take the pods is found, with one short try for each rest."""
    pools = {each.nodes[0].name: each.name for each in fleet(*POOLS, catalog=ANY_IMAGES).pools}
    status, second, tried = {}, 0.0, []
    for _ in range(6):
        while not (name := chosen(status, second)):
            second += 15
        tried.append((name, second))
        status = refused(status, pools[name], second)
    first, second_round = tried[:3], tried[3:]
    assert [name for name, _ in first] == [name for name, _ in second_round] == ["cheap", "dear", "dearest"]
    # Once all were tried, all rest, and what was said of them is forgotten.
    assert [moment for _, moment in tried] == [0, 0, REST, 3 * REST, 3 * REST, 4 * REST]


def refused(status: dict[str, Any], pool: str, second: float) -> dict[str, Any]:
    now = BEGAN + timedelta(seconds=second)
    return {"excludedPools": with_refusal(status, pool, now, REST, "0 of 1 pods are there", POLICY)}


@pytest.mark.parametrize(
    ("words", "others", "same"),
    [
        (POLICY, POLICY, True),
        (POLICY, OTHER, False),
        ("", "", False),
        (
            "exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4",
            "exceeded quota: pods, requested: pods=1, used: pods=5, limited: pods=4",
            True,
        ),
        (
            "exceeded quota: gpus, requested: requests.amd.com/gpu=8, used: requests.amd.com/gpu=8, limited: requests.amd.com/gpu=8",
            "exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: …",
            False,
        ),
        (
            "denied: pod run-0a1b2c3d-1-0-x7k2p has no owner",
            "denied: pod run-0a1b2c3d-2-0-9qqzt has no owner",
            True,
        ),
        ("denied: no H100", "denied: no H200", False),
    ],
)  # fmt: skip
def test_which_words_are_the_same(words: str, others: str, same: bool) -> None:
    assert is_same_refusal(words, others) is same
    assert is_same_refusal(others, words) is same


def test_hostile_entries_keep_a_job_waiting_no_longer_than_their_own_time() -> None:
    long = {**resting("a", POLICY), "othersUntil": "9999-01-01T00:00:00Z"}
    found = timely(demand(), write_time(BEGAN), {"excludedPools": [long]}, BEGAN)
    assert found.refused_everywhere == (long["until"], POLICY)
    for odd in ({**long, "refusal": 7}, {**long, "reason": "NodesDidNotCome"}, {**long, "othersUntil": ["x"]}):
        assert timely(demand(), write_time(BEGAN), {"excludedPools": [odd]}, BEGAN).refused_everywhere is None


def test_after_the_attempt_that_is_taken_the_words_are_forgotten_with_their_time() -> None:
    status = {"excludedPools": [{**resting("a", POLICY), "othersUntil": resting("a", POLICY)["until"]}]}
    assert timely(demand(), write_time(BEGAN), status, BEGAN + timedelta(seconds=REST)) == replace(
        demand(), refused_everywhere=None
    )
    watch = Watch(**status)
    assert isinstance(watch.look(30.0, ALONE, replace(pod(0, "n0"), phase="Running", running=True)).action, WriteStatus)
