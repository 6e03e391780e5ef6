"""Placed and Running are one write where pods run soon, in later attempts too, whose earlier Jobs and pods stay for their logs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.api_server import Object, Program
from tests.simulation.virtual_time import run
from tests.simulation.world import Story, World

ATTEMPTS = 3


@pytest.mark.parametrize("nodes", [1, 2])
def test_each_attempt_says_placed_and_running_in_one_write(nodes: int) -> None:
    async def main() -> Counter[tuple[int, str]]:
        submits = (1.0, lambda world: world.submit("a", gpusPerNode=8, nodes=nodes))
        program = Program(runs_for=40.0, evicted=ATTEMPTS - 1)
        world = World(Story("writes", (submits,), program, nodes=4 * nodes, until=400.0))
        seen = Counter[tuple[int, str]]()

        def note(plural: str, event: str, obj: Object) -> None:
            if plural == "gpujobs" and (status := obj.get("status")):
                seen[status.get("attempt", 0), status["state"]] += 1

        world.server.on_change.append(note)
        await world.run()
        return seen

    seen = run(main())
    assert [seen[attempt, "Running"] for attempt in range(1, ATTEMPTS + 1)] == [1] * ATTEMPTS
    assert [seen[attempt, "Placed"] for attempt in range(1, ATTEMPTS + 1)] == [0] * ATTEMPTS
    assert seen[ATTEMPTS, "Succeeded"] == 1
    # Its first message, two for each attempt, and one for the queue after each failure.
    assert sum(seen.values()) <= 3 * ATTEMPTS + 2
