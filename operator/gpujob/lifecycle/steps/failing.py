"""Attempts that fail: with their child Job, by a device or a node under them, or because a container does not start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import Action, ConfirmEnd, EndProbe, Nothing, WriteStatus
from gpujob.lifecycle.attempts import gone, may_retry
from gpujob.lifecycle.children import TERMINAL
from gpujob.lifecycle.failures.causes import failure_of, lost_with_node
from gpujob.lifecycle.failures.device_faults import DeviceFault, device_faults
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.failures.interruptions import interruption
from gpujob.lifecycle.failures.start_failures import start_failure
from gpujob.lifecycle.sightings import UNSEEN
from gpujob.lifecycle.steps import ends, lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import probe_runs
from gpujob.status.attempts.probe_runs import Result
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.untrusted import table, whole_number
from gpujob.values.vocabulary import Label, Reason, State


def ended(evaluation: Evaluation, child: ChildRecord, *, follows: bool) -> Action:
    """The child Job has ended: the end of the job, or of a failed attempt that another one follows."""
    job, seen = evaluation.job, evaluation.observe(child)
    if child.ended != "Failed":
        if _awaits_ended_pods(evaluation, child):
            return Nothing()
        if evaluation.view.pods_lag:
            return ConfirmEnd(child)
        if lowered := _with_fewer_pods(evaluation, child):
            return ends.finish(
                evaluation, child, replace(seen, state=State.FAILED, reason=Reason.CHILD_LOST, message=lowered)
            )
        failure = _interruption(evaluation, child)
        if failure is None or not follows or job.leaving:
            return ends.finish(evaluation, child, seen)
        return ends.fail(evaluation, child, failure)
    failure = evaluation.failure_in_vain(child)
    if failure is None and _awaits_failed_pod(evaluation, child):
        return Nothing()
    if failure is None and evaluation.view.pods_lag:
        return ConfirmEnd(child)
    if failure is None:
        pods = evaluation.known_pods
        failure = failure_of(child, pods, seen, _faults(evaluation, child, pods), evaluation.first_of(child))
    if not may_retry(job, failure.blame, lasting.retry_clock(evaluation)) or not follows or job.leaving:
        return ends.fail_for_good(evaluation, child, seen, failure)
    return ends.try_again(evaluation, child, failure)


def disowned(evaluation: Evaluation, child: ChildRecord) -> Action:
    """The end of an attempt whose child lost its label and is deleted; another one follows, as after a lost node."""
    job, what = evaluation.job, f"lost the label {Label.JOB_UID}, so the operator deleted it"
    if job.leaving:
        return WriteStatus(gone(job, evaluation.now.text))
    if job.spec.get("suspend") is True:
        return ends.end(evaluation, child, endings.suspension(child))
    if probe_runs.steps_of(child) is not None:
        return EndProbe(child, Result(str(child.hint.placement.get("pool", "")), unmeasured=what))
    return ends.fail(
        evaluation, child, Failure(Blame.INFRASTRUCTURE, Reason.CHILD_LOST, f"child Job {child.name} {what}")
    )


def succeeded(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether the program of an ended child did its work. If the status already records the end of the attempt (a suspension, for
    example), nothing else that the child shows counts."""
    unharmed = _interruption(evaluation, child) is None and not _with_fewer_pods(evaluation, child)
    return child.ended != "Failed" and unharmed


def _with_fewer_pods(evaluation: Evaluation, child: ChildRecord) -> str:
    """The sentence for a Job that is complete without all of its pods, because a user lowered its number of completions; empty if
    it is not."""
    status = evaluation.job.status
    placement = table(status, "placement") if status.get("jobName") == child.name else child.hint.placement
    placed, wanted = whole_number(placement.get("nodes")) or 1, 0 if child.emptied else child.pods
    if wanted >= placed:
        return ""
    return (
        f"someone else set spec.completions of child Job {child.name} from {placed} to {wanted}, and it ended without the other pods; "
        "create a new GPUJob to run it again"
    )


