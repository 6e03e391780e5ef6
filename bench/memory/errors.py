"""How far the estimate is from a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from bench.memory.rows import Measured, Metric
from gpujob.memory.allocator import allocator_overhead
from gpujob.memory.estimate import Estimate, estimate


@dataclass(frozen=True, slots=True)
class Error:
    """A measurement beside its estimate."""

    measured: Measured
    estimate: Estimate

    @property
    def predicted(self) -> int:
        """The estimate of what was read, in bytes: `expected`, or for reserved memory `high` without the contexts."""
        if self.measured.metric is Metric.RESERVED:
            return self.estimate.high - allocator_overhead.contexts(self.measured.workload)
        return self.estimate.expected

    @property
    def relative(self) -> float:
        """Predicted over measured, less one; positive: the estimate is too high."""
        return self.predicted / self.measured.peak - 1

    @property
    def above_high(self) -> float:
        """What the device showed as used over the estimate's high, less one; positive: high would not have been enough."""
        return self.measured.device / self.estimate.high - 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The errors of one table, as parts of one."""

    rows: int
    median: float
    worst: float
    within_15: float
    within_25: float
    above_high: float
    band: float
    """Median of high over expected."""


def of(rows: Iterable[Measured]) -> list[Error]:
    """Each row with its estimate."""
    return [Error(row, estimate(row.workload)) for row in rows]


def summary(errors: Iterable[Error]) -> Summary:
    """The summary of the rows that fitted."""
    fitted = [error for error in errors if error.measured.fitted]
    sizes = [abs(error.relative) for error in fitted]
    return Summary(
        rows=len(fitted),
        median=statistics.median(sizes),
        worst=max(sizes),
        within_15=sum(size <= 0.15 for size in sizes) / len(sizes),
        within_25=sum(size <= 0.25 for size in sizes) / len(sizes),
        above_high=max(error.above_high for error in fitted),
        band=statistics.median(error.estimate.high / error.estimate.expected for error in fitted),
    )
