"""One line of the operator's log for each change of a job's state or reason, and none while only numbers move."""

from __future__ import annotations

from typing import Any

from gpujob.status.job.events import transition


def status(state: str, reason: str, message: str = "", kind: str = "Placed", **members: Any) -> dict[str, Any]:
    conditions = [{"type": "Other", "message": "no"}, {"type": kind, "message": message}]
    return {"state": state, "display": {"reason": reason}, "conditions": conditions, **members}


PLACEMENT = {"pool": "h100", "accelerator": "H100-SXM", "nodes": 2, "gpusPerNode": 8, "image": "i", "message": "best"}


def test_where_and_why_a_job_is_placed() -> None:
    placed = status("Placed", "Placed", "h100 is cheapest", placement=PLACEMENT, jobName="j-1", attempt=1)
    assert transition({}, placed) == {
        "state": "Placed", "reason": "Placed", "message": "h100 is cheapest", "attempt": 1,
        "pool": "h100", "accelerator": "H100-SXM", "nodes": 2, "gpusPerNode": 8, "image": "i",
    }  # fmt: skip


def test_why_a_job_waits_and_how_it_ended() -> None:
    queued = status("Queued", "NoCapacity", "needs 8 free GPUs")
    assert transition({}, queued) == {"state": "Queued", "reason": "NoCapacity", "message": "needs 8 free GPUs"}
    runs = status("Running", "Running", "the pod runs on node n", "Running", placement=PLACEMENT, jobName="j-1")
    failed = status("Failed", "PodFailed", "exit code 1", "Failed", placement=PLACEMENT, completionTime="T")
    failed["display"]["cost"] = "$1.20"
    assert transition(runs, failed) == {
        "was": "Running", "state": "Failed", "reason": "PodFailed", "message": "exit code 1", "cost": "$1.20",
    }  # fmt: skip


def test_other_numbers_are_no_line() -> None:
    held = status("Queued", "NoCapacity", "3 of 8 are free")
    assert transition(held, status("Queued", "NoCapacity", "2 of 8 are free")) is None
    assert transition(held, status("Queued", "QuotaExceeded", "quota q")) is not None
    runs = status("Running", "Running", "all 2 pods run", "Running", jobName="j-1")
    assert transition(runs, runs | {"progress": {"percent": 50}}) is None
    assert transition(runs, runs | {"jobName": "j-2"}) is not None


def test_what_a_pod_says_stays_on_its_line() -> None:
    line = transition({}, status("Failed", "PodFailed", "a\nlevel=error forged", "Failed"))
    assert line is not None
    assert line["message"] == "a\\nlevel=error forged"
