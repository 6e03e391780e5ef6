"""What a job has spent when: its attempts as spans of time, each with a pool, GPUs and dollars; `kubectl gpujob cost` and the monthly
budgets of namespaces add them up.

Statuses are hostile input: a span that cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpujob.status.attempts.cost import HOUR, dollars
from gpujob.status.attempts.waits import read_time
from gpujob.values.untrusted import table, tables, whole_number

MOST_GPUS = 1024 * 64
"""GPUs of the largest job."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job held GPUs: micro-dollars (None: no price was known) over `begin` to `end`, evenly."""

    pool: str
    gpus: int
    begin: datetime
    end: datetime
    cost: int | None

    def within(self, since: datetime, until: datetime) -> tuple[int, int | None]:
        """GPU-seconds and micro-dollars of the part between two times."""
        whole = (self.end - self.begin).total_seconds()
        part = (min(self.end, until) - max(self.begin, since)).total_seconds()
        if part <= 0 or whole <= 0:
            return 0, None if self.cost is None else 0
        return int(part * self.gpus), None if self.cost is None else int(self.cost * part / whole)


def spans(status: Mapping[str, Any], created: str, now: datetime) -> Iterator[Span]:
    """The spans of a job with this status: of each attempt that is listed, of the current one until `now`, and one for all
    attempts before those that are listed, whose pool is empty."""
    listed = {number: entry for entry in tables(status, "attempts") if (number := whole_number(entry.get("attempt")))}
    known, first = 0, now
    for entry in listed.values():
        begin, end, cost = read_time(entry.get("from")), read_time(entry.get("to")), dollars(entry.get("cost"))
        if begin is not None and end is not None and begin <= end:
            known, first = known + (cost or 0), min(first, begin)
            yield Span(_pool(entry), _gpus(entry.get("gpus")), begin, end, cost)
    begun, placement = read_time(status.get("startTime")), table(status, "placement")
    if begun is not None and whole_number(status.get("attempt")) not in listed:
        price = dollars(placement.get("pricePerHour"))
        end = read_time(status.get("completionTime")) or now
        cost = None if price is None else price * max(0, int((end - begun).total_seconds())) // HOUR
        first = min(first, begun)
        yield Span(_pool(placement), gpus_of(placement), begun, end, cost)
    spent = dollars(table(status, "cost").get("earlier")) or 0
    before = read_time(created) or datetime(1970, 1, 1, tzinfo=UTC)
    if spent > known and before < first and len(listed) > 1:
        yield Span("", 0, before, first, spent - known)


def gpus_of(placement: Mapping[str, Any]) -> int:
    """GPUs of a whole placement (status.placement)."""
    return min(_gpus(placement.get("nodes")) * _gpus(placement.get("gpusPerNode")), MOST_GPUS)


def _gpus(value: Any) -> int:
    return min(whole_number(value) or 0, MOST_GPUS)


def _pool(holder: Mapping[str, Any]) -> str:
    return str(holder.get("pool") or "")[:253]
