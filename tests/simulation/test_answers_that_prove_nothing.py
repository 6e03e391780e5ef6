"""A 404 that names no object, or a 409: another server answers, a kind is not served yet, admission refuses. It proves no deletion."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpujob.cluster.client.api_errors import ApiError, Conflict, NotFound
from tests.simulation.api_server import Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Deed, Story, World

ANSWERS: Final = {
    "404": NotFound(404, "NotFound", "the server could not find the requested resource"),
    "409": Conflict(409, "Conflict", 'admission webhook "v.example.com" denied the request: not now'),
}
Deeds = tuple[tuple[float, Deed], ...]
SUSPENDED: Final[Deeds] = ((20.0, lambda world: world.edit("j", suspend=True)),)
RESUMED: Final[Deeds] = (*SUSPENDED, (60.0, lambda world: world.edit("j", suspend=None)))


def lose_child(world: World) -> None:
    (key,) = world.server.objects["jobs"]
    process = world.processes[0]
    process.cache.apply("jobs", "DELETED", world.server.objects["jobs"][key])


def play(
    verb: str,
    part: str,
    error: ApiError,
    during: tuple[float, float],
    deeds: Deeds = (),
    runs_for: float = 0.0,
    **spec: Any,
) -> World:
    """A job whose requests of this kind are answered by the error between two seconds."""

    def trouble(world: World) -> None:
        loop = world.server.loop
        world.processes[0].trouble = lambda asked, path: (
            error if asked == verb and part in path and during[0] <= loop.time() < during[1] else None
        )

    async def main() -> World:
        submit = (1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8, **spec))
        world = World(Story("proves nothing", (submit, *deeds), Program(runs_for=runs_for), until=900.0))
        await world.run(trouble)
        return world

    return run(main())  # type: ignore[no-any-return]


def state(world: World) -> str:
    return str(world.server.objects["gpujobs"][TEAM, "j"]["status"]["state"])


@pytest.mark.parametrize("part", ["/jobs/", "/services/"])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_child_whose_deletion_is_answered_so_once_is_deleted_later(name: str, part: str) -> None:
    for deeds, ends in ((SUSPENDED, "Suspended"), (RESUMED, "Running")):
        world = play("delete", part, ANSWERS[name], (19.0, 20.3), deeds)
        live = world.live_children()
        assert (state(world), len(live)) == (ends, int(ends == "Running"))
        assert len(world.server.objects["services"]) == len(live)
        assert world.overlap() == 0.0


@pytest.mark.parametrize("name", ANSWERS)
def test_a_job_whose_own_deletion_is_answered_so_goes_later(name: str) -> None:
    world = play("delete", "/gpujobs/", ANSWERS[name], (0.0, 60.0), runs_for=20.0, ttlSecondsAfterFinished=10)
    assert world.server.objects["gpujobs"] == {}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_running_child_that_the_watch_does_not_show_is_not_lost_by_it(name: str) -> None:
    world = play("get", "/jobs/", ANSWERS[name], (0.0, 100.0), ((20.0, lose_child),), runs_for=400.0)
    assert state(world) == "Succeeded"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_status_whose_write_is_answered_so_for_140_seconds_is_written_within_75_more(name: str) -> None:
    seen: list[float] = []

    def note(world: World) -> None:
        world.server.on_change.append(
            lambda plural, _, obj: (
                seen.append(world.server.loop.time()) if plural == "gpujobs" and obj.get("status") else None
            )
        )

    play("patch", "/status", ANSWERS[name], (0.0, 140.0), ((0.5, note),))
    assert 140.0 <= seen[0] <= 215.0
