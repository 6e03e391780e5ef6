"""Phases of a process beside its steps (compiling, evaluating, saving), and the clock that stands in them.

A sign of work is a step, a batch or the end of a phase. Without one the clock runs; in a phase it stands, because a long
compilation is no hang. It stands for `Phases.bound` seconds without a sign: a longer phase counts as no phase.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter

TRAINING = "Training"
COMPILING, EVALUATING, SAVING = "Compiling", "Evaluating", "Saving"
TIMES = 6
"""The bound of a phase in longest earlier phases of its kind."""
SHORTEST_BOUND = 7200.0
"""Seconds of that bound at least: what the first phase of a kind gets, for of its length nothing is known."""
MOST_SPANS = 64
"""Phases that are remembered, so that their time is removed from the steps in which they were."""


class Phases:
    """Phases by the program's reports and by its stack; times by `perf_counter`, in seconds. `limit` replaces the bound
    of each phase."""

    __slots__ = ("_limit", "_longest", "_open", "_seen", "ended", "spans")

    def __init__(self, limit: float | None = None) -> None:
        self._limit = limit
        self._longest: dict[str, float] = {}
        self._open: dict[object, tuple[str, float]] = {}
        self._seen: tuple[str, float] | None = None
        self.spans: deque[tuple[float, float]] = deque(maxlen=MOST_SPANS)
        self.ended = 0.0
        """When the last phase ended."""

    def begin(self, name: str) -> object:
        """Enters a phase and returns the key that `end` takes. Phases may overlap, also in several threads."""
        key = object()
        self._open[key] = (name, perf_counter())
        return key

    def end(self, key: object) -> None:
        """Leaves a phase; a key that is not known does nothing."""
        entered = self._open.pop(key, None)
        if entered is not None:
            self._note(entered)

    def notice(self, name: str | None) -> None:
        """Takes what a reading of the stack found: the name of a phase, or None for none."""
        seen = self._seen
        if name is not None and seen is None:
            self._seen = (name, perf_counter())
        elif name is None and seen is not None:
            self._seen = None
            self._note(seen)
        elif name is not None and seen is not None:
            self._seen = (name, seen[1])

    @property
    def is_reported(self) -> bool:
        """Whether the program reported a phase: then its stack is not read."""
        return bool(self._open)

    @property
    def is_seen(self) -> bool:
        """Whether the last reading of the stack found a phase."""
        return self._seen is not None

    def current(self) -> str:
        """The phase that was entered last and is not left; Training outside of one."""
        entered = self._entered()
        return entered[0] if entered else TRAINING

    def left(self, last_sign: float) -> float | None:
        """Seconds for which the clock still stands in the current phase, whose last sign of work was at `last_sign`; 0 where it runs
        again, None outside of a phase."""
        entered = self._entered()
        if entered is None:
            return None
        name, began = entered
        return max(0.0, self.bound(name) - (perf_counter() - max(began, last_sign)))

    def bound(self, name: str) -> float:
        """Seconds without a sign of work for which the clock stands in a phase of this name."""
        return self._limit if self._limit is not None else max(SHORTEST_BOUND, TIMES * self._longest.get(name, 0.0))

    def _entered(self) -> tuple[str, float] | None:
        entered = [*self._open.values(), *((self._seen,) if self._seen else ())]
        return max(entered, key=_since) if entered else None

    def _note(self, entered: tuple[str, float]) -> None:
        name, began = entered
        self.ended = perf_counter()
        self._longest[name] = max(self._longest.get(name, 0.0), self.ended - began)
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
