"""What is the case with a job's child: a table over pods and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.status.observe.child import Observation, observe
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.values.vocabulary import Annotation, Label, Reason, State

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def job(pods: int = 1, **status: Any) -> dict[str, Any]:
    """A child Job."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]} for number in range(pods)]
    terms = [{"matchFields": [one]} for one in fields]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    limits = {"nvidia.com/gpu": "2", "cpu": "4", "memory": "8Gi"}
    spec = {"affinity": affinity, "containers": [{"name": "train", "resources": {"limits": limits}}]}
    return {
        "metadata": {
            "name": "train-1",
            "uid": "child",
            "labels": {Label.ATTEMPT: "1"},
            "annotations": {},
            "ownerReferences": [{"uid": "other"}, {"uid": "u", "controller": True}],
        },
        "spec": {"completions": pods, "template": {"spec": spec}},
        "status": status,
    }


def child(pods: int = 1, **status: Any) -> ChildRecord:
    return read_child(job(pods, **status))


def ended(kind: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": LATE, **more}]}


def pod(name: str, state: dict[str, Any] | None = None, phase: str = "Running", **more: Any) -> PodState:
    """One of the job's pods, its training container in some state."""
    labels = {Label.JOB_UID: "u", Label.ATTEMPT: "1"}
    owner = [{"uid": "child", "controller": True}]
    containers = [{"name": "sidecar", "state": {"running": {}}}, {"name": "train", "state": state or {}}]
    raw = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner},
        "spec": {"nodeName": more.pop("node", f"node-of-{name}")},
        "status": {"phase": phase, "containerStatuses": containers, **more},
    }
    found = read_pod_record(raw).state
    assert found is not None
    return found


def running(since: str = EARLY) -> dict[str, Any]:
    return {"running": {"startedAt": since}}


def over(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": EARLY, "reason": reason, "message": message}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


CLAIM = [
    {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims",
    }
]
UNBOUND = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]
P, S, R = State.PLACED, State.STARTING, State.RUNNING


@pytest.mark.parametrize(
    ("count", "pods", "status", "state", "message"),
    [
        (1, [pod("a", running())], {}, R, "the pod runs on node node-of-a"),
        (2, [pod("a", running()), pod("b", running(LATE))], {}, R, "all 2 pods run"),
        (2, [pod("a", running()), pod("b", over(1), "Failed")], {}, R, "1 of 2 pods still run"),
        (1, [pod("a", over(1), "Failed"), pod("b", running())], {}, R, "the pod runs on node node-of-b"),
        (2, [pod("a", running()), pod("b", {}, "Pending")], {}, S, "1 of 2 pods run; pod b starts on node node-of-b"),
        (
            2,
            [pod("a", {}, "Pending"), pod("b", waits("ImagePullBackOff", "not found"), "Pending")],
            {},
            S,
            "0 of 2 pods run; pod b starts on node node-of-b: ImagePullBackOff (not found)",
        ),
        (1, [pod("a", {}, "Pending", node="")], {}, P, "child Job train-1 exists, 1 of 1 pods are there"),
        (
            1,
            [pod("a", {}, "Pending", node="", conditions=UNBOUND)],
            {},
            P,
            "pod a is bound to no node: 0/3 nodes are available",
        ),
        (
            1,
            [pod("a", {}, "Pending", node="", conditions=CLAIM)],
            {},
            P,
            "pod a is bound to no node: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims (see "
            "`kubectl describe pvc`: a claim needs a StorageClass of `kubectl get storageclass`, or a PersistentVolume)",
        ),
        (
            2,
            [],
            {},
            P,
            "child Job train-1 exists, 0 of 2 pods are there; if a quota or a policy refuses the others, "
            "`kubectl describe job train-1` says which",
        ),
        (1, [pod("a", over(0), "Succeeded")], ended("Complete"), State.SUCCEEDED, "the pod ended well"),
        (2, [], ended("Complete"), State.SUCCEEDED, "all 2 pods ended well"),
        (
            1,
            [pod("a", over(137, "OOMKilled"), "Failed")],
            ended("Failed"),
            State.FAILED,
            "pod a on node node-of-a ran out of main memory, of which it had 8Gi (OOMKilled, exit code 137); "
            "set resources.memory higher",
        ),
        (
            1,
            [pod("a", over(1, "Error", "no such file"), "Failed")],
            ended("Failed"),
            State.FAILED,
            "pod a on node node-of-a failed with exit code 1: no such file",
        ),
        (
            2,
            [pod("a", {}, "Failed", reason="Evicted", message="the node was low on disk"), pod("b", over(3), "Failed")],
            ended("Failed"),
            State.FAILED,
            "pod b on node node-of-b failed with exit code 3",
        ),
        (
            1,
            [pod("a", {}, "Failed", reason="UnexpectedAdmissionError", message="no device")],
            ended("Failed"),
            State.FAILED,
            "pod a on node node-of-a failed (UnexpectedAdmissionError): no device",
        ),
        (
            1,
            [],
            ended("Failed", reason="DeadlineExceeded", message="too long"),
            State.FAILED,
            "child Job train-1 failed: DeadlineExceeded too long",
        ),
        (1, [], {"conditions": [{"type": "Complete", "status": "False"}]}, P, ""),
        (1, [], {"conditions": [{"type": "Suspended", "status": "True"}]}, P, ""),
    ],
)
def test_the_state_of_a_child(count: int, pods: list[PodState], status: Any, state: State, message: str) -> None:
    seen = observe(child(count, **status), pods)
    assert seen.state is state
    assert not message or seen.message == message


