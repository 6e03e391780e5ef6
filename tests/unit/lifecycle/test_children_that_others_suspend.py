"""A child Job that something else suspends and resumes (a queue, an admin): the pods that this ends are no leftover and no failure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_bounded_waits import GANG, TIMINGS, Watch
from test_bounded_waits import pod as starting
from test_failed_attempts import BEGAN
from test_what_is_no_end_of_a_job import Run, running

from gpujob.lifecycle.actions import Finish, GiveBack, Nothing, WriteStatus
from gpujob.lifecycle.attempts import pause_left
from gpujob.lifecycle.failures.suspensions import of_before, released
from gpujob.lifecycle.timings import Timings
from gpujob.status.observe.child import observe
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_child
from gpujob.values.names import child_name

EXITED = "Container train for pod team/p0 failed with exit code {} matching FailJob rule at index 1"


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


PAUSED: dict[str, Any] = {"paused": True}
RESUMED: dict[str, Any] = {"resumed": at(5)}


def ends(number: int = 0, **more: Any) -> PodState:
    """A pod that was asked to end at 12:00:00 without a disruption, as a suspension does it."""
    return running(number, leaving=True, why="", **more)


def new(number: int = 0, **more: Any) -> PodState:
    return replace(running(number, **more), name=f"new{number}")


@pytest.mark.parametrize("seen", ["suspended", "suspended, the pods first", "resumed, the pods first", "resumed"])
def test_pods_that_end_after_a_resumption_end_no_attempt(seen: str) -> None:
    run, old = Run(pods=2), [ends(0), ends(1)]
    if "pods first" in seen:
        # The watch of Jobs is behind that of pods.
        assert run.status_after(0.5, old)["state"] == "Running"
        assert run.sightings.interrupted[0] == "c1"
    if seen.startswith("suspended"):
        run.look(1.0, old, **PAUSED)
    for second in (6.0, 100.0, 130.0, 1000.0):
        assert run.status_after(second, old, **RESUMED)["state"] == "Placed"
    said = next(c for c in run.status["conditions"] if c["type"] == "Running")["message"]
    assert "was suspended and resumed; 2 pods of before end first, then new ones follow" in said
    # One has ended, the other one's grace is not over.
    half = [ends(0, ended=at(900), code=143), ends(1)]
    assert run.status_after(1001.0, half, **RESUMED)["state"] == "Placed"
    assert run.status_after(1002.0, [new(0), new(1)], **RESUMED)["state"] == "Running"
    assert "attempts" not in run.status


LET_GO: dict[str, Any] = {"released": True}


@pytest.mark.parametrize("sees_suspension", [True, False])
def test_pods_without_the_finalizer_of_their_job_are_of_before_where_no_condition_says_it(
    sees_suspension: bool,
) -> None:
    """The Job controller's write of the suspension met that of the resumption."""
    run, old = Run(pods=2), [replace(ends(number), **LET_GO) for number in range(2)]
    if sees_suspension:
        # Its pods run until their grace is over.
        assert run.status_after(1.0, old, **PAUSED)["state"] == "Running"
    for second in (6.0, 100.0, 130.0, 1000.0):
        assert run.status_after(second, old)["state"] == "Placed"
    said = next(c for c in run.status["conditions"] if c["type"] == "Running")["message"]
    assert "was suspended and resumed; 2 pods of before end first, then new ones follow" in said
    over = [replace(ends(number, ended=at(1001)), **LET_GO) for number in range(2)]
    # A quota refuses the new ones for longer than a pod that ended well is waited for.
    for second in (1002.0, 1100.0, 1200.0):
        assert isinstance(run.look(second, over).action, Nothing | WriteStatus)
    assert run.status_after(1201.0, [new(0), new(1)])["state"] == "Running"
    assert "attempts" not in run.status


def test_a_pod_that_its_failing_job_ends_is_not_of_before() -> None:
    """A failing Job takes its finalizer off those that it ends, and the watch of Jobs may be behind."""
    run, failed = Run(pods=2), replace(ends(0), leaving=False, phase="Failed", running=False, exit_code=3, ended=at(-1))
    run.look(1.0, [failed, replace(ends(1), **LET_GO)])
    assert run.sightings.released == run.sightings.before == frozenset()
    failing = {"failing_since": at(0), "message": EXITED.format(3).replace("p0", failed.name)}
    status = run.status_after(2.0, [failed, replace(ends(1, ended=at(1), code=143), **LET_GO)], "Failed", **failing)
    assert (status["state"], status["attempts"][0]["blame"]) == ("Failed", "User")


@pytest.mark.parametrize(
    ("disruption", "phase", "of_it"),
    [("", "Running", True), ("", "Pending", True), ("EvictionByEvictionAPI", "Running", False)],
)
def test_what_a_missing_finalizer_shows(disruption: str, phase: str, of_it: bool) -> None:
    pod = replace(ends(), released=True, disruption=disruption, phase=phase)
    assert released(GANG, [pod], ()) == (frozenset({"p0"}) if of_it else frozenset())
    assert released(replace(GANG, failing_since=at(5)), [pod], ()) == frozenset()
    assert released(GANG, [replace(pod, phase="Succeeded", running=False, exit_code=0)], ()) == frozenset()


