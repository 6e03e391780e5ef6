"""Which Job of a GPUJob is its one child, which ones must be deleted, and which pods of earlier attempts are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from gpujob.lifecycle.attempts import has_failed, is_child_name, last_attempt, next_attempt
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.values.names import attempt_in

TERMINAL = ("Succeeded", "Failed")


def current_child(job: JobRecord, children: Iterable[ChildRecord]) -> ChildRecord | None:
    """The child that the status records; without one, the next attempt's, else the last attempt's.

    A recorded name that no attempt of the job can have is not the operator's: then the newest live child counts.
    """
    by_attempt = {child.attempt: child for child in children}
    if name := job.status.get("jobName"):
        if not is_child_name(job, name):
            return max(by_attempt.values(), key=lambda child: (not child.ended, child.attempt), default=None)
        return next((child for child in by_attempt.values() if child.name == name), None)
    last = by_attempt.get(last_attempt(job))
    if last is not None and last.ended and has_failed(job, last.attempt):
        # It stays for its logs.
        last = None
    if last is not None and last.leaving:
        # Only its pods are waited for: a finalizer can keep the object without limit, and they end because it is deleted.
        last = None
    return by_attempt.get(next_attempt(job)) or last


def superfluous(job: JobRecord, children: Sequence[ChildRecord]) -> Iterator[ChildRecord]:
    """Live children that are neither recorded nor the next attempt: of a create that arrived late, or of a replaced leader.

    Without a record the last attempt's child is deleted too once the next one exists.
    """
    current = current_child(job, children)
    for child in sorted(children, key=lambda child: child.attempt):
        if child is not current and not child.ended and not child.leaving:
            yield child


def pods_of(child: ChildRecord, pods: Iterable[PodState]) -> list[PodState]:
    """The pods that a child controls."""
    return [pod for pod in pods if pod.child_uid == child.uid]


def live_pods(job: JobRecord, pods: Iterable[PodState]) -> list[PodState]:
    """The pods of all attempts that may still run; a pod counts by the name of its Job, because labels are untrusted. One that was
    asked to end before it had a node gets none any more.
    """
    mine = (pod for pod in pods if pod.phase not in TERMINAL and is_child_name(job, pod.child_name))
    return [pod for pod in mine if pod.node or not pod.leaving]


def without_owner(pods: Iterable[PodState]) -> list[str]:
    """The names of pods that run on although their Job was deleted, because that was done with `--cascade=orphan`."""
    return [pod.name for pod in pods if not pod.child_uid and not pod.leaving and pod.phase not in TERMINAL]


def message_of_wait(
    pods: Sequence[PodState],
    following: int,
    now: datetime | None = None,
    ready: Mapping[str, bool] = MappingProxyType({}),
) -> str:
    """Why the next attempt (`following`) waits for these pods of earlier ones, and what ends the wait: at a time of the API server
    (None: unknown) and with nodes that are ready or not, by name (unknown ones are absent).
    """
    overdue = [pod for pod in pods if seconds_of_grace(pod, now) == 0 and ready.get(pod.node)]
    first = (overdue or pods)[0]
    others = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    where = f" on node {first.node}" if first.node else ""
    waits = f"attempt {following} waits until pod {first.name} of attempt {attempt_in(first.child_name)}{where}{others} has ended"
    by_force = f"`kubectl delete pod {first.name} --force`"
    if overdue:
        return (
            f"{waits}; it was to end by {first.gone_at} and its node is Ready, so a process of it may hang in a driver or on a network "
            f"disk: `kubectl describe pod {first.name}` shows its last events, a restart of the node ends it. {by_force} ends only "
            f"this wait: use it where nothing of the pod runs"
        )
    if (seconds_of_grace(first, now) or 0) > 0:
        return f"{waits}; it has until {first.gone_at} to save and end"
    if not first.leaving and ready.get(first.node):
        return f"{waits}; nothing has asked it to end: `kubectl delete pod {first.name}` does"
    return f"{waits}; where its node is dead, {by_force} or the deletion of the node ends the wait"


def seconds_of_grace(pod: PodState, now: datetime | None) -> float | None:
    """The seconds that a pod which was asked to end has left by the API server's time; None if that is not known."""
    end = read_time(pod.gone_at) if pod.leaving and now is not None else None
    return max(0.0, (end - now).total_seconds()) if end is not None and now is not None else None
