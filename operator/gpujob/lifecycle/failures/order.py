"""What came first in an attempt: a request from outside to end one of its pods, or a program that failed by itself.

In a gang each brings about the other: pods that lose a peer fail with errors of their own, and the Job controller deletes the
peers of a pod that failed. What the operator saw first is certain, since it sees pods in the order of their writes. Otherwise
times decide, and these are whole seconds: the Job controller writes FailureTarget when it begins to delete pods, so that an
earlier request is not its own, and it acts a second after a pod's failure at the earliest (syncJobBatchPeriod), so that a request
in the second of a failure came before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from gpujob.status.attempts.waits import read_time
from gpujob.status.observe.child import EXITED, OUT_OF_MEMORY, fails_by_exit
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import KILLED

OWN_LIMITS: Final = (
    "exceeds the limit",
    "exceeded its local ephemeral storage limit",
    "exceeds the total limit of containers",
)
"""The message of an eviction that enforces a limit of the pod itself: it happens on any node."""


LAST_DELETION: Final = 30.0
"""Seconds within which the kubelet deletes a pod for good once its containers have ended: it unmounts its volumes first. An operator
that was off has seen only this deletion, and the request before it is lost (`with_first_request`)."""


class First(Enum):
    """What was seen of an attempt while the other was not there yet."""

    REQUEST = "request"
    """A pod was to end, and no program had failed."""
    FAILURE = "failure"
    """A program had failed by itself, and no other pod was to end."""
    BOTH = "both"
    """Both at once: times decide."""


def seen_first(child: ChildRecord, pods: Sequence[PodState]) -> First | None:
    """What these pods show; None while neither is there, and where who ends the pods is known to be the Job itself."""
    failed = [pod for pod in pods if fails_by_itself(pod)]
    asked = any(_end_is_requested(pod) for pod in pods if pod not in failed)
    if child.leaving or child.paused or not (failed or asked):
        return None
    if (failed and asked) or read_time(child.failing_since):
        return First.BOTH
    return First.FAILURE if failed else First.REQUEST


def deleted_at(pod: PodState) -> datetime | None:
    """When the deletion of a pod was requested; None without one. Its deletionTimestamp is the end of its grace."""
    end = read_time(pod.gone_at)
    return end - timedelta(seconds=pod.grace) if end else None


def fails_by_itself(pod: PodState) -> bool:
    """Whether a program failed without a request to end. Launchers end on SIGTERM with exit code 1 (torchrun)."""
    if exceeds_own_limit(pod):
        return True
    if not pod.exit_code or pod.reason == OUT_OF_MEMORY or pod.ran_out is not None:
        return bool(pod.exit_code)
    return not (_end_is_requested(pod) and pod.exit_code in KILLED) and not _end_was_requested_before(
        pod, read_time(pod.ended)
    )


def lost_a_peer(child: ChildRecord, failed: Sequence[PodState], pods: Sequence[PodState], first: First | None) -> bool:
    """Whether these pods failed because another one was asked to end before, by someone other than their Job."""
    if any(pod.ran_out is not None or pod.reason == OUT_OF_MEMORY or exceeds_own_limit(pod) for pod in failed):
        return False
    if first in (First.REQUEST, First.FAILURE):
        return first is First.REQUEST
    ends = [read_time(pod.ended) for pod in failed]
    requests = [
        time
        for pod in pods
        if pod not in failed and (time := end_requested_at(pod)) and not _by_its_job(child, pod, time)
    ]
    return bool(requests) and all(end is not None and min(requests) <= end for end in ends)


def is_late(child: ChildRecord, pod: PodState, first: First | None) -> bool:
    """Whether a pod was disrupted only after its Job had begun to fail by an exit code."""
    began, disrupted = read_time(child.failing_since), read_time(pod.disrupted_at)
    if first is First.REQUEST or not (began and disrupted and fails_by_exit(child)):
        return False
    return disrupted > began


def end_requested_at(pod: PodState) -> datetime | None:
    """When something asked a pod to end: its deletion or its disruption, whichever came first; None where no time says it."""
    return min((time for time in (deleted_at(pod), read_time(pod.disrupted_at)) if time), default=None)


def exceeds_own_limit(pod: PodState) -> bool:
    """Whether the kubelet evicted a pod for a limit of its own."""
    return pod.pod_reason == "Evicted" and any(limit in pod.pod_message for limit in OWN_LIMITS)


def _end_is_requested(pod: PodState) -> bool:
    return pod.leaving or bool(pod.disruption)


def _end_was_requested_before(pod: PodState, ended: datetime | None) -> bool:
    """Whether something asked a pod to end before its program ended."""
    deleted, disrupted = deleted_at(pod), read_time(pod.disrupted_at)
    if ended is None:
        return False
    last = ended if pod.grace else ended + timedelta(seconds=LAST_DELETION)
    return (deleted is not None and deleted <= last) or (disrupted is not None and disrupted <= ended)


def _by_its_job(child: ChildRecord, pod: PodState, time: datetime) -> bool:
    """Whether the Job controller asked a pod to end at this time, because another one had failed."""
    began, exited = read_time(child.failing_since), EXITED.match(child.message)
    return began is not None and time >= began and not (exited and exited[2] == pod.name)