def test_pods_of_after_the_resumption_that_are_asked_to_end_are_taken_away_as_ever() -> None:
    run = Run(pods=2)
    run.look(1.0, [ends(0), ends(1)], **PAUSED)
    run.status_after(6.0, [new(0), new(1)], **RESUMED)
    later = {"gone_at": at(40), "grace": 30, "leaving": True}
    evicted = [replace(new(0), **later), new(1)]
    assert run.status_after(11.0, evicted, **RESUMED)["state"] == "Running"
    over = [replace(new(0, ended=at(14)), **later), new(1)]
    assert run.status_after(130.9, over, **RESUMED)["state"] == "Running"
    status = run.status_after(131.0, over, **RESUMED)
    assert (status["state"], status["attempts"][0]["reason"]) == ("Restarting", "PodDeleted")


def test_a_program_that_fails_after_a_resumption_is_to_blame() -> None:
    run, old = Run(pods=2), [ends(0, ended=at(3), code=143), ends(1, ended=at(3), code=143)]
    run.look(0.5, [ends(0), ends(1)])
    run.look(1.0, old, **PAUSED)
    run.status_after(6.0, [*old, new(0), new(1)], **RESUMED)
    assert run.sightings.first == ("", None)
    failed = [
        *old,
        new(0, ended=at(20), code=1),
        replace(new(1, ended=at(23), code=143), leaving=True, gone_at=at(52), grace=30),
    ]
    status = run.status_after(25.0, failed, "Failed", failing_since=at(22), **RESUMED)
    assert (status["state"], status["attempts"][0]["blame"]) == ("Failed", "User")


@pytest.mark.parametrize("child_is", [PAUSED, RESUMED], ids=["suspended", "resumed"])
@pytest.mark.parametrize("code", [1, 137, 143])
def test_a_job_that_fails_by_a_pod_that_a_suspension_ended_is_no_failure_of_the_user(child_is: Any, code: int) -> None:
    """The Job controller does not count such a pod, and yet applies its podFailurePolicy where the pod is Failed and still there."""
    run, message = Run(retries={"infrastructure": 0}), EXITED.format(code)
    run.look(1.0, [ends()], **PAUSED)
    status = run.status_after(6.0, [ends(ended=at(3), code=code)], "Failed", message=message, **child_is)
    (entry,) = status["attempts"]
    assert (status["state"], entry["blame"], entry["reason"]) == ("Restarting", "Kubernetes", "PodReplaced")
    assert entry["message"] == (
        f"child Job {run.child().name} failed because of pod p0, which the Job controller had ended itself, for a suspension or as a "
        "second pod in one place: neither the program nor a node is to blame"
    )
    assert not {"failures", "failingSince", "excludedNodes"} & status.keys()


@pytest.mark.parametrize("code", [1, 143])
def test_the_same_where_the_pod_is_gone_when_its_job_is_seen_to_have_failed(code: int) -> None:
    run, old = Run(pods=2, retries={"infrastructure": 0}), [replace(ends(number), **LET_GO) for number in range(2)]
    run.look(1.0, old, **PAUSED)
    run.look(3.0, [], **PAUSED)
    run.look(6.0, [new(0), new(1)])
    after = [replace(new(n, ended=at(8), code=143), leaving=True, gone_at=at(37), grace=30) for n in range(2)]
    status = run.status_after(9.0, after, "Failed", message=EXITED.format(code), failing_since=at(7))
    (entry,) = status["attempts"]
    assert (status["state"], entry["blame"], entry["reason"]) == ("Restarting", "Kubernetes", "PodReplaced")


@pytest.mark.parametrize(
    "message", [EXITED.format(3), "Pod team/p0 has condition DisruptionTarget matching FailJob rule at index 0"]
)
def test_a_job_that_fails_by_another_pod_than_one_of_before_is_judged_by_that(message: str) -> None:
    run = Run(pods=2)
    run.look(1.0, [replace(ends(number), **LET_GO) for number in range(2)], **PAUSED)
    failed = [replace(new(0, ended=at(8), code=3), name="late"), new(1)]
    status = run.status_after(
        9.0, failed, "Failed", message=message.replace("p0", "late"), failing_since=at(8), resumed=at(5)
    )
    assert status["attempts"][0]["reason"] != "PodReplaced"


