"""A namespace's monthly budget: what its jobs have spent in this month, and whether another one may start.

An admin writes the budget as an annotation of the Namespace. Jobs that run go on when it is spent; those that wait stay in the queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpujob.status.attempts.cost import dollars
from gpujob.status.attempts.spending import spans
from gpujob.status.attempts.waits import read_time, write_time
from gpujob.status.records.objects import JobRecord
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import MAX_BUDGET, exact_dollars, format_dollars, parse_dollars
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Annotation


@dataclass(frozen=True, slots=True)
class Ledger:
    """Micro-dollars that a namespace has spent from the first of a month until `counted`."""

    spent: int
    counted: datetime

    def text(self) -> str:
        """The ledger as JSON."""
        return json.dumps({"spent": exact_dollars(self.spent), "counted": write_time(self.counted)})


def read_ledger(text: Any) -> Ledger | None:
    """A ledger as `Ledger.text` wrote it; None for anything else."""
    try:
        held = json.loads(text) if isinstance(text, str) and len(text) < 1024 else None
    except (ValueError, RecursionError):
        return None
    spent, counted = (
        (dollars(held.get("spent")), read_time(held.get("counted"))) if isinstance(held, dict) else (None, None)
    )
    return None if spent is None or counted is None else Ledger(spent, counted)


def metered(ledger: Ledger | None, jobs: Iterable[JobRecord], now: datetime, counted: datetime | None = None) -> Ledger:
    """The ledger until `now`: its sum of this month, and what these jobs of the namespace spent since it was counted, or since
    `counted`.

    Without a ledger of this month everything since its first day counts. A ledger of the future is counted from now on.
    """
    if ledger is not None and counted is not None:
        ledger = Ledger(ledger.spent, counted)
    since, spent = first_of_month(now), 0
    if ledger is not None and ledger.counted >= since:
        since, spent = min(ledger.counted, now), ledger.spent
    for job in jobs:
        spent += sum(span.within(since, now)[1] or 0 for span in spans(job.status, job.created, now))
    return Ledger(min(spent, MAX_BUDGET), now)


def unreadable(namespace: str, written: str) -> str:
    """Why no job of a namespace may start: its budget, as the admin wrote it, cannot be read; empty where it can."""
    if _dollars(written) is not None:
        return ""
    return (
        f"annotation {Annotation.MONTHLY_BUDGET} of namespace {namespace} is {one_line(written[:64])!r}, which is no sum of "
        'US dollars; an admin writes it as a decimal in quotes, for example "5000.00"'
    )


def never(namespace: str, written: str) -> str:
    """Why no job of a namespace may start in any month: its budget cannot be read or is 0; empty otherwise."""
    if budget := _dollars(written):
        return ""
    if budget is None:
        return unreadable(namespace, written)
    return (
        f"annotation {Annotation.MONTHLY_BUDGET} of namespace {namespace} is {one_line(written[:64])!r}, a budget of $0.00; "
        "an admin raises it, or removes it"
    )


def uncounted(namespace: str, written: str) -> str:
    """A plan's sentence about a budget: it does not know what the namespace has spent."""
    if not (budget := _dollars(written)):
        return f"no job starts: {never(namespace, written)}"
    said = f"namespace {namespace} has a monthly budget of ${format_dollars(budget)}"
    return f"{said}; a plan does not count what its jobs have spent"


def refusal(namespace: str, written: str, ledger: Ledger, now: datetime) -> str:
    """Why no other job of a namespace may start now; empty where it may. `written`: the budget as the admin wrote it."""
    if (budget := _dollars(written)) is None:
        return unreadable(namespace, written)
    key = Annotation.MONTHLY_BUDGET
    spent = ledger.spent if ledger.counted >= first_of_month(now) else 0
    if spent < budget:
        return ""
    return (
        f"the jobs of namespace {namespace} have cost ${format_dollars(spent)} in {now:%Y-%m} and its monthly budget is "
        f"${format_dollars(budget)}; the job waits until {write_time(_next_month(now))}, or until an admin raises annotation {key}"
    )


def _dollars(written: str) -> int | None:
    """The budget as the admin wrote it, in micro-dollars; None if it cannot be read."""
    try:
        return parse_dollars(written, MAX_BUDGET)
    except BadQuantity:
        return None


def ledgers_of(data: Mapping[str, Any]) -> dict[str, Ledger]:
    """The ledgers of a ConfigMap's data, by namespace."""
    return {namespace: ledger for namespace, text in data.items() if (ledger := read_ledger(text)) is not None}


def first_of_month(now: datetime) -> datetime:
    """The beginning of the month in UTC."""
    return datetime(now.year, now.month, 1, tzinfo=UTC)


def _next_month(now: datetime) -> datetime:
    return datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
