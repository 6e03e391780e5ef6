"""Whose fault a failed attempt is: one table over the data of Kubernetes, the preflight and the program's last lines.

Each row reads all pods of the attempt, and the first row that applies to any of them decides: if a node removes one pod of a
gang, the others fail with errors of their own. docs/life.md shows the same table. Sources: k8s.io/api/core/v1 (DisruptionTarget
and its reasons), the kubelet
(pkg/kubelet/eviction, lifecycle, nodeshutdown), the Job controller (pkg/controller/job/pod_failure_policy.go), cudaError_t and
hipError_t for the messages of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gpujob.lifecycle.failures.device_faults import DeviceFault
from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.lifecycle.failures.order import First, exceeds_own_limit, fails_by_itself, is_late, lost_a_peer
from gpujob.status.observe.child import EXITED, Observation, disruption_kept, without_cause
from gpujob.status.records.device_words import broken_device
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.vocabulary import CapacityType, Reason

OF_KUBELET, OF_TAINTS = "TerminationByKubelet", "DeletionByTaintManager"
OF_EVICTIONS = "EvictionByEvictionAPI"

DISRUPTIONS: Final = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    OF_TAINTS: Reason.NODE_LOST,
    "DeletionByDeviceTaintManager": Reason.DEVICE_FAULT,
    "DeletionByPodGC": Reason.NODE_LOST,
    OF_EVICTIONS: Reason.EVICTED,
    OF_KUBELET: Reason.EVICTED,
}
"""Reasons of the pod condition DisruptionTarget; any other one is an eviction."""

POD_REASONS: Final = {
    "Evicted": Reason.EVICTED,
    "Preempting": Reason.PREEMPTED,
    "NodeLost": Reason.NODE_LOST,
    "NodeShutdown": Reason.NODE_LOST,
    "Shutdown": Reason.NODE_LOST,
    "Terminated": Reason.NODE_LOST,
    "UnexpectedAdmissionError": Reason.POD_NOT_ADMITTED,
    "NodeAffinity": Reason.POD_NOT_ADMITTED,
}
"""The kubelet's reasons for a pod that it ended or rejected (status.reason)."""

OUT_OF: Final = "OutOf"
"""How such a word begins where the node lacks a resource (OutOfcpu, OutOfamd.com/gpu, …)."""

RECLAIMED: Final = frozenset({Reason.EVICTED, Reason.PREEMPTED, Reason.NODE_LOST, Reason.POD_DELETED})
"""What the end of a spot node looks like: its pods are evicted, it shuts down, stops to answer, or is deleted with them."""

LOST_CONTAINER: Final = {("ContainerStatusUnknown", 137), ("Unknown", 255)}
"""Reason and exit code of a container that the kubelet (kubelet_pods.go) or containerd (cri/server/restart.go) does not find."""

PREFLIGHT: Final = frozenset({Reason.DEVICE_UNUSABLE, Reason.DEVICE_COUNT_MISMATCH})
"""Findings of the preflight about one node; the others are about the image or the job's spec."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a failed attempt: its child Job, its pods, the message of both, and the faults of its devices."""

    child: ChildRecord
    pods: Sequence[PodState]
    seen: Observation
    faults: Sequence[DeviceFault] = ()
    first: First | None = None
    """What was seen first: a request to end a pod, or a failure."""


class Cause(NamedTuple):
    """One row of the table in docs/life.md: what is seen and what that is called there, and the failures by it, one a pod."""

    seen: str
    called: str
    find: Callable[[Evidence], Iterable[Failure]]


def failure_of(
    child: ChildRecord,
    pods: Sequence[PodState],
    seen: Observation,
    faults: Sequence[DeviceFault] = (),
    first: First | None = None,
) -> Failure:
    """Why the attempt of a failed child Job failed, by the first row that applies; `seen` is its message, `faults` are those of its
    devices, `first` is what was seen first of it."""
    evidence = Evidence(child, pods, seen, faults, first)
    found = [failure for cause in CAUSES for failure in cause.find(evidence)]
    if not found:
        fits = [pod.ran_out.fits for pod in pods if pod.ran_out and pod.ran_out.fits]
        memory = max(fits, default=None) if seen.reason is Reason.GPU_OUT_OF_MEMORY else None
        return Failure(Blame.USER, seen.reason, seen.message, fits=memory)
    # Who deletes a pod says nothing against its node, and a node that was deleted is not there.
    alike = {each.node for each in found if each.reason is found[0].reason is not Reason.POD_DELETED}
    return on_spot(child, replace(found[0], nodes=tuple(sorted(alike - {""}))))


def on_spot(child: ChildRecord, failure: Failure) -> Failure:
    """A failure by which the cloud may have reclaimed a spot node is in no count of retries, and says nothing against the node."""
    if child.hint.placement.get("capacityType") != CapacityType.SPOT or failure.reason not in RECLAIMED:
        return failure
    message = f"{failure.message}; pool {child.hint.placement.get('pool')} is Spot, retries do not count it"
    return replace(failure, blame=Blame.SPOT, message=message, node="", nodes=())


