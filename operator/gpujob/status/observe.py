"""What is the case with a job that has a child: Placed, Starting, Running, Succeeded or Failed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.finding import listed
from gpujob.fleet.arriving import Arriving
from gpujob.status.preflight import Check, verdict_of
from gpujob.status.records import ChildRecord, PodState
from gpujob.status.rendezvous import Ended, why_not_met
from gpujob.vocabulary import Reason, State


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's state with its reason and sentence; times as RFC 3339, empty where nothing happened yet."""

    state: State
    reason: Reason
    message: str
    started: str = ""
    ended: str = ""
    stuck: str = ""
    """Kubernetes' own word for what keeps a pod from starting (ImagePullBackOff, …); empty while nothing does."""
    checked: Check | None = None
    """What the preflights of all pods say together; None while they say nothing."""
    checking: bool = False
    """Whether a preflight has begun in the pod that is waited for: it takes its time, and nothing is wrong."""


FAILED_CREATE: Final = "FailedCreate"
"""What the Job controller's events say when a quota or an admission policy refuses pods; no status tells it."""


KILLED: Final = (137, 143)
"""Exit codes of a program that was told to end: SIGKILL and SIGTERM."""

OUT_OF_MEMORY: Final = "OOMKilled"

STUCK: Final = {
    # The kubelet swings between the two while it waits; one word keeps the status still.
    "ErrImagePull": "ImagePullBackOff",
    **{word: word for word in ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff")},
    **{word: word for word in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")},
}
"""Waiting reasons of a container that do not pass by themselves."""


def observe(child: ChildRecord, pods: Sequence[PodState], *, ran: bool = False) -> Observation:
    """The state of a child Job by its own conditions first, then by its pods; `ran`: all of them ran once.

    A job that ran is Running until its child Job has ended: a pod that just failed does not make it start again.
    """
    checked = verdict_of(((pod.name, pod.node, pod.check) for pod in pods), child.pods)
    seen = _observe(child, pods, ran=ran)
    if seen.state is State.FAILED and checked is not None and checked.passed is False and not seen.started:
        seen = replace(seen, reason=checked.reason, message=checked.message)
    return replace(seen, checked=checked)


def waits_for_devices(bare: Arriving) -> Observation:
    """What is the case while a node is there that was waited for, and its devices are not."""
    reason = Reason.WAITING_FOR_DEVICES
    message = f"node {bare.node} came at {bare.since} and offers no GPUs yet; they are waited for until {bare.until}"
    return Observation(State.PLACED, reason, message, stuck=reason.value)


def _observe(child: ChildRecord, pods: Sequence[PodState], *, ran: bool) -> Observation:
    started = _all_started(child, pods)
    if child.ended == "Complete":
        message = f"all {child.pods} pods ended well" if child.pods > 1 else "the pod ended well"
        return Observation(State.SUCCEEDED, Reason.SUCCEEDED, message, started, child.ended_at)
    if child.ended == "Failed":
        apart = why_not_met(map(_ended, pods), child.pods)
        reason = Reason.RENDEZVOUS_TIMEOUT if apart else Reason.POD_FAILED
        return Observation(State.FAILED, reason, apart or _why_failed(child, pods), started, child.ended_at)
    running = sum(pod.running for pod in pods)
    if running >= child.pods:
        where = next(pod.node for pod in pods if pod.running)
        message = f"all {child.pods} pods run" if child.pods > 1 else f"the pod runs on node {where}"
        return Observation(State.RUNNING, Reason.RUNNING, message, started)
    if ran or (len(pods) >= child.pods and all(pod.started for pod in pods)):
        return Observation(State.RUNNING, Reason.RUNNING, f"{running} of {child.pods} pods still run", started)
    return _not_running(child, pods, running)


def _not_running(child: ChildRecord, pods: Sequence[PodState], running: int) -> Observation:
    bound = [pod for pod in pods if pod.node and not pod.running]
    if not bound:
        return _not_bound(child, pods)
    waiting = next((pod for pod in bound if pod.waiting_reason), bound[0])
    if waiting.check is not None and not waiting.check.over:
        message = f"{running} of {child.pods} pods run; the preflight of pod {waiting.name} runs on node {waiting.node}"
        return Observation(State.STARTING, Reason.STARTING, message, checking=True)
    why = f": {waiting.waiting_reason}" if waiting.waiting_reason else ""
    detail = f" ({waiting.waiting_message})" if waiting.waiting_message else ""
    message = f"{running} of {child.pods} pods run; pod {waiting.name} starts on node {waiting.node}{why}{detail}"
    stuck = STUCK.get(waiting.waiting_reason, "")
    checking = waiting.check is not None and not stuck
    return Observation(State.STARTING, Reason.STARTING, message, stuck=stuck, checking=checking)


def _not_bound(child: ChildRecord, pods: Sequence[PodState]) -> Observation:
    """No pod has reached its node: usually for a moment, for longer where something refuses pods."""
    there = f"child Job {child.name} exists, {len(pods)} of {child.pods} pods are there"
    if len(pods) < child.pods:
        advice = f"{there}; if a quota or a policy refuses the others, `kubectl describe job {child.name}` says which"
        return Observation(State.PLACED, Reason.PLACED, advice, stuck=FAILED_CREATE)
    refused = next((pod for pod in pods if pod.waiting_reason), None)
    if refused is None:
        return Observation(State.PLACED, Reason.PLACED, there)
    message = f"pod {refused.name} is bound to no node: {refused.waiting_message}"
    return Observation(State.PLACED, Reason.PLACED, message, stuck=refused.waiting_reason)


def _all_started(child: ChildRecord, pods: Sequence[PodState]) -> str:
    """When the last pod of the job started, empty while one has not."""
    times = [pod.started for pod in pods if pod.started]
    return max(times) if len(times) >= child.pods else ""


def _ended(pod: PodState) -> Ended:
    return Ended(pod.name, pod.node, pod.index, bool(pod.started), _by_itself(pod), pod.missed)


def _by_itself(pod: PodState) -> bool:
    """Whether its program failed and was not told to end: the Job controller ends the others when the first one fails."""
    return bool(pod.exit_code) and (pod.exit_code not in KILLED or pod.reason == OUT_OF_MEMORY)


def _guilt(pod: PodState) -> tuple[bool, bool, bool, str]:
    """Sorts the pod first that is most likely the cause: one that only waited for it is not."""
    return pod.exit_code is None, not _by_itself(pod), pod.missed is not None, pod.name


def _why_failed(child: ChildRecord, pods: Sequence[PodState]) -> str:
    failed = sorted((pod for pod in pods if pod.phase == "Failed"), key=_guilt)
    gone = sorted(set(child.nodes) - {pod.node for pod in pods})
    if not failed and gone and child.reason == "BackoffLimitExceeded":
        nodes = "node" if len(gone) == 1 else "nodes"
        return (
            f"the pod on {nodes} {listed(gone)} is gone: the node or the pod was deleted, which is no fault of the "
            "program; create a new GPUJob to run it again"
        )
    if not failed:
        return f"child Job {child.name} failed: {child.reason} {child.message}".strip()
    first = failed[0]
    code = f" with exit code {first.exit_code}" if first.exit_code is not None else ""
    reason = f" ({first.reason})" if first.reason and first.reason != "Error" else ""
    detail = f": {first.message}" if first.message else ""
    return f"pod {first.name} on node {first.node} failed{code}{reason}{detail}"
