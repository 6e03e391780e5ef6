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

RESTARTED: Final = 0.5
"""The fraction of a counter below which the program counts as restarted."""


@dataclass(slots=True)
class Window:
    """Readings of one job's counters, the oldest first; times in seconds of one clock."""

    readings: deque[tuple[float, Mapping[str, float]]] = field(default_factory=deque)
    began: tuple[float, Mapping[str, float]] | None = None
    """The first reading, which excludes the program's start."""
    first: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The time and value of each counter's own first reading: one that is read before the first batch has no samples."""
    last: dict[str, float] = field(default_factory=dict)
    """The last value of each counter, also if a later reading lacks it."""

    def add(self, at: float, counters: Mapping[str, float]) -> None:
        """Adds a reading; counters that went far back belong to a restarted program, so earlier readings are dropped.

        Those that went back a little are unchanged: the job's values come from the processes that report, and one of them may have
        ended before the others.
        """
        if any(value < RESTARTED * self.last.get(key, 0.0) for key, value in counters.items()):
            self.readings.clear()
            self.last.clear()
            self.first.clear()
            self.began = None
        counters = {key: max(value, self.last.get(key, 0.0)) for key, value in counters.items()}
        self.last |= counters
        self.began = self.began or (at, counters)
        for key, value in counters.items():
            self.first.setdefault(key, (at, value))
        self.readings.append((at, counters))
        # One reading older than the span stays, so that the span is covered.
        while len(self.readings) > 2 and self.readings[1][0] <= at - SPAN:
            self.readings.popleft()

    def rates(self) -> dict[str, float]:
        """What each counter gained a second; since its first reading if it came later."""
        gained = {}
        for key in self.readings[-1][1] if self.readings else ():
            first = next((at, counters[key]) for at, counters in self.readings if key in counters)
            rate = self._rate(self.readings[0], first, (self.readings[-1][0], self.readings[-1][1][key]))
            if rate is not None:
                gained[key] = rate
        return gained

    def overall(self) -> tuple[dict[str, float], float]:
        """What each counter gained a second since its own first reading, and the seconds since the first reading of all."""
        if self.began is None or not self.readings:
            return {}, 0.0
        at, last = self.readings[-1]
        rates = {key: self._rate(self.began, self.first[key], (at, last[key])) for key in last}
        return {key: rate for key, rate in rates.items() if rate is not None}, at - self.began[0]

    @staticmethod
    def _rate(
        began: tuple[float, Mapping[str, float]], first: tuple[float, float], last: tuple[float, float]
    ) -> float | None:
        """The gain from a counter's first reading to its last; None for too short a time.

        One that came just now counted nothing while the program had made no step: without that, a job whose end follows would be
        measured by another counter than the same job at another time.
        """
        if last[0] - first[0] < SHORTEST and began[1].get("steps") == 0:
            first = began[0], 0.0
        seconds = last[0] - first[0]
        return (last[1] - first[1]) / seconds if seconds >= SHORTEST else None
