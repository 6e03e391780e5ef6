"""A user takes the label of the operator off a pod, or gives it another job's: the pod is still one of its job, by its Job's name."""

from __future__ import annotations

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

LABEL = "gpujob.dev/job-uid"


class Relabelled(World):
    """A world in which each pod loses its label, or gets another one, right after it was created."""

    def __init__(self, story: Story, label: str) -> None:
        super().__init__(story)
        self.label, self.states = label, list[tuple[str, float]]()
        self.server.on_change.append(self._note)

    def _note(self, plural: str, event: str, obj: Object) -> None:
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if (plural, event) == ("pods", "ADDED"):
            self.server.loop.call_later(0.01, lambda: self.server.change("pods", key, self._relabel))
        if plural == "gpujobs" and (state := (obj.get("status") or {}).get("state")):
            self.states.append((state, self.server.loop.time()))

    def _relabel(self, pod: Object) -> None:
        kept = {name: text for name, text in pod["metadata"]["labels"].items() if name != LABEL}
        pod["metadata"]["labels"] = kept | ({LABEL: self.label} if self.label else {})


def play(label: str, program: Program, **edits: float) -> Relabelled:
    async def main() -> Relabelled:
        deeds = (
            (1.0, lambda world: world.submit("a", gpusPerNode=8)),
            *(
                (second, lambda world, to=name == "suspend": world.edit("a", suspend=to))
                for name, second in edits.items()
            ),
        )
        world = Relabelled(Story("relabelled", deeds, program, nodes=2, until=500.0), label)
        await world.run()
        return world

    return run(main())  # type: ignore[no-any-return]


LABELS = pytest.mark.parametrize("label", ["", "of-another"], ids=["taken off", "another job's"])


@LABELS
def test_the_job_runs_and_ends_as_if_nothing_had_happened(label: str) -> None:
    world = play(label, Program(runs_for=60.0))
    first = dict(reversed(world.states))
    assert first["Running"] <= 5.0
    assert first["Succeeded"] <= 70.0
    assert len(world.server.ran) == 1


@LABELS
def test_its_next_attempt_waits_until_the_pod_has_ended(label: str) -> None:
    world = play(label, Program(runs_for=0.0, grace=30.0), suspend=10.0, resume=15.0)
    assert world.server.objects["gpujobs"][TEAM, "a"]["status"]["state"] == "Running"
    assert len(world.server.ran) == 2
    assert world.overlap() == 0.0


@LABELS
def test_what_the_watch_is_late_to_show_of_its_end_the_api_server_is_asked_for(label: str) -> None:
    """The watch shows the pod before it runs, and nothing more until its Job has ended."""

    async def main() -> Relabelled:
        deeds = ((1.0, lambda world: world.submit("a", gpusPerNode=8)), (1.6, lag))
        world = Relabelled(Story("relabelled", deeds, Program(runs_for=10.0), nodes=2, until=100.0), label)
        await world.run()
        return world

    def lag(world: World) -> None:
        world.processes[0].late = {"pods": 25.0}

    world = run(main())
    status = world.server.objects["gpujobs"][TEAM, "a"]["status"]
    assert status["state"] == "Succeeded"
    assert status["startTime"]
    assert status["cost"]["accrued"]


@LABELS
@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
def test_it_ends_where_a_finalizer_keeps_its_job_and_no_operator_saw_the_gpujob(label: str, propagation: str) -> None:
    async def main() -> Relabelled:
        deeds = (
            (1.0, lambda world: world.submit("a", gpusPerNode=8)),
            (20.0, lambda world: world.processes[-1].kill()),
            (21.0, lambda world: world.remove("a", propagation)),
            (30.0, lambda world: world.start()),
        )
        story = Story("relabelled", deeds, Program(runs_for=0.0), nodes=2, until=100.0, finalizers=("team/mine",))
        world = Relabelled(story, label)
        await world.run()
        return world

    world = run(main())
    assert [job["metadata"]["finalizers"] for job in world.server.objects["jobs"].values()] == [["team/mine"]]
    assert not [pod for pod in world.server.objects["pods"].values() if "deletionTimestamp" not in pod["metadata"]]
