"""A histogram of durations: counts below bounds, so that many observations need a few numbers."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

BOUNDS: Final = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0,
)  # fmt: skip
"""Seconds: from the operator's own milliseconds to a day in the queue."""


@dataclass(slots=True)
class Durations:
    """Observed durations in seconds; each counts in the first bucket whose bound is not below it."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Counts one duration; a negative one, from clocks that disagree, counts as 0."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by bound, in Prometheus' form."""
        return list(zip([*(str(bound) for bound in BOUNDS), "+Inf"], map(float, accumulate(self.counts)), strict=True))
