"""The Date header of some answers, or of all from a second on, is wrong: no job ends, none goes, and none costs more by that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from functools import cache
from typing import Any, Final

import pytest

from tests.simulation.api_server import Program
from tests.simulation.virtual_time import run
from tests.simulation.world import Deed, Story, World

Offset = Callable[[float], float]
OFFSETS: Final[dict[str, Offset]] = {
    "an hour ahead for 5 s": lambda second: 3600.0 if 30 <= second < 35 else 0.0,
    "an hour ahead for 270 s": lambda second: 3600.0 if 30 <= second < 300 else 0.0,
    "an hour behind for 270 s": lambda second: -3600.0 if 30 <= second < 300 else 0.0,
    "ten minutes ahead at every other answer": lambda second: 600.0 if int(second) % 2 else 0.0,
    "an hour ahead from now on": lambda second: 3600.0 if second >= 30 else 0.0,
    "an hour ahead at first": lambda second: 3600.0 if second < 10 else 0.0,
    "an hour behind at first": lambda second: -3600.0 if second < 45 else 0.0,
    "an hour behind at every other answer": lambda second: -3600.0 if int(second) % 2 else 0.0,
}
STORIES: Final[dict[str, tuple[dict[str, Any], Program, float]]] = {
    "a deadline that it keeps": ({"activeDeadlineSeconds": 1800}, Program(runs_for=600.0), 1500.0),
    "a deadline in its second attempt": ({"activeDeadlineSeconds": 150}, Program(evicted=1, runs_for=240.0), 600.0),
    "a time to live": ({"ttlSecondsAfterFinished": 600}, Program(runs_for=20.0), 500.0),
    "retries within half an hour": (
        {"retries": {"user": 2, "withinSeconds": 1800}},
        Program(exit_code=3, runs_for=100.0),
        900.0,
    ),
    "a budget": ({"placement": {"budget": "20"}}, Program(runs_for=300.0), 700.0),
}
EXCLUDED: Final[tuple[dict[str, Any], Program, float]] = ({}, Program(evicted=1, runs_for=40.0), 800.0)
"""Its first attempt is evicted from the only node, after 20 s."""
TWICE: Final[tuple[dict[str, Any], Program, float]] = ({}, Program(evicted=2, runs_for=40.0), 900.0)
"""Its first two attempts are evicted, each from one of two nodes."""


def restart(world: World) -> None:
    world.processes[-1].kill()
    world.start()


async def play(
    name: str, offset: Offset, restarted: float | None = None, renewed: float = 0.0, nodes: int = 2
) -> World:
    """`restarted`: when the operator is; `renewed`: until then the Lease is renewed every five seconds."""
    spec, program, until = STORIES.get(name, TWICE if name == "excluded twice" else EXCLUDED)
    deeds: list[tuple[float, Deed]] = [(1.0, lambda world: world.submit("j", gpusPerNode=8, **spec))]
    if restarted is not None:
        deeds.append((restarted, restart))
    world = World(Story(name, tuple(deeds), program, nodes=nodes, until=until))
    server = world.server
    wrong = lambda: server.time() + timedelta(seconds=offset(server.loop.time()))  # noqa: E731
    server.date = lambda: format_datetime(wrong(), usegmt=True)  # type: ignore[method-assign]

    def renew() -> None:
        world.processes[-1].clock.note(server.date())

    for second in range(5, int(renewed), 5):
        server.loop.call_at(float(second), renew)
    await world.run()
    return world


def dollars(world: World) -> float:
    (job,) = world.server.objects["gpujobs"].values()
    return float(job["status"]["cost"]["accrued"])


@cache
def undisturbed(name: str) -> World:
    world: World = run(play(name, lambda _: 0.0))
    return world


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", STORIES)
def test_every_job_ends_as_with_a_right_clock_at_the_same_cost(name: str, offset: str) -> None:
    wanted, world = undisturbed(name), run(play(name, OFFSETS[offset]))
    assert world.left() == wanted.left()
    # The pause before another attempt may be shorter; a minute of 8 GPUs costs 53 cents.
    assert dollars(world) <= dollars(wanted) + 0.53


@pytest.mark.parametrize("offset", [name for name in OFFSETS if "behind" in name and "for" not in name])
@pytest.mark.parametrize("name", ["a deadline that it keeps", "a budget"])
def test_a_start_is_never_before_its_child_so_that_the_next_leader_ends_nothing(name: str, offset: str) -> None:
    wanted, world = undisturbed(name), run(play(name, OFFSETS[offset], restarted=50.0))
    assert world.left() == wanted.left()
    assert dollars(world) <= dollars(wanted) + 0.53
    (job,), (child,) = world.server.objects["gpujobs"].values(), world.server.objects["jobs"].values()
    assert job["status"]["startTime"] >= child["metadata"]["creationTimestamp"]


@pytest.mark.parametrize("name", STORIES)
def test_a_process_that_starts_while_the_server_is_an_hour_ahead_ends_nothing(name: str) -> None:
    """The clock of its own machine says that less time has passed."""
    ahead = lambda second: 3600.0 if 25 <= second < 70 else 0.0  # noqa: E731
    wanted, world = undisturbed(name), run(play(name, ahead, restarted=50.0, renewed=1500.0))
    assert world.left() == wanted.left()
    assert dollars(world) <= dollars(wanted) + 0.53


@pytest.mark.parametrize(
    ("seconds", "begins", "ends", "restarted"),
    [
        (3600.0, 45.0, 1000.0, 50.0),
        (3600.0, 25.0, 70.0, 50.0),
        (180.0, 45.0, 1000.0, 50.0),
        (-3600.0, 45.0, 1000.0, 50.0),
        (-3600.0, 25.0, 70.0, 50.0),
        (3600.0, 0.0, 45.0, None),
        (-3600.0, 0.0, 45.0, None),
        (3600.0, 45.0, 1000.0, None),
    ],
)
def test_a_node_on_which_the_infrastructure_failed_an_attempt_is_left_out_for_ten_minutes(
    seconds: float, begins: float, ends: float, restarted: float | None
) -> None:
    offset = lambda second: seconds if begins <= second < ends else 0.0  # noqa: E731
    world = run(play("excluded", offset, restarted=restarted, renewed=800.0, nodes=1))
    (job,) = world.server.objects["gpujobs"].values()
    assert (job["status"]["state"], job["status"]["attempt"]) == ("Succeeded", 2)
    _, (*_, began, _, _) = world.server.ran
    assert 615.0 <= began <= 640.0


@pytest.mark.parametrize("restarted", [47.0, 120.0])
@pytest.mark.parametrize("seconds", [3600.0, -3600.0, -600.0, -180.0, 180.0, 3456000.0])
def test_a_node_that_a_wrong_clock_left_out_is_left_out_after_a_restart_too(seconds: float, restarted: float) -> None:
    """Answers agree for ten seconds that the clock is right again, then the restart: one write says the right times, and one the
    sentence that names them."""
    offset = lambda second: seconds if 10.0 <= second < 35.0 else 0.0  # noqa: E731
    world = run(play("excluded", offset, restarted=restarted, renewed=800.0, nodes=1))
    _, (*_, began, _, _) = world.server.ran
    assert 615.0 <= began <= 640.0
    undisturbed = run(play("excluded", lambda _: 0.0, restarted=restarted, renewed=800.0, nodes=1))
    assert sum(p.writes for p in world.processes) <= sum(p.writes for p in undisturbed.processes) + 2


@pytest.mark.parametrize("restarted", [None, 50.0])
@pytest.mark.parametrize("seconds", [0.0, 3600.0, -3600.0])
def test_an_eviction_under_a_wrong_clock_brings_no_earlier_node_back(seconds: float, restarted: float | None) -> None:
    offset = lambda second: seconds if 48.0 <= second < 1000.0 else 0.0  # noqa: E731
    world = run(play("excluded twice", offset, restarted=restarted, renewed=900.0))
    (job,) = world.server.objects["gpujobs"].values()
    assert (job["status"]["state"], job["status"]["attempt"]) == ("Succeeded", 3)
    *_, (*_, began, _, _) = world.server.ran
    assert 615.0 <= began <= 660.0


async def play_set_back(spec: dict[str, Any], program: Program, second: float) -> World:
    """The clock of the API server itself, which stamps objects too, is set back by an hour; the Lease is renewed every five seconds."""
    deeds = ((1.0, lambda world: world.submit("j", gpusPerNode=8, **spec)),)
    world = World(Story("set back", deeds, program, nodes=1, until=1200.0))
    server, right = world.server, world.server.time
    server.time = lambda: right() - timedelta(seconds=3600.0 if server.loop.time() >= second else 0.0)  # type: ignore[method-assign]

    def renew() -> None:
        world.processes[0].clock.note(server.date())
        server.loop.call_later(5.0, renew)

    server.loop.call_later(5.0, renew)
    until = server.loop.create_task(asyncio.sleep(1190.0))
    world._until_still = lambda: until  # type: ignore[method-assign, assignment, return-value]
    await world.run()
    return world


def test_a_clock_that_is_set_back_keeps_no_job_that_has_ended() -> None:
    world = run(play_set_back({"ttlSecondsAfterFinished": 60}, Program(runs_for=20.0), 36.0))
    assert world.server.objects["gpujobs"] == {}


def test_a_clock_that_is_set_back_excludes_no_node_for_an_hour() -> None:
    world = run(play_set_back({}, Program(evicted=1, runs_for=40.0), 36.0))
    (job,) = world.server.objects["gpujobs"].values()
    assert (job["status"]["state"], job["status"]["attempt"]) == ("Succeeded", 2)
