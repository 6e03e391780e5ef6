"""Programs that ended in pods that run on: a container that something injected (a mesh's proxy) keeps the pod from ending.

The pods opt out of Istio and Linkerd and native sidecars end with the program, so that this is a job whose podMetadata opts in, or
another injector. Kubernetes waits without an end there: for its Job neither succeeds nor fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.lifecycle.actions import Action
from gpujob.lifecycle.children import TERMINAL
from gpujob.lifecycle.failures.causes import failure_of
from gpujob.lifecycle.sightings import UNSEEN
from gpujob.lifecycle.steps import ends
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.status.attempts import probe_runs
from gpujob.status.observe.child import Observation, ended_pods
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.values.finding import listed
from gpujob.values.vocabulary import Reason, State


def is_outlived(child: ChildRecord, pods: Sequence[PodState]) -> bool:
    """Whether the child's programs have all ended well, or one has failed, while a pod of theirs runs on."""
    running = [pod for pod in pods if _outlives(pod)]
    if not running or len(pods) < child.pods:
        return False
    return any(pod.exit_code for pod in running) or all(pod.exit_code == 0 for pod in pods)


def ended_by_program(evaluation: Evaluation, child: ChildRecord) -> Action | None:
    """The end of an attempt whose programs have ended although its child Job has not."""
    pods = evaluation.pods
    if evaluation.job.leaving or probe_runs.steps_of(child) is not None or not is_outlived(child, pods):
        evaluation.see(outlived=UNSEEN)
        return None
    if evaluation.seconds_left("outlived", child, evaluation.timings.outlived) > 0:
        return None
    names = sorted({name for pod in pods if _outlives(pod) for name in pod.others})
    several = len(names) > 1
    kept = f"container{'s' * several} {listed(names)} {'run on, and end' if several else 'runs on, and ends'} with the child Job"
    if any(pod.exit_code for pod in pods):
        seen = ended_pods(child, pods)
        failure = failure_of(child, pods, Observation(State.FAILED, seen.reason, f"{seen.message}; {kept}"))
        return ends.fail(evaluation, child, failure)
    message = (
        f"the programs of all {child.pods} pods ended well; {kept}"
        if child.pods > 1
        else f"the program ended well; {kept}"
    )
    started = evaluation.observe(child).started
    seen = Observation(State.SUCCEEDED, Reason.SUCCEEDED, message, started, evaluation.now.text)
    return ends.finish(evaluation, child, seen)


def _outlives(pod: PodState) -> bool:
    """Whether another container runs in a pod whose program has ended."""
    return pod.exit_code is not None and pod.phase not in TERMINAL and not pod.leaving and bool(pod.others)
