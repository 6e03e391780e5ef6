"""A request that creates a child may hang, and be performed although its answer is lost: the job goes on, and no two jobs meet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from gpujob.cluster.client.api_errors import ApiError, OutcomeUnknown
from tests.simulation.api_server import Object, Program
from tests.simulation.operator_process import Call, OperatorProcess
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

HANGS: Final = 40.0
"""Seconds after which a creation counts as without an answer."""

Deeds = tuple[tuple[float, Callable[[World], None]], ...]


class Unheard:
    """Creations of Jobs hang: each is performed after its number of seconds, by the GPUJob's name, and gets no answer."""

    def __init__(self, process: OperatorProcess, performed: Mapping[str, Sequence[float]]) -> None:
        self._process, self._write = process, process._write
        self._performed = {name: list(seconds) for name, seconds in performed.items()}
        process._write = self  # type: ignore[assignment, method-assign]

    async def __call__(self, verb: str, path: str, call: Call) -> Object:
        task = asyncio.current_task()
        left = self._performed.get(task.get_name().partition("/")[2]) if task is not None else None
        if verb != "create" or not path.endswith("/jobs") or not left:
            return await self._write(verb, path, call)
        self._process.loop.call_later(left.pop(0), self._perform, call)
        await asyncio.sleep(HANGS)
        raise OutcomeUnknown(0, "TimeoutError", "create: timeout")

    def _perform(self, call: Call) -> None:
        try:
            call()
        except ApiError:
            return


def _unheard(world: World, performed: Mapping[str, Sequence[float]]) -> None:
    Unheard(world.processes[0], performed)


class Seen(World):
    """A world that notes when states began and when Jobs were deleted."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.states: dict[tuple[str, str], float] = {}
        self.deleted: list[float] = []
        self.server.on_change.append(self._note)

    def _note(self, plural: str, event: str, obj: Object) -> None:
        now = self.server.loop.time()
        if plural == "gpujobs" and (status := obj.get("status")):
            self.states.setdefault((obj["metadata"]["name"], status["state"]), now)
        if plural == "jobs" and event == "DELETED":
            self.deleted.append(now)


def play(deeds: Deeds, nodes: int = 2, **performed: Sequence[float]) -> Seen:
    async def main() -> Seen:
        world = Seen(Story("creations", deeds, Program(runs_for=0.0), nodes=nodes, until=500.0))
        await world.run(lambda world: _unheard(world, performed))
        return world

    return run(main())  # type: ignore[no-any-return]


def submit(name: str, **spec: Any) -> Callable[[World], None]:
    return lambda world: world.submit(name, gpusPerNode=8, **spec)


def test_a_job_whose_child_runs_does_not_wait_for_the_answer_to_its_creation() -> None:
    world = play(((1.0, submit("a")),), a=[0.1])
    assert world.states["a", "Running"] <= 10.0, "and not 41 s after its submission"


@pytest.mark.parametrize("performed", [0.1, 15.0, 60.0], ids=["at once", "late", "after its end"])
def test_a_suspension_does_not_wait_for_the_answer_to_a_creation(performed: float) -> None:
    deeds = ((1.0, submit("a")), (5.0, lambda world: world.edit("a", suspend=True)))
    world = play(deeds, a=[performed])
    assert world.states["a", "Suspended"] <= 10.0
    assert not world.live_children()
    assert all(when <= max(performed, 5.0) + 5.0 for when in world.deleted), (
        "the Job is deleted when the watch shows it"
    )


def test_no_other_job_gets_the_devices_of_a_creation_without_an_answer() -> None:
    """They are performed after the third job is placed, while the first two wait for their next try."""
    deeds = ((1.0, submit("a")), (1.1, submit("b")), (41.2, submit("c")))
    world = play(deeds, nodes=3, a=[60.0, 1000.0], b=[60.0, 1000.0])
    jobs = world.server.objects["jobs"].values()
    pinned = [str(job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]) for job in jobs]
    assert len(set(pinned)) == len(pinned) == 3
    assert {job["status"]["state"] for job in world.server.objects["gpujobs"].values()} == {"Running"}


def test_devices_of_a_creation_without_an_answer_are_free_when_its_job_is_gone() -> None:
    deeds = ((1.0, submit("a")), (20.0, lambda world: world.remove("a")), (21.0, submit("b")))
    world = play(deeds, nodes=1, a=[1000.0])
    assert world.states["b", "Running"] <= 30.0
    assert not world.processes[0].reconciler.work.reserved


def test_a_node_that_is_gone_is_not_asked_for_again() -> None:
    """The next try is decided again, on what is there."""

    def lose(world: World) -> None:
        node = next(iter(world.server.objects["jobs"].values()), None)
        assert node is None, "nothing was performed yet"
        world.server.change("nodes", ("", "n0"), _not_ready)

    world = play(((1.0, submit("a")), (20.0, lose)), a=[1000.0])
    (job,) = world.server.objects["jobs"].values()
    assert "n1" in str(job["spec"]["template"]["spec"]["affinity"])
    assert world.server.objects["gpujobs"][TEAM, "a"]["status"]["state"] == "Running"


def _not_ready(node: Object) -> None:
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def test_where_creations_hang_in_many_namespaces_a_job_of_another_one_starts_all_the_same() -> None:
    """A webhook of the whole cluster answers nothing, and exempts one namespace; each of 120 others has two new jobs."""
    names = [f"a{number}" for number in range(240)]

    def submit_all(world: World) -> None:
        for number, name in enumerate(names):
            body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}}
            path = f"/apis/gpujob.dev/v1alpha1/namespaces/n{number % 120}/gpujobs"
            world.server.create(path, {**body, "spec": {"gpusPerNode": 8}})

    moments = (50.0, 100.0, 150.0)
    deeds = ((1.0, submit_all), *((moment, submit(f"b{moment:g}")) for moment in moments))
    world = play(deeds, nodes=243, **dict.fromkeys(names, (1000.0,) * 5))
    waited = [world.states[f"b{moment:g}", "Running"] - moment for moment in moments]
    # All that were there are known to hang after two times 40 s; they held every slot for 160 s.
    assert waited[0] <= 40.0
    assert max(waited[1:]) <= 5.0
