"""Bounded waits of an attempt that starts: for new nodes, for pods, for the scheduler, for a gang's Service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import ReadRefusal, WriteStatus
from gpujob.lifecycle.attempts import control_plane_was_silent, lost_rooms_in_a_row
from gpujob.lifecycle.endings import Ending
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.sightings import UNSEEN
from gpujob.lifecycle.steps import ends
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import waits
from gpujob.status.observe.child import why_not_bound
from gpujob.status.records.objects import ChildRecord
from gpujob.values.finding import counted, listed
from gpujob.values.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class AwaitedNodes:
    """Nodes that pods wait for: the remaining time, the new one without devices, and the last one that came without."""

    seconds_left: float
    bare: Arriving | None
    came: Arriving | None


@dataclass(frozen=True, slots=True)
class Unbound:
    """Pods without a node: the remaining time with their GPUs in seconds, the whole time, the reason, and the deadline."""

    seconds_left: float
    seconds: float
    why: str
    until: str
    rest: float
    """Seconds in which the job does not try the pool again."""
    refusal: str
    """The API server's words, where it refuses the pods."""
    lost: Mapping[str, LostRoom] = field(default_factory=dict)
    """The nodes that have no room for them, as `JobView.lost_rooms`."""
    silent: bool = False
    """Whether neither the scheduler nor an event has said anything of them."""


def awaited_nodes(evaluation: Evaluation, child: ChildRecord) -> AwaitedNodes | None:
    """What pods wait for that start on new nodes; None if no pod does.

    A new node without devices gets its own wait, once: another node would be one too many. It keeps this wait when its devices come,
    because the scheduler binds the pods only then.
    """
    pods = evaluation.pods
    if child.nodes or not child.hint.placement.get("provision") or evaluation.job.status.get("startTime"):
        return None
    if len(pods) >= child.pods and all(pod.node for pod in pods):
        return None
    evaluation.watches_nodes = True
    if _control_plane_is_silent(evaluation, child):
        # An autoscaler adds nodes for pods that the scheduler reports as unschedulable.
        evaluation.see(awaited=UNSEEN)
    bare, (held, came) = evaluation.view.bare_node, evaluation.sightings.came
    came = bare or (came if held == child.uid else None)
    evaluation.see(came=(child.uid, came))
    end = waits.end_of_wait(evaluation.sighted_at("awaited", child), came, evaluation.timings.provision)
    left = (end - evaluation.now.server).total_seconds()
    evaluation.requeue(left)
    return AwaitedNodes(left, bare and replace(bare, until=waits.write_time(end)), came)


def without_nodes(evaluation: Evaluation, child: ChildRecord, awaited: AwaitedNodes) -> Ending:
    """The end of an attempt that got no new nodes in time."""
    job, now, seconds = evaluation.job_as_left_out, evaluation.now.server, evaluation.timings.provision
    return endings.nodes_did_not_come(job, child, seconds, now, awaited.came, bare=awaited.bare is not None)


def unbound(evaluation: Evaluation, child: ChildRecord) -> Unbound | None:
    """The wait of pods on existing nodes, or of pods that the API server refuses; None if each pod is bound."""
    if child.paused or evaluation.job.status.get("startTime"):
        return None
    why = "" if evaluation.ending else why_not_bound(child, evaluation.pods, evaluation.refused)
    if not why:
        evaluation.see(unbound=UNSEEN, taken=UNSEEN, node_away=UNSEEN, control_plane_silent=UNSEEN)
        return None
    refusal = evaluation.refused if len(evaluation.pods) < child.pods else ""
    silent = _control_plane_is_silent(evaluation, child)
    if not (child.nodes or refusal or silent):
        return None
    evaluation.watches_nodes = True
    # Pods that are missing are no matter of room.
    lost = evaluation.view.lost_rooms if len(evaluation.pods) >= child.pods else {}
    if silent and not lost:
        evaluation.see(unbound=UNSEEN, taken=UNSEEN, node_away=UNSEEN)
        return _until_it_answers(evaluation, child, why)
    evaluation.see(control_plane_silent=UNSEEN)
    seconds = _unbound_seconds(evaluation, child)
    rest = seconds * evaluation.timings.rest_factor
    since, now = evaluation.sighted_at("unbound", child), evaluation.now.server
    if refusal and _is_refused_alike(evaluation, child, refusal):
        # What was refused on another pool in the same words is not accepted on this one by waiting.
        seconds = 0.0
    left = (since + timedelta(seconds=seconds) - now).total_seconds()
    left = min(left, _seconds_of_lost_rooms(evaluation, child, lost))
    evaluation.requeue(left)
    return Unbound(left, seconds, why, waits.write_time(now + timedelta(seconds=left)), rest, refusal, lost)


