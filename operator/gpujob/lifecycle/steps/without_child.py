"""A job without a child: it waits for the pods of its earlier attempts, for a pause or a budget, or is placed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.lifecycle.actions import Action, ConfirmLoss, EndUnseen, Nothing, Numbers, Schedule, WriteStatus
from gpujob.lifecycle.attempts import gone, last_attempt, next_attempt, pause_left
from gpujob.lifecycle.children import live_pods, message_of_wait, seconds_of_grace
from gpujob.lifecycle.failures.causes import lost_with_node
from gpujob.lifecycle.limits import nearest_limit
from gpujob.lifecycle.steps import lasting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.job import job_status
from gpujob.status.records.objects import PodState
from gpujob.values.names import child_name
from gpujob.values.untrusted import condition
from gpujob.values.vocabulary import ConditionType, Reason, State


def leaving_without_child(evaluation: Evaluation) -> Action:
    """A deleted job stays while a finalizer holds it; once none of its pods runs, its status says so, once."""
    job = evaluation.job
    if job.status.get("jobName"):
        return ConfirmLoss()
    if job.status.get("state") == State.QUEUED:
        return WriteStatus(gone(job, evaluation.now.text))
    return Nothing()


def without_child(evaluation: Evaluation) -> Action:
    """The next action of a job without a child that its status records or that its next attempt can have."""
    job, view, now = evaluation.job, evaluation.view, evaluation.now
    if job.status.get("jobName"):
        return ConfirmLoss()
    if error := view.spec_error:
        return _message_of_wait(
            evaluation, job_status.unreadable(job, Reason.INVALID_SPEC, error, now.text), Numbers.NEWS
        )
    if job.spec.get("suspend") is True:
        # A plan starts nothing, so that it does not wait.
        return Schedule()
    if (limited := _at_limit(evaluation)) is not None:
        return limited
    if (left := pause_left(job, lasting.pause_clock(evaluation), evaluation.timings)) > 0:
        evaluation.requeue(left)
        return Nothing()
    if (right := evaluation.with_right_exclusions()) is not None:
        return WriteStatus(right)
    if pods := _pods_in_the_way(evaluation):
        return _wait_for_pods(evaluation, pods)
    return Schedule() if view.over_budget == "" else _wait_for_budget(evaluation, view.over_budget)


def _wait_for_budget(evaluation: Evaluation, message: str | None) -> Action:
    """The namespace has spent its monthly budget, or (None) what it has spent is not known yet."""
    evaluation.requeue(evaluation.timings.budgets if message else 1.0)
    if not message:
        return Nothing()
    job, now = evaluation.job, evaluation.now.text
    # What the namespace has spent grows while other jobs of it run.
    status = job_status.queued(job, Reason.NAMESPACE_BUDGET_EXCEEDED, message, now)
    return _message_of_wait(evaluation, status, Numbers.MOVED)


def _at_limit(evaluation: Evaluation) -> Action | None:
    """The end, or the suspension, of a job whose attempts have reached a limit that may have been lowered since."""
    job, now = evaluation.job, evaluation.now
    limit = nearest_limit(job, job.status, now.server)
    if limit is None or limit.seconds_left > 0:
        return None
    if limit.reason is Reason.BUDGET_EXCEEDED:
        return WriteStatus(job_status.over_budget(job, limit.message, now.text))
    name = child_name(job.name, job.uid, last_attempt(job)) if last_attempt(job) else ""
    return WriteStatus(job_status.expired(job, job.status, limit.reason, limit.message, name, now.text))


def _wait_for_pods(evaluation: Evaluation, pods: list[PodState]) -> Action:
    """Two attempts never overlap: the earlier one may be saving its checkpoint."""
    evaluation.watches_nodes = True
    job, now = evaluation.job, evaluation.now.elapsed
    since = evaluation.sightings.ending if evaluation.sightings.ending is not None else now
    evaluation.see(ending=since)
    left = since + evaluation.timings.restarting - now
    if left > 0 and job.status.get("state") != State.RESTARTING:
        evaluation.requeue(left)
        return Nothing()
    if (unseen := _unseen_child(evaluation, pods)) is not None:
        return unseen
    for pod in pods:
        evaluation.requeue(seconds_of_grace(pod, evaluation.now.server) or 0)
    said = message_of_wait(pods, next_attempt(job), evaluation.now.server, evaluation.view.nodes_ready)
    return _message_of_wait(evaluation, job_status.restarting(job, said, evaluation.now.text), Numbers.NEWS)


def _message_of_wait(evaluation: Evaluation, status: Mapping[str, Any], numbers: Numbers) -> WriteStatus:
    """Writes why a job waits; `numbers`: how soon where its sentence alone is another one, which by itself is no reason to write."""
    before, after = (condition(held, ConditionType.PLACED).get("message") for held in (evaluation.job.status, status))
    return WriteStatus(status, Numbers.SAME if before == after else numbers)


def _unseen_child(evaluation: Evaluation, pods: list[PodState]) -> EndUnseen | None:
    """The deletion, from time to time, of a Job that no watch shows and whose pods run without a request to end."""
    known = {child.uid for child in (*evaluation.view.children, *evaluation.view.strays)}
    pod = next((pod for pod in pods if not pod.leaving and pod.child_uid not in known), None)
    if pod is None:
        return None
    now, cascade, (uid, asked) = evaluation.now.elapsed, evaluation.timings.cascade, evaluation.sightings.unseen
    left = (asked if uid == pod.child_uid else now) + cascade - now
    if uid != pod.child_uid or left <= 0:
        evaluation.see(unseen=(pod.child_uid, now))
    evaluation.requeue(left if left > 0 else cascade)
    return EndUnseen(pod.child_name, pod.child_uid) if left <= 0 else None


def _pods_in_the_way(evaluation: Evaluation) -> list[PodState]:
    """Pods of earlier attempts that may still run; none if their nodes are deleted or have been NotReady for long."""
    pods, now = live_pods(evaluation.job, evaluation.view.pods), evaluation.now.elapsed
    ready, bound = evaluation.view.nodes_ready, evaluation.timings.node_lost
    before = dict(evaluation.sightings.unready)
    unready = {pod.node: before.get(pod.node, now) for pod in pods if ready.get(pod.node) is False}
    evaluation.see(unready=tuple(sorted(unready.items())))
    for since in unready.values():
        evaluation.requeue(since + bound - now)
    lost = {node for node, since in unready.items() if now - since >= bound}
    # Kubernetes has waited for these already.
    lost |= {pod.node for pod in lost_with_node(pods, ready)}
    found = [pod for pod in pods if not pod.node or (pod.node in ready and pod.node not in lost)]
    if not found:
        evaluation.see(ending=None)
    return found
