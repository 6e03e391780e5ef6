"""What would stop the whole loop for longer than a slice: full garbage collections, and the first use of what is built on demand."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any, Final

from gpujob.api.manifest import read_gpujob
from gpujob.cluster.queue.turns import DUE
from gpujob.placement.request.from_manifest import demand_of
from gpujob.values.vocabulary import API_VERSION

THRESHOLDS: Final = (2 * DUE[0], *DUE[1:])
"""The interpreter's own collections, which may come within a decision, only where no slice of the loop's time has begun since one
was due."""

ALL_AGAIN: Final = 3600.0
"""Seconds between two collections that visit every object."""

OLDEST: Final = 2
"""The generation of a full collection."""


class FrozenSurvivors:
    """A callback of the collector: a full collection visits only objects that no full collection has visited before.

    Objects that survived one are moved out of its sight (gc.freeze), since a cache of 10,000 jobs takes it 130 ms each time.
    Cycles among them are found once an hour, when all objects are visited again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next = clock, clock() + ALL_AGAIN

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif self._clock() >= self._next:
            self._next = self._clock() + ALL_AGAIN
            gc.unfreeze()


def prepare() -> None:
    """Called once, before the loop runs: sets up the collector, reads a manifest, which builds the validators (50 ms), and imports
    the formulas of memory (20 ms).
    """
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(FrozenSurvivors())
    document = {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": "none"},
        "spec": {"command": ["true"]},
    }
    demand_of(read_gpujob(document))
    importlib.import_module("gpujob.memory.estimate")
