"""Attempts of a job: which one is recorded, which follows, and the status in which one ends."""

from __future__ import annotations

from typing import Any

from gpujob.lifecycle.endings import Ending
from gpujob.status.job import job_status
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import State


def is_final(job: JobRecord) -> bool:
    """Whether a job has ended for good."""
    return job.status.get("state") in (State.SUCCEEDED, State.FAILED)


def has_run(job: JobRecord) -> bool:
    """Whether all pods of the recorded attempt ran once, and the child Job was not suspended since."""
    return bool(job.status.get("startTime")) and job.status.get("state") not in (State.PLACED, State.STARTING)


def last_attempt(job: JobRecord) -> int:
    """The attempt that the status records; 0 before the first."""
    return whole_number(job.status.get("attempt")) or 0


def next_attempt(job: JobRecord) -> int:
    """The attempt that a placement makes."""
    return last_attempt(job) + 1


def is_retired(job: JobRecord, child: ChildRecord) -> bool:
    """Whether the status records that the attempt of a child is over."""
    return child.attempt <= last_attempt(job) and job.status.get("jobName") != child.name


def end_attempt(job: JobRecord, child: ChildRecord, ending: Ending, now: str) -> dict[str, Any]:
    """The status of a job whose attempt ends at `now` (RFC 3339) although its child Job did not; another may follow.

    It is written before the child is deleted and does not name the child: so that the child's end is no loss, whatever
    happens in between. What the attempt has cost becomes part of `cost.earlier`.
    """
    status = job_status.without_child(job, ending.state, ending.claims, ending.reason, now)
    status = job_status.with_cost(job, status, now) | {"attempt": child.attempt} | dict(ending.members)
    return job_status.without_blanks(status)
