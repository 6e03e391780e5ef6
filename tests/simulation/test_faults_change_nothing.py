"""Whatever becomes of one write of the operator, and whenever: the end state is that of the undisturbed run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from tests.simulation.api_server import Program
from tests.simulation.faults import PLANS, Plan
from tests.simulation.plans import MOST_AFTER_END
from tests.simulation.stories import late_create, stories
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

NAMES: Final = [story.name for story in stories(0.0)]
LATE: Final = 2.0
"""Seconds for which a program may run beside another that a late create started: until the operator sees and ends it."""


@pytest.fixture(autouse=True)
def collected_once() -> Iterator[None]:
    """Garbage is collected once after each test, and never what was loaded before."""
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    gc.unfreeze()


async def play(story: Story, plan: Plan | None = None, number: int = 0, skew: float = 0.0) -> World:
    world = World(story, skew)
    await world.run((lambda world: plan(world, number)) if plan else lambda _: None)
    return world


@cache
def undisturbed(name: str) -> tuple[Story, Any, int]:
    """A story, its end state, and how many writes the operator makes in it."""
    story = next(story for story in stories(0.0) if story.name == name)
    world = run(play(story))
    assert world.overlap() == 0.0
    return story, world.left(), world.processes[0].writes


@pytest.mark.parametrize("fault", PLANS)
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_at_any_write_leaves_the_end_state_of_the_undisturbed_run(name: str, fault: str) -> None:
    """Users that act at other times are in the plans of a seed (`make plans`)."""
    story, wanted, writes = undisturbed(name)
    for number in range(1, writes + 1):
        world = run(play(story, PLANS[fault], number))
        assert world.left() == wanted, (fault, number)
        assert all(count == 1 for count in world.left()["live children"].values())
        assert world.overlap() <= (LATE if "late" in fault else 0.0), (fault, number)
        assert world.ran_on() <= MOST_AFTER_END, (fault, number)


@pytest.mark.parametrize("name", [name for name in NAMES if "something else suspends" in name])
def test_pods_that_a_suspension_of_the_child_ends_are_in_no_count_of_failures(name: str) -> None:
    """Whether or not they are still there, as Failed, when the Job controller applies its podFailurePolicy."""
    job = undisturbed(name)[1]["jobs"]["j"]
    by_kubernetes = [("Kubernetes", "PodReplaced")] if "which Kubernetes fails" in name else []
    assert (job["state"], job["failures"], job["why attempts failed"]) == ("Succeeded", None, by_kubernetes)


@pytest.mark.parametrize("skew", [3600.0, 360.0, -360.0, -3600.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_clock_of_the_operators_machine_changes_nothing(name: str, skew: float) -> None:
    story, wanted, _ = undisturbed(name)
    world = run(play(story, skew=skew))
    assert world.left() == wanted
    assert costs(world) == costs(run(play(story)))


def costs(world: World) -> dict[str, str]:
    return {name: str(job.get("status", {}).get("cost")) for (_, name), job in world.server.objects["gpujobs"].items()}


@pytest.mark.parametrize("second", [31.0, 45.0, 200.0])
def test_a_child_of_an_earlier_attempt_that_arrives_late_is_ended(second: float) -> None:
    """While the next attempt starts, while it runs, and after the job has succeeded."""
    (story,) = (story for story in stories(0.0) if story.name == "suspended and resumed")
    kept: list[Any] = []

    def keep(world: World) -> None:
        kept.append(next(iter(world.server.objects["jobs"].values())))

    def arrive(world: World) -> None:
        late_create(world, 1, kept[0])

    deeds = (*story.deeds, (2.5, keep), (second, arrive))
    world = run(play(Story("late", deeds, Program(runs_for=90.0))))
    assert world.left()["jobs"]["j"]["state"] == "Succeeded"
    assert world.left()["live children"] == {}
    assert world.overlap() <= LATE
    assert [child for _, child, *_ in world.server.ran if child.endswith("-2")] == [world.server.ran[-1][1]]


def test_pods_of_a_deleted_child_that_a_finalizer_keeps_end_and_the_next_attempt_runs() -> None:
    (story,) = (story for story in stories(0.0) if story.name == "a finalizer keeps the child")
    world = run(play(story))
    first, second = world.server.ran
    assert first[4] < second[3] < 100.0, "the finalizer is taken off after 400 seconds only"


def test_a_job_that_runs_through_leaves_no_trace_in_the_operator() -> None:
    deeds = tuple((1.0 + number, lambda world, n=number: world.submit(f"j{n}", gpusPerNode=8)) for number in range(20))
    ends = tuple((600.0, lambda world, n=number: world.remove(f"j{n}")) for number in range(20))
    world = run(play(Story("many", deeds + ends, Program(runs_for=10.0), until=1000.0)))
    work = world.processes[0].reconciler.work
    assert world.server.objects["gpujobs"] == {}
    stores = (
        work.parsed_specs,
        work.memory,
        work.tasks,
        work.reserved,
        work.due,
        work.queue,
        work.awaiting,
        work.telemetry,
    )
    assert [len(store) for store in stores] == [0] * len(stores)
    assert not any(key[0] == TEAM for key in world.processes[0].cache.objects("pods"))
