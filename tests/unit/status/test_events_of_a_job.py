"""The Event of each change of a job's status: which changes have one, with which words, and how long its texts may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_reporting import NOW, job

from gpujob.status.job.events import event_of

BUDGET = {"reason": "BudgetExceeded"}


def status(state: str, name: str = "", reason: str = "", *conditions: dict[str, str], **more: Any) -> dict[str, Any]:
    return {
        "state": state, "display": {"reason": reason}, "conditions": list(conditions), "attempt": 1,
        **({"jobName": name} if name else {}), **more,
    }  # fmt: skip


def condition(kind: str, reason: str, holds: str = "True", at: str = NOW) -> dict[str, str]:
    return {"type": kind, "status": holds, "reason": reason, "message": f"why {reason}", "lastTransitionTime": at}


STALLED = condition("Stalled", "Stalled")
FAILED = {"attempt": 1, "blame": "User"}


@pytest.mark.parametrize(
    ("held", "written", "told"),
    [
        ({}, status("Queued"), None),
        ({}, status("Placed", "j-1", "Placed", condition("Placed", "Placed")), ("placed", "Normal", "Place", "Placed")),
        # A child that starts or runs before its placement was written.
        ({}, status("Starting", "j-1", "x", condition("Placed", "Placed")), ("placed", "Normal", "Place", "Placed")),
        ({}, status("Running", "j-1", "x", condition("Placed", "Placed")), ("placed", "Normal", "Place", "Placed")),
        (status("Placed", "j-1"), status("Starting", "j-1"), None),
        (status("Starting", "j-1"), status("Running", "j-1"), None),
        # A child that was suspended or resumed is placed already; the next attempt has its own.
        (status("Running", "j-1"), status("Placed", "j-1"), None),
        (status("Restarting", "j-1"), status("Placed", "j-2", attempt=2), ("placed", "Normal", "Place", "Placed")),
        (status("Placed", "j-1"), status("Placed", "j-2", attempt=2), None),
        (status("Queued"), status("Impossible", "", "x", condition("Placed", "MemTooSmall", "False")),
         ("impossible", "Warning", "Place", "MemTooSmall")),
        (status("Queued"), status("Misconfigured", "", "x", condition("Placed", "InvalidSpec", "False")),
         ("misconfigured", "Warning", "Place", "InvalidSpec")),
        (status("Impossible"), status("Impossible"), None),
        (status("Running", "j-1"),
         status("Succeeded", "j-1", "x", condition("Placed", "Placed"), condition("Complete", "Succeeded")),
         ("succeeded", "Normal", "Run", "Succeeded")),
        (status("Running", "j-1"),
         status("Failed", "j-1", "x", condition("Placed", "Placed"), condition("Failed", "PodFailed")),
         ("failed", "Warning", "Place", "PodFailed")),
        # A job restarts where its last attempt failed; else it waits for pods of a stopped one.
        (status("Running", "j-1"), status("Restarting", attempts=[FAILED]), ("restarting", "Warning", "Place", "Restarting")),
        (status("Running", "j-1"), status("Restarting", attempts=[{"attempt": 1}]), None),
        (status("Running", "j-1"), status("Restarting", attempts=[{"attempt": 2, "blame": "User"}]), None),
        (status("Running", "j-1"), status("Restarting"), None),
        # A suspended job has one only where it has spent its budget.
        (status("Queued"), status("Suspended", "", "PlanOnly"), None),
        (status("Queued"), status("Suspended", "", "BudgetExceeded"), ("suspended", "Warning", "Place", "Suspended")),
        (status("Suspended"), status("Suspended", "", "BudgetExceeded"), None),
        (status("Queued"), status("Queued", "", "BudgetExceeded"), None),
        # A stall that begins.
        (status("Running", "j-1"), status("Running", "j-1", "x", STALLED),
         ("stalled.20260101000000", "Warning", "Run", "Stalled")),
        (status("Running", "j-1", "x", condition("Stalled", "StepsGoOn", "False")), status("Running", "j-1", "x", STALLED),
         ("stalled.20260101000000", "Warning", "Run", "Stalled")),
        (status("Running", "j-1", "x", STALLED), status("Running", "j-1", "x", STALLED), None),
        (status("Running", "j-1", "x", STALLED), status("Running", "j-1"), None),
        (status("Running", "j-1"), status("Running", "j-1", "x", condition("Stalled", "StepsGoOn", "False")), None),
        (status("Running", "j-1"), status("Running", "j-1", "x", condition("Other", "Stalled")), None),
    ],
)  # fmt: skip
def test_which_change_has_an_event(
    held: dict[str, Any], written: dict[str, Any], told: tuple[str, str, str, str] | None
) -> None:
    event = event_of(job(**held), written, "here", NOW)
    if told is None:
        assert event is None
        return
    assert event is not None
    word, how, action, reason = told
    assert event["metadata"] == {"name": f"j.u.{written['attempt']}.{word}.1", "namespace": ""}
    assert (event["type"], event["action"], event["reason"]) == (how, action, reason)
    assert event["note"] in ("", f"why {reason}")
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"


def test_a_job_that_is_being_deleted_has_none() -> None:
    leaving = replace(job(**status("Running", "j-1")), leaving=True)
    assert event_of(leaving, status("Failed", "j-1"), "here", NOW) is None


def test_no_text_of_an_event_is_longer_than_the_api_server_takes() -> None:
    long = "x" * 5000
    record = replace(job(), name=long, uid=long, namespace="team", generation=7)
    said = {"type": "Placed", "reason": "InvalidSpec", "message": long}
    event = event_of(record, {"state": "Misconfigured", "display": {}, "conditions": [said]}, long, NOW)
    assert event is not None
    assert event["metadata"] == {"name": f"{long[:200]}.{long[:8]}.0.misconfigured.7", "namespace": "team"}
    assert (event["note"], event["reportingInstance"]) == (long[:1024], long[:128])
    ended = status("Running", "j-1", "x", condition("Stalled", "Stalled", at="2026-01-01T00:00:00.123456789Z"))
    stalled = event_of(job(**status("Running", "j-1")), ended, "here", NOW)
    assert stalled is not None
    assert stalled["metadata"]["name"] == "j.u.1.stalled.20260101000000.1"
