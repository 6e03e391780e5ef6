"""Phases of a process beside its steps (compiling, evaluating, saving), and the clock that stands in them.

A sign of work is a step, a batch or the end of a phase. Without one the clock runs; in a phase it stands, because a long
compilation is no hang.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter

TRAINING = "Training"
COMPILING, EVALUATING, SAVING = "Compiling", "Evaluating", "Saving"
MOST_SPANS = 64
"""Phases that are remembered, so that their time is removed from the steps in which they were."""


class Phases:
    """What the program says of its phases, and what its stack shows; times by `perf_counter`, in seconds."""

    __slots__ = ("_open", "_seen", "ended", "spans")

    def __init__(self) -> None:
        self._open: dict[object, tuple[str, float]] = {}
        self._seen: tuple[str, float] | None = None
        self.spans: deque[tuple[float, float]] = deque(maxlen=MOST_SPANS)
        self.ended = 0.0
        """When the last phase ended."""

    def begin(self, name: str) -> object:
        """Enters a phase; gives what `end` takes. Phases may overlap, also in several threads."""
        key = object()
        self._open[key] = (name, perf_counter())
        return key

    def end(self, key: object) -> None:
        """Leaves a phase; a key that is not known does nothing."""
        entered = self._open.pop(key, None)
        if entered is not None:
            self._note(entered[1])

    def notice(self, name: str | None) -> None:
        """Takes what a look at the stack found: the name of a phase, or None for none."""
        seen = self._seen
        if name is not None and seen is None:
            self._seen = (name, perf_counter())
        elif name is None and seen is not None:
            self._seen = None
            self._note(seen[1])
        elif name is not None and seen is not None:
            self._seen = (name, seen[1])

    @property
    def is_open(self) -> bool:
        """Whether the process is in a phase."""
        return bool(self._open) or self._seen is not None

    @property
    def is_seen(self) -> bool:
        """Whether the last look at the stack found a phase."""
        return self._seen is not None

    def current(self) -> str:
        """The phase that was entered last and is not left; Training where there is none."""
        entered = [*self._open.values(), *((self._seen,) if self._seen else ())]
        return max(entered, key=_since)[0] if entered else TRAINING

    def _note(self, began: float) -> None:
        self.ended = perf_counter()
        self.spans.append((began, self.ended))


def _since(entered: tuple[str, float]) -> float:
    return entered[1]


def slowest_step(clocks: Sequence[float], spans: Iterable[tuple[float, float]]) -> float | None:
    """Seconds of the longest step between these clocks (ascending), without the time in phases; None for fewer than two clocks."""
    steps = [after - before for before, after in zip(clocks, clocks[1:])]
    for began, ended in spans:
        place = max(bisect_left(clocks, began), 1)
        while place < len(clocks) and clocks[place - 1] < ended:
            steps[place - 1] -= max(0.0, min(ended, clocks[place]) - max(began, clocks[place - 1]))
            place += 1
    return max(0.0, max(steps)) if steps else None