def lost_with_node(pods: Iterable[PodState], ready: Mapping[str, bool]) -> list[PodState]:
    """Pods that Kubernetes evicted from a dead node: they stay Terminating, since no kubelet ends them."""
    evicted = (
        pod for pod in pods if pod.leaving and pod.disruption == OF_TAINTS and pod.phase not in ("Succeeded", "Failed")
    )
    return [pod for pod in evicted if ready.get(pod.node) is False]


def _faulty_devices(of: Evidence) -> Iterator[Failure]:
    """Pods that failed, or that a taint evicted, on nodes with a device fault."""
    for fault in of.faults:
        here = (pod for pod in of.pods if pod.node == fault.node)
        if any(pod.exit_code if not pod.disruption else pod.disruption == OF_TAINTS for pod in here):
            yield Failure(Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, f"{fault.message}; {of.seen.message}", fault.node)


def _disrupted(*reasons: str) -> Callable[[Evidence], Iterator[Failure]]:
    """Pods whose condition DisruptionTarget has one of these reasons."""

    def find(of: Evidence) -> Iterator[Failure]:
        for pod in of.pods:
            if pod.disruption in reasons and not _is_late(of, pod):
                yield _of_pod(DISRUPTIONS[pod.disruption], pod, pod.disruption, pod.disruption_message)

    return find


def _is_late(of: Evidence, pod: PodState) -> bool:
    """Whether a disruption came after the failure. A node or a device that breaks is said long after the pods that it fails."""
    broken = DISRUPTIONS.get(pod.disruption) in (Reason.NODE_LOST, Reason.DEVICE_FAULT)
    return not broken and is_late(of.child, pod, of.first)


def _disrupted_by_kubelet(of: Evidence) -> Iterator[Failure]:
    """What the kubelet reports about the pod is more exact than that it was the kubelet."""
    for pod in of.pods:
        if pod.disruption == OF_KUBELET and not _is_late(of, pod):
            reason = POD_REASONS.get(pod.pod_reason, DISRUPTIONS[OF_KUBELET])
            yield _of_pod(reason, pod, pod.disruption, pod.disruption_message)


def _disrupted_otherwise(of: Evidence) -> Iterator[Failure]:
    for pod in of.pods:
        other = pod.disruption == OF_EVICTIONS or pod.disruption not in DISRUPTIONS
        if pod.disruption and other and not _is_late(of, pod):
            yield _of_pod(Reason.EVICTED, pod, pod.disruption, pod.disruption_message)


def _ended_by_kubelet(reason: Reason) -> Callable[[Evidence], Iterator[Failure]]:
    """Pods that the kubelet ended or rejected with a word that means this reason."""

    def find(of: Evidence) -> Iterator[Failure]:
        for pod in of.pods:
            other = Reason.POD_NOT_ADMITTED if pod.pod_reason.startswith(OUT_OF) else None
            if POD_REASONS.get(pod.pod_reason, other) is reason and not exceeds_own_limit(pod):
                yield _of_pod(reason, pod, pod.pod_reason, pod.pod_message)

    return find


def _lost_by_node(of: Evidence) -> Iterator[Failure]:
    """Pods whose container was gone when the node, or its container runtime, was back."""
    for pod in of.pods:
        if (pod.reason, pod.exit_code) in LOST_CONTAINER:
            yield _of_pod(Reason.NODE_LOST, pod, pod.reason, "the node or its container runtime was started again")


def _refused_by_preflight(of: Evidence) -> Iterator[Failure]:
    seen = of.seen
    if seen.checked is not None and seen.reason in PREFLIGHT and seen.reason is seen.checked.reason:
        node = next((pod.node for pod in of.pods if pod.check and pod.check.reason is seen.reason), "")
        reason = Reason.DEVICE_FAULT if broken_device(seen.message) else seen.reason
        yield Failure(Blame.INFRASTRUCTURE, reason, seen.message, node)


def _not_together(of: Evidence) -> Iterator[Failure]:
    if of.seen.reason is Reason.RENDEZVOUS_TIMEOUT:
        yield Failure(Blame.INFRASTRUCTURE, of.seen.reason, of.seen.message)


def _last_lines(of: Evidence) -> Iterator[Failure]:
    for pod in of.pods:
        if pod.exit_code and pod.broken:
            named = "" if pod.broken in of.seen.message else f"; the last lines of pod {pod.name} say {pod.broken}"
            yield Failure(Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, f"{of.seen.message}{named}", pod.node)


def _kept_by_the_job(of: Evidence) -> Iterator[Failure]:
    """No pod that is known says it: the Job alone keeps that something took one away, and not what. A deletion by a user gives no pod
    this condition."""
    if (message := disruption_kept(of.child)) is not None:
        yield Failure(Blame.INFRASTRUCTURE, Reason.EVICTED, message)


def _deleted(of: Evidence) -> Iterator[Failure]:
    if _taken_away(of):
        node = _missing_node(of.child, of.pods)
        yield Failure(Blame.INFRASTRUCTURE, Reason.POD_DELETED, of.seen.message, node)


