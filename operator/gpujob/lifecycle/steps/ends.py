"""How an attempt ends while its child Job lives, and how the job ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import Action, Finish, WriteStatus
from gpujob.lifecycle.attempts import (
    begun,
    end_attempt,
    ended_at,
    failures,
    failures_in_a_row,
    is_final,
    is_too_late,
    larger_memory,
    may_retry,
    pause,
    with_entry,
    with_failure,
)
from gpujob.lifecycle.endings import Ending
from gpujob.lifecycle.failures.failure import Failure
from gpujob.lifecycle.steps import lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import cost, progress, waits
from gpujob.status.job import job_status, status_patch
from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import State


def end(evaluation: Evaluation, child: ChildRecord, ending: Ending) -> WriteStatus:
    """Writes the end of an attempt before anything is deleted, so that a crash in between does not look like a loss."""
    started, job, now = evaluation.observe(child).started, evaluation.job, evaluation.now.text
    until = waits.write_time(lasting.run_clock(evaluation, begun(job, child, started, now)))
    return WriteStatus(end_attempt(job, child, ending, now, started, until))


def fail(evaluation: Evaluation, child: ChildRecord, failure: Failure) -> Action:
    """The end of an attempt whose child Job has not ended, and of the job where none is left."""
    if may_retry(evaluation.job, failure.blame, lasting.retry_clock(evaluation)):
        return try_again(evaluation, child, failure)
    seen = Observation(State.FAILED, failure.reason, failure.message, ended=evaluation.now.text)
    return fail_for_good(evaluation, child, seen, failure)


def try_again(evaluation: Evaluation, child: ChildRecord, failure: Failure) -> WriteStatus:
    """The end of an attempt that failed; another one follows after a pause."""
    job, server = evaluation.job, evaluation.now.server
    members = with_failure(job, failure.blame, evaluation.now.text)
    members["checkpoint"] = progress.after_failure(job.status, evaluation.view.telemetry.measured)
    if failure.fits and (memory := larger_memory(job, failure.fits)):
        members["gpuMemory"] = memory
    if failure.nodes:
        seconds = evaluation.timings.node_excluded
        members["excludedNodes"] = waits.with_excluded(
            evaluation.job_as_left_out.status, failure.nodes, child.attempt, failure.reason, server, seconds
        )
    ended = waits.read_time(ended_at(child, evaluation.now.text)) or server
    began = waits.read_time(job.status.get("startTime")) or ended
    number = failures_in_a_row(job, failure.blame, (ended - began).total_seconds(), evaluation.timings)
    until = waits.write_time(max(server, ended + timedelta(seconds=pause(number, evaluation.timings))))
    return end(evaluation, child, endings.failed(failure, members, until, child.attempt + 1))


def fail_for_good(evaluation: Evaluation, child: ChildRecord, seen: Observation, failure: Failure) -> Action:
    """The end of a job that is not tried again: its message has its retries after failures of this kind."""
    job = evaluation.job
    retried = failures(job).get(failure.blame.value.lower(), 0)
    too_late = is_too_late(job, lasting.retry_clock(evaluation))
    last = endings.seen_at_last(seen, failure, retried, too_late=too_late)
    return finish(evaluation, child, last, failure.blame.value)


def finish(evaluation: Evaluation, child: ChildRecord, seen: Observation, blame: str = "") -> Action:
    """The end of the job: its measurement is recorded, then its status is final."""
    job, now, telemetry = evaluation.job, evaluation.now.text, evaluation.view.telemetry
    status = job_status.placed(job, child, seen, now, telemetry)
    status = with_cost(evaluation, status, seen.ended)
    if blame and (checkpoint := progress.after_failure(job.status, telemetry.measured)):
        status |= {"checkpoint": checkpoint}
    status = with_entry(job, child, status, (seen.reason.value, blame, seen.message), seen.ended or now)
    new = not is_final(job) and status_patch.patch(job.status, status) is not None
    return Finish(child, status) if new else WriteStatus(status)


def with_cost(evaluation: Evaluation, status: dict[str, Any], ended: str = "") -> dict[str, Any]:
    """The status of a job whose attempt has run until now or `ended` (RFC 3339), with another cost where the server's clock jumps."""
    start, job, end = status.get("startTime"), evaluation.job, waits.read_time(ended)
    until = lasting.run_clock(evaluation, start)
    if until == evaluation.now.server if end is None else end <= until + timedelta(seconds=cost.CLOCKS):
        return status
    spent = cost.cost(job.status, table(status, "placement"), str(start or ""), until)
    said = job_status.without_blanks({**status, "cost": spent})
    return said | {"display": dict(table(status, "display")) | progress.display(said)}
