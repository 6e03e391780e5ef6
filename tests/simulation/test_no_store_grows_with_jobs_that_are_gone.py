"""A thousand jobs run through and are deleted: no store of the operator holds a word of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Final

from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import Telemetry
from gpujob.values.packed import Packed
from tests.simulation.api_server import Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

JOBS: Final = 1000
LAST_DECISION: Final = ("._deciding._decided_", ".work.decided_at", "._deciding._work.decided_at")
"""What the queue was decided on last is kept until it is decided again; it names the placements that were under way then."""


async def play(story: Story) -> World:
    world = World(story)
    await world.run()
    return world


def test_a_thousand_jobs_that_run_through_leave_no_trace_in_the_operator() -> None:
    deeds = tuple(
        (1.0 + n // 10, lambda world, n=n: world.submit(f"j{n}", gpusPerNode=1, **({"profile": "p"} if n % 3 else {})))
        for n in range(JOBS)
    )
    ends = tuple((200.0, lambda world, n=n: world.remove(f"j{n}")) for n in range(JOBS))
    world = run(play(Story("many", deeds + ends, Program(runs_for=5.0), nodes=16, until=400.0)))
    operator = world.processes[0]
    assert world.server.objects["gpujobs"] == {}
    assert not any(key[0] == TEAM for key in operator.cache.objects("pods"))
    assert len(world.server.ran) == JOBS
    gone = {f"j{n}" for n in range(JOBS)} | {uid for uid, *_ in world.server.ran}
    # The index follows when it is asked for the fleet, as the publisher of pools does.
    operator.index.fleet()
    found = traces(operator.reconciler, gone)
    assert [where for where in found if not where.startswith(LAST_DECISION)] == []


def test_of_a_job_that_has_ended_its_record_alone_is_kept() -> None:
    measured = Telemetry(Measured(datetime(2026, 1, 1, 12, tzinfo=UTC), counters={"steps": 24.0}))

    def reads(world: World) -> None:
        operator = world.processes[0]
        for uid, job in operator.index.jobs.items():
            if job.status.get("state") == "Running":
                operator.reconciler.work.telemetry[uid] = measured

    deeds = tuple((1.0, lambda world, n=n: world.submit(f"j{n}", gpusPerNode=1)) for n in range(40))
    ends = 20.0
    story = Story(
        "ended", (*deeds, (10.0, reads), (ends + 60, exposed)), Program(runs_for=ends - 5), nodes=16, until=2000.0
    )
    world = run(play(story))
    operator = world.processes[0]
    work = operator.reconciler.work
    assert {job.status["state"] for job in operator.index.jobs.values()} == {"Succeeded"}
    assert all(isinstance(job.status, Packed) for job in operator.index.jobs.values())
    assert (work.memory, work.parsed_specs, work.telemetry, dict(work.due)) == ({}, {}, {}, {})


def exposed(world: World) -> None:
    """The figures of a job that has just ended are still there for the scrapes to come."""
    operator = world.processes[0]
    assert all(job.status["state"] == "Succeeded" for job in operator.index.jobs.values())
    assert len(operator.reconciler.work.telemetry) == 40


def test_a_trace_is_found_wherever_it_is() -> None:
    held = SimpleNamespace(a={("x", "j1"): 1}, b=[{"j2"}], c={"k": ("j3",)}, d="j4")
    assert traces(held, {"j1", "j2", "j3", "j4"}) == [".a[][]", ".b[][]", ".c[][]", ".d"]


def traces(root: object, gone: Collection[str]) -> list[str]:
    """Where below `root` one of these words is held: in attributes of the product's objects, and in what they contain."""
    found, seen, ahead = set[str](), set[int](), [("", root)]
    while ahead:
        path, value = ahead.pop()
        if isinstance(value, str):
            if value in gone:
                found.add(path)
        elif id(value) not in seen:
            seen.add(id(value))
            ahead += inside(path, value)
    return sorted(found)


def inside(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{path}[]", each) for pair in value.items() for each in pair]
    if isinstance(value, set | frozenset | list | tuple | deque):
        return [(f"{path}[]", each) for each in value]
    if type(value).__module__.startswith(("gpujob", "types")):
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        return [(f"{path}.{name}", getattr(value, name, None)) for name in names]
    return []
