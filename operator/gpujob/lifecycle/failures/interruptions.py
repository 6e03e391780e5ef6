"""Pods that were asked to end while their program ran: exit code 0 on SIGTERM is no end of the job.

Kubernetes counts such a pod as Succeeded, and its Job as Complete, because the exit code is all that it looks at. A program that
saves a checkpoint on SIGTERM and exits with 0 would lose the rest of its training.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.lifecycle.failures.causes import DISRUPTIONS, on_spot
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.failures.order import deleted_at, ended_by_suspension
from gpujob.status.attempts.waits import read_time
from gpujob.status.observe.child import EXITED
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import Reason


def cut_short(child: ChildRecord, pods: Sequence[PodState]) -> Failure | None:
    """What it is that a program ended on request because something else suspended its Job; None where none did.

    The Job counts a pod that ended so as done (exit code 0), or fails by its exit code.
    """
    failed_by = EXITED.match(child.message)
    named = failed_by[2] if failed_by else ""
    by_it = (pod for pod in pods if (child.paused or ended_by_suspension(child, pod)) and _ended_on_request(pod))
    pod = next((pod for pod in by_it if pod.exit_code == 0 or pod.name == named), None)
    if child.leaving or pod is None:
        return None
    no_end = ", which is no end of the job" if pod.exit_code == 0 else ""
    message = (
        f"child Job {child.name} was suspended, and the program of pod {pod.name} ended with exit code {pod.exit_code} when it was "
        f"asked to{no_end}"
    )
    return Failure(Blame.INFRASTRUCTURE, Reason.CHILD_SUSPENDED, message)


def interruption(child: ChildRecord, pods: Sequence[PodState]) -> Failure | None:
    """The failure of an attempt of which a pod is asked to end before its program ended, if that ends with exit code 0; None where none
    is."""
    if child.leaving or child.paused:
        # The operator, or who suspended the Job, ends its pods.
        return None
    pod = next((pod for pod in pods if _was_asked(pod) and not ended_by_suspension(child, pod)), None)
    if pod is None:
        return None
    reason = DISRUPTIONS.get(pod.disruption, Reason.EVICTED) if pod.disruption else Reason.POD_DELETED
    how = f"was taken away ({pod.disruption})" if pod.disruption else "was deleted"
    detail = f": {pod.disruption_message}" if pod.disruption_message else ""
    where = f" on node {pod.node}" if pod.node else ""
    end = "its program ended with exit code 0 when it was asked to, which is no end of the job"
    message = f"pod {pod.name}{where} {how}{detail}; {end}"
    return on_spot(child, Failure(Blame.INFRASTRUCTURE, reason, message))


def _was_asked(pod: PodState) -> bool:
    """Whether the deletion of a pod came before the end of its program, and the program did not fail."""
    return pod.leaving and not pod.exit_code and (pod.running or _ended_on_request(pod))


def _ended_on_request(pod: PodState) -> bool:
    asked, ended = deleted_at(pod), read_time(pod.ended)
    return pod.exit_code is not None and asked is not None and ended is not None and asked <= ended
