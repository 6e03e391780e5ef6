"""The next action of a job in each of its states: without a child, with one that ends, goes or cannot run, and after its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_bounded_waits import BEGAN, NAME, child, pod
from test_bounded_waits import PLACEMENT as OF_TWO

from gpujob.api.frozen_spec import frozen_digest
from gpujob.lifecycle.actions import (
    Action,
    ConfirmLoss,
    DeleteChild,
    DeleteJob,
    EndProbe,
    Finish,
    Next,
    Nothing,
    Numbers,
    Schedule,
    WriteStatus,
)
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Made, Moment
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import ChildRecord, Hint, PodState
from gpujob.status.records.preflight import Check
from gpujob.status.records.read_objects import read_job
from gpujob.values.vocabulary import Reason

PLACEMENT = OF_TWO | {"nodes": 1}
HELD = {"attempt": 1, "jobName": NAME, "jobUID": "c", "placement": PLACEMENT}
RUNNING = {**HELD, "state": "Running", "startTime": "2026-01-01T12:00:00Z"}
ONE = child()
RUNS = replace(pod(0, "n0"), phase="Running", running=True, started="2026-01-01T12:00:00Z")


def look(
    status: dict[str, Any] | None = None,
    *children: ChildRecord,
    pods: tuple[PodState, ...] = (),
    second: float = 0.0,
    seen: Sightings | None = None,
    spec: dict[str, Any] | None = None,
    leaving: bool = False,
    generation: int = 1,
    **view: Any,
) -> Next:
    metadata: dict[str, Any] = {"name": "j", "namespace": "team", "uid": "u", "generation": generation}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    job = read_job({"metadata": metadata, "spec": spec or {}, "status": status or {}})
    moment = Moment(second, BEGAN + timedelta(seconds=second))
    return next_action(JobView(job, children, pods, {"n0": True}, **view), seen or Sightings(), moment, Timings())


def written(action: Action) -> Any:
    assert isinstance(action, WriteStatus | Finish), action
    return action.status


def reason(action: Action, kind: str = "Placed") -> tuple[str, str]:
    (found,) = (each for each in written(action)["conditions"] if each["type"] == kind)
    return found["reason"], found["message"]


# Without a child


def test_a_new_job_is_placed_and_a_suspended_one_planned_whatever_its_namespace_has_spent() -> None:
    assert look().action == Schedule()
    assert look(spec={"suspend": True}, over_budget="spent").action == Schedule()


def test_a_recorded_child_that_is_not_there_is_confirmed_first() -> None:
    assert look(RUNNING).action == ConfirmLoss()
    assert look(RUNNING, leaving=True).action == ConfirmLoss()
    assert look(RUNNING, spec_error="no such field").action == ConfirmLoss()


def test_a_spec_that_cannot_be_read_is_misconfigured() -> None:
    found = look(spec_error="spec.nodes: 0 is too small").action
    assert (written(found)["state"], reason(found)) == (
        "Misconfigured",
        ("InvalidSpec", "spec.nodes: 0 is too small"),
    )


@pytest.mark.parametrize(("message", "again"), [("the namespace has spent $5 of $5", 30.0), (None, 1.0)])
def test_a_namespace_without_budget_lets_its_job_wait(message: str | None, again: float) -> None:
    found = look(over_budget=message)
    assert found.requeue_after == again
    if message is None:
        assert found.action == Nothing(), "what it has spent is not known yet"
    else:
        assert (written(found.action)["state"], reason(found.action)) == (
            "Queued",
            ("NamespaceBudgetExceeded", message),
        )


def test_a_deleted_job_without_a_child_says_once_that_nothing_of_it_runs() -> None:
    found = look({"state": "Queued"}, leaving=True).action
    assert written(found)["state"] == "Failed"
    for state in ("Suspended", "Impossible", "Misconfigured"):
        assert look({"state": state}, leaving=True).action == Nothing()


def test_the_pause_after_a_failure_is_waited_for_to_the_second() -> None:
    entry = {"attempt": 1, "to": "2026-01-01T12:00:00Z", "blame": "Infrastructure"}
    failed = {"state": "Restarting", "attempt": 1, "failures": {"infrastructure": 1}, "attempts": [entry]}
    early = look(failed, second=9.5)
    assert (early.action, early.requeue_after) == (Nothing(), 0.5)
    assert look(failed, second=10.0).action == Schedule()


# With a child


def test_a_child_that_is_deleted_is_lost_once_its_pods_are_gone() -> None:
    going = replace(ONE, leaving=True)
    assert look(RUNNING, going, pods=(replace(RUNS, leaving=True),)).action == Nothing()
    found = look(RUNNING, going).action
    assert (written(found)["state"], reason(found, "Failed")[0]) == ("Failed", "ChildLost")


def test_a_child_that_no_status_names_is_not_lost_when_it_goes() -> None:
    made = Made("c", 1, "", 0.0, Hint(PLACEMENT))
    assert look({"state": "Queued"}, replace(ONE, leaving=True), made=made).action == Nothing()


@pytest.mark.parametrize(("suspend", "state"), [(False, "Restarting"), (True, "Suspended")])
def test_a_deleted_child_that_no_status_names_and_a_finalizer_keeps_holds_no_attempt_back(
    suspend: bool, state: str
) -> None:
    kept, spec = replace(ONE, leaving=True), {"suspend": suspend}
    first = look({}, kept, spec=spec)
    assert (first.action, first.requeue_after) == (Nothing(), 10.0)
    status = written(look({}, kept, spec=spec, second=10.0, seen=first.sightings).action)
    assert (status["state"], status["attempt"], "jobName" in status) == (state, 1, False)
    assert look(status, kept, spec=spec, second=11.0).action == Schedule()


def test_a_child_of_an_older_spec_goes_while_no_status_names_it() -> None:
    made = Made("c", 1, "", 0.0, Hint(PLACEMENT))
    assert look({"state": "Queued"}, ONE, generation=2, made=made).action == DeleteChild(ONE)
    assert look({"state": "Queued"}, ONE, generation=1, made=made).action != DeleteChild(ONE)
    assert look(RUNNING, ONE, pods=(RUNS,), generation=2, made=made).action != DeleteChild(ONE)


def test_a_retired_child_is_deleted_and_a_suspended_job_writes_the_end_first() -> None:
    assert look({"state": "Queued", "attempt": 1}, ONE, pods=(RUNS,)).action == DeleteChild(ONE)
    found = look(RUNNING, ONE, pods=(RUNS,), spec={"suspend": True}).action
    assert (written(found)["state"], "jobName" in written(found)) == ("Suspended", False)
    assert look({"state": "Suspended", "attempt": 1}, ONE, pods=(RUNS,), spec={"suspend": True}).action == DeleteChild(
        ONE
    )


@pytest.mark.parametrize("attempt", [1, 7])
@pytest.mark.parametrize("name", ["bogus", "other-0123456789-1", 7])
def test_a_recorded_name_that_no_child_can_have_is_no_end_of_an_attempt(name: Any, attempt: int) -> None:
    found = look({**RUNNING, "jobName": name, "attempt": attempt}, ONE, pods=(RUNS,)).action
    assert (written(found)["state"], written(found)["jobName"]) == ("Running", NAME)


@pytest.mark.parametrize("end", ["Failed", "Complete"])
def test_a_child_that_ends_after_its_attempt_is_over_ends_the_job_only_where_its_program_has_ended_well(
    end: str,
) -> None:
    ended = replace(ONE, ended=end)
    failed = replace(RUNS, phase="Failed", running=False, exit_code=3)
    well = replace(RUNS, phase="Succeeded", running=False, exit_code=0, ended="2026-01-01T12:00:05Z")
    on_request = replace(well, leaving=True, gone_at="2026-01-01T12:00:04Z")
    over = {"state": "Queued", "attempt": 1}
    if end == "Failed":
        assert look(over, ended, pods=(failed,)).action == DeleteChild(ended)
        assert look(over, replace(ended, leaving=True), pods=(failed,)).action == Schedule()
        return
    assert written(look(over, ended, pods=(well,)).action)["state"] == "Succeeded"
    assert look(over, ended, pods=(on_request,)).action == DeleteChild(ended)
    assert look(over, replace(ended, leaving=True), pods=(on_request,)).action == Schedule()


@pytest.mark.parametrize(("edit", "ends"), [({}, True), ({"suspend": True}, True), ({"command": ["new"]}, False)])
def test_an_attempt_that_is_over_ends_no_job_whose_program_is_another_one_now(edit: dict[str, Any], ends: bool) -> None:
    """A suspension, then another command: the status names no child, and the old program ends well before it is asked to."""
    well = replace(RUNS, phase="Succeeded", running=False, exit_code=0, ended="2026-01-01T12:00:05Z")
    ended = replace(ONE, ended="Complete", made_from=1, spec_digest=frozen_digest({"command": ["old"]}))
    spec, over = {"command": ["old"], **edit}, {"state": "Suspended", "attempt": 1}
    action = look(over, ended, pods=(well,), spec=spec, generation=3).action
    if ends:
        assert written(action)["state"] == "Succeeded"
    else:
        assert action == DeleteChild(ended)


def unable(**changes: Any) -> tuple[ChildRecord, PodState]:
    """A child whose preflight says that the image cannot run it."""
    check = Check(True, False, Reason.NO_INTERPRETER, "the image has no python3")
    return replace(ONE, **{"preflight": True, **changes}), replace(pod(0, "n0"), phase="Failed", check=check)


def test_an_image_without_an_interpreter_ends_the_attempt_and_the_next_one_runs_without_a_preflight() -> None:
    its, failed = unable()
    found = look({**HELD, "state": "Starting"}, its, pods=(failed,)).action
    assert reason(found) == ("NoInterpreter", reason(found)[1])
    assert "the image has no python3" in reason(found)[1]
    assert look({"state": "Queued", "attempt": 1}, its, pods=(failed,)).action == DeleteChild(its), "its end is written"


@pytest.mark.parametrize("why", ["it ran", "no preflight", "suspended"])
def test_what_a_preflight_says_counts_only_before_the_job_runs(why: str) -> None:
    its, failed = unable(preflight=False) if why == "no preflight" else unable()
    status = {**RUNNING} if why == "it ran" else {**HELD, "state": "Starting"}
    found = look(status, its, pods=(failed,), spec={"suspend": True} if why == "suspended" else {}).action
    assert not isinstance(found, WriteStatus) or reason(found)[0] != "NoInterpreter"


PROBE = replace(ONE, hint=Hint({**PLACEMENT, "probe": 50}))


def test_a_probe_ends_with_its_failure_and_its_success_is_the_jobs() -> None:
    crashed = replace(RUNS, phase="Failed", running=False, exit_code=1)
    ended = look(RUNNING, replace(PROBE, ended="Failed"), pods=(crashed,)).action
    assert isinstance(ended, EndProbe)
    assert (ended.result.pool, bool(ended.result.failed)) == ("h100", True)
    done = replace(RUNS, phase="Succeeded", running=False, exit_code=0)
    found = look(RUNNING, replace(PROBE, ended="Complete"), pods=(done,)).action
    assert written(found)["state"] == "Succeeded"


def test_a_probe_that_is_over_is_deleted() -> None:
    gone = replace(PROBE, ended="Failed")
    assert look({"state": "Queued", "attempt": 1}, gone).action == DeleteChild(gone)
    assert look({"state": "Queued", "attempt": 1}, PROBE, pods=(RUNS,)).action == DeleteChild(PROBE)


def test_a_running_job_is_compared_again_after_five_minutes_and_its_limit_on_the_second() -> None:
    held = written(look(RUNNING, ONE, pods=(RUNS,)).action)
    same = look(held, ONE, pods=(RUNS,))
    assert isinstance(same.action, WriteStatus)
    assert (same.action.numbers, same.requeue_after) == (Numbers.SAME, 300.0)
    almost = look(RUNNING, ONE, pods=(RUNS,), second=149.0, spec={"activeDeadlineSeconds": 150})
    assert (almost.requeue_after, written(almost.action)["state"]) == (1, "Running")
    over = look(RUNNING, ONE, pods=(RUNS,), second=150.0, spec={"activeDeadlineSeconds": 150}).action
    assert isinstance(over, Finish)
    assert reason(over, "Failed")[0] == "DeadlineExceeded"
    assert over.status["attempts"][0]["reason"] == "DeadlineExceeded"


def test_cost_that_moved_is_worth_a_write_when_the_job_is_due() -> None:
    status = {**RUNNING, "cost": {"accrued": "0.10"}}
    found = look(status, ONE, pods=(RUNS,), second=3600.0).action
    assert isinstance(found, WriteStatus)
    assert found.numbers is Numbers.MOVED
    assert written(found)["cost"]["accrued"] == "36.00"
    far = Measured(BEGAN + timedelta(seconds=1), fraction=0.5)
    told = look(status, ONE, pods=(RUNS,), second=1.0, telemetry=Telemetry(far)).action
    assert isinstance(told, WriteStatus)
    assert (told.numbers, written(told)["progress"]["percent"]) == (Numbers.NEWS, 50)


# After its end


def test_a_job_that_ended_is_deleted_with_its_time_to_live_but_not_beside_a_child_that_runs() -> None:
    ended = {**HELD, "state": "Succeeded", "completionTime": "2026-01-01T12:00:00Z"}
    spec, done = {"ttlSecondsAfterFinished": 20}, replace(ONE, ended="Complete")
    early = look(ended, done, second=19.5, spec=spec)
    assert (early.action, early.requeue_after) == (Nothing(), 0.5)
    assert look(ended, done, second=20.0, spec=spec).action == DeleteJob()
    assert look(ended, second=20.0, spec=spec).action == DeleteJob()
    assert look(ended, ONE, second=20.0, spec=spec, pods=(RUNS,)).action != DeleteJob()
    assert look(ended, done, second=20.0, spec=spec, leaving=True).action == Nothing()
    assert look(ended, done, second=10.0**6).action == Nothing(), "without one it stays"


def test_a_final_status_is_corrected_after_30_seconds_beside_a_child_that_runs() -> None:
    forged = {**HELD, "state": "Succeeded"}
    first = look(forged, ONE, pods=(RUNS,))
    assert (first.action, first.requeue_after) == (Nothing(), 30.0)
    assert look(forged, ONE, pods=(RUNS,), second=29.5, seen=first.sightings).action == Nothing()
    assert written(look(forged, ONE, pods=(RUNS,), second=30.0, seen=first.sightings).action)["state"] == "Running"
    gone = look(forged, replace(ONE, ended="Complete"), second=20.0, seen=first.sightings)
    assert gone.sightings.forged_end is None


@pytest.mark.parametrize("which", ["deadline", "another reason", "no deadline"])
def test_the_child_of_a_job_that_reached_its_deadline_goes(which: str) -> None:
    why = "DeadlineExceeded" if which != "another reason" else "PodFailed"
    status = {**HELD, "state": "Failed", "conditions": [{"type": "Failed", "status": "True", "reason": why}]}
    spec = {} if which == "no deadline" else {"activeDeadlineSeconds": 5}
    found = look(status, ONE, pods=(RUNS,), spec=spec).action
    assert (found == DeleteChild(ONE)) is (which == "deadline")
    assert look(status, replace(ONE, leaving=True), pods=(RUNS,), spec=spec).action == Nothing()
