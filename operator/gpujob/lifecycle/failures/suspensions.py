"""Which pods of a child Job are of before a suspension that is over: other pods follow them, and how they end says nothing.

Three facts show it, of which each alone may be missing. The condition Suspended has the time of the resumption; the Job controller
never writes it where its write of the suspension meets that of the resumption. It takes its finalizer off each pod before it
deletes it for a suspension, and off others only once the Job fails, ends or is deleted (`deleteJobPods`, `deleteActivePods` in
pkg/controller/job/job_controller.go). And since the Job replaces no pod that it counts (backoffLimit 0), a pod with a newer one in
its place was not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from gpujob.lifecycle.failures.order import asked_at, deleted_at
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import ChildRecord, PodState

OVER: Final = ("Succeeded", "Failed")


def released(child: ChildRecord, pods: Sequence[PodState], known: Collection[str]) -> frozenset[str]:
    """The names of pods that end without their Job counting it: the `known` ones, and those that show it now.

    A pod shows it while it has not ended, since the finalizer of one that was counted is gone too. Nothing is learned once a pod has
    failed: the Job may fail by that, which the watch of Jobs shows later.
    """
    held = frozenset(pod.name for pod in pods if pod.name in known)
    if child.ended or child.leaving or child.failing_since:
        return held
    now = held | {pod.name for pod in pods if pod.released and _was_only_deleted(pod)}
    return held if any(pod.phase == "Failed" and pod.name not in now for pod in pods) else now


def of_before(child: ChildRecord, pods: Sequence[PodState], let_go: Collection[str]) -> frozenset[str]:
    """The names of the pods that a suspension has ended, of all that are known of a child; `let_go`: those of `released`."""
    ending = [pod for pod in pods if pod.leaving or pod.gone]
    if not ending:
        return frozenset()
    last: dict[int, tuple[str, bool]] = {}
    for pod in pods:
        if pod.index is not None:
            last[pod.index] = max(last.get(pod.index, _order(pod)), _order(pod))
    return frozenset(
        pod.name
        for pod in ending
        if _asked_before_resumption(child, pod)
        or (pod.name in let_go and _asked_before_failure(child, pod))
        or (pod.index is not None and _order(pod) < last[pod.index])
    )


def _order(pod: PodState) -> tuple[str, bool]:
    """Of two pods in one place the later one is greater; both may be created in one second, and then the first one ends."""
    return pod.created, not (pod.leaving or pod.gone)


def _asked_before_resumption(child: ChildRecord, pod: PodState) -> bool:
    asked, resumed = deleted_at(pod), read_time(child.resumed)
    return asked is not None and resumed is not None and asked <= resumed


def _asked_before_failure(child: ChildRecord, pod: PodState) -> bool:
    """Whether it was not the failing Job itself that asked the pod to end, and the suspension is over."""
    asked, began = asked_at(pod), read_time(child.failing_since)
    return not child.paused and (began is None or (asked is not None and asked < began))


def _was_only_deleted(pod: PodState) -> bool:
    """Whether a pod that has not ended was asked to, by a deletion alone: an eviction says why it asks."""
    return pod.phase not in OVER and not pod.disruption
