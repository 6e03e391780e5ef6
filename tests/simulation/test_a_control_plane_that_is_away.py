"""The scheduler or the Job controller is away while jobs are placed, for a while or without end: no pool is to blame for that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

NEVER = 1e9


class Away(World):
    """A world in which nothing binds (scheduler) or makes (controller) the pods of the job a before the second `until`."""

    def __init__(self, story: Story, who: str, until: float) -> None:
        super().__init__(story)
        self.back, self.ran_at = until, dict[str, float]()
        self.server.on_change.append(self._note)
        server, room, put, make = self.server, self.server._has_room, self.server.put, self.server._make_pods

        def silently(plural: str, event: str, obj: Object) -> None:
            if plural == "pods" and self._misses(obj):
                obj["status"] = {key: value for key, value in obj["status"].items() if key != "conditions"}
                obj["spec"]["schedulerName"] = "nosuch"
            put(plural, event, obj)

        def later(uid: str) -> None:
            job = server._job(uid)
            if job is not None and self._misses(job):
                server.loop.call_at(until, make, uid)
            else:
                make(uid)

        if who == "scheduler":
            server._has_room = lambda name, pod: not self._misses(pod) and room(name, pod)  # type: ignore[method-assign]
            server.put = silently  # type: ignore[method-assign]
        else:
            server._make_pods = later  # type: ignore[method-assign]

    def _misses(self, obj: Object) -> bool:
        return self.server.loop.time() < self.back and obj["metadata"]["name"].startswith("a-")

    def _note(self, plural: str, event: str, obj: Object) -> None:
        if plural == "gpujobs" and (obj.get("status") or {}).get("state") == "Running":
            self.ran_at.setdefault(obj["metadata"]["name"], self.server.loop.time())

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.server.objects["gpujobs"][TEAM, name]["status"]
        return status


def play(who: str, until: float, *deeds: Any, nodes: int, story_until: float) -> Away:
    async def main() -> Away:
        world = Away(Story("away", deeds, Program(runs_for=0.0), nodes=nodes, until=story_until), who, until)
        await world.run()
        return world

    return run(main())  # type: ignore[no-any-return]


@pytest.mark.parametrize("who", ["scheduler", "controller"])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("away", [100.0, 700.0])
def test_a_control_plane_that_comes_back_finds_the_job_where_it_was(who: str, nodes: int, away: float) -> None:
    submits = (1.0, lambda world: world.submit("a", gpusPerNode=8, nodes=nodes))
    world = play(who, away, submits, nodes=3, story_until=away + 200.0)
    assert world.ran_at["a"] <= away + 10.0
    status = world.status("a")
    assert status["attempt"] == 1
    assert not {"excludedPools", "excludedNodes", "failures"} & status.keys()


@pytest.mark.parametrize("who", ["scheduler", "controller"])
def test_gpus_that_nobody_binds_are_for_others_after_a_quarter_of_an_hour(who: str) -> None:
    """Both need the one node; the first one's pods are for a scheduler that does not exist."""
    deeds = (
        (1.0, lambda world: world.submit("a", gpusPerNode=8)),
        (50.0, lambda world: world.submit("b", gpusPerNode=8)),
    )
    world = play(who, NEVER, *deeds, nodes=1, story_until=1100.0)
    assert world.ran_at["b"] <= 935.0
    status = world.status("a")
    (entry,) = status["attempts"]
    assert (status["state"], entry["blame"], entry["reason"]) == ("Queued", "Kubernetes", "ControlPlaneSilent")
    assert ("nosuch" if who == "scheduler" else "kube-controller-manager") in entry["message"]
    assert not {"excludedPools", "excludedNodes", "failures"} & status.keys()


@pytest.mark.parametrize("who", ["scheduler", "controller"])
def test_a_job_that_gave_up_runs_soon_after_the_control_plane_is_back(who: str) -> None:
    submits = (1.0, lambda world: world.submit("a", gpusPerNode=8))
    world = play(who, 1700.0, submits, nodes=1, story_until=2100.0)
    assert 1700.0 < world.ran_at["a"] <= 1900.0
    assert "excludedPools" not in world.status("a")