def _missing_node(child: ChildRecord, pods: Sequence[PodState]) -> str:
    """The node whose pod is gone; empty unless it is one."""
    gone = sorted(set(child.nodes) - {pod.node for pod in pods if not pod.gone})
    return gone[0] if len(gone) == 1 else ""


def _of_pod(reason: Reason, pod: PodState, word: str, message: str) -> Failure:
    detail = f": {message}" if message else ""
    where = f" on node {pod.node}" if pod.node else ""
    # A preempted or evicted pod does not show a faulty node.
    bad = reason in (Reason.NODE_LOST, Reason.POD_NOT_ADMITTED, Reason.DEVICE_FAULT) or word in (OF_KUBELET, "Evicted")
    return Failure(
        Blame.INFRASTRUCTURE, reason, f"pod {pod.name}{where} was taken away ({word}){detail}", pod.node if bad else ""
    )


def _taken_away(of: Evidence) -> bool:
    """Whether a pod is gone or was terminated from outside, and no program failed by itself before that."""
    child, pods = of.child, of.pods
    named = EXITED.match(child.message)
    if named and named[2] not in {pod.name for pod in pods}:
        # The Job controller keeps failed pods: a user deleted this one, and its program ended on SIGTERM in its own way.
        return True
    if of.first is First.FAILURE:
        return False
    by_itself = [pod for pod in pods if fails_by_itself(pod)]
    if by_itself:
        return lost_a_peer(of.child, by_itself, pods, of.first)
    if any(pod.exit_code and pod.leaving for pod in pods):
        return True
    failed = any(pod.phase == "Failed" for pod in pods)
    there = [pod for pod in pods if not pod.gone]
    return not failed and len(there) < child.pods and without_cause(child)


CAUSES: Final = (
    Cause(
        "a pod failed, or a taint evicted it, and its node reports a device fault that began during the attempt; or the kubelet "
        "reports a device of the pod as Unhealthy",
        "`DeviceFault`",
        _faulty_devices,
    ),
    Cause(
        "pod condition `DisruptionTarget`: DeletionByDeviceTaintManager",
        "`DeviceFault`",
        _disrupted("DeletionByDeviceTaintManager"),
    ),
    Cause(
        "pod condition `DisruptionTarget`: DeletionByTaintManager, DeletionByPodGC",
        "`NodeLost`",
        _disrupted(OF_TAINTS, "DeletionByPodGC"),
    ),
    Cause(
        "pod condition `DisruptionTarget`: PreemptionByScheduler", "`Preempted`", _disrupted("PreemptionByScheduler")
    ),
    Cause(
        "pod condition `DisruptionTarget`: TerminationByKubelet",
        "as the pod's `status.reason` says (below), else `Evicted`",
        _disrupted_by_kubelet,
    ),
    Cause("pod condition `DisruptionTarget`: EvictionByEvictionAPI, any other", "`Evicted`", _disrupted_otherwise),
    Cause(
        "pod `status.reason`: Evicted, unless a limit of the pod itself was exceeded (`emptyDir`, ephemeral storage)",
        "`Evicted`",
        _ended_by_kubelet(Reason.EVICTED),
    ),
    Cause("pod `status.reason`: Preempting", "`Preempted`", _ended_by_kubelet(Reason.PREEMPTED)),
    Cause(
        "pod `status.reason`: NodeLost, NodeShutdown, Shutdown, Terminated",
        "`NodeLost`",
        _ended_by_kubelet(Reason.NODE_LOST),
    ),
    Cause(
        "a container has the reason ContainerStatusUnknown (exit code 137) or Unknown (255): its node or container runtime "
        "restarted",
        "`NodeLost`",
        _lost_by_node,
    ),
    Cause(
        "pod `status.reason`: UnexpectedAdmissionError, NodeAffinity, OutOf…",
        "`PodNotAdmitted`",
        _ended_by_kubelet(Reason.POD_NOT_ADMITTED),
    ),
    Cause(
        "the preflight found a device that does not work, or another number of devices",
        "`DeviceUnusable`, `DeviceCountMismatch`; `DeviceFault` if its message means a broken device (below)",
        _refused_by_preflight,
    ),
    Cause("the pods of a gang did not find each other in time", "`RendezvousTimeout`", _not_together),
    Cause(
        "the last lines have a message of a broken device, or an Xid that means the device (below)",
        "`DeviceFault`",
        _last_lines,
    ),
    Cause(
        "no pod shows a cause (the operator was off when the pod went), and its Job says that a pod had the condition "
        "`DisruptionTarget`",
        "`Evicted`",
        _kept_by_the_job,
    ),
    Cause(
        "a pod is gone, or a client other than its Job controller asked it to end, and no program failed by itself and no pod exceeded "
        "a limit of its own before the second of that request",
        "`PodDeleted`",
        _deleted,
    ),
)
"""The causes that are the infrastructure's, in the order in which they are tried; any other failure is the user's."""
