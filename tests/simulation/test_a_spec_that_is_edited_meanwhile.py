"""The spec is edited while nothing names the child that was made from it: the program that runs is that of the newest spec."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.test_creations_without_an_answer import Unheard
from tests.simulation.virtual_time import run
from tests.simulation.world import TEAM, Story, World

Edit = dict[str, Any]
NEW_COMMAND: Final[Edit] = {"command": ["new"]}
LIMITS: Final[dict[str, Edit]] = {
    "budget": {"placement": {"budget": "900"}},
    "deadline": {"activeDeadlineSeconds": 86400},
    "time to live": {"ttlSecondsAfterFinished": 86400},
    "standstill": {"stall": {"afterSeconds": 3600}},
}
"""What may change at any time."""
FOR_EVER: Final = Program(runs_for=0.0)


class Edited(World):
    """A world in which the command of the job is edited so many seconds after its first child was created; `restart`: the operator is
    killed at once, and another one starts after the edit."""

    def __init__(self, story: Story, after: float, *, restart: bool, edit: Edit) -> None:
        super().__init__(story)
        self.after, self.restart, self.edits, self.met = after, restart, edit, False
        self.server.on_change.append(self._meet)

    def _meet(self, plural: str, event: str, _: Object) -> None:
        if (plural, event) != ("jobs", "ADDED") or self.met:
            return
        self.met, loop = True, self.server.loop
        loop.call_later(self.after, lambda: self.edit("a", **self.edits))
        if self.restart:
            loop.call_soon(self.processes[-1].kill)
            loop.call_later(self.after + 0.01, self.start)


def play(
    after: float, *, restart: bool, unheard: bool = False, program: Program = FOR_EVER, edit: Edit = NEW_COMMAND
) -> Edited:
    async def main() -> Edited:
        deeds = ((1.0, lambda world: world.submit("a", gpusPerNode=8, command=["old"])),)
        world = Edited(Story("edited", deeds, program, until=200.0), after, restart=restart, edit=edit)
        hang: Any = (lambda world: Unheard(world.processes[0], {"a": [0.05]})) if unheard else lambda _: None
        await world.run(hang)
        return world

    return run(main())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("restart", "unheard"),
    [(False, False), (True, False), (False, True)],
    ids=["with an answer", "another operator", "without an answer"],
)
@pytest.mark.parametrize("after", [0.005, 0.5])
def test_the_newest_spec_runs_alone(after: float, restart: bool, unheard: bool) -> None:
    world = play(after, restart=restart, unheard=unheard)
    job = world.server.objects["gpujobs"][TEAM, "a"]
    assert (job["status"]["state"], job["status"]["observedGeneration"]) == ("Running", job["metadata"]["generation"])
    (child,) = world.live_children()
    (container,) = (each for each in child["spec"]["template"]["spec"]["containers"] if each["name"] == "train")
    assert "new" in str(container)
    assert "old" not in str(container)
    assert child["metadata"]["annotations"]["gpujob.dev/generation"] == "2"
    assert world.overlap() == 0.0


def commands(world: Edited) -> list[str]:
    """The commands of the Jobs that are left, in the order in which they were made."""
    jobs = sorted(world.server.objects["jobs"].values(), key=lambda job: job["metadata"]["uid"])
    containers = [job["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    return ["new" if "new" in str(container) else "old" for container in containers]


@pytest.mark.parametrize("exit_code", [0, 3])
@pytest.mark.parametrize(
    ("after", "restart"),
    [(0.02, False), (5.0, False), (5.0, True)],
    ids=["before it ends", "after it ended", "no operator"],
)
def test_the_end_of_the_old_program_is_not_that_of_the_job(after: float, restart: bool, exit_code: int) -> None:
    """Nothing names the child when it ends: its creation has no answer, or no operator runs."""
    program = Program(runs_for=0.2, exit_code=exit_code)
    world = play(after, restart=restart, unheard=not restart, program=program)
    job = world.server.objects["gpujobs"][TEAM, "a"]
    assert job["status"]["state"] == ("Failed" if exit_code else "Succeeded")
    assert job["status"]["observedGeneration"] == 2
    assert commands(world) == ["new"]
    assert len(world.server.ran) == 2
    assert world.overlap() == 0.0


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_suspension_alone_leaves_the_end_as_it_was(exit_code: int) -> None:
    program = Program(runs_for=0.2, exit_code=exit_code)
    world = play(5.0, restart=True, program=program, edit={"suspend": True})
    job = world.server.objects["gpujobs"][TEAM, "a"]
    assert job["status"]["state"] == ("Failed" if exit_code else "Succeeded")
    assert len(world.server.ran) == 1


@pytest.mark.parametrize("edit", LIMITS)
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("program", [FOR_EVER, Program(runs_for=0.2), Program(runs_for=0.2, exit_code=3)])
def test_what_may_change_at_any_time_repeats_no_program(edit: str, restart: bool, program: Program) -> None:
    world = play(0.5, restart=restart, unheard=not restart, program=program, edit=LIMITS[edit])
    (job,), (child,) = world.server.objects["gpujobs"].values(), world.server.objects["jobs"].values()
    state = "Running" if program is FOR_EVER else "Failed" if program.exit_code else "Succeeded"
    assert (job["status"]["state"], job["metadata"]["generation"]) == (state, 2)
    assert child["metadata"]["annotations"]["gpujob.dev/generation"] == "1"
    assert len(world.server.ran) == 1


def test_a_suspension_with_another_command_in_one_edit_takes_no_end_of_the_old_program() -> None:
    program = Program(runs_for=0.2)
    world = play(5.0, restart=True, program=program, edit=NEW_COMMAND | {"suspend": True})
    job = world.server.objects["gpujobs"][TEAM, "a"]
    assert job["status"]["state"] == "Suspended"
    assert commands(world) == []


def test_a_command_that_is_edited_back_is_the_one_that_runs() -> None:
    world = play(0.5, restart=True, edit={"command": ["old"]})
    assert world.server.objects["gpujobs"][TEAM, "a"]["status"]["state"] == "Running"
    assert commands(world) == ["old"]
    assert len(world.server.objects["jobs"]) == len(world.server.ran) == 1
