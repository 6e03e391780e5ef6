"""What a cycle keeps for the next one: refusals until something is gained, plans of suspended jobs until anything changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, demand, fleet, node

from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.fleet.policy.resource_quota import Quota, Quotas
from gpujob.fleet.pools.fleet import Fleet
from gpujob.schedule import answers
from gpujob.schedule.answers import Answer, LastRejections
from gpujob.schedule.gains import Gains
from gpujob.schedule.queue import ALWAYS, PendingJob, QueueDecision, SchedulingCycle

ROOM = fleet(node("a", H100, 4), catalog=ANY_IMAGES)
PLANS = [PendingJob(f"p{n}", f"{n}", demand(gpusPerNode=2), plan_only=True, name=f"p{n}") for n in range(5)]
REFUSED = [PendingJob(f"w{n}", f"{n}", demand(gpusPerNode=4, nodes=2), name=f"w{n}") for n in range(5)]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The GPUs a node of each demand that is decided."""
    found, real = list[int](), answers.choose

    def choose(wish: Any, *others: Any) -> Any:
        found.append(wish.gpus_per_node)
        return real(wish, *others)

    monkeypatch.setattr(answers, "choose", choose)
    return found


def with_free(gpus: int) -> Fleet:
    pool = ROOM.pools[0]
    return replace(ROOM, pools=(pool.with_nodes({0: replace(pool.nodes[0], free=gpus)}),))


def cycle(refusals: LastRejections, known: Fleet, jobs: list[PendingJob], facts: object = 0) -> list[QueueDecision]:
    refusals.begin(facts)
    return [each for each in SchedulingCycle(ANY_IMAGES, None, refusals).run(jobs, known, ALWAYS) if each is not None]


def test_equal_plans_and_equal_refusals_are_decided_once(chosen: list[int]) -> None:
    found = cycle(LastRejections(), ROOM, [*PLANS, *REFUSED])
    assert sorted(chosen) == [2, 4]
    assert {each.job.uid for each in found if each.choice} == {job.uid for job in PLANS}


def test_after_a_loss_only_plans_are_decided_again(chosen: list[int]) -> None:
    refusals = LastRejections()
    found = cycle(refusals, ROOM, [*PLANS, *REFUSED])
    chosen.clear()
    assert all(refusals.retry(with_free(3), ANY_IMAGES, 0))
    assert chosen == [2]
    chosen.clear()
    assert all(refusals.retry(with_free(1), ANY_IMAGES, 0))
    assert (chosen, {each.choice for each in found}) == ([2], {None})


def test_after_a_gain_each_class_is_decided_once(chosen: list[int]) -> None:
    refusals = LastRejections()
    cycle(refusals, with_free(1), [*PLANS, *REFUSED])
    chosen.clear()
    # The plans have room now: a whole cycle says where, and for whom.
    assert not all(refusals.retry(ROOM, ANY_IMAGES, 0))
    assert sorted(chosen) in ([2], [2, 4])


def test_where_a_job_was_placed_a_whole_cycle_follows() -> None:
    refusals = LastRejections()
    cycle(refusals, ROOM, [PendingJob("r", "0", demand(gpusPerNode=1), name="r"), *REFUSED])
    assert not all(refusals.retry(with_free(3), ANY_IMAGES, 0))


def test_other_facts_leave_nothing_of_it() -> None:
    refusals = LastRejections()
    cycle(refusals, ROOM, REFUSED)
    assert not all(refusals.retry(ROOM, ANY_IMAGES, 1))
    refusals.begin(1)
    assert refusals.still_valid(REFUSED[0].demand, ROOM, ANY_IMAGES) is None


def test_refusals_of_jobs_that_are_gone_go_with_the_next_whole_cycle() -> None:
    refusals = LastRejections()
    first, second = (
        replace(REFUSED[0], uid=uid, demand=demand(gpusPerNode=gpus)) for uid, gpus in (("a", 5), ("b", 6))
    )
    cycle(refusals, ROOM, [first])
    refusals.keep({second.demand: Answer(second.demand, ROOM, ANY_IMAGES)}, (), all_refused=False, whole=False)
    assert all(refusals.still_valid(each.demand, ROOM, ANY_IMAGES) for each in (first, second))
    cycle(refusals, ROOM, [second])
    assert [refusals.still_valid(each.demand, ROOM, ANY_IMAGES) is None for each in (first, second)] == [True, False]


