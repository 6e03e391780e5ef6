"""A burst of equal jobs: what one found on a pool serves the next one while that pool is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpujob.fleet.policy.resource_quota import Quota
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine import evaluate
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.schedule.answers import Answer, LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, QueueDecision, SchedulingCycle
from gpujob.values.vocabulary import Verdict
from tests.builders import A100, ANY_IMAGES, H100, L4, MI300X, demand, fleet, node, pod

NODES = [
    *(node(f"h{number}", H100, 4) for number in range(2)),
    *(node(f"m{number}", MI300X, 4) for number in range(2)),
    *(node(f"a{number}", A100, 2) for number in range(2)),
    node("l0", L4, 2),
]


def burst(count: int, **spec: Any) -> list[PendingJob]:
    asked = demand(**spec)
    return [PendingJob(f"u{number:02}", "2026-01-01T00:00:00Z", asked, namespace="team") for number in range(count)]


def cycle(known: LastRejections, on: Fleet, jobs: list[PendingJob]) -> list[QueueDecision]:
    run = SchedulingCycle(ANY_IMAGES, refusals=known).run(jobs, on, ALWAYS)
    return [placing for placing in run if placing is not None]


SPECS: list[dict[str, Any]] = [
    {},
    {"gpusPerNode": 2},
    {"gpuMemory": "60Gi"},
    {"nodes": 2, "gpusPerNode": 1},
    {"placement": {"objective": "Speed"}},
    {"placement": {"vendors": ["AMD"]}},
    {"placement": {"vendors": ["AMD"]}, "gpusPerNode": 3},
]


@pytest.mark.parametrize("at_once", [False, True], ids=["at the end", "at once"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_each_job_of_a_burst_gets_the_decision_of_its_own_snapshot(spec: dict[str, Any], at_once: bool) -> None:
    """Whether the decisions are read during the cycle, so that later jobs of the burst know what earlier ones found, or after it."""
    run = SchedulingCycle(ANY_IMAGES, refusals=LastRejections()).run(burst(12, **spec), fleet(*NODES), ALWAYS)
    placings = [placing for placing in run if placing is not None and (not at_once or placing.decision)]
    assert {placing.verdict for placing in placings} >= {Verdict.PLACED}
    for placing in placings:
        answer = placing.answer
        alone = choose(answer.demand, answer.fleet, ANY_IMAGES)
        assert (placing.verdict, placing.choice) == (alone.verdict, alone.choice)
        if placing.choice is not None:
            assert placing.decision == decide(answer.demand, answer.fleet, ANY_IMAGES)
        else:
            assert placing.decision == Answer(answer.demand, answer.fleet, ANY_IMAGES).decision


def test_a_refused_job_is_told_what_the_jobs_since_an_equal_one_left() -> None:
    start = fleet(node("h", H100, 4), pod("x", "h", {"nvidia.com/gpu": 1}))
    jobs = [
        PendingJob(f"u{at}", "", demand(gpusPerNode=gpus), name=f"j{at}") for at, gpus in enumerate((4, 4, 3, 4, 4))
    ]
    first, same, placed, later, last = cycle(LastRejections(), start, jobs)
    assert placed.choice is not None
    assert [each.decision.candidates[0].reasons[0].message for each in (first, later)] == [
        "needs 4 free GPUs on one node, 3 of 4 are free", "needs 4 free GPUs on one node, 0 of 4 are free",
    ]  # fmt: skip
    assert (len(first.decision.starts_now), later.decision.starts_now) == (1, ())
    assert (same.answer is first.answer, last.answer is later.answer) == (True, True)


def test_a_pool_that_nothing_changed_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start, known, seen = fleet(*NODES), LastRejections(), list[str]()
    trials = evaluate.GangEvaluator.trials

    def noted(self: Any, pool: Any) -> Any:
        seen.append(pool.name)
        return trials(self, pool)

    monkeypatch.setattr(evaluate.GangEvaluator, "trials", noted)
    for placing in cycle(known, start, burst(4)):
        assert placing.decision.choice is not None
    assert len(seen) == len(start.pools) + 3, seen


def test_where_a_quota_counts_each_job_nothing_is_kept() -> None:
    start = replace(fleet(*NODES), quotas={"team": (Quota("q", {}, {}),)})
    known = LastRejections()
    assert known.known(replace(demand(), namespace="team"), start) is None
    assert known.known(demand(model={"name": "llama-3.1-8b"}), start) is None


def test_other_facts_drop_what_was_found() -> None:
    start, known = fleet(*NODES), LastRejections()
    known.begin("facts")
    asked = demand()
    held = known.known(asked, start)
    known.begin("facts")
    assert known.known(asked, start) is held
    known.forget()
    assert known.known(asked, start) is held
    known.begin("others")
    assert known.known(asked, start) is not held


def test_what_64_demands_found_is_kept_and_one_more_drops_it() -> None:
    start, known = fleet(*NODES), LastRejections()
    asked = [demand(gpuMemory=f"{number + 1}Gi") for number in range(65)]
    first = [known.known(each, start) for each in asked[:64]]
    again = [known.known(each, start) for each in asked[:64]]
    assert all(one is other for one, other in zip(first, again, strict=True))
    assert known.known(asked[64], start) is not None
    assert known.known(asked[0], start) is not first[0]
