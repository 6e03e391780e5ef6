"""The speed of a job: what its counters gained over the last minutes, so that a slow step does not show as a stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SPAN: Final = 120.0
"""Seconds over which a rate is taken."""

SHORTEST: Final = 5.0
"""Seconds below which no rate is computed."""


ANEW: Final = 0.5
"""The fraction of a counter below which the program counts as restarted."""


@dataclass(slots=True)
class Window:
    """Readings of one job's counters, the oldest first; times in seconds of one clock."""

    readings: deque[tuple[float, Mapping[str, float]]] = field(default_factory=deque)
    first: tuple[float, Mapping[str, float]] | None = None
    """The first reading, which excludes the program's start."""
    last: dict[str, float] = field(default_factory=dict)
    """The last value of each counter, also if a later reading lacks it."""

    def add(self, at: float, counters: Mapping[str, float]) -> None:
        """Adds a reading; counters that went far back belong to a restarted program, so earlier readings are dropped.

        Those that went back a little are unchanged: the job's values come from the processes that report, and one of them may have
        ended before the others.
        """
        if any(value < ANEW * self.last.get(key, 0.0) for key, value in counters.items()):
            self.readings.clear()
            self.last.clear()
            self.first = None
        counters = {key: max(value, self.last.get(key, 0.0)) for key, value in counters.items()}
        self.last |= counters
        self.first = self.first or (at, counters)
        self.readings.append((at, counters))
        # One reading older than the span stays, so that the span is covered.
        while len(self.readings) > 2 and self.readings[1][0] <= at - SPAN:
            self.readings.popleft()

    def rates(self) -> dict[str, float]:
        """What each counter gained a second; since its first reading if it came later."""
        gained = {}
        for key in self.readings[-1][1] if self.readings else ():
            first = next((at, counters[key]) for at, counters in self.readings if key in counters)
            at, last = self.readings[-1][0], self.readings[-1][1][key]
            if at - first[0] >= SHORTEST:
                gained[key] = (last - first[1]) / (at - first[0])
        return gained

    def overall(self) -> tuple[dict[str, float], float]:
        """What each counter gained a second since the first reading, and over how many seconds."""
        if self.first is None or not self.readings:
            return {}, 0.0
        (began, before), (at, last) = self.first, self.readings[-1]
        seconds = at - began
        if seconds < SHORTEST:
            return {}, seconds
        return {key: (last[key] - before[key]) / seconds for key in before if key in last}, seconds