@pytest.mark.parametrize("ran", [False, True])
def test_a_suspended_child_says_who_stopped_it_what_it_holds_and_what_helps(*, ran: bool) -> None:
    raw = job(2)
    raw["spec"]["suspend"] = True
    paused = read_child(raw)
    told = Observation(
        P,
        Reason.CHILD_SUSPENDED,
        "child Job train-1 is suspended, so no pod of it runs; its GPUs stay reserved and its cost continues; "
        """`kubectl patch job train-1 -p '{"spec":{"suspend":false}}'` lets it run again, """
        "spec.suspend of the GPUJob gives the GPUs back",
    )
    assert observe(paused, [], ran=ran) == told
    assert paused.reservations() == child(2).reservations()
    # Pods that are on their way out run until they are gone, and an end is an end.
    assert observe(paused, [pod("a", running()), pod("b", running())], ran=ran).state is R
    raw["status"] = ended("Complete")
    assert observe(read_child(raw), [], ran=ran).state is State.SUCCEEDED


def test_a_job_that_ran_does_not_start_again() -> None:
    pods = [pod("a", waits("CrashLoopBackOff"), "Running"), pod("b", {}, "Pending")]
    assert observe(child(2), pods).state is S
    assert observe(child(2), pods, ran=True).state is R


def test_it_started_with_the_last_pod_and_ended_with_the_job() -> None:
    both = [pod("a", running(EARLY)), pod("b", running(LATE))]
    assert observe(child(2), both).started == LATE
    assert observe(child(2), both[:1]).started == ""
    done = observe(child(2, **ended("Complete")), both)
    assert (done.started, done.ended) == (LATE, LATE)


@pytest.mark.parametrize(
    ("word", "stuck"),
    [
        ("ImagePullBackOff", "ImagePullBackOff"),
        ("ErrImagePull", "ImagePullBackOff"),
        ("CreateContainerConfigError", "CreateContainerConfigError"),
        ("ContainerCreating", ""),
        ("PodInitializing", ""),
    ],
)
def test_what_keeps_a_pod_from_starting_is_kubernetes_own_word(word: str, stuck: str) -> None:
    assert observe(child(), [pod("a", waits(word), "Pending")]).stuck == stuck


def test_the_training_container_decides_whatever_a_sidecar_does() -> None:
    assert observe(child(), [pod("a", over(0, "Completed"), "Running")]).reason is Reason.RUNNING
    assert pod("a", over(0, "Completed"), "Running").exit_code == 0


def test_a_child_promises_what_its_pods_will_take_until_it_ends() -> None:
    needs = Resources(4000, 8 * 1024**3, 0, 1)
    assert child(2).reservations() == tuple(
        PodReservation("u", name, "nvidia.com/gpu", 2, needs, 1, job="train-1") for name in ("n0", "n1")
    )
    assert child(2, **ended("Failed")).reservations() == ()


def test_a_hint_that_is_no_status_gives_nothing() -> None:
    raw = job()
    for text in ("{", "[]", '"x"', "7", "{" * 70_000, '{"pool": 7}', '{"pool": "a", "unheard": 1}', None, 5):
        raw["metadata"]["annotations"] = {Annotation.PLACEMENT: text}
        assert read_child(raw).hint.placement == {}


def test_a_node_that_is_gone_is_named_and_the_program_is_not_blamed() -> None:
    failed = child(2, **ended("Failed", reason="BackoffLimitExceeded", message="Job has reached the limit"))
    left = pod("a", {"running": {}}, node="n0")
    assert observe(failed, [left], ran=True).message == (
        "the pod on node n1 is gone: the node or the pod was deleted, which is no fault of the program"
    )
    assert "the pod on nodes n0 and n1 is gone" in observe(failed, [], ran=True).message
