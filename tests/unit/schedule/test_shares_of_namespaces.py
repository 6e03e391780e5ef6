"""A flood of jobs that can never run: each namespace has a share of a cycle, and what follows from facts is decided once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, demand, fleet, node

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.capacity import node_fit
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide, decide_in_pieces
from gpujob.schedule import answers, queue
from gpujob.schedule.answers import LastRejections
from gpujob.schedule.queue import ALWAYS, PendingJob, QueueDecision, SchedulingCycle
from gpujob.schedule.shares import Shares
from gpujob.values.vocabulary import Verdict

ROOM = fleet(node("a", H100, 4), node("b", H100, 4), catalog=ANY_IMAGES)
POOL = ROOM.pools[0]
LOW = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": -5}
HOPELESS = [
    PendingJob(f"h{n:03}", "0", demand(nodes=100 + n, gpusPerNode=4), namespace="evil", name=f"h{n}") for n in range(50)
]
HONEST = PendingJob("honest", "1", demand(gpusPerNode=1), namespace="good", name="honest")


class Clock:
    """Each decision takes a second."""

    def __init__(self) -> None:
        self.at, self.decided = 0.0, list[int]()

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found, real = Clock(), answers.choose

    def slow(wish: Any, *others: Any) -> Any:
        found.at += 1
        found.decided.append(wish.nodes)
        return real(wish, *others)

    monkeypatch.setattr(answers, "choose", slow)
    return found


def cycle(
    refusals: LastRejections, shares: Shares, jobs: list[PendingJob], on: Fleet = ROOM, facts: int = 0
) -> tuple[SchedulingCycle, list[QueueDecision]]:
    refusals.begin(facts)
    shares.begin({job.uid for job in jobs})
    found = SchedulingCycle(ANY_IMAGES, None, refusals, shares=shares)
    return found, [each for each in found.run(jobs, on, ALWAYS) if each is not None]


def test_a_job_behind_a_flood_of_another_namespace_is_placed_after_the_share_of_that_one(clock: Clock) -> None:
    refusals, shares = LastRejections(), Shares(clock, 5, patience=0)
    run, found = cycle(refusals, shares, [*HOPELESS, HONEST])
    assert len(clock.decided) == 6
    assert (run.left, found[-1].job.uid, found[-1].verdict) == (45, "honest", Verdict.PLACED)


def test_later_cycles_decide_the_rest_and_none_twice(clock: Clock) -> None:
    refusals, shares = LastRejections(), Shares(clock, 5, patience=0)
    left = [cycle(refusals, shares, HOPELESS)[0].left for _ in range(11)]
    assert left == [*range(45, -1, -5), 0]
    assert sorted(clock.decided) == [job.demand.nodes for job in HOPELESS]


def test_jobs_that_get_a_place_use_up_no_share(clock: Clock) -> None:
    several = [
        PendingJob(f"p{n}", "0", demand(gpuMemory=f"{n + 1}Gi"), namespace="team", name=f"p{n}") for n in range(8)
    ]
    run, found = cycle(LastRejections(), Shares(clock, 2, patience=0), several)
    assert not run.left
    assert {each.verdict for each in found} == {Verdict.PLACED}


def test_a_job_that_waits_is_in_each_cycle_and_keeps_its_turn(clock: Clock) -> None:
    refusals, shares = LastRejections(), Shares(clock, 2, patience=0)
    full = replace(
        ROOM, pools=(POOL.with_nodes({0: replace(POOL.nodes[0], free=0), 1: replace(POOL.nodes[1], free=0)}),)
    )
    old = PendingJob("zz-old", "0", demand(gpusPerNode=2), namespace="evil", name="old")
    assert [each.verdict for each in cycle(refusals, shares, [old], full)[1]] == [Verdict.WAITING]
    young = replace(HONEST, demand=demand(gpusPerNode=2))
    # One place becomes free, and other hopeless jobs of its namespace are decided before it.
    one = replace(
        ROOM, pools=(POOL.with_nodes({0: replace(POOL.nodes[0], free=2), 1: replace(POOL.nodes[1], free=0)}),)
    )
    _, found = cycle(refusals, shares, [*HOPELESS, old, young], one)
    assert {each.job.uid: each.verdict for each in found[-2:]} == {
        "zz-old": Verdict.PLACED,
        "honest": Verdict.WAITING,
    }


def test_a_new_job_with_room_is_placed_behind_any_number_of_its_namespace_that_wait(clock: Clock) -> None:
    """They are decided in each cycle and take more than the share, which is for jobs that never waited."""
    nodes = {0: replace(POOL.nodes[0], free=1), 1: replace(POOL.nodes[1], free=0)}
    on, refusals, shares = (
        replace(ROOM, pools=(POOL.with_nodes(nodes),)),
        LastRejections(),
        Shares(clock, 5, patience=0),
    )
    queue = [
        PendingJob(f"w{n}", "0", demand(gpusPerNode=2, gpuMemory=f"{n + 1}Gi"), namespace="good", name=f"w{n}")
        for n in range(20)
    ]
    while cycle(refusals, shares, queue, on)[0].left:
        pass
    for facts in range(1, 3):
        before = len(clock.decided)
        run, found = cycle(refusals, shares, [*queue, HONEST], on, facts)
        assert (run.left, found[-1].job.uid, found[-1].verdict) == (0, "honest", Verdict.PLACED)
        assert len(clock.decided) - before == 21


def test_no_lower_priority_is_decided_while_jobs_of_a_higher_one_are_left(clock: Clock) -> None:
    on = fleet(node("a", H100, 4), LOW, catalog=ANY_IMAGES)
    lower = PendingJob("l", "0", demand(gpusPerNode=1, priorityClassName="low"), namespace="good", name="l")
    refusals, shares = LastRejections(), Shares(clock, 30, patience=60)
    run, found = cycle(refusals, shares, [*HOPELESS, lower], on)
    assert (run.left, "l" in {each.job.uid for each in found}) == (20, False)
    run, found = cycle(refusals, shares, [*HOPELESS, lower], on)
    assert (run.left, found[-1].job.uid, found[-1].verdict) == (0, "l", Verdict.PLACED)


@pytest.mark.parametrize("patience", [10.1, 12, 15])
def test_jobs_that_are_left_hold_a_lower_priority_back_for_a_while_only(clock: Clock, patience: float) -> None:
    """Something that every decision depends on changes between any two cycles, so that the flood is decided again without end."""
    on = fleet(node("a", H100, 4), LOW, catalog=ANY_IMAGES)
    lower = PendingJob("l", "0", demand(gpusPerNode=1, priorityClassName="low"), namespace="good", name="l")
    refusals, shares, seen = LastRejections(), Shares(clock, 5, patience=patience), list[tuple[float, bool]]()
    for facts in range(6):
        found = cycle(refusals, shares, [*HOPELESS, lower], on, facts)[1]
        seen.append((clock.at, "l" in {each.job.uid for each in found}))
    assert seen == [(5, False), (10, False), (15, False), (21, True), (27, True), (33, True)]


def test_each_job_of_a_flood_has_its_turn_although_everything_is_decided_again(clock: Clock) -> None:
    refusals, shares = LastRejections(), Shares(clock, 5, patience=0)
    for facts in range(10):
        cycle(refusals, shares, HOPELESS, facts=facts)
    assert sorted(clock.decided) == [job.demand.nodes for job in HOPELESS]
    for facts in range(10, 22):
        cycle(refusals, shares, HOPELESS, facts=facts)
    assert sorted(clock.decided[50:]) == [job.demand.nodes for job in HOPELESS], "and then again"


def test_a_job_that_cannot_be_decided_about_is_reported_although_the_share_is_used_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(wish: Any, *_: Any) -> Any:
        if wish.nodes == 149:
            raise ValueError("no demand")
        return wish

    monkeypatch.setattr(queue, "bounded", broken)
    shares, reported = Shares(clock, 5, patience=0), list[tuple[str, str]]()
    shares.begin({job.uid for job in HOPELESS})
    run = SchedulingCycle(ANY_IMAGES, lambda job, error: reported.append((job.uid, str(error))), shares=shares)
    list(run.run(HOPELESS, ROOM, ALWAYS))
    assert (run.left, reported) == (44, [("h049", "no demand")])


def test_what_can_never_run_is_not_decided_again_when_devices_become_free(clock: Clock) -> None:
    refusals, shares = LastRejections(), Shares(clock, 100, patience=0)
    used = replace(ROOM, pools=(POOL.with_nodes({0: replace(POOL.nodes[0], free=0)}),))
    cycle(refusals, shares, HOPELESS, used)
    clock.decided.clear()
    cycle(refusals, shares, HOPELESS, ROOM)
    assert clock.decided == []


def test_no_node_is_looked_at_for_a_gang_of_more_nodes_than_the_pool_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = list[str]()

    def seen(name: str, real: Any) -> Any:
        return lambda *those: (looked.append(name), real(*those))[1]

    for name in ("_with_room", "rejections", "why_never"):
        monkeypatch.setattr(node_fit, name, seen(name, getattr(node_fit, name)))
    wish = demand(shapes=[{"nodes": 100 + n, "gpusPerNode": 4} for n in range(16)])
    assert choose(wish, ROOM, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE
    assert "needs 100 nodes with 4 GPUs each" in decide(wish, ROOM, ANY_IMAGES).candidates[0].reasons[0].message
    assert looked == []


def test_a_decision_with_all_candidates_pauses_between_two_gangs() -> None:
    wish = demand(shapes=[{"nodes": 100 + n, "gpusPerNode": 4} for n in range(16)])
    # And once before all of them are compared.
    assert sum(1 for _ in decide_in_pieces(wish, ROOM, ANY_IMAGES)) == 16 + 1