def moved_by_fault(evaluation: Evaluation, child: ChildRecord) -> Action | None:
    """The end of an attempt on broken devices: the program gets SIGTERM, and the next attempt runs elsewhere. If no attempt is
    left, the attempt runs on, since it may still succeed."""
    faults = _faults(evaluation, child, evaluation.pods) if _is_tried_again(evaluation, child) else []
    if not faults:
        evaluation.see(faulty=UNSEEN)
        return None
    if not may_retry(evaluation.job, Blame.INFRASTRUCTURE, lasting.retry_clock(evaluation)):
        return None
    if evaluation.seconds_left("faulty", child, evaluation.timings.device_fault) > 0:
        return None
    nodes = tuple(sorted({fault.node for fault in faults}))
    failure = Failure(Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, faults[0].message, faults[0].node, nodes=nodes)
    return ends.try_again(evaluation, child, failure)


def moved_by_loss(evaluation: Evaluation, child: ChildRecord) -> Action | None:
    """The end of an attempt whose node is dead: its pod is evicted and cannot end, so that its Job does not fail either."""
    lost = lost_with_node(evaluation.all_pods, evaluation.view.nodes_ready)
    if not lost or not _is_tried_again(evaluation, child):
        return None
    return ends.fail(evaluation, child, failure_of(child, lost, evaluation.observe(child)))


def ended_by_interruption(evaluation: Evaluation, child: ChildRecord) -> Action | None:
    """The end of a gang with a pod that ended on request with exit code 0 while the others wait for it without end."""
    failure = _interruption(evaluation, child)
    if (
        failure is None
        or not _is_tried_again(evaluation, child)
        or any(pod.leaving and pod.running for pod in evaluation.pods)
    ):
        return None
    since = evaluation.sightings.interrupted[1]
    left = since + evaluation.timings.interrupted - evaluation.now.elapsed
    evaluation.requeue(left)
    return ends.fail(evaluation, child, failure) if left <= 0 else None


def _interruption(evaluation: Evaluation, child: ChildRecord) -> Failure | None:
    """The failure by a pod that was asked to end before its program ended: now, or when this process last saw that pod."""
    found, held = interruption(child, evaluation.known_pods), evaluation.sightings.interrupted
    if held[0] == child.uid:
        return held[2]
    evaluation.see(interrupted=(child.uid, evaluation.now.elapsed, found) if found else ("", 0.0, None))
    return found


def ended_by_start(evaluation: Evaluation, child: ChildRecord) -> Action | None:
    """The end of an attempt with a container that does not start, so that the attempt holds no GPU any longer."""
    seconds = evaluation.timings.stuck
    said = evaluation.refused
    failure = start_failure(evaluation.pods, seconds, said) if not evaluation.job.status.get("startTime") else None
    if failure is None or not _is_tried_again(evaluation, child):
        evaluation.see(stuck=UNSEEN)
        return None
    return ends.fail(evaluation, child, failure) if evaluation.seconds_left("stuck", child, seconds) <= 0 else None


def _is_tried_again(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether another attempt can follow this one: none follows if the job is being deleted, and a probe is not an attempt."""
    return not evaluation.job.leaving and probe_runs.steps_of(child) is None


def _awaits_ended_pods(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether the watch of Jobs is ahead of that of pods: a complete Job has no running pod, and only its pods show whether one was
    asked to end."""
    if all(pod.phase in TERMINAL for pod in evaluation.pods):
        return False
    return evaluation.seconds_left("failed", child, evaluation.timings.failed_pods) > 0


def _awaits_failed_pod(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether the watch of Jobs is ahead of that of pods: only its pods show why a Job failed."""
    pods = evaluation.pods
    if len(pods) < child.pods or any(pod.phase == "Failed" for pod in pods):
        return False
    return evaluation.seconds_left("failed", child, evaluation.timings.failed_pods) > 0


def _faults(evaluation: Evaluation, child: ChildRecord, pods: Sequence[PodState]) -> list[DeviceFault]:
    measured = evaluation.view.telemetry.measured
    return list(device_faults(child, pods, evaluation.view.faults, measured.faults if measured else ()))
