"""Attempts of a job: which one is recorded, which follows, and the status at the end of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import takewhile
from typing import Any, Final

from gpujob.lifecycle.endings import Ending
from gpujob.lifecycle.failures.failure import UNBOUNDED, Blame
from gpujob.lifecycle.timings import Timings
from gpujob.status.attempts.cost import dollars
from gpujob.status.attempts.spending import gpus_of
from gpujob.status.attempts.waits import read_time, within
from gpujob.status.job import job_status
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.names import attempt_in, child_name
from gpujob.values.quantity import exact_dollars
from gpujob.values.untrusted import condition, table, tables, whole_number
from gpujob.values.vocabulary import ConditionType, Reason, State

REMEMBERED: Final = 5
"""The most attempts that a status lists."""

NODES: Final = 8
"""The most nodes that an attempt lists."""

RETRIES: Final = {Blame.USER: 0, Blame.INFRASTRUCTURE: 5}
"""The number of retries if spec.retries gives none."""

MOST_FACTOR: Final = 8
"""The largest spec.retries.memoryFactor."""

MEGABYTE: Final = 10**6


def is_final(job: JobRecord) -> bool:
    """Whether a job has ended and gets no further attempt."""
    return job.status.get("state") in (State.SUCCEEDED, State.FAILED)


def has_run(job: JobRecord) -> bool:
    """Whether all pods of the recorded attempt ran once, and the child Job was not suspended since."""
    return bool(job.status.get("startTime")) and job.status.get("state") not in (State.PLACED, State.STARTING)


def last_attempt(job: JobRecord) -> int:
    """The attempt that the status records; 0 before the first."""
    return whole_number(job.status.get("attempt")) or 0


def next_attempt(job: JobRecord) -> int:
    """The attempt of the next placement."""
    return last_attempt(job) + 1


def is_child_name(job: JobRecord, name: object) -> bool:
    """Whether a child of the job can have this name."""
    attempt = attempt_in(name) if isinstance(name, str) else None
    return attempt is not None and name == child_name(job.name, job.uid, attempt)


def is_retired(job: JobRecord, child: ChildRecord) -> bool:
    """Whether the status records that a child's attempt is over. A name that no child can have is no such record."""
    recorded = job.status.get("jobName")
    if recorded and not is_child_name(job, recorded):
        return False
    return child.attempt <= last_attempt(job) and recorded != child.name


def has_failed(job: JobRecord, attempt: int) -> bool:
    """Whether the status records that an attempt failed and another one follows: its child Job no longer matters."""
    entries = (entry for entry in tables(job.status, "attempts") if entry.get("blame"))
    return any(entry.get("attempt") == attempt for entry in entries)


def failures(job: JobRecord) -> dict[str, int]:
    """The number of failed attempts, from status.failures."""
    held = table(job.status, "failures")
    return {key: count for blame in Blame if (count := whole_number(held.get(key := blame.value.lower())))}


def retries(job: JobRecord, blame: Blame) -> int:
    """The number of retries after failures of this kind."""
    said = whole_number(table(job.spec, "retries").get(blame.value.lower()))
    return RETRIES[blame] if said is None else said


