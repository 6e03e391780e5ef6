"""The plans of a seed, their table, and that a fault which changes something is reported."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.simulation import plans
from tests.simulation.plans import FaultPlan, Outcome, fault_plans, play, table, told
from tests.simulation.stories import stories
from tests.simulation.virtual_time import run
from tests.simulation.world import World


def test_a_seed_has_a_plan_for_each_story_and_fault_and_more_than_2380_in_all() -> None:
    found = list(fault_plans(1))
    assert len(found) >= 2380
    assert found == list(fault_plans(1))
    assert found != list(fault_plans(2))
    pairs = Counter((plan.story, plan.fault) for plan in found if not plan.skew)
    assert set(pairs) == {(story.name, fault) for story in stories(0.0) for fault in plans.PLANS}
    assert min(pairs.values()) == plans.EACH


@pytest.mark.parametrize("plan", [plan for number, plan in enumerate(fault_plans(2)) if number % 61 == 0], ids=str)
def test_some_plans_of_another_seed_change_nothing(plan: FaultPlan) -> None:
    assert play(plan).good


def test_a_fault_that_changes_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def removes(world: Any, number: int) -> None:
        world.server.loop.call_later(20.0, world.remove, "j")

    monkeypatch.setitem(plans.PLANS, "somebody deletes the job", removes)
    outcome = play(FaultPlan("one pod", "somebody deletes the job", 1))
    assert (outcome.same, outcome.good) == (False, False)


def test_the_table_has_a_line_for_each_fault_and_a_sum() -> None:
    late, lost = FaultPlan("a", "arrived late", 1), FaultPlan("b", "lost", 1)
    outcomes = [Outcome(late, True, 1.5, 12.0), Outcome(late, True, 0.0), Outcome(lost, False, 0.0)]
    assert table(outcomes) == [
        "fault         plans   same  overlap  after end",
        "arrived late      2      2   1.50 s    12.00 s",
        "lost              1      0   0.00 s     0.00 s",
        "all               3      2",
    ]
    assert [outcome.good for outcome in outcomes] == [True, True, False]
    assert not Outcome(lost, True, 0.5).good, "two attempts at once"
    assert not Outcome(lost, True, 0.0, 240.0).good, "a program that runs on after the job's end"


def test_two_runs_of_a_plan_are_alike() -> None:
    plan = FaultPlan("its deadline in the second attempt", "arrived 35 s late", 7, 7.58)
    assert traced(plan) == traced(plan)


def traced(plan: FaultPlan) -> list[Any]:
    """Every event of the API server in a run, with its time and its version."""

    async def run_it() -> list[Any]:
        world, seen = World(told(plan.story, plan.shift)), []
        world.server.on_change.append(
            lambda plural, event, obj: seen.append((world.server.loop.time(), plural, event, obj["metadata"]))
        )
        await world.run(lambda world: plans.PLANS[plan.fault](world, plan.write))
        return seen

    found: list[Any] = run(run_it())
    return found
