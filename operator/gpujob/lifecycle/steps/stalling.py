"""A running job that makes no step: its condition, and the end of the attempt where spec.stall asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.lifecycle import stalls
from gpujob.lifecycle.actions import Action
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.sightings import UNSEEN
from gpujob.lifecycle.stalls import Stall, StallAction
from gpujob.lifecycle.steps import ends, lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import probe_runs
from gpujob.status.job import conditions
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord
from gpujob.values.untrusted import is_true, tables
from gpujob.values.vocabulary import ConditionType, Reason, State


def stall(evaluation: Evaluation, child: ChildRecord) -> Stall | None:
    """Why the attempt stands still, once two readings over the time of two readings have shown it: a frozen process shows one long
    pause when it resumes, and on a busy machine the operator reads late."""
    job, runs = evaluation.job, evaluation.observe(child).state is State.RUNNING
    counts = runs and not job.leaving and probe_runs.steps_of(child) is None and job.status.get("jobName") == child.name
    measured = evaluation.view.telemetry.measured
    if measured is not None and not measured.compared:
        return None  # The other pods are being read: one that works ends the standstill, and who is behind is not known yet.
    # What never reported is counted from the beginning of the attempt.
    now = evaluation.now.server if measured else lasting.run_clock(evaluation, job.status.get("startTime"))
    found = stalls.stall_of(job, evaluation.view.telemetry, now) if counts else None
    if found is None:
        evaluation.see(stalled=UNSEEN)
        return None
    read_at = measured.at if measured else None
    if evaluation.sightings.stalled[0] != child.uid:
        evaluation.see(stalled_reading=read_at)
    left = evaluation.seconds_left("stalled", child, evaluation.timings.stall_confirmed)
    same = read_at is not None and read_at == evaluation.sightings.stalled_reading
    return found if left <= 0 and not same else None


def ended_by_stall(evaluation: Evaluation, child: ChildRecord, found: Stall) -> Action | None:
    """The end of an attempt that stands still, or of its job; None if the job runs on."""
    action = stalls.action_of(evaluation.job)
    if action is StallAction.TELL:
        return None
    # No node is left out: which one keeps the others waiting is a guess, and a ring of devices may have no one at fault.
    failure = Failure(Blame.INFRASTRUCTURE, Reason.STALLED, found.message)
    if action is StallAction.RESTART:
        return ends.fail(evaluation, child, failure)
    seen = Observation(State.FAILED, failure.reason, failure.message, ended=evaluation.now.text)
    return ends.finish(evaluation, child, seen, failure.blame.value)


def with_stall(evaluation: Evaluation, status: dict[str, Any], found: Stall | None) -> dict[str, Any]:
    """The status with the condition Stalled, True or no longer True."""
    update = _update(evaluation, status, found)
    if update is None:
        return status
    held = tables(status, "conditions")
    return status | {"conditions": conditions.merged(held, (update,), evaluation.job.generation, evaluation.now.text)}


def _update(evaluation: Evaluation, status: Mapping[str, Any], found: Stall | None) -> ConditionUpdate | None:
    if found is not None:
        message = f"{found.message}; the job runs on, spec.stall.action: Restart or Fail would end the attempt"
        return ConditionUpdate(ConditionType.STALLED, True, Reason.STALLED, message)
    held = is_true(status, ConditionType.STALLED)
    telemetry, now = evaluation.view.telemetry, evaluation.now.server
    works = stalls.is_fresh(telemetry.measured, now) and stalls.stall_of(evaluation.job, telemetry, now) is None
    return (
        ConditionUpdate(ConditionType.STALLED, False, Reason.STEPS_GO_ON, "the job works again")
        if held and works
        else None
    )