def newly_failed(job: JobRecord, status: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Pool, fault and reason of each failed attempt that a status lists and the job's own does not."""
    known = {entry.get("attempt") for entry in tables(job.status, "attempts") if entry.get("blame")}
    for entry in tables(status, "attempts"):
        if entry.get("blame") and entry.get("attempt") not in known:
            yield str(entry.get("pool") or ""), str(entry["blame"]), str(entry.get("reason"))


def larger_memory(job: JobRecord, fits: int) -> str | None:
    """What each GPU must have in the next attempt, where `fits` bytes would have held this one; None where the job does not say
    (spec.retries.memoryFactor)."""
    said = table(job.spec, "retries").get("memoryFactor")
    try:
        factor = Decimal(str(said)) if isinstance(said, str | int) and len(str(said)) <= 16 else Decimal(0)
    except InvalidOperation:
        return None
    if not 1 <= factor <= MOST_FACTOR:
        return None
    return f"{-(-int(fits * factor) // MEGABYTE)}M"


def may_retry(job: JobRecord, blame: Blame, now: datetime) -> bool:
    """Whether another attempt follows a failure of this kind at `now`, by its count and by spec.retries.withinSeconds."""
    if blame in UNBOUNDED:
        return True
    return failures(job).get(blame.value.lower(), 0) < retries(job, blame) and not is_too_late(job, now)


def is_too_late(job: JobRecord, now: datetime) -> bool:
    """Whether the time since the first failure in which the job is tried again is over."""
    within = whole_number(table(job.spec, "retries").get("withinSeconds"))
    first = read_time(job.status.get("failingSince"))
    return within is not None and first is not None and now >= first + timedelta(seconds=within)


def with_failure(job: JobRecord, blame: Blame, now: str) -> dict[str, Any]:
    """What a status reports about failures after one more of this kind."""
    if blame is Blame.KUBERNETES:
        return {}
    counts, kind, since = failures(job), blame.value.lower(), job.status.get("failingSince")
    if blame is Blame.SPOT:
        return {"failures": counts | {kind: counts.get(kind, 0) + 1}}
    first = since if read_time(since) is not None else now
    return {"failures": counts | {kind: counts.get(kind, 0) + 1}, "failingSince": first}


def failures_in_a_row(job: JobRecord, blame: Blame, ran: float | None, timings: Timings) -> int:
    """By how many failures of this kind the pause after another one grows, that one included.

    Spot nodes are reclaimed again and again in a long job, and a queue suspends it, so that only attempts in a row that ran shorter
    than the longest pause count there. `ran`: seconds that the one that fails now ran; None where status.attempts lists it.
    """
    if blame not in UNBOUNDED:
        return failures(job).get(blame.value.lower(), 0) + (ran is not None)
    ended = [_seconds_of(e) if e.get("blame") == blame else None for e in tables(job.status, "attempts")]
    short = 0
    for seconds in reversed([*ended, *(() if ran is None else (ran,))]):
        if seconds is None:
            break
        short += 1
        if seconds >= timings.retry_longest:
            break
    return min(max(short, 1), REMEMBERED)


def lost_rooms_in_a_row(job: JobRecord) -> int:
    """How many of the last attempts in a row lost their node before their pods were bound, as far as the status lists them."""
    reasons = (entry.get("reason") for entry in reversed(tables(job.status, "attempts")))
    return sum(1 for _ in takewhile(lambda reason: reason == Reason.NODE_TAKEN, reasons))


def control_plane_was_silent(job: JobRecord) -> bool:
    """Whether the last attempt ended because no scheduler or controller had processed its pods."""
    last = (tables(job.status, "attempts") or ({},))[-1]
    return last.get("reason") == Reason.CONTROL_PLANE_SILENT


def _seconds_of(entry: Mapping[str, Any]) -> float:
    """Seconds that an attempt ran; 0 if it did not."""
    began, ended = read_time(entry.get("from")), read_time(entry.get("to"))
    return (ended - began).total_seconds() if began and ended else 0.0


def pause(number: int, timings: Timings) -> float:
    """Seconds between the failure that is the `number`th of its kind (from 1) and the next attempt."""
    return min(timings.retry_longest, timings.retry_first * 2.0 ** min(number - 1, 32))


def pause_began(job: JobRecord) -> object:
    """When the last attempt ended (RFC 3339), as the status says it."""
    return _last_entry(job).get("to")


def _last_entry(job: JobRecord) -> Mapping[str, Any]:
    """The entry of the last attempt in the status; empty if it has none."""
    return next((entry for entry in tables(job.status, "attempts") if entry.get("attempt") == last_attempt(job)), {})


def pause_left(job: JobRecord, now: datetime, timings: Timings) -> float:
    """Seconds until the attempt after a failed one can follow; 0 if no pause is left.

    At most the pause itself: an entry from another clock delays no job.
    """
    last = _last_entry(job)
    ended, blame = read_time(last.get("to")), str(last.get("blame", ""))
    if ended is None or blame not in tuple(Blame):
        return 0.0
    whole = pause(max(1, failures_in_a_row(job, Blame(blame), None, timings)), timings)
    left = (ended + timedelta(seconds=whole) - now).total_seconds()
    return min(max(left, 0.0), whole)


def end_attempt(
    job: JobRecord, child: ChildRecord, ending: Ending, now: str, started: str = "", ran_until: str = ""
) -> dict[str, Any]:
    """The status of a job whose attempt ends at `now` (RFC 3339), or ended with its child Job before; another attempt can follow.

    It is written before the child is deleted and does not name the child, so that the child's deletion is no loss, whatever
    happens in between. The attempt's cost becomes part of `cost.earlier`. `started`: when its pods began to run, which the status
    says only if it was written while they ran. `ran_until`: now as the attempt counts its seconds, where the server's clock jumps.
    """
    until = ended_at(child, now)
    job = _as_begun(job, child, within(started, child.created, until))
    status = job_status.without_child(job, ending.state, ending.updates, ending.reason, now)
    counted = min(until, ran_until or until) if child.ended_at else ran_until or until
    status = job_status.with_cost(job, status, counted) | {"attempt": child.attempt} | dict(ending.members)
    why = ending.message or next((each.message for each in ending.updates if isinstance(each, ConditionUpdate)), "")
    return with_entry(job, child, job_status.without_blanks(status), (ending.reason.value, ending.blame, why), until)


def begun(job: JobRecord, child: ChildRecord, started: str, now: str) -> object:
    """When the child's attempt began, as the status says it or will."""
    return job.status.get("startTime") or within(started, child.created, ended_at(child, now))


def _as_begun(job: JobRecord, child: ChildRecord, started: str) -> JobRecord:
    """The job as its status would be, had it been written when the attempt began."""
    if not started or job.status.get("startTime") or is_retired(job, child):
        return job
    placement = table(job.status, "placement") or child.hint.placement
    return replace(job, status={**job.status, "jobName": child.name, "placement": placement, "startTime": started})


def ended_at(child: ChildRecord, now: str) -> str:
    """When an attempt ended: with its child Job, which may be an hour before an operator that was off sees it, else now."""
    return within(child.ended_at, child.created, now) or now


def gone(job: JobRecord, now: str, started: str = "", left: Sequence[str] = ()) -> dict[str, Any]:
    """The last status of a job whose child Job is gone: a user deleted it, or the job itself is being deleted. `started`: when its
    pods began to run, where no status says it; `left`: those that run on without it."""
    if started and not job.status.get("startTime"):
        job = replace(job, status={**job.status, "startTime": within(started, job.created, now)})
    status = job_status.deleted(job, now) if job.leaving else job_status.lost(job, now, left)
    if not (name := job.status.get("jobName")):
        return status
    attempt = attempt_in(str(name)) or last_attempt(job)
    why = condition(status, ConditionType.FAILED)
    placement = table(job.status, "placement")
    nodes = placement.get("nodeNames")
    names = [str(node) for node in nodes] if isinstance(nodes, list) else []
    return _listing(
        job,
        (attempt, placement, names),
        status,
        (str(why.get("reason")), "", str(why.get("message"))),
        now,
        job.status.get("startTime"),
    )


def with_entry(
    job: JobRecord, child: ChildRecord, status: dict[str, Any], why: tuple[str, str, str], now: str
) -> dict[str, Any]:
    """A status that lists the child's attempt, which ends at `now`; `why`: reason, fault (or empty) and message."""
    # A status that does not name the child yet belongs to the attempt before.
    mine = job.status.get("jobName") == child.name
    placement = table(job.status, "placement") if mine else child.hint.placement
    # If a job ends before its running was ever written, only the new status has its beginning.
    recorded = status if status.get("jobName") == child.name else job.status if mine else {}
    return _listing(job, (child.attempt, placement, child.nodes), status, why, now, recorded.get("startTime"))


def _listing(
    job: JobRecord,
    what: tuple[int, Mapping[str, Any], Sequence[str]],
    status: dict[str, Any],
    why: tuple[str, str, str],
    now: str,
    began: Any = None,
) -> dict[str, Any]:
    """The status with an entry for an attempt; `what`: its number, its placement and its nodes."""
    (attempt, placement, nodes), (reason, blame, message) = what, why
    spent = dollars(table(status, "cost").get("accrued")) if began else None
    before = dollars(table(job.status, "cost").get("earlier")) or 0
    entries = job_status.ended_attempts(job.status)
    held = next((each for each in entries if each.get("attempt") == attempt), {})
    entry = {
        "attempt": attempt,
        "pool": placement.get("pool"),
        "vendor": placement.get("vendor"),
        "nodes": list(nodes[:NODES]),
        "gpus": gpus_of(placement) or None,
        "from": began,
        "to": now,
        "cost": exact_dollars(max(0, spent - before)) if spent else None,
        "reason": reason,
        "blame": blame,
        "message": message[:256],
    }
    # The reason for its end (spec.suspend) is no longer known once it has ended.
    known = {key: held[key] for key in ("pool", "vendor", "nodes", "gpus", "from", "cost") if key in held}
    others = [each for each in entries if each.get("attempt") != attempt]
    return status | {"attempts": _remembered([*others, known | job_status.without_blanks(entry)])}


def _remembered(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last entries; the newest attempt that ran stays among them, because its vendor wrote the checkpoints."""
    last = entries[-REMEMBERED:]
    if any(entry.get("from") for entry in last):
        return last
    ran = [entry for entry in entries[:-REMEMBERED] if entry.get("from")]
    return [*ran[-1:], *last[len(ran[-1:]) :]] if len(last) == REMEMBERED else last