def _control_plane_is_silent(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether the scheduler has said nothing of the pods without a node, and no event says why others are missing: one of the two is
    away or busy, and no pool is to blame for that."""
    pods = evaluation.pods
    if any(pod.waiting_reason and not pod.node for pod in pods):
        return False
    return len(pods) >= child.pods or evaluation.view.refused == ""


def _until_it_answers(evaluation: Evaluation, child: ChildRecord, why: str) -> Unbound:
    """The wait for a scheduler or a controller: nothing shows whether it exists."""
    timings = evaluation.timings
    seconds = max(timings.control_plane_silent, _unbound_seconds(evaluation, child))
    if control_plane_was_silent(evaluation.job):
        seconds = min(seconds, timings.unbound_gang)
    left = evaluation.seconds_left("control_plane_silent", child, seconds)
    until = waits.write_time(evaluation.now.server + timedelta(seconds=left))
    return Unbound(left, seconds, why, until, rest=0.0, refusal="", silent=True)


def _silence(evaluation: Evaluation, child: ChildRecord, seconds: float) -> Failure:
    """That no scheduler or controller has processed the pods for so many seconds, and which one to check."""
    pods = [pod for pod in evaluation.pods if not pod.node]
    if missing := child.pods - len(evaluation.pods):
        are = "are" if missing > 1 else "is"
        what = f"{missing} of {counted(child.pods, 'pod')} {are} missing and no event says why; check kube-controller-manager"
    else:
        others = f" and {counted(len(pods) - 1, 'more pod')}" if pods[1:] else ""
        schedulers = sorted({pod.other_scheduler for pod in pods if pod.other_scheduler})
        which = f" (spec.schedulerName {listed(schedulers)})" if schedulers else ""
        check = "that schedulers of this name run" if schedulers else "kube-scheduler"
        what = f"no scheduler has looked at pod {pods[0].name}{others}{which}; check {check}"
    gave = f"the job gave the GPUs of pool {endings.pool_of(evaluation.job, child)} back, and no pool is left out"
    return Failure(Blame.KUBERNETES, Reason.CONTROL_PLANE_SILENT, f"for {seconds:g} seconds {what}; {gave}")


def _seconds_of_lost_rooms(evaluation: Evaluation, child: ChildRecord, lost: Mapping[str, LostRoom]) -> float:
    """How long the job waits for nodes that have no room for its pods; longer with each attempt in a row that lost one."""
    timings, left, row = evaluation.timings, math.inf, lost_rooms_in_a_row(evaluation.job)
    for name, seconds, passes in ("taken", timings.taken, False), ("node_away", timings.node_away, True):
        if any(each.passes is passes for each in lost.values()):
            longer = min(seconds * 2**row, max(seconds, timings.taken_longest))
            left = min(left, evaluation.seconds_left(name, child, longer))
        else:
            evaluation.see(**{name: UNSEEN})
    return left


def _is_refused_alike(evaluation: Evaluation, child: ChildRecord, words: str) -> bool:
    job = evaluation.job_as_left_out
    return bool(waits.refused_alike(job.status, endings.pool_of(job, child), words, evaluation.now.server))


def end_of(evaluation: Evaluation, child: ChildRecord, unbound: Unbound) -> WriteStatus:
    """Writes the end of an attempt with pods that had no node for too long."""
    if unbound.silent:
        return ends.try_again(evaluation, child, _silence(evaluation, child, unbound.seconds))
    return ends.end(evaluation, child, _ending_of(evaluation, child, unbound))


def _ending_of(evaluation: Evaluation, child: ChildRecord, unbound: Unbound) -> Ending:
    job, now, why = evaluation.job_as_left_out, evaluation.now.server, unbound.why
    if unbound.lost:
        return endings.without_room(job, child, unbound.lost, lost_rooms_in_a_row(job) + 1)
    if unbound.refusal:
        return endings.refused(job, child, why, unbound.refusal, unbound.seconds, unbound.rest, now)
    return endings.not_bound(job, child, why, unbound.seconds, unbound.rest, now)


def _unbound_seconds(evaluation: Evaluation, child: ChildRecord) -> float:
    """How long pods hold the GPUs of nodes to which the scheduler does not bind all of them."""
    timings = evaluation.timings
    return min(timings.unbound, timings.unbound_gang) if child.pods > 1 else timings.unbound


def action_for_refusal(evaluation: Evaluation, child: ChildRecord) -> ReadRefusal | None:
    """The action that reads events, if pods of a starting child have been missing, or one could not start containers, for long
    enough."""
    pods = evaluation.pods
    unready = next((pod.name for pod in pods if pod.unready and not pod.leaving), "")
    starts = len(pods) >= child.pods and not unready
    if child.paused or starts or evaluation.ending or evaluation.job.status.get("startTime"):
        evaluation.see(refused=("", 0.0, 0))
        return None
    now, timings = evaluation.now.elapsed, evaluation.timings
    uid, since, reads = evaluation.sightings.refused
    if uid != child.uid:
        since, reads = now, 0
        evaluation.see(refused=(child.uid, since, reads))
    if reads >= timings.refused_reads:
        return None
    # The first read after once, the next after three times, then seven times as long: each wait is twice the one before.
    left = since + timings.refused * (2 ** (reads + 1) - 1) - now
    evaluation.requeue(left)
    if left > 0:
        return None
    evaluation.see(refused=(child.uid, since, reads + 1))
    return ReadRefusal(child, unready if len(pods) >= child.pods else "")


def lost_service(evaluation: Evaluation) -> bool:
    """Whether a gang's Service has been missing for longer than two watches can differ."""
    if not evaluation.view.lacks_service:
        evaluation.see(no_service=None)
        return False
    now, since = evaluation.now.elapsed, evaluation.sightings.no_service
    if since is None:
        evaluation.see(no_service=now)
    left = (now if since is None else since) + evaluation.timings.service - now
    evaluation.requeue(left)
    if left <= 0:
        evaluation.see(no_service=None)
    return left <= 0
