"""status.attempts lists when an attempt began and what it cost, also where its running was never written."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.attempts import gone, with_entry
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name

CHILD = child_name("j", "u", 1)
FINAL = {"jobName": CHILD, "startTime": "2026-01-01T12:00:00Z", "cost": {"accrued": "0.50"}}


@pytest.mark.parametrize(
    "held", [{}, {"jobName": CHILD, "attempt": 1}, {"jobName": CHILD, "startTime": FINAL["startTime"]}]
)
def test_the_beginning_and_the_cost_are_those_of_the_final_status(held: dict[str, Any]) -> None:
    job = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": CHILD, "namespace": "team", "uid": "c"}, "spec": {}})
    (entry,) = with_entry(job, child, dict(FINAL), ("Succeeded", "", "ended well"), "2026-01-01T13:00:00Z")["attempts"]
    assert (entry["from"], entry["cost"]) == ("2026-01-01T12:00:00Z", "0.50")


def test_an_attempt_that_never_ran_has_neither() -> None:
    job = read_job(
        {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": {"jobName": CHILD}}
    )
    child = read_child({"metadata": {"name": CHILD, "namespace": "team", "uid": "c"}, "spec": {}})
    status = with_entry(job, child, {"cost": {"accrued": "0.50"}}, ("Unbound", "", "not bound"), "2026-01-01T13:00:00Z")
    assert status["attempts"][0].keys() & {"from", "cost"} == set()


RUNNING = {
    "state": "Running", "jobName": CHILD, "attempt": 1, "startTime": "2026-01-01T12:00:00Z",
    "placement": {"pool": "h100", "vendor": "NVIDIA", "nodeNames": ["a", "b"], "pricePerHour": "36.00"},
}  # fmt: skip


def test_an_attempt_whose_child_somebody_deleted_is_listed_with_what_it_cost() -> None:
    job = read_job({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": {}, "status": RUNNING})
    status = gone(job, "2026-01-01T12:30:00Z")
    GPUJobStatus.model_validate({**status, "placement": None})
    assert status["attempts"] == [
        {
            "attempt": 1, "pool": "h100", "vendor": "NVIDIA", "nodes": ["a", "b"], "from": "2026-01-01T12:00:00Z",
            "to": "2026-01-01T12:30:00Z", "cost": "18.00", "reason": "ChildLost",
            "message": f"child Job {CHILD} was deleted by someone else; create a new GPUJob to run it again",
        }
    ]  # fmt: skip


def test_so_is_one_whose_job_is_deleted_and_kept_by_a_finalizer() -> None:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "deletionTimestamp": "2026-01-01T12:29:00Z"}
    job = read_job({"metadata": metadata, "spec": {}, "status": RUNNING})
    assert gone(job, "2026-01-01T12:30:00Z")["attempts"][0]["reason"] == "BeingDeleted"


@pytest.mark.parametrize("held", [{"placement": 7}, {"placement": {"nodeNames": "a"}}, {"attempt": None}])
def test_what_somebody_wrote_into_the_status_stops_no_end(held: dict[str, Any]) -> None:
    job = read_job({"metadata": {"name": "j", "uid": "u"}, "spec": {}, "status": RUNNING | held})
    (entry,) = gone(job, "2026-01-01T12:30:00Z")["attempts"]
    assert (entry["attempt"], entry["reason"]) == (1, "ChildLost")
    assert (entry["reason"], entry.get("nodes", [])) == ("ChildLost", [] if "placement" in held else ["a", "b"])


def test_a_job_without_a_child_lists_none() -> None:
    metadata = {"name": "j", "uid": "u", "deletionTimestamp": "2026-01-01T12:29:00Z"}
    assert "attempts" not in gone(
        read_job({"metadata": metadata, "status": {"state": "Queued"}}), "2026-01-01T12:30:00Z"
    )
