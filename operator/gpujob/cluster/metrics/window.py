"""How fast a job is: what its counters gained over the last minutes, so that a slow step does not show as a stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SPAN: Final = 120.0
"""Seconds over which a rate is taken."""

SHORTEST: Final = 5.0
"""Seconds below which no rate is told."""


ANEW: Final = 0.5
"""The share of a counter below which a program is taken to have begun anew."""


@dataclass(slots=True)
class Window:
    """Readings of one job's counters, the oldest first; times in seconds of one clock."""

    readings: deque[tuple[float, Mapping[str, float]]] = field(default_factory=deque)
    first: tuple[float, Mapping[str, float]] | None = None
    """The first reading, of which the program's start is no part."""
    last: dict[str, float] = field(default_factory=dict)
    """What each counter said last, also where a reading since then lacked it."""

    def add(self, at: float, counters: Mapping[str, float]) -> None:
        """Takes a reading; counters that went far back are of a program that began anew, so what was before is let go.

        Those that went back a little are as they were: the job's are worked out from the processes that report, and one of them
        may have ended before the others.
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
        """What each counter gained a second; of a counter that came later, since it came."""
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
