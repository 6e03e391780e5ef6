"""The state of a job with a child: Placed, Starting, Running, Succeeded or Failed, and the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.fleet.pools.arriving import Arriving
from gpujob.status.attempts.probe_runs import steps_of
from gpujob.status.records.gpu_memory import RanOut
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.preflight import Check, verdict_of
from gpujob.status.records.refused_pods import FAILED_CREATE, remedy_of
from gpujob.status.records.rendezvous import Ended, why_not_met
from gpujob.values.finding import counted, listed
from gpujob.values.quantity import format_bytes, format_dollars
from gpujob.values.vocabulary import KILLED, Reason, State


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's state with its reason and sentence; times as RFC 3339, empty if not reached yet."""

    state: State
    reason: Reason
    message: str
    started: str = ""
    ended: str = ""
    stuck: str = ""
    """Kubernetes' own reason why a pod does not start (ImagePullBackOff, …); empty without one."""
    checked: Check | None = None
    """The common result of all pods' preflights; None while there is none."""
    checking: bool = False
    """Whether a preflight has begun in the pod that is waited for: it takes its time, without a fault."""


CLAIMS_REMEDY: Final = (
    "see `kubectl describe pvc`: a claim needs a StorageClass of `kubectl get storageclass`, or a PersistentVolume"
)
"""The message if the scheduler names claims."""

