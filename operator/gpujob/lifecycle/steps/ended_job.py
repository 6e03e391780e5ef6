"""A job that has ended, and children that must be deleted in any case: an ended job stays ended, and at most one child lives."""

from __future__ import annotations

from itertools import chain

from gpujob.lifecycle import stalls
from gpujob.lifecycle.actions import Action, DeleteChild, DeleteJob, Nothing
from gpujob.lifecycle.attempts import has_failed
from gpujob.lifecycle.children import TERMINAL, pods_of, superfluous
from gpujob.lifecycle.failures.causes import lost_with_node
from gpujob.lifecycle.failures.start_failures import start_failure
from gpujob.lifecycle.limits import end_of, seconds_to_live
from gpujob.lifecycle.stalls import StallAction
from gpujob.lifecycle.steps import lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.lifecycle.steps.outliving import is_outlived
from gpujob.lifecycle.steps.reporting import report
from gpujob.status.records.objects import ChildRecord
from gpujob.values.untrusted import condition
from gpujob.values.vocabulary import ConditionType, Reason


def delete_leftovers(evaluation: Evaluation) -> Action | None:
    """The deletion of a Job that is not the job's one child, or of the pods that a deleted Job leaves behind."""
    view = evaluation.view
    strays = (stray for stray in view.strays if not stray.ended and not stray.leaving)
    if (extra := next(chain(superfluous(evaluation.job, view.children), strays), None)) is not None:
        return DeleteChild(extra)
    if (lingering := _lingering(evaluation)) is not None:
        return DeleteChild(lingering, pods_first=True)
    return None


def after_the_end(evaluation: Evaluation) -> Action:
    """An ended job stays ended; a child that outlives it is deleted, and later the job, if it has a time to live."""
    job, child = evaluation.job, evaluation.child
    if child is not None and _has_to_go(evaluation, child):
        return DeleteChild(child)
    if child is not None and _is_forged_end(evaluation, child):
        return report(evaluation, child)
    left = None if job.leaving else seconds_to_live(job, lasting.end_clock(evaluation, end_of(job)))
    if left is not None and left <= 0 and not (child is not None and not child.ended):
        return DeleteJob()
    evaluation.requeue(left or 0.0)
    return Nothing()


def _has_to_go(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether a job has ended while this child runs: at its deadline, or with an attempt that stands still, has no running program,
    or cannot end by itself."""
    job, pods = evaluation.job, evaluation.pods
    if child.ended or child.leaving:
        return False
    failed = condition(job.status, ConditionType.FAILED).get("reason")
    if job.spec.get("activeDeadlineSeconds") is not None and failed == Reason.DEADLINE_EXCEEDED:
        return True
    if is_outlived(child, pods):
        return True
    if not has_failed(job, child.attempt):
        return False
    if stalls.action_of(job) is not StallAction.TELL and failed == Reason.STALLED:
        return True
    stuck = start_failure(pods, 0.0) is not None and not any(pod.started for pod in pods)
    return stuck or bool(lost_with_node(pods, evaluation.view.nodes_ready))


def _is_forged_end(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether a status is final although the child Job has run on for long: the operator did not write it."""
    if child.ended or child.leaving:
        evaluation.see(forged_end=None)
        return False
    now = evaluation.now.elapsed
    since = now if evaluation.sightings.forged_end is None else evaluation.sightings.forged_end
    evaluation.see(forged_end=since)
    left = since + evaluation.timings.forged_end - now
    evaluation.requeue(left)
    return left <= 0


def _lingering(evaluation: Evaluation) -> ChildRecord | None:
    """A deleted Job whose pods run on, because a finalizer holds the Job and garbage collection waits for it."""
    seconds = evaluation.timings.cascade
    for child in (*evaluation.view.children, *evaluation.view.strays):
        pods = pods_of(child, evaluation.view.pods) if child.leaving and not child.ended else []
        if not any(pod.phase not in TERMINAL and not pod.leaving for pod in pods):
            continue
        if evaluation.seconds_left("lingering", child, seconds) <= 0:
            evaluation.see(lingering=(child.uid, evaluation.now.elapsed))
            evaluation.requeue(seconds)
            return child
    return None
