"""A gang of which one pod is asked to end and another one fails: the first of the two is the cause, also within one second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest
from test_failed_attempts import BEGAN, TIMINGS, Watch, blamed, child, disrupted, pod

from gpujob.lifecycle.actions import Nothing
from gpujob.lifecycle.failures.causes import DISRUPTIONS, failure_of
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.failures.order import First, seen_first
from gpujob.status.observe.child import observe
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child
from gpujob.values.vocabulary import Reason

GRACE = 120
EXITED = "Container train for pod team/{} failed with exit code 1 matching FailJob rule at index 1"
INFRASTRUCTURE, USER = Blame.INFRASTRUCTURE, Blame.USER


def at(second: float | None) -> str:
    """A time after the beginning as the API server writes it, in whole seconds."""
    return "" if second is None else (BEGAN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def runs(number: int) -> PodState:
    return replace(pod(number), phase="Running", running=True, exit_code=None)


def fails(number: int, second: float, code: int = 1, **train: str) -> PodState:
    return pod(number, code=code, train={"finishedAt": at(second), **train})


def deleted(one: PodState, second: float, grace: int = GRACE) -> PodState:
    """The same pod once its deletion was requested: deletionTimestamp is the end of its grace."""
    return replace(one, leaving=True, gone_at=at(second + grace), grace=grace)


def gang(pods: int = 2, failing: float | None = None, by: str = "") -> ChildRecord:
    """A failed Job; `failing`: when the Job controller began to end its pods, `by`: the pod that it names."""
    end = {"reason": "PodFailurePolicy", "message": EXITED.format(by)} if by else {}
    return replace(child(pods=pods, **end), failing_since=at(failing))


def judged(job: ChildRecord, pods: Sequence[PodState], first: First | None = None) -> tuple[Blame, Reason]:
    found = failure_of(job, pods, observe(job, pods, ran=True), first=first)
    return found.blame, found.reason


@pytest.mark.parametrize("order", list(permutations((0, 1))), ids=str)
@pytest.mark.parametrize("grace", [0, 1, 30, GRACE, 3600])
@pytest.mark.parametrize(
    ("asked", "failed", "failing", "blame"),
    [
        # Someone else asked: before the failure, in its second, and before the Job controller did anything.
        (0.0, 5.0, 7.0, INFRASTRUCTURE), (0.0, 1.0, 2.0, INFRASTRUCTURE), (0.0, 0.0, 1.0, INFRASTRUCTURE),
        (0.1, 0.9, 2.0, INFRASTRUCTURE), (0.9, 1.1, 2.5, INFRASTRUCTURE), (0.0, 0.0, None, INFRASTRUCTURE),
        # The Job controller asked, since the other pod had failed: also where the node's clock is ahead.
        (2.0, 0.0, 2.0, USER), (1.0, 0.0, 1.0, USER), (3.0, 0.0, 2.0, USER), (0.9, 0.0, 0.8, USER), (2.0, 30.0, 2.0, USER),
        (2.0, 0.0, None, USER),
        # Someone else asked, seconds after the failure and before the Job controller.
        (1.0, 0.0, 2.0, USER),
    ],
)  # fmt: skip
def test_a_deletion_and_a_failure(
    asked: float, failed: float, failing: float | None, blame: Blame, grace: int, order: tuple[int, int]
) -> None:
    fallen, taken = order
    pods = [fails(fallen, failed), deleted(fails(taken, asked + 0.3, code=143), asked, grace)]
    reason = Reason.POD_DELETED if blame is INFRASTRUCTURE else Reason.POD_FAILED
    assert judged(gang(failing=failing, by=f"p{fallen}"), pods) == (blame, reason)


def test_of_one_second_the_job_says_which_pod_failed_it() -> None:
    pods = [fails(0, 0.4), deleted(fails(1, 0.2), 0.1)]
    assert judged(gang(failing=0.9, by="p1"), pods) == (INFRASTRUCTURE, Reason.POD_DELETED)
    assert judged(gang(failing=0.9, by="p0"), pods) == (USER, Reason.POD_FAILED)


@pytest.mark.parametrize("code", [1, 2, 137, 139, 143, 255])
def test_a_program_that_failed_first_is_to_blame_however_its_peers_end(code: int) -> None:
    for end in (1, 0, 137, 143):
        pods = [fails(0, 0.0, code=code), deleted(fails(1, 3.0, code=end), 2.0), deleted(fails(2, 4.0, code=end), 2.0)]
        assert judged(gang(3, failing=2.0, by="p0"), pods)[0] is USER


@pytest.mark.parametrize(
    "said", [{"reason": "OOMKilled"}, {"message": "torch.OutOfMemoryError: CUDA out of memory."}], ids=str
)
def test_memory_that_ran_out_is_no_loss_of_a_peer(said: dict[str, str]) -> None:
    pods = [fails(0, 5.0, **said), deleted(fails(1, 0.5, code=143), 0.0)]
    for first in (None, *First):
        assert judged(gang(failing=6.0, by="p0"), pods, first)[0] is USER


@pytest.mark.parametrize(("first", "blame"), [(First.REQUEST, INFRASTRUCTURE), (First.FAILURE, USER)])
@pytest.mark.parametrize("skew", [-3600.0, -5.0, 0.0, 5.0, 3600.0])
def test_what_was_seen_first_decides_whatever_the_clocks_of_the_nodes_say(
    first: First, blame: Blame, skew: float
) -> None:
    pods = [fails(0, skew), deleted(fails(1, 0.5 + skew, code=1), 0.0)]
    assert judged(gang(failing=1.0, by="p0"), pods, first)[0] is blame


@pytest.mark.parametrize(
    ("job", "pods", "first"),
    [
        (gang(), [runs(0), runs(1)], None),
        (gang(), [runs(0), deleted(runs(1), 0.0)], First.REQUEST),
        (gang(), [runs(0), pod(1, phase="Running", **disrupted("EvictionByEvictionAPI"))], First.REQUEST),
        (gang(), [runs(0), deleted(fails(1, 0.5), 0.0)], First.REQUEST),
        (gang(), [fails(0, 0.0), runs(1)], First.FAILURE),
        (gang(), [fails(0, 0.0), deleted(runs(1), 0.0)], First.BOTH),
        (gang(failing=0.0), [runs(0), deleted(runs(1), 0.0)], First.BOTH),
        (replace(gang(), paused=True), [runs(0), deleted(runs(1), 0.0)], None),
        (replace(gang(), leaving=True), [runs(0), deleted(runs(1), 0.0)], None),
    ],
)  # fmt: skip
def test_what_is_seen_first(job: ChildRecord, pods: list[PodState], first: First | None) -> None:
    assert seen_first(job, pods) is first


@pytest.mark.parametrize("word", [*DISRUPTIONS, "SomethingNew"])
@pytest.mark.parametrize(
    ("disrupted_at", "failed", "late"), [(0.0, 0.0, False), (0.0, 5.0, False), (2.0, 0.0, False), (3.0, 0.0, True)]
)
def test_a_disruption_after_the_job_began_to_fail_is_not_its_cause(
    word: str, disrupted_at: float, failed: float, late: bool
) -> None:
    taken = pod(1, code=143, **disrupted(word, lastTransitionTime=at(disrupted_at)))
    failing = max(2.0, failed)
    blame, reason = judged(gang(failing=failing, by="p0"), [fails(0, failed), deleted(taken, disrupted_at)])
    expected = DISRUPTIONS.get(word, Reason.EVICTED)
    # A node or a device breaks long before its taint evicts a pod, and its peers fail at once.
    if late and expected not in (Reason.NODE_LOST, Reason.DEVICE_FAULT):
        assert (blame, reason) == (USER, Reason.POD_FAILED)
    else:
        assert (blame, reason) == (INFRASTRUCTURE, expected)


@pytest.mark.parametrize("time", ["", "soon", "2026-13-01T00:00:00Z"])
def test_a_disruption_without_a_time_is_the_cause(time: str) -> None:
    taken = pod(1, code=143, leaving=True, **disrupted("PreemptionByScheduler", lastTransitionTime=time))
    assert judged(gang(failing=1.0, by="p0"), [fails(0, 0.0), taken]) == (INFRASTRUCTURE, Reason.PREEMPTED)


@pytest.mark.parametrize(("reason", "code"), [("ContainerStatusUnknown", 137), ("Unknown", 255)])
def test_a_node_that_was_started_again_has_lost_its_pods(reason: str, code: int) -> None:
    pods = [fails(0, 0.0), deleted(fails(1, 60.0, code=code, reason=reason), 2.0)]
    assert judged(gang(failing=2.0, by="p0"), pods) == (INFRASTRUCTURE, Reason.NODE_LOST)
    assert blamed(pods)[2] == "n1"
    assert blamed([fails(0, 0.0, code=code)])[0] is USER


def test_a_record_keeps_when_a_job_began_to_fail_and_when_a_pod_was_disrupted() -> None:
    conditions = [
        {"type": "FailureTarget", "status": "True", "lastTransitionTime": at(1)},
        {"type": "Failed", "status": "True", "lastTransitionTime": at(2)},
    ]
    read = read_child({"status": {"conditions": conditions}})
    assert (read.failing_since, read.ended_at) == (at(1), at(2))
    assert read_child({"status": {"conditions": conditions[1:]}}).failing_since == ""
    assert pod(**disrupted("Evicted", lastTransitionTime=at(3))).disrupted_at == at(3)


def story(*looks: Sequence[PodState], job: ChildRecord) -> str:
    """Whose fault it is after the operator looked at these pods one after the other, of which the last are those of the failed Job."""
    watch = Watch(retries={"user": 1})
    watch.runs(1)
    for second, pods in enumerate(looks):
        ended = second == len(looks) - 1
        watch.look(second / 10, (job if ended else replace(job, ended="", failing_since=""),), pods)
    return str(watch.status["attempts"][-1]["blame"])


def test_the_operator_remembers_which_it_saw_first() -> None:
    # Both look the same at the end, and the failed pod's node has a clock of its own.
    end, job = [fails(0, -9.0), deleted(fails(1, 0.5), 0.0)], gang(failing=0.0, by="p0")
    assert story([runs(0), runs(1)], [runs(0), deleted(runs(1), 0.0)], end, job=job) == "Infrastructure"
    assert story([runs(0), runs(1)], [fails(0, -9.0), runs(1)], end, job=job) == "User"
    assert story([runs(0), runs(1)], end, job=job) == "User"


def test_a_pod_that_is_asked_to_end_is_remembered_after_it_is_gone() -> None:
    end = [fails(0, 0.0)]
    assert story([runs(0), deleted(runs(1), 0.0)], end, job=gang(failing=0.0, by="p0")) == "Infrastructure"


def test_another_attempt_begins_without_what_was_seen_of_the_one_before() -> None:
    watch = Watch(retries={"user": 3, "infrastructure": 3})
    watch.runs(1)
    watch.look(0.0, (replace(gang(), ended=""),), (runs(0), deleted(runs(1), 0.0)))
    assert watch.sightings.first == ("c1", First.REQUEST)
    watch.look(1.0, (gang(failing=0.0, by="p0"),), (fails(0, 0.0), deleted(fails(1, 0.5), 0.0)))
    watch.runs(2)
    second = replace(child(2, pods=2), failing_since=at(TIMINGS.retry_longest))
    failed = replace(fails(0, TIMINGS.retry_longest), child_uid="c2", child_name=second.name)
    assert not isinstance(watch.look(TIMINGS.retry_longest, (second,), (failed, failed)).action, Nothing)
    assert [entry["blame"] for entry in watch.status["attempts"]] == ["Infrastructure", "User"]
