"""Jobs that need a person, for alerts: those that failed lately, that wait, that make no first step, and that stand still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from gpujob.cluster.metrics.collector import JobAlert
from gpujob.status.attempts.waits import read_time
from gpujob.status.job.telemetry import RECENT, Telemetry
from gpujob.status.records.objects import JobRecord
from gpujob.values.untrusted import condition, is_true, table, tables
from gpujob.values.vocabulary import ConditionType, Method, Reason, State

WITHOUT_PODS: Final = (State.QUEUED, State.RESTARTING, State.MISCONFIGURED, State.IMPOSSIBLE)
WITHOUT_RUNNING: Final = (State.PLACED, State.STARTING)
NOT_RUNNING: Final = frozenset({*WITHOUT_PODS, *WITHOUT_RUNNING})


def failed_jobs(jobs: Iterable[JobRecord], now: datetime) -> Iterator[JobAlert]:
    """The jobs that failed within the last RECENT."""
    for job in jobs:
        if job.status.get("state") != State.FAILED:
            continue
        ended = read_time(job.status.get("completionTime")) or _since(job, ConditionType.FAILED)
        if ended is not None and now - ended <= RECENT:
            yield JobAlert(job.namespace, job.name, _pool(job), _reason(job))


def waiting_jobs(jobs: Iterable[JobRecord]) -> Iterator[JobAlert]:
    """The jobs that are to run and do not, each since its place was given, taken or asked for."""
    for job in jobs:
        state = str(job.status.get("state") or "")
        if state not in NOT_RUNNING:
            continue
        reason = _reason(job)
        if reason in (Reason.CHILD_SUSPENDED, Reason.BEING_DELETED):
            continue
        since = _since(job, ConditionType.PLACED) or read_time(job.created)
        if since is not None:
            yield JobAlert(job.namespace, job.name, _pool(job), reason, state, since.timestamp())


def awaited_steps(
    jobs: Iterable[JobRecord], telemetry: Callable[[str], Telemetry], fresh: Callable[[Telemetry], bool]
) -> Iterator[JobAlert]:
    """The running jobs whose reporter says that no step was made yet; inference makes none."""
    for job in jobs:
        if job.status.get("state") != State.RUNNING:
            continue
        said, since = telemetry(job.uid), read_time(job.status.get("startTime"))
        measured = said.measured
        if since is None or measured is None or not fresh(said):
            continue
        serves = table(job.spec, "model").get("method") == Method.INFERENCE
        if not serves and not measured.counters.get("steps") and measured.last_step_at is None:
            yield JobAlert(job.namespace, job.name, _pool(job), since=since.timestamp())


def stalled_jobs(jobs: Iterable[JobRecord]) -> Iterator[JobAlert]:
    """The running jobs whose condition Stalled is True."""
    for job in jobs:
        if job.status.get("state") == State.RUNNING and is_true(job.status, ConditionType.STALLED):
            yield JobAlert(job.namespace, job.name, _pool(job))


def _pool(job: JobRecord) -> str:
    """The pool of a job, or the one that is nearest to taking it."""
    nearest = next(iter(tables(job.status, "candidates")), {})
    return str(table(job.status, "placement").get("pool") or nearest.get("pool") or "")


def _reason(job: JobRecord) -> str:
    return str(table(job.status, "display").get("reason") or "")


def _since(job: JobRecord, kind: ConditionType) -> datetime | None:
    return read_time(condition(job.status, kind).get("lastTransitionTime"))
