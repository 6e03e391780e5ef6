"""Which Job of a GPUJob is its one child, which ones must be deleted, and which pods of earlier attempts are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpujob.lifecycle.attempts import has_failed, last_attempt, next_attempt
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.values.names import attempt_in, child_name

TERMINAL = ("Succeeded", "Failed")


def current_child(job: JobRecord, children: Iterable[ChildRecord]) -> ChildRecord | None:
    """The child that the status records; without one, the next attempt's, else the last attempt's.

    A recorded name that no attempt of the job can have is not the operator's: then the newest live child counts.
    """
    by_attempt = {child.attempt: child for child in children}
    if name := job.status.get("jobName"):
        if not _is_child_name(job, name):
            return max(by_attempt.values(), key=lambda child: (not child.ended, child.attempt), default=None)
        return next((child for child in by_attempt.values() if child.name == name), None)
    last = by_attempt.get(last_attempt(job))
    if last is not None and last.ended and has_failed(job, last.attempt):
        # It stays for its logs.
        last = None
    if last is not None and last.leaving and not last.ended:
        # Only its pods are waited for: a finalizer can keep the object without limit.
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
    """The pods of all attempts that may still run; a pod counts by the name of its Job, because labels are untrusted."""
    return [pod for pod in pods if pod.phase not in TERMINAL and _is_child_name(job, pod.child_name)]


def _is_child_name(job: JobRecord, name: object) -> bool:
    """Whether a child of the job can have this name."""
    attempt = attempt_in(name) if isinstance(name, str) else None
    return attempt is not None and name == child_name(job.name, job.uid, attempt)


def said_of(pods: Sequence[PodState], following: int) -> str:
    """Why the next attempt (`following`) waits for these pods of earlier ones."""
    first = pods[0]
    others = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    where = f" on node {first.node}" if first.node else ""
    return (
        f"attempt {following} waits until pod {first.name} of attempt {attempt_in(first.child_name)}{where}{others} has ended; "
        f"where its node is dead, `kubectl delete pod {first.name} --force` or the deletion of the node ends the wait"
    )