def test_another_catalog_decides_anew() -> None:
    refusals = LastRejections()
    cycle(refusals, ROOM, REFUSED)
    assert refusals.still_valid(REFUSED[0].demand, ROOM, ANY_IMAGES) is not None
    assert refusals.still_valid(REFUSED[0].demand, ROOM, replace(ANY_IMAGES)) is None


def test_a_quota_of_another_namespace_leaves_refusals_as_they_are(chosen: list[int]) -> None:
    """The number of pods in a namespace with a quota changes with each pod there."""
    refusals, jobs = LastRejections(), [replace(job, namespace="team") for job in REFUSED]
    for used in range(4):
        cycle(refusals, replace(ROOM, quotas={"other": (quota(pods=10 - used),)}), jobs)
    assert chosen == [4]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"team": ("pods", 1)}, {"team": ("pods", 9)}, id="another"),
        pytest.param({}, {"team": ("pods", 9)}, id="its-first"),
        pytest.param({"team": ("pods", 1)}, {}, id="none-any-more"),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["one-demand", "by-namespace"])
def test_another_quota_of_its_own_namespace_decides_anew(
    chosen: list[int], before: dict[str, tuple[str, int]], after: dict[str, tuple[str, int]], apart: bool
) -> None:
    """Whether or not demands carry their namespace without a quota too."""
    pools, labels = (replace(ROOM.pools[0], namespaces=(("gpus", "yes"),)),), Namespace({"gpus": "yes"})
    room = replace(ROOM, pools=pools, namespaces={"team": labels}) if apart else ROOM
    refusals, jobs = LastRejections(), [replace(job, namespace="team") for job in REFUSED]
    cycle(refusals, replace(room, quotas=quotas(before)), jobs)
    chosen.clear()
    cycle(refusals, replace(room, quotas=quotas(after)), jobs)
    assert chosen == [4]


def test_two_snapshots_are_compared_once_for_all_refusals_of_one_and_apart_for_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first two jobs are refused where 4 GPUs are free, the last one after a job took 3 of them."""
    compared, real = list[tuple[Fleet, Fleet]](), answers.gains

    def gains(before: Fleet, now: Fleet, namespace: str) -> Gains:
        compared.append((before, now))
        return real(before, now, namespace)

    monkeypatch.setattr(answers, "gains", gains)
    refusals = LastRejections()
    sizes = {"a": 5, "b": 6, "took": 3, "c": 2}
    jobs = [
        PendingJob(name, str(at), demand(gpusPerNode=size), name=name) for at, (name, size) in enumerate(sizes.items())
    ]
    cycle(refusals, ROOM, jobs)
    wishes = {job.uid: job.demand for job in jobs}
    again = replace(ROOM, pools=(ROOM.pools[0].with_nodes({0: replace(ROOM.pools[0].nodes[0])}),))
    held = {name: refusals.still_valid(wishes[name], again, ANY_IMAGES) is not None for name in "abc"}
    assert held == {"a": True, "b": True, "c": False}
    assert len(compared) == 2


def test_a_first_quota_of_one_namespace_is_compared_for_that_one_alone() -> None:
    refusals, wish = LastRejections(), REFUSED[0].demand
    ours, theirs = (replace(wish, namespace=name) for name in ("team", "other"))
    refusals.begin(0)
    refusals.keep({each: Answer(each, ROOM, ANY_IMAGES) for each in (ours, theirs)}, (), all_refused=True, whole=True)
    later = replace(ROOM, quotas={"team": (quota(pods=9),)})
    held = [refusals.still_valid(each, later, ANY_IMAGES) is not None for each in (theirs, ours)]
    assert held == [True, False]


def quota(**left: int) -> Quota:
    return Quota("q", left, left)


def quotas(of: dict[str, tuple[str, int]]) -> Quotas:
    return {namespace: (quota(**{name: left}),) for namespace, (name, left) in of.items()}
