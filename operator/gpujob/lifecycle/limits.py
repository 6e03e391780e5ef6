"""Limits of a whole job, over all its attempts: running time (spec.activeDeadlineSeconds), dollars (placement.budget) and how
long it stays after its end (spec.ttlSecondsAfterFinished)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gpujob.status.attempts.cost import HOUR, dollars, running_seconds
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import JobRecord
from gpujob.values.errors import BadQuantity
from gpujob.values.finding import counted
from gpujob.values.quantity import MAX_BUDGET, format_dollars, parse_dollars
from gpujob.values.untrusted import table, tables, whole_number
from gpujob.values.vocabulary import ConditionType, Reason


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a job: in how many seconds of running it is reached (0 or less: it is), and what is said then."""

    reason: Reason
    seconds_left: float
    message: str


def nearest_limit(job: JobRecord, status: Mapping[str, Any], now: datetime) -> Limit | None:
    """The limit that a job with this status reaches first; None where it has none, or none that time brings nearer."""
    found = (limit for limit in (_deadline(job, status, now), _budget(job, status)) if limit is not None)
    return min(found, key=lambda limit: limit.seconds_left, default=None)


def _deadline(job: JobRecord, status: Mapping[str, Any], now: datetime) -> Limit | None:
    seconds = whole_number(job.spec.get("activeDeadlineSeconds"))
    if seconds is None:
        return None
    left = seconds - running_seconds(status, now)
    message = (
        f"the job has run for {counted(seconds, 'second')}, all attempts together, which is activeDeadlineSeconds; "
        "create a new GPUJob with a longer one to go on"
    )
    return Limit(Reason.DEADLINE_EXCEEDED, left, message)


def _budget(job: JobRecord, status: Mapping[str, Any]) -> Limit | None:
    budget, spent = budget_of(job), dollars(table(status, "cost").get("accrued")) or 0
    if budget is None:
        return None
    price = dollars(table(status, "placement").get("pricePerHour"))
    left = budget - spent
    seconds = 0.0 if left <= 0 else math.ceil(left * HOUR / price) if price else math.inf
    message = (
        f"the job has cost ${format_dollars(spent)}, all attempts together, and placement.budget is "
        f"${format_dollars(budget)}; raise it and the job goes on"
    )
    return Limit(Reason.BUDGET_EXCEEDED, seconds, message)


def budget_of(job: JobRecord) -> int | None:
    """placement.budget in micro-dollars; None where there is none."""
    said = table(job.spec, "placement").get("budget")
    try:
        return parse_dollars(said, MAX_BUDGET) if isinstance(said, str | int) else None
    except BadQuantity:
        return None


def seconds_to_live(job: JobRecord, now: datetime) -> float | None:
    """Seconds until a job that has ended is to be deleted; None where it stays."""
    ttl = whole_number(job.spec.get("ttlSecondsAfterFinished"))
    ended = read_time(end_of(job))
    if ttl is None or ended is None:
        return None
    return min(float(ttl), (ended + timedelta(seconds=ttl) - now).total_seconds())


def end_of(job: JobRecord) -> object:
    """status.completionTime, else when the condition Complete or Failed became true; None where no time says it."""
    if read_time(end := job.status.get("completionTime")) is not None:
        return end
    ends = (ConditionType.COMPLETE, ConditionType.FAILED)
    updates = (c for c in tables(job.status, "conditions") if c.get("type") in ends and c.get("status") == "True")
    return next((time for c in updates if read_time(time := c.get("lastTransitionTime"))), None)