STUCK: Final = {
    # The kubelet alternates between the two while it waits; one word keeps the status stable.
    "ErrImagePull": "ImagePullBackOff",
    **{word: word for word in ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff")},
    **{word: word for word in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")},
}
"""Waiting reasons of a container that are permanent."""


BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DISRUPTED: Final = re.compile(r"Pod [^ /]+/([^ ]+) has condition DisruptionTarget matching FailJob rule at index \d+")
EXITED: Final = re.compile(
    r"Container ([^ ]+) for pod [^ /]+/([^ ]+) failed with exit code (\d+) matching FailJob rule at index \d+"
)
"""What the Job controller reports about a Job that failed by a rule of its podFailurePolicy (pkg/controller/job/pod_failure_policy.go);
it outlives the pods."""


def fails_by_exit(child: ChildRecord) -> bool:
    """Whether a program that ended failed a Job: by a rule, or, as one of `KILLED`, by backoffLimit alone."""
    return EXITED.match(child.message) is not None or child.reason == BACKOFF_LIMIT_EXCEEDED


def named_pod(child: ChildRecord) -> str:
    """The pod by which a rule of its podFailurePolicy failed a Job; empty if none did."""
    exited, disrupted = EXITED.match(child.message), DISRUPTED.match(child.message)
    return exited[2] if exited else disrupted[1] if disrupted else ""


def without_cause(child: ChildRecord) -> bool:
    """Whether a failed Job only shows that a pod is gone, or that its program was terminated."""
    exited = EXITED.match(child.message)
    return int(exited[3]) in KILLED if exited else child.reason == BACKOFF_LIMIT_EXCEEDED


def disruption_kept(child: ChildRecord) -> str | None:
    """The sentence about the pod with the condition DisruptionTarget by the Job's own message; None where the message names none."""
    named = DISRUPTED.match(child.message)
    return f"pod {named[1]} was taken away (DisruptionTarget) and is gone" if named else None


def observe(
    child: ChildRecord, pods: Sequence[PodState], *, ran: bool = False, refused: str = "", ending: int = 0
) -> Observation:
    """The state of a child Job by its own conditions first, then by its pods; `ran`: all of them ran once; `refused`: what the API
    server reports about pods that it does not create; `ending`: how many pods of before a suspension that is over still end.

    A job that ran is Running until its child Job has ended: a pod that just failed does not start it again. Only a suspension of
    the child stops all pods, and starts them again on resumption.
    """
    if ending and not (child.ended or child.paused or pods):
        return Observation(State.PLACED, Reason.CHILD_SUSPENDED, _resumed(child, ending))
    checked = verdict_of(((pod.name, pod.node, pod.check) for pod in pods), child.pods)
    seen = _observe(child, pods, ran=ran, refused=refused)
    if seen.state is State.FAILED and checked is not None and checked.passed is False and not seen.started:
        seen = replace(seen, reason=checked.reason, message=checked.message)
    if seen.state is State.RUNNING and (steps := steps_of(child)) is not None:
        message = f"{seen.message}; this is a probe of {counted(steps, 'step')}, the job itself follows"
        seen = replace(seen, reason=Reason.PROBING, message=message)
    return seen if checked is None else replace(seen, checked=checked)


def ended_pods(child: ChildRecord, pods: Sequence[PodState]) -> Observation:
    """What programs that ended show, whatever else runs in their pods: as if Kubernetes called those that failed Failed."""
    failed = [replace(pod, phase="Failed") if pod.exit_code else pod for pod in pods]
    reason, message = _why_failed(child, failed)
    return Observation(State.FAILED, reason, message)


def waits_for_devices(bare: Arriving) -> Observation:
    """The state while a new node exists without its devices."""
    reason = Reason.WAITING_FOR_DEVICES
    message = f"node {bare.node} came at {bare.since} and offers no GPUs yet; they are waited for until {bare.until}"
    return Observation(State.PLACED, reason, message, stuck=reason.value)


def why_not_bound(child: ChildRecord, pods: Sequence[PodState], refused: str = "") -> str:
    """The message about pods without a node, with the remedy; empty if each has one. `refused` as for `observe`."""
    if len(pods) < child.pods:
        return _not_there(child, pods, refused)
    pod = next((pod for pod in pods if not pod.node), None)
    if pod is None:
        return ""
    what = f": {pod.waiting_message}" if pod.waiting_message else ""
    scheduler = f"scheduler {pod.other_scheduler}" if pod.other_scheduler else "the scheduler"
    what = what or ("" if pod.waiting_reason else f": {scheduler} has not looked at it")
    remedy = f" ({CLAIMS_REMEDY})" if "PersistentVolumeClaim" in pod.waiting_message else ""
    return f"pod {pod.name} is bound to no node{what}{remedy}"


def with_other_price(seen: Observation, pool: str, decided: int, now: int) -> Observation:
    """What is reported about an attempt that runs while its pool has another price than was decided, in micro-dollars an hour."""
    prices = f"pool {pool} costs ${format_dollars(now)} an hour now, this attempt goes on at ${format_dollars(decided)}"
    return replace(seen, message=f"{seen.message}; {prices}")


def held_in_vain(seen: Observation, until: str, *, silent: bool) -> Observation:
    """The state while pods hold GPUs of nodes to which they are not bound, with the deadline; `silent`: nothing says why."""
    message = f"{seen.message}; the job gives its GPUs back at {until} if that stays so"
    return replace(seen, reason=Reason.CONTROL_PLANE_SILENT if silent else Reason.UNSCHEDULABLE, message=message)


def _observe(child: ChildRecord, pods: Sequence[PodState], *, ran: bool, refused: str) -> Observation:
    started = _all_started(child, pods)
    if child.ended == "Complete":
        message = f"all {child.pods} pods ended well" if child.pods > 1 else "the pod ended well"
        return Observation(State.SUCCEEDED, Reason.SUCCEEDED, message, started, child.ended_at)
    if child.ended == "Failed":
        reason, message = _why_failed(child, pods)
        if apart := why_not_met(map(_ended, pods), child.pods):
            reason, message = Reason.RENDEZVOUS_TIMEOUT, apart
        return Observation(State.FAILED, reason, message, started, child.ended_at)
    running = sum(pod.running for pod in pods)
    if child.paused and not running:
        return Observation(State.PLACED, Reason.CHILD_SUSPENDED, _suspended(child), started)
    if running >= child.pods:
        return Observation(State.RUNNING, Reason.RUNNING, _all_run(child, pods), started)
    if ran or (len(pods) >= child.pods and all(pod.started for pod in pods)):
        return Observation(State.RUNNING, Reason.RUNNING, f"{running} of {child.pods} pods still run", started)
    return _not_running(child, pods, running, refused)


def _suspended(child: ChildRecord) -> str:
    resume = f'`kubectl patch job {child.name} -p \'{{"spec":{{"suspend":false}}}}\'`'
    return (
        f"child Job {child.name} is suspended, so no pod of it runs; its GPUs stay reserved and its cost continues; "
        f"{resume} lets it run again, spec.suspend of the GPUJob gives the GPUs back"
    )


def _resumed(child: ChildRecord, ending: int) -> str:
    left = counted(ending, "pod")
    how = "end" if ending > 1 else "ends"
    return f"child Job {child.name} was suspended and resumed; {left} of before {how} first, then new ones follow"


def _not_running(child: ChildRecord, pods: Sequence[PodState], running: int, refused: str) -> Observation:
    bound = [pod for pod in pods if pod.node and not pod.running]
    if not bound or (refused and len(pods) < child.pods):
        return _not_bound(child, pods, refused)
    unready = [pod for pod in bound if refused and pod.unready]
    waiting = next((pod for pod in (*unready, *bound) if pod.waiting_reason), bound[0])
    if waiting.check is not None and not waiting.check.over:
        message = f"{running} of {child.pods} pods run; the preflight of pod {waiting.name} runs on node {waiting.node}"
        return Observation(State.STARTING, Reason.STARTING, message, checking=True)
    why = f": {waiting.waiting_reason}" if waiting.waiting_reason else ""
    said = waiting.waiting_message or (refused if waiting.unready else "")
    detail = f" ({said})" if said else ""
    message = f"{running} of {child.pods} pods run; pod {waiting.name} starts on node {waiting.node}{why}{detail}"
    stuck = STUCK.get(waiting.waiting_reason, "")
    checking = waiting.check is not None and not stuck
    return Observation(State.STARTING, Reason.STARTING, message, stuck=stuck, checking=checking)


def _not_bound(child: ChildRecord, pods: Sequence[PodState], refused: str) -> Observation:
    """No pod has reached its node: usually for a moment, for longer if something rejects pods."""
    if len(pods) < child.pods:
        return Observation(State.PLACED, Reason.PLACED, _not_there(child, pods, refused), stuck=FAILED_CREATE)
    waiting = next((pod for pod in pods if pod.waiting_reason), None)
    if waiting is None:
        return Observation(State.PLACED, Reason.PLACED, _there(child, pods))
    # The waiting pod is reported, whichever of them the sentence names.
    return Observation(
        State.PLACED, Reason.PLACED, why_not_bound(child, [waiting] * child.pods), stuck=waiting.waiting_reason
    )


def _there(child: ChildRecord, pods: Sequence[PodState]) -> str:
    return f"child Job {child.name} exists, {len(pods)} of {child.pods} pods are there"


def _not_there(child: ChildRecord, pods: Sequence[PodState], refused: str) -> str:
    described = f"`kubectl describe job {child.name}`"
    if not refused:
        return f"{_there(child, pods)}; if a quota or a policy refuses the others, {described} says which"
    remedy = remedy_of(refused) or f"{described} says when"
    return f"{_there(child, pods)}; the API server refuses the others: {refused.removesuffix('.')}; {remedy}"


def _all_run(child: ChildRecord, pods: Sequence[PodState]) -> str:
    """That all pods run; where one pod is pinned to a node, status.placement says which."""
    if child.pods > 1:
        return f"all {child.pods} pods run"
    where = next(pod.node for pod in pods if pod.running)
    return "the pod runs" if where in child.nodes else f"the pod runs on node {where}"


def _all_started(child: ChildRecord, pods: Sequence[PodState]) -> str:
    """When the last pod of the job started, empty while one has not."""
    times = [pod.started for pod in pods if pod.started]
    return max(times) if len(times) >= child.pods else ""


def _ended(pod: PodState) -> Ended:
    return Ended(pod.name, pod.node, pod.index, bool(pod.started), _by_itself(pod), pod.missed)


def _by_itself(pod: PodState) -> bool:
    """Whether its program failed and was not terminated: the Job controller terminates the others when the first one fails."""
    return bool(pod.exit_code) and (pod.exit_code not in KILLED or pod.reason == OUT_OF_MEMORY)


def _guilt(pod: PodState) -> tuple[bool, bool, bool, bool, str]:
    """Sorts the most likely cause first: a pod that ran out of memory, last a pod that only waited for it."""
    memory = pod.ran_out is not None or pod.reason == OUT_OF_MEMORY
    return pod.exit_code is None, not _by_itself(pod), not memory, pod.missed is not None, pod.name


def _why_failed(child: ChildRecord, pods: Sequence[PodState]) -> tuple[Reason, str]:
    failed = sorted((pod for pod in pods if pod.phase == "Failed"), key=_guilt)
    found = ran_out_of_memory(failed[0], child) if failed else None
    return found or (Reason.POD_FAILED, _without_reason(child, pods))


def _without_reason(child: ChildRecord, pods: Sequence[PodState]) -> str:
    """The sentence for a failure that has no word of its own."""
    failed = sorted((pod for pod in pods if pod.phase == "Failed"), key=_guilt)
    gone = sorted(set(child.nodes) - {pod.node for pod in pods if not pod.gone})
    if not failed and (disrupted := disruption_kept(child)):
        return disrupted
    if not failed and gone and without_cause(child):
        nodes = "node" if len(gone) == 1 else "nodes"
        return f"the pod on {nodes} {listed(gone)} is gone: the node or the pod was deleted, which is no fault of the program"
    if not failed and (exited := EXITED.match(child.message)):
        return f"container {exited[1]} of pod {exited[2]} failed with exit code {exited[3]}, and the pod is gone"
    if not failed:
        return f"child Job {child.name} failed: {child.reason} {child.message}".strip()
    first = failed[0]
    code = f" with exit code {first.exit_code}" if first.exit_code is not None else ""
    reason = f" ({first.reason})" if first.reason and first.reason != "Error" else ""
    detail = f": {first.message}" if first.message else ""
    return f"pod {first.name} on node {first.node} failed{code}{reason}{detail}"


OUT_OF_MEMORY: Final = "OOMKilled"

GIGABYTE: Final = 10**9


def ran_out_of_memory(pod: PodState, child: ChildRecord) -> tuple[Reason, str] | None:
    """The reason and the sentence of a pod that failed for want of memory; None for any other."""
    where = f"pod {pod.name} on node {pod.node}"
    if pod.reason == OUT_OF_MEMORY:
        limit = f", of which it had {format_bytes(child.needs.memory)}" if child.needs.memory else ""
        message = (
            f"{where} ran out of main memory{limit} (OOMKilled, exit code {pod.exit_code}); set resources.memory higher"
        )
        return Reason.OUT_OF_MEMORY, message
    if pod.ran_out is not None:
        return Reason.GPU_OUT_OF_MEMORY, f"{where} ran out of GPU memory{_numbers(pod.ran_out)}"
    return None


def _numbers(ran_out: RanOut) -> str:
    tried = f"{format_bytes(ran_out.tried)} more" if ran_out.tried is not None else "more"
    parts = [f": it asked for {tried}"] if ran_out.tried is not None or ran_out.used is not None else []
    if parts and ran_out.used is not None:
        of = f" of {format_bytes(ran_out.total)}" if ran_out.total is not None else ""
        parts.append(f" with {format_bytes(ran_out.used)}{of} in use")
    if ran_out.fits is None:
        return "".join(parts) + "; ask for more with gpuMemory, or lower the batch size"
    asked = f"{-(-ran_out.fits // GIGABYTE)}G"
    return (
        "".join(parts)
        + f"; {asked} would have held this much: set gpuMemory to more than that, or lower the batch size"
    )
