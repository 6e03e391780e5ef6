"""The pods of a child Job from before a suspension that has ended: other pods replace them, and their end is no failure.

Three facts show such a pod, and each may be missing. The condition Suspended has the time of the resumption; the Job controller
never writes it if its write of the suspension meets that of the resumption. The Job controller removes its finalizer from each pod
before it deletes the pod for a suspension, and from other pods only once the Job fails, ends or is deleted (`deleteJobPods`,
`deleteActivePods` in pkg/controller/job/job_controller.go). The Job replaces no pod that it counts (backoffLimit 0), so a pod that
another pod with its index follows was not counted: after a suspension, or because the Job controller created two after it lost the
answer to its first request (it then deletes one in the same way).

Such a pod can still fail its Job if it is Failed and exists when the Job controller reads it: podFailurePolicy applies to all pods
(`getFailJobMessage`). Neither the program nor a node is to blame for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.failures.order import First, deleted_at, end_requested_at, fails_by_itself
from gpujob.status.attempts.waits import read_time
from gpujob.status.observe.child import EXITED, named_pod
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import Reason

OVER: Final = ("Succeeded", "Failed")


def released(child: ChildRecord, pods: Sequence[PodState], known: Collection[str]) -> frozenset[str]:
    """The names of pods that end without their Job counting it: the `known` ones, and those that show it now.

    A pod shows it while it has not ended, since the finalizer of one that was counted is gone too. Nothing is learned once a pod has
    failed: the Job may fail by that, which the watch of Jobs shows later; but the pod by which a Job says that it failed has failed
    after that. Those that are gone stay known until others follow them.
    """
    held = frozenset(known)
    new = {pod.name for pod in pods if pod.released and _was_only_deleted(pod)} - held
    if child.ended or child.leaving or child.failing_since:
        return held | (new & {named_pod(child)})
    if not new or any(pod.phase == "Failed" and pod.name not in new | held for pod in pods):
        return held
    return (held & {pod.name for pod in pods}) | new


def fails_job_in_vain(child: ChildRecord, pods: Sequence[PodState], let_go: Collection[str]) -> str:
    """The name of the pod that fails its Job although the Job controller had ended it itself; empty if none does. `let_go` as for
    `of_before`, with its result."""
    name = named_pod(child)
    pod = next((pod for pod in pods if pod.name == name), None)
    if pod is None:
        return name if name in let_go else ""
    ended_by_suspension = child.paused and pod.leaving
    return name if (name in let_go or ended_by_suspension) and not fails_by_itself(pod) else ""


def may_fail_job_in_vain(child: ChildRecord, pods: Sequence[PodState], first: First | None) -> str:
    """The name of the pod that fails its Job and may be one that the Job controller had ended itself; empty if none is.

    An operator that was off while that pod ended sees that it is gone, or that it was asked to end and has no finalizer, and not by
    what. The Job says which pod it was, and by its generation whether something suspended it, since that writes its spec. Where it
    is not certain, nothing is to blame. `first`: what was seen first; a request that was seen as such is certain.
    """
    exited, seen = EXITED.match(child.message), first in (First.REQUEST, First.FAILURE)
    if exited is None or seen or child.generation < (2 if child.paused else 3):
        return ""
    pod = next((pod for pod in pods if pod.name == exited[2]), None)
    return exited[2] if pod is None or (pod.released and not fails_by_itself(pod)) else ""


def replaced(child: ChildRecord, pod: str, *, certain: bool = True) -> Failure:
    """The failure of an attempt whose Job failed by such a pod."""
    why = (
        "which the Job controller had ended itself, for a suspension or as a second pod in one place: neither the program nor a node "
        "is to blame"
        if certain
        else "which was asked to end; the Job was suspended before, so that the Job controller may have asked it: nothing is blamed"
    )
    message = f"child Job {child.name} failed because of pod {pod}, {why}"
    return Failure(Blame.KUBERNETES, Reason.POD_REPLACED, message)


def of_before(child: ChildRecord, pods: Sequence[PodState], let_go: Collection[str]) -> frozenset[str]:
    """The names of the pods that the Job controller has ended itself, among all known pods of a child; `let_go`: those of
    `released`."""
    ending = [pod for pod in pods if pod.leaving or pod.gone]
    if not ending:
        return frozenset()
    last: dict[int, tuple[bool, str]] = {}
    for pod in pods:
        if pod.index is not None:
            last[pod.index] = max(last.get(pod.index, _order(pod)), _order(pod))
    return frozenset(
        pod.name
        for pod in ending
        if _requested_before_resumption(child, pod)
        or (pod.name in let_go and _requested_before_failure(child, pod))
        or (pod.index is not None and _order(pod) < last[pod.index])
    )


def _order(pod: PodState) -> tuple[bool, str]:
    """Of two pods in one place the one that stays is greater, or, where both end, the later one."""
    return not (pod.leaving or pod.gone), pod.created


def _requested_before_resumption(child: ChildRecord, pod: PodState) -> bool:
    asked, resumed = deleted_at(pod), read_time(child.resumed)
    return asked is not None and resumed is not None and asked <= resumed


def _requested_before_failure(child: ChildRecord, pod: PodState) -> bool:
    """Whether it was not the failing Job itself that asked the pod to end, and the suspension is over."""
    asked, began = end_requested_at(pod), read_time(child.failing_since)
    return not child.paused and (began is None or (asked is not None and asked < began))


def _was_only_deleted(pod: PodState) -> bool:
    """Whether a pod that has not ended was asked to, by a deletion alone: an eviction says why it asks."""
    return pod.phase not in OVER and not pod.disruption
