"""Pods that the API server refuses: the words of the Job's events are read a few times, and said on one line with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_bounded_waits import ALONE, GANG, TIMINGS, Watch, pod

from gpujob.lifecycle.actions import Finish, GiveBack, Numbers, ReadRefusal, WriteStatus
from gpujob.status.job import status_patch
from gpujob.status.observe.child import observe, why_not_bound
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child
from gpujob.status.records.refused_pods import LONGEST, refusal_of, remedy_of, unready_of


def event(note: object, seen: str = "2026-01-01T12:00:00Z", **more: Any) -> dict[str, Any]:
    """An event of the Job controller as the API server gives it."""
    return {
        "reason": "FailedCreate", "type": "Warning", "note": note, "deprecatedLastTimestamp": seen,
        "reportingController": "job-controller", "deprecatedSource": {"component": "job-controller"}, **more,
    }  # fmt: skip


POD = 'Error creating: pods "run-1-1-0-x7k2p" is forbidden: '


@pytest.mark.parametrize(
    ("note", "words", "remedy"),
    [
        (
            POD + 'error looking up service account team/nobody: serviceaccount "nobody" not found',
            'error looking up service account team/nobody: serviceaccount "nobody" not found',
            "create the ServiceAccount, or correct spec.serviceAccountName",
        ),
        (
            POD + "exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4",
            "exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4",
            "raise that ResourceQuota, or ask for less",
        ),
        (
            POD + "failed quota: compute: must specify limits.memory for: train",
            "failed quota: compute: must specify limits.memory for: train",
            "raise that ResourceQuota, or ask for less",
        ),
        (
            POD + 'violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "train" must set …)',
            'violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "train" must set …)',
            "give the namespace another Pod Security level, or the job what that level allows",
        ),
        (
            'Error creating: admission webhook "pods.example.com" denied the request: no GPUs on Fridays',
            'admission webhook "pods.example.com" denied the request: no GPUs on Fridays',
            "ask who runs that webhook or policy",
        ),
        (
            POD + "ValidatingAdmissionPolicy 'no-pods' with binding 'no-pods' denied request: no Pods today",
            "ValidatingAdmissionPolicy 'no-pods' with binding 'no-pods' denied request: no Pods today",
            "ask who runs that webhook or policy",
        ),
        (
            POD + "maximum memory usage per Container is 1Gi, but limit is 64Gi",
            "maximum memory usage per Container is 1Gi, but limit is 64Gi",
            "change that LimitRange, or resources",
        ),
        (
            'Error creating: Pod "run-1-1-0-x7k2p" is invalid: spec.containers[0].image: Required value',
            "spec.containers[0].image: Required value",
            "",
        ),
        (
            POD + 'no PriorityClass with name batch was found',
            "no PriorityClass with name batch was found",
            "create the PriorityClass, or correct spec.priorityClassName",
        ),
        ("Internal error occurred: failed calling webhook", "Internal error occurred: failed calling webhook", ""),
    ],
)  # fmt: skip
def test_the_words_of_the_api_server(note: str, words: str, remedy: str) -> None:
    assert (refusal_of([event(note)]), remedy_of(words)) == (words, remedy)


def test_the_newest_event_counts_and_only_the_job_controllers() -> None:
    old, new = event("the first cause"), event("the cause of now", "2026-01-01T12:05:00Z")
    assert refusal_of([old, new]) == refusal_of([new, old]) == "the cause of now"
    series = event("seen again", series={"count": 9, "lastObservedTime": "2026-01-01T12:09:00.000000Z"})
    assert refusal_of([new, series]) == "seen again"
    forged = event("pay at evil.example", "2099-01-01T00:00:00Z", reportingController="x", deprecatedSource={})
    assert refusal_of([new, forged]) == "the cause of now"
    assert refusal_of([event("other", reason="BackoffLimitExceeded")]) == ""
    assert refusal_of([]) == ""


@pytest.mark.parametrize("note", [None, 7, {}, [], "", "Error creating: "])
def test_an_event_that_says_nothing(note: object) -> None:
    assert refusal_of([event(note)]) == ""


def test_hostile_words_stay_one_bounded_line() -> None:
    words = refusal_of([event("a\n\x1b[31mred\r\n\u202egnp " + "x" * 100_000, series="no", metadata=[])])
    assert words.isprintable()
    assert words.startswith("a\\n\\x1b[31mred\\r\\n\\u202egnp xxx")
    assert len(words) == LONGEST + 1


def child(pods: int = 2) -> ChildRecord:
    return read_child({"metadata": {"name": "run-1", "uid": "c"}, "spec": {"completions": pods}})


def test_the_sentence_has_the_cause_and_the_remedy() -> None:
    words = "exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4."
    said = (
        "child Job run-1 exists, 0 of 2 pods are there; the API server refuses the others: exceeded quota: gpus, requested: "
        "pods=1, used: pods=4, limited: pods=4; raise that ResourceQuota, or ask for less"
    )
    assert observe(child(), [], refused=words).message == why_not_bound(child(), [], words) == said
    other = observe(child(), [], refused="no Pods today").message
    assert other.endswith("the API server refuses the others: no Pods today; `kubectl describe job run-1` says when")
    assert "refuses the others, `kubectl describe job run-1` says which" in observe(child(), []).message


@pytest.mark.parametrize(("its", "reads"), [(ALONE, [15, 45, 105, 225]), (GANG, [15, 45])])
def test_the_events_are_read_a_few_times_ever_later_until_the_attempt_ends(its: ChildRecord, reads: list[int]) -> None:
    watch, found = Watch(), []
    bound = int(TIMINGS.unbound if its is ALONE else TIMINGS.unbound_gang)
    for second in range(bound):
        found += [second] if watch.look(second, its).action == ReadRefusal(its) else []
    assert found == reads
    assert isinstance(watch.look(bound, its).action, GiveBack)


def test_the_next_read_is_due_by_itself_and_the_last_one_is_the_last() -> None:
    watch, second, reads = Watch(state="Placed"), 0.0, 0
    kept = replace(ALONE, nodes=())
    while (after := watch.look(second, kept).requeue_after) is not None and second < 10_000.0:
        second += after
        reads += watch.look(second, kept).action == ReadRefusal(kept)
    assert reads == TIMINGS.refused_reads


def test_what_was_read_is_said_while_the_pods_are_missing_and_when_the_attempt_ends() -> None:
    watch, said = Watch(), "the API server refuses the others: no Pods today"
    watch.look(0.0, ALONE, refused="no Pods today")
    action = watch.look(TIMINGS.pending, ALONE, refused="no Pods today").action
    action = watch.look(TIMINGS.pending + 1, ALONE, refused="no Pods today").action
    assert isinstance(action, WriteStatus)
    assert said in str(action.status["conditions"])
    ended = watch.look(TIMINGS.unbound, ALONE, refused="no Pods today").action
    assert isinstance(ended, GiveBack)
    assert said in ended.status["excludedPools"][0]["message"]


@pytest.mark.parametrize(
    ("its", "pods"), [(replace(GANG, paused=True), ()), (GANG, (pod(0), pod(1))), (GANG, (pod(0, "n0"), pod(1)))]
)
def test_nothing_is_read_of_pods_that_are_there_or_that_a_suspension_keeps_away(
    its: ChildRecord, pods: tuple[PodState, ...]
) -> None:
    watch = Watch()
    assert not any(isinstance(watch.look(second, its, *pods).action, ReadRefusal) for second in range(0, 60, 5))


def test_nothing_is_read_of_a_job_that_ran_or_is_being_deleted() -> None:
    ran, leaves = Watch(startTime="2026-01-01T12:00:00Z", state="Running"), Watch()
    for second in range(0, 60, 5):
        assert not isinstance(ran.look(second, GANG).action, ReadRefusal)
        assert not isinstance(leaves.look(second, GANG, leaving=True).action, ReadRefusal)


def test_pods_that_came_after_all_begin_the_count_again() -> None:
    watch = Watch()
    watch.look(0.0, GANG, pod(0))
    assert watch.look(15.0, GANG, pod(0)).action == ReadRefusal(GANG)
    watch.look(16.0, GANG, pod(0, "n0"), pod(1, "n1"))
    watch.look(17.0, GANG, pod(0, "n0"))
    assert watch.look(31.0, GANG, pod(0, "n0")).action != ReadRefusal(GANG)
    assert watch.look(32.0, GANG, pod(0, "n0")).action == ReadRefusal(GANG)


def unready(number: int = 0) -> PodState:
    return replace(pod(number, f"n{number}"), unready=True, waiting_reason="ContainerCreating")


def test_the_events_of_a_pod_that_cannot_start_containers_are_read_and_said() -> None:
    watch, words = Watch(), 'MountVolume.SetUp failed for volume "token" : secret "nobody" not found'
    ready = pod(0, "n0")
    assert watch.look(0.0, GANG, ready, unready(1)).action != ReadRefusal(GANG, "p1")
    assert watch.look(15.0, GANG, ready, unready(1)).action == ReadRefusal(GANG, "p1")
    watch.look(16.0, GANG, ready, unready(1), refused=words)
    action = watch.look(25.0, GANG, ready, unready(1), refused=words).action
    assert isinstance(action, WriteStatus)
    assert f"pod p1 starts on node n1: ContainerCreating ({words})" in str(action.status["conditions"])
    # What is missing altogether is the first cause.
    assert watch.look(45.0, GANG, unready(0)).action == ReadRefusal(GANG)


def test_a_pod_that_never_can_start_containers_ends_its_attempt() -> None:
    watch, words = Watch(), 'MountVolume.SetUp failed for volume "token" : secret "nobody" not found'
    watch.look(0.0, ALONE, unready(), refused=words)
    assert not isinstance(watch.look(TIMINGS.stuck - 1, ALONE, unready(), refused=words).action, Finish)
    action = watch.look(TIMINGS.stuck, ALONE, unready(), refused=words).action
    assert isinstance(action, Finish)
    (entry,) = action.status["attempts"]
    assert (action.status["state"], entry["reason"], entry["blame"]) == ("Failed", "ContainerNotStarted", "User")
    assert words in entry["message"]


def test_the_events_of_a_pod() -> None:
    def said(reason: str, note: str, seen: str = "2026-01-01T12:00:00Z") -> dict[str, Any]:
        return {"reason": reason, "note": note, "deprecatedLastTimestamp": seen, "type": "Warning"}

    mount, later = said("FailedMount", "a"), said("FailedCreatePodSandBox", "b", "2026-01-01T12:01:00Z")
    assert unready_of([mount, later]) == unready_of([later, mount]) == "b"
    assert unready_of([said("FailedScheduling", "c"), said("Unhealthy", "d"), said("BackOff", "e")]) == ""


@pytest.mark.parametrize("pods", [(unready(),), ()], ids=["unready", "missing"])
def test_words_that_come_after_the_first_sentence_are_written(pods: tuple[PodState, ...]) -> None:
    """A status of which only a sentence changed is not written otherwise."""
    watch, words = Watch(), "exceeded quota: gpus, requested: pods=1."

    def writes(second: float, said: str = "") -> bool:
        action = watch.look(second, ALONE, *pods, refused=said).action
        if not isinstance(action, WriteStatus):
            return False
        changes = status_patch.patch(watch.status, action.status, moved=action.numbers is Numbers.NEWS)
        watch.status = dict(action.status) if changes else watch.status
        return changes is not None

    for second in (0.0, 6.0, 21.0, 21.5):
        writes(second)
    assert "kubectl describe" in str(watch.status) or "starts on node n0: ContainerCreating" in str(watch.status)
    assert [writes(second) for second in (22.0, 23.0)] == [False, False]
    assert writes(24.0, words)
    assert "exceeded quota: gpus" in str(watch.status["conditions"])
    assert not writes(25.0, words)
    assert writes(26.0, "no Pods today")
