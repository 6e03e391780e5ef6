"""Pods that were asked to end while their program ran: exit code 0 on SIGTERM is no end of the job.

Kubernetes counts such a pod as Succeeded, and its Job as Complete, because it reads the exit code alone. A program that
saves a checkpoint on SIGTERM and exits with 0 would lose the rest of its training.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.lifecycle.failures.causes import DISRUPTIONS, on_spot
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.failures.order import deleted_at
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import Reason


def interruption(child: ChildRecord, pods: Sequence[PodState]) -> Failure | None:
    """The failure of an attempt with a pod that was asked to end before its program ended, if the program then ends with exit code
    0; None if no pod was."""
    if child.leaving or child.paused:
        # The operator, or who suspended the Job, ends its pods.
        return None
    pod = next((pod for pod in pods if _end_was_requested(pod)), None)
    if pod is None:
        return None
    reason = DISRUPTIONS.get(pod.disruption, Reason.EVICTED) if pod.disruption else Reason.POD_DELETED
    how = f"was taken away ({pod.disruption})" if pod.disruption else "was deleted"
    detail = f": {pod.disruption_message}" if pod.disruption_message else ""
    where = f" on node {pod.node}" if pod.node else ""
    end = "its program ended with exit code 0 when it was asked to, which is no end of the job"
    message = f"pod {pod.name}{where} {how}{detail}; {end}"
    return on_spot(child, Failure(Blame.INFRASTRUCTURE, reason, message))


def _end_was_requested(pod: PodState) -> bool:
    """Whether the deletion of a pod came before the end of its program, and the program did not fail."""
    if not pod.leaving or pod.exit_code:
        return False
    asked, ended = deleted_at(pod), read_time(pod.ended)
    return pod.running or (pod.exit_code == 0 and asked is not None and ended is not None and asked <= ended)
