"""What /metrics says of jobs that failed lately, that wait, that make no first step, and that stand still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.cluster.app.job_conditions import awaited_steps, failed_jobs, stalled_jobs, waiting_jobs
from gpujob.cluster.metrics.collector import JobAlert
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import read_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(spec: Any = None, **status: Any) -> JobRecord:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T10:00:00Z"}
    return read_job({"metadata": metadata, "spec": spec or {}, "status": status})


def condition(kind: str, since: Any) -> dict[str, Any]:
    return {"type": kind, "status": "x", "lastTransitionTime": since}


def failed(**more: Any) -> dict[str, Any]:
    return {"state": "Failed", "completionTime": "2026-01-01T11:55:00Z", "display": {"reason": "NodeLost"},
            "placement": {"pool": "h100"}} | more  # fmt: skip


def test_a_job_that_failed_is_told_for_ten_minutes() -> None:
    assert list(failed_jobs([job(**failed())], NOW)) == [JobAlert("team", "j", "h100", "NodeLost")]
    assert list(failed_jobs([job(**failed())], NOW + timedelta(minutes=6))) == []


def test_one_that_never_ran_is_told_since_its_condition() -> None:
    status = failed(completionTime=None, conditions=[condition("Failed", "2026-01-01T11:59:00Z")], placement=7)
    assert list(failed_jobs([job(**status)], NOW)) == [JobAlert("team", "j", "", "NodeLost")]


@pytest.mark.parametrize("status", [{"state": "Succeeded"}, failed(state="Running"), failed(completionTime="late"), {}])
def test_others_have_not_failed(status: dict[str, Any]) -> None:
    assert list(failed_jobs([job(**status)], NOW)) == []


@pytest.mark.parametrize("state", ["Queued", "Restarting", "Misconfigured", "Impossible", "Placed", "Starting"])
def test_a_job_that_does_not_run_is_told_since_its_placement_changed(state: str) -> None:
    status = {"state": state, "display": {"reason": "Fragmented"}, "candidates": [{"pool": "near"}, {"pool": "far"}]}
    placed = [condition("Placed", "2026-01-01T11:00:00Z")]
    (found,) = waiting_jobs([job(**status, conditions=placed)])
    assert found == JobAlert("team", "j", "near", "Fragmented", state, datetime(2026, 1, 1, 11, tzinfo=UTC).timestamp())
    (found,) = waiting_jobs([job(**status, conditions=[condition("Placed", 7), "x"], placement={"pool": "mine"})])
    assert (found.since, found.pool) == (datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp(), "mine")


@pytest.mark.parametrize(
    "status",
    [{"state": "Running"}, {"state": "Suspended"}, {"state": "Failed"}, {}, {"state": []},
     {"state": "Placed", "display": {"reason": "ChildSuspended"}}],
)  # fmt: skip
def test_what_runs_has_ended_or_is_suspended_does_not_wait(status: dict[str, Any]) -> None:
    assert list(waiting_jobs([job(**status)])) == []


RUNS = {"state": "Running", "startTime": "2026-01-01T11:00:00Z", "placement": {"pool": "h100"}}


def awaited(said: Telemetry, spec: Any = None, fresh: bool = True, **status: Any) -> list[JobAlert]:
    return list(awaited_steps([job(spec, **(RUNS | status))], lambda _: said, lambda _: fresh))


def test_a_training_job_without_a_step_is_told_since_it_runs() -> None:
    since = datetime(2026, 1, 1, 11, tzinfo=UTC).timestamp()
    silent = Telemetry(Measured(at=NOW, counters={}))
    assert awaited(silent) == [JobAlert("team", "j", "h100", since=since)]
    assert awaited(Telemetry(Measured(at=NOW, counters={"steps": 0.0})), {"model": {"method": "LoRA"}}) != []


def test_nothing_is_said_of_what_steps_serves_is_not_read_or_does_not_run() -> None:
    silent = Telemetry(Measured(at=NOW, counters={}))
    assert awaited(Telemetry(Measured(at=NOW, counters={"steps": 3.0}))) == []
    assert awaited(SILENT) == []
    assert awaited(silent, fresh=False) == []
    assert awaited(silent, {"model": {"method": "Inference"}}) == []
    assert awaited(silent, state="Starting") == []
    assert awaited(silent, startTime="soon") == []


@pytest.mark.parametrize(
    ("state", "stands", "shown"), [("Running", "True", True), ("Running", "False", False), ("Failed", "True", False)]
)
def test_a_job_that_stands_still_is_shown_while_it_runs(state: str, stands: str, shown: bool) -> None:
    held = {"type": "Stalled", "status": stands, "reason": "Stalled"}
    found = list(stalled_jobs([job(state=state, placement={"pool": "h100"}, conditions=["x", held])]))
    assert found == ([JobAlert("team", "j", "h100")] if shown else [])
