"""A full collection of garbage visits only what is new, and everything once an hour."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gpujob.cluster.app.short_pauses import ALL_AGAIN, FrozenSurvivors


class Cycle:
    """An object that only the collector can end."""

    def __init__(self) -> None:
        self.me: Cycle | None = self


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The clock of a callback that is registered for the time of a test."""
    clock = Clock()
    callback = FrozenSurvivors(clock)
    gc.callbacks.append(callback)
    yield clock
    gc.callbacks.remove(callback)
    gc.unfreeze()


def test_what_survived_a_full_collection_is_not_visited_again_before_an_hour_is_over(clock: Clock) -> None:
    kept = Cycle()
    gc.collect()
    frozen, end = gc.get_freeze_count(), weakref.ref(kept)
    assert frozen > 1000
    assert not any(each is kept for each in gc.get_objects())
    del kept
    clock.now = ALL_AGAIN - 1
    gc.collect()
    assert end() is not None
    clock.now = ALL_AGAIN
    gc.collect()
    assert end() is None
    assert gc.get_freeze_count() > 1000


def test_new_garbage_is_found_at_once(clock: Clock) -> None:
    gc.collect()
    new = Cycle()
    end = weakref.ref(new)
    del new
    gc.collect()
    assert end() is None


def test_collections_of_the_young_freeze_nothing(clock: Clock) -> None:
    before = gc.get_freeze_count()
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() == before
