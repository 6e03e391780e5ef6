"""A job is suspended, and its child ends before the child's deletion arrives: the attempt is over by the suspension all the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.faults import PLANS
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

FAULTS = ("lost before it arrived", "the reply lost", "answered with 500", "arrived 35 s late", "killed before it")
PROGRAMS = {
    "evicted": ({}, Program(evicted=1, runs_for=20.0)),
    "drained": ({}, Program(drained=1, runs_for=20.0)),
    "its program fails": ({"retries": {"user": 2}}, Program(exit_code=3, runs_for=10.0)),
}


def story(name: str, *, resumed: bool) -> Story:
    spec, program = PROGRAMS[name]
    deeds = [
        (1.0, lambda world: world.submit("j", gpusPerNode=8, **spec)),
        (12.0, lambda world: world.edit("j", suspend=True)),
    ]
    if resumed:
        deeds.append((100.0, lambda world: world.edit("j", suspend=None)))
    return Story(name, tuple(deeds), program, until=900.0)


async def play(told: Story, fault: str = "", number: int = 0) -> World:
    world = World(told)
    await world.run((lambda world: PLANS[fault](world, number)) if fault else lambda _: None)
    return world


def end(world: World) -> tuple[str, str]:
    job = world.left()["jobs"]["j"]
    return job["state"], job["reason"]


@cache
def undisturbed(name: str, *, resumed: bool) -> tuple[tuple[str, str], int]:
    world = run(play(story(name, resumed=resumed)))
    return end(world), world.processes[0].writes


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_stays_suspended_and_goes_on_as_if_its_child_had_been_deleted_in_time(name: str, resumed: bool) -> None:
    wanted, writes = undisturbed(name, resumed=resumed)
    ends = "Failed" if "fails" in name else "Succeeded"
    assert wanted[0] == (ends if resumed else "Suspended")
    for fault in FAULTS:
        for number in range(4, min(writes, 9) + 1):
            world = run(play(story(name, resumed=resumed), fault, number))
            assert end(world) == wanted, (fault, number)
            assert len(world.live_children()) == 0
            assert world.overlap() <= (2.0 if "late" in fault else 0.0)


def test_a_program_that_saves_and_ends_well_because_its_deleted_job_asks_it_has_not_succeeded() -> None:
    """A finalizer keeps the Job, so that its controller counts the pods that the deletion ends."""

    def complete(world: World) -> None:
        def ends(job: Object) -> None:
            stamp = world.server.stamp()
            job["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": stamp}]}

        (key,) = world.server.objects["jobs"]
        assert "deletionTimestamp" in world.server.objects["jobs"][key]["metadata"]
        world.server.change("jobs", key, ends)

    deeds = (
        (1.0, lambda world: world.submit("j", gpusPerNode=8)),
        (20.0, lambda world: world.edit("j", suspend=True)),
        (40.0, complete),
        (60.0, lambda world: world.edit("j", suspend=None)),
    )
    world = run(play(Story("saves", deeds, Program(grace=5.0), finalizers=("team/mine",), until=600.0)))
    (job,) = (job for key, job in world.server.objects["gpujobs"].items() if key == (TEAM, "j"))
    assert (job["status"]["state"], job["status"]["attempt"]) == ("Succeeded", 2)
    ran: Any = [(child.rpartition("-")[2], round(until - since)) for _, child, _, since, until, _ in world.server.ran]
    assert [attempt for attempt, _ in ran] == ["1", "2"]
    assert ran[1][1] == 60, "the second attempt ran its whole time"
