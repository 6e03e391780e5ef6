"""What ends a job for good counts by the time that this process saw pass: an API server's clock that jumps ends none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_bounded_waits import BEGAN, NAME, PLACEMENT, child, pod

from gpujob.lifecycle.actions import DeleteJob, Finish, Next, Nothing, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Lapse, Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.records.read_objects import read_job
from gpujob.values.vocabulary import State

CHILD = child()
RUNS = replace(pod(0, "n0"), phase="Running", running=True, started="2026-01-01T12:00:00Z")
RUNNING = {
    "state": "Running", "attempt": 1, "jobName": NAME, "jobUID": "c", "startTime": "2026-01-01T12:00:00Z",
    "placement": PLACEMENT | {"pricePerHour": "36.00"},
}  # fmt: skip
PLACED = {"state": "Placed", "attempt": 1, "jobName": NAME, "jobUID": "c", "placement": RUNNING["placement"]}
DONE = {"state": "Succeeded", "attempt": 1, "jobName": NAME, "completionTime": "2026-01-01T12:00:00Z"}
HOUR = 3600.0


class Process:
    """One process that looks at one job; `jump`: seconds by which the server's clock is off now."""

    def __init__(self, status: dict[str, Any], **spec: Any) -> None:
        self.status, self.spec, self.sightings = status, spec, Sightings()

    def look(self, second: float, jump: float = 0.0) -> Next:
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
        job = read_job({"metadata": metadata, "spec": self.spec, "status": self.status})
        live = () if self.status["state"] == "Succeeded" else (CHILD,)
        view = JobView(job, live, (RUNS,) if live else (), {"n0": True})
        now = Moment(second, BEGAN + timedelta(seconds=second + jump))
        found = next_action(view, self.sightings, now, Timings())
        self.sightings = found.sightings
        if isinstance(found.action, (WriteStatus, Finish)):
            self.status = dict(found.action.status)
        return found


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_deadline_comes_after_the_seconds_that_the_job_ran(jump: float) -> None:
    process = Process(RUNNING, activeDeadlineSeconds=1800)
    process.look(0.0)
    assert isinstance(process.look(100.0, jump).action, WriteStatus)
    assert process.status["state"] == "Running"
    assert process.look(1799.0, jump).requeue_after == 1.0
    assert isinstance(process.look(1800.0, jump).action, Finish)
    assert process.status["cost"] == {"accrued": "18.00"}


def test_a_process_that_made_the_child_knows_that_it_ran_no_longer_whatever_the_server_says() -> None:
    process = Process(PLACED, activeDeadlineSeconds=1800)
    process.sightings = Sightings().of_new_child(CHILD.uid, 0.0)
    process.look(10.0, HOUR)
    assert (process.status["state"], process.status["cost"]) == ("Running", {"accrued": "0.10"})


def test_the_waits_of_a_new_child_begin_with_it_and_nothing_was_read_of_it() -> None:
    found = Sightings(refused=("old", 1.0, 3), unbound=("old", 1.0)).of_new_child("new", 7.0)
    assert (found.made, found.unbound, found.refused) == (("new", 7.0), ("new", 7.0), ("new", 7.0, 0))
    assert found.not_running == (State.PLACED, 7.0)


def test_a_process_that_starts_ends_a_job_whose_deadline_passed_while_it_was_off() -> None:
    process = Process(RUNNING, activeDeadlineSeconds=1800)
    assert isinstance(process.look(1900.0).action, Finish)
    assert process.status["display"]["reason"] == "DeadlineExceeded"


def test_what_a_suspended_attempt_cost_has_no_hour_that_did_not_pass() -> None:
    process = Process(RUNNING)
    process.look(0.0)
    process.spec = {"suspend": True}
    process.look(100.0, HOUR)
    assert (process.status["state"], process.status["ranSeconds"]) == ("Suspended", 100)
    assert process.status["cost"] == {"accrued": "1.00", "earlier": "1.00"}


def test_a_job_that_has_ended_stays_for_as_long_as_it_is_to() -> None:
    process = Process(DONE, ttlSecondsAfterFinished=600)
    process.look(0.0)
    assert process.look(100.0, HOUR).action == Nothing()
    assert process.look(600.0, HOUR).action == DeleteJob()
    late = Process(DONE, ttlSecondsAfterFinished=600)
    assert late.look(700.0).action == DeleteJob(), "it ended while no process looked"


def test_the_time_in_which_a_job_is_tried_again_does_not_end_at_once() -> None:
    failed = replace(RUNS, phase="Failed", running=False, exit_code=3)
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
    spec = {"retries": {"user": 3, "withinSeconds": 1800}}
    status = RUNNING | {"failures": {"user": 1}, "failingSince": "2026-01-01T12:00:00Z"}
    job = read_job({"metadata": metadata, "spec": spec, "status": status})
    ended = replace(CHILD, ended="Failed")
    for second, state in ((100.0, "Restarting"), (1900.0, "Failed")):
        seen = Sightings(failing=Lapse("2026-01-01T12:00:00Z", 0.0, 0.0, 0.0))
        now = Moment(second, BEGAN + timedelta(seconds=second + HOUR))
        action = next_action(JobView(job, (ended,), (failed,), {"n0": True}), seen, now, Timings()).action
        assert isinstance(action, (WriteStatus, Finish))
        assert action.status["state"] == state
