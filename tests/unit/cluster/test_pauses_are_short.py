"""A full collection of garbage visits only what is new, and everything once an hour; collections come between decisions."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from builders import A100_40, ANY_IMAGES, H100, L4, MI300X, demand, fleet, node

from gpujob.cluster.app.short_pauses import ALL_AGAIN, THRESHOLDS, FrozenSurvivors
from gpujob.cluster.queue.turns import DUE, TimeSlice, collect_if_due
from gpujob.placement.engine.choose import choose, waits_for


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


@pytest.fixture
def automatic() -> Iterator[None]:
    """No collection of the interpreter's own for the time of a test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("automatic")
def test_a_slice_of_time_begins_with_the_collection_that_is_due() -> None:
    slices = TimeSlice(lambda: 0.0, 1.0)
    few = Cycle()
    end = weakref.ref(few)
    del few
    slices.begin()
    assert end() is not None, "nothing is due yet"
    many = [Cycle() for _ in range(DUE[0] + 1)]
    slices.begin()
    assert end() is None
    assert len(many) > DUE[0]


@pytest.mark.usefixtures("automatic")
def test_a_pause_of_a_slice_collects_too() -> None:
    times = iter(range(100))
    slices = TimeSlice(lambda: float(next(times)), 0.5)
    garbage = [weakref.ref(Cycle()) for _ in range(DUE[0] + 1)]
    assert asyncio.run(slices.pause())
    assert not any(each() for each in garbage)


@pytest.mark.usefixtures("automatic")
def test_older_generations_are_collected_as_often_as_the_interpreter_would() -> None:
    generations: list[int] = []

    def record(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    kept = []
    gc.callbacks.append(record)
    try:
        for _ in range(30):
            kept += [Cycle() for _ in range(DUE[0] + 1)]
            collect_if_due()
    finally:
        gc.callbacks.remove(record)
    assert generations[:5] == [0, 0, 0, 0, 1]
    assert generations.index(2) == 19, (
        "after three collections of the middle generation, each after four of the young one"
    )


def test_the_interpreter_collects_only_what_no_slice_did() -> None:
    assert THRESHOLDS[0] > DUE[0]


@pytest.mark.usefixtures("automatic")
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"model": {"name": "llama-3.3-70b"}, "placement": {"objective": "Value"}},
        {"model": {"name": "llama-3.3-70b", "method": "Inference"}, "placement": {"objective": "Cost"}},
        {"model": {"name": "llama-3.1-405b", "precision": "FP32"}},
        {"shapes": [{"nodes": 1, "gpusPerNode": 8}, {"nodes": 2, "gpusPerNode": 4}]},
        {"placement": {"accelerators": {"allow": ["L4"]}, "maxPricePerHour": "0.01"}},
    ],
)
def test_a_choice_leaves_nothing_for_the_collector(spec: dict[str, Any]) -> None:
    asked = demand(**spec)
    pools = fleet(*(node(f"n{size}", device) for size, device in enumerate((A100_40, H100, L4, MI300X))))
    choose(asked, pools, ANY_IMAGES)
    waits_for(asked, pools, ANY_IMAGES)
    gc.collect()
    for _ in range(3):
        choose(asked, pools, ANY_IMAGES)
        waits_for(asked, pools, ANY_IMAGES)
    assert gc.collect() == 0
