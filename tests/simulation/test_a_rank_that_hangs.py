"""A job of which a rank hangs after a long phase: nothing is said during the phase, and one attempt more is all that it costs."""

from __future__ import annotations

from tests.simulation.api_server import Object
from tests.simulation.stories import stories
from tests.simulation.virtual_time import run
from tests.simulation.world import Story, World


async def play(story: Story) -> tuple[World, list[tuple[float, str, str]]]:
    """The world, and when which state and condition Stalled was written."""
    world, said = World(story), list[tuple[float, str, str]]()

    def note(plural: str, _: str, obj: Object) -> None:
        if plural == "gpujobs" and (status := obj.get("status")):
            stalled = next((c["status"] for c in status["conditions"] if c["type"] == "Stalled"), "")
            said.append((world.server.loop.time(), str(status["state"]), str(stalled)))

    world.server.on_change.append(note)
    await world.run()
    return world, said


def test_a_rank_that_hangs_after_a_long_phase_is_restarted_once_and_not_before_its_end() -> None:
    story = next(story for story in stories(0.0) if story.name == "a rank hangs after a long phase")
    world, said = run(play(story))
    ended = next(second for second, state, _ in said if state == "Restarting")
    # The first reading that counts, at 305, and one more after stall_confirmed.
    assert 305.0 + 20.0 <= ended <= 305.0 + 35.0
    assert {state for second, state, _ in said if second < 300.0} <= {"Queued", "Placed", "Starting", "Running"}
    job = world.left()["jobs"]["j"]
    assert job["state"] == "Succeeded"
    assert (job["failures"], job["why attempts failed"], job["excluded nodes"]) == (
        {"infrastructure": 1},
        [("Infrastructure", "Stalled")],
        [],
    )
    assert world.overlap() == 0.0
