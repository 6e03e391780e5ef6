"""What makes runs cheap changes nothing: objects are shared, and a run ends before its time where nothing is due."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import orjson
import pytest

from tests.simulation import world as worlds
from tests.simulation.faults import PLANS
from tests.simulation.stories import stories
from tests.simulation.virtual_time import VirtualLoop, run
from tests.simulation.world import Story, World

STORIES = {story.name: story for story in stories(0.0)}
FAULTS = [(list(STORIES)[number % len(STORIES)], fault) for number, fault in enumerate([*PLANS, *PLANS])]


class Noted(World):
    """A world that keeps each object that it showed, and its text then."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.shown: list[tuple[Any, bytes]] = []
        self.server.on_change.append(lambda plural, event, obj: self.shown.append((obj, orjson.dumps(obj))))


def played(kind: type[World], story: Story, fault: str = "", write: int = 2) -> Any:
    """The world after a run, and when that ended."""

    async def main() -> Any:
        world = kind(story)
        await world.run(lambda world: PLANS[fault](world, write) if fault else None)
        return world, world.server.loop.time()

    return run(main())


@pytest.mark.parametrize("story", STORIES)
def test_no_object_that_was_shown_changes_afterwards(story: str) -> None:
    world, _ = played(Noted, STORIES[story])
    assert world.shown
    assert [text for obj, text in world.shown if orjson.dumps(obj) != text] == []


@pytest.mark.parametrize(("story", "fault"), [*((story, "") for story in STORIES), *FAULTS])
def test_a_run_that_ends_before_its_time_ends_as_it_would(
    story: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, ended = played(World, STORIES[story], fault)
    monkeypatch.setattr(worlds, "STILL", math.inf)
    monkeypatch.setattr(worlds, "LOOK", 100.0)
    whole, until = played(World, STORIES[story], fault)
    assert ended <= until == STORIES[story].until
    assert short.left() == whole.left()
    assert short.overlap() == whole.overlap()


def test_most_runs_end_before_their_time() -> None:
    ends = [played(World, story)[1] for story in STORIES.values()]
    assert sum(end < 1000 for end in ends) > len(ends) / 2, ends


def test_a_call_that_was_asked_for_is_to_come_and_a_sleep_is_not() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        sleeping = asyncio.ensure_future(asyncio.sleep(1000))
        await asyncio.sleep(0)
        found = [loop.calls_to_come()]
        handle = loop.call_later(5, lambda: None)
        async with asyncio.timeout(50):
            found.append(loop.calls_to_come())
        handle.cancel()
        found.append(loop.calls_to_come())
        sleeping.cancel()
        return found

    assert run(main()) == [0, 1, 0]