@pytest.mark.parametrize("older_stays", [True, False])
@pytest.mark.parametrize("code", [0, 1, 143])
def test_of_two_pods_in_one_place_the_one_that_is_deleted_says_nothing(older_stays: bool, code: int) -> None:
    """The answer to the request for the first was lost, so that the Job controller made a second one and deletes one of them."""
    run, first, second = Run(retries={"infrastructure": 0}), at(-9), at(-5)
    stays = replace(running(0), name="stays", index=0, created=first if older_stays else second)
    twin = replace(running(0), name="twin", index=0, created=second if older_stays else first)
    run.status_after(0.0, [stays, twin])
    asked = {"leaving": True, "gone_at": at(31), "grace": 30}
    # Seen without the moment in which it still ran without the finalizer.
    over = replace(running(0, ended=at(2), code=code), **asked, name="twin", index=0, created=twin.created)
    assert run.status_after(3.0, [stays, over])["state"] == "Running"
    assert not isinstance(run.look(200.0, [stays, over]).action, Finish)
    assert run.sightings.interrupted[0] == ""
    if code:
        said = EXITED.format(code).replace("p0", "twin")
        status = run.status_after(201.0, [stays, over], "Failed", message=said, failing_since=at(200))
        assert (status["state"], status["attempts"][0]["blame"]) == ("Restarting", "Kubernetes")
    else:
        done = replace(stays, phase="Succeeded", running=False, exit_code=0, ended=at(201))
        assert run.status_after(202.0, [done, over], "Complete")["state"] == "Succeeded"


def test_what_kubernetes_fails_again_and_again_is_tried_with_growing_pauses_and_in_no_count() -> None:
    run, pauses = Run(retries={"infrastructure": 0, "user": 0}), []
    for number in range(1, 5):
        run.status |= {"jobName": child_name("j", "u", number), "state": "Running", "startTime": at(number * 1000)}
        its = {"name": child_name("j", "u", number), "uid": "c1", "attempt": number, "paused": True}
        now = number * 1000 + 60
        gone = replace(ends(0, ended=at(now), code=1), gone_at=at(now + 29), grace=30)
        status = run.status_after(now + 1, [gone], "Failed", message=EXITED.format(1), ended_at=at(now + 1), **its)
        assert status["attempts"][-1]["blame"] == "Kubernetes"
        pauses.append(pause_left(run.job, BEGAN + timedelta(seconds=now + 1), Timings()))
    assert pauses == [10.0, 20.0, 40.0, 80.0]
    assert "failures" not in run.status


def test_a_program_that_failed_before_the_suspension_is_to_blame_and_one_that_ended_well_has_finished() -> None:
    failed = Run().status_after(6.0, [ends(ended=at(-2), code=1)], "Failed", message=EXITED.format(1), **PAUSED)
    assert (failed["state"], failed["attempts"][0]["blame"]) == ("Failed", "User")
    well = Run().status_after(6.0, [ends(ended=at(-2))], "Complete", **RESUMED)
    assert well["state"] == "Succeeded"


def test_the_wait_for_nodes_begins_when_the_pods_of_before_have_ended() -> None:
    watch, resumed = Watch(), replace(GANG, resumed=at(0))
    old = [replace(starting(number, f"n{number}"), leaving=True, gone_at=at(120), grace=120) for number in range(2)]
    for second in range(0, 200, 20):
        action = watch.look(second, resumed, *old).action
        assert isinstance(action, WriteStatus | Nothing)
    watch.look(200.0, resumed)
    assert not isinstance(watch.look(200.0 + TIMINGS.unbound_gang - 1, resumed).action, GiveBack)
    assert isinstance(watch.look(200.0 + TIMINGS.unbound_gang, resumed).action, GiveBack)


def test_a_pod_of_before_on_a_dead_node_ends_the_attempt() -> None:
    run = Run(pods=2)
    lost = [replace(ends(0), disruption="DeletionByTaintManager"), ends(1)]
    found = replace(run.look(6.0, lost, **RESUMED))
    assert not isinstance(found.action, Nothing)
    run.ready["n0"] = False
    status = run.status_after(7.0, lost, **RESUMED)
    assert (status["state"], status["attempts"][0]["reason"]) == ("Restarting", "NodeLost")


@pytest.mark.parametrize(
    ("spec", "condition", "paused", "resumed"),
    [
        ({}, None, False, ""), ({"suspend": True}, None, True, ""), ({"suspend": True}, "True", True, ""),
        # The Job controller has not gone on yet.
        ({"suspend": False}, "True", True, ""), ({}, "False", False, at(5)), ({"suspend": True}, "False", True, at(5)),
    ],
)  # fmt: skip
def test_the_record_of_a_suspension(spec: Any, condition: str | None, paused: bool, resumed: str) -> None:
    conditions = [{"type": "Suspended", "status": condition, "lastTransitionTime": at(5)}] if condition else []
    found = read_child({"spec": spec, "status": {"conditions": conditions}})
    assert (found.paused, found.resumed) == (paused, resumed)


@pytest.mark.parametrize(
    ("asked", "resumed", "before"),
    [(0.0, at(5), True), (5.0, at(5), True), (6.0, at(5), False), (0.0, "", False), (0.0, "soon", False)],
)
def test_which_pods_are_those_of_before(asked: float, resumed: str, before: bool) -> None:
    found = replace(ends(), gone_at=at(asked + 30), grace=30)
    found_before = of_before(replace(GANG, resumed=resumed), [found, new()], ())
    assert found_before == ({found.name} if before else set())


def test_the_sentence_of_one_pod() -> None:
    assert observe(GANG, [], ending=1).message.endswith(
        " was suspended and resumed; 1 pod of before ends first, then new ones follow"
    )
