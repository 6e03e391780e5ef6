"""What of a reporter's figures a status holds, and which changes of them are worth a write: each bound and each missing figure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.status.attempts import progress
from gpujob.status.attempts.progress import LONGEST, Measured
from gpujob.status.attempts.waits import write_time

AT = datetime(2026, 1, 1, tzinfo=UTC)


def time(seconds: float) -> str:
    return write_time(AT + timedelta(seconds=seconds))


@pytest.mark.parametrize(("more", "ends"), [(-1, True), (0, False)])
def test_a_remaining_time_of_ten_years_is_none(more: int, ends: bool) -> None:
    found = progress.members({}, Measured(AT, remaining=LONGEST.total_seconds() + more))
    assert ("estimatedEnd" in found["progress"]) is ends


@pytest.mark.parametrize(
    ("held", "measured", "lost"),
    [
        ({}, Measured(AT, checkpoint=5, unsaved=3), 3),
        ({"lostSteps": 4}, Measured(AT, checkpoint=5, unsaved=3), 7),
        ({"lostSteps": 4}, Measured(AT, checkpoint=5, unsaved=0), 4),
        # Before the first checkpoint of the attempt all of its steps are lost.
        ({"step": 1}, Measured(AT, counters={"steps": 9.0}), 9),
        ({"step": 1}, Measured(AT), None),
    ],
)
def test_the_steps_that_a_failure_lost(held: dict[str, Any], measured: Measured, lost: int | None) -> None:
    assert progress.after_failure({"checkpoint": held}, measured).get("lostSteps") == lost


def status(percent: int | None = None, updated: float | str | None = 0, **more: Any) -> dict[str, Any]:
    told = {"percent": percent, "updated": time(updated) if isinstance(updated, (int, float)) else updated}
    return {"progress": {key: value for key, value in told.items() if value is not None}, **more}


FAST = {"throughput": {"tokensPerSecond": "5"}}


@pytest.mark.parametrize(
    ("held", "wanted", "worth"),
    [
        (status(10), status(14), False),
        (status(10), status(15), True),
        (status(None), status(4), False),
        (status(None), status(5), True),
        (status(10), status(None), False),
        # A new checkpoint, at most once a minute; where a time is missing or goes back, at once.
        (status(checkpoint={"step": 1}), status(None, 60, checkpoint={"step": 2}), True),
        (status(checkpoint={"step": 1}), status(None, 59, checkpoint={"step": 2}), False),
        (status(checkpoint={"step": 1}), status(None, 0, checkpoint={"step": 2}), False),
        (status(checkpoint={"step": 1}), status(None, -1, checkpoint={"step": 2}), True),
        (status(None, None, checkpoint={"step": 1}), status(None, 1, checkpoint={"step": 2}), True),
        (status(checkpoint={"step": 1}), status(None, "soon", checkpoint={"step": 2}), True),
        (status(checkpoint={"step": 1}), status(None, 60, checkpoint={"step": 1}), False),
        # The first speed, after a minute, unless the job is about to end.
        ({"startTime": time(0)}, status(None, 60, **FAST), True),
        ({"startTime": time(0)}, status(None, 59, **FAST), False),
        ({"startTime": time(0), **FAST}, status(None, 60, **FAST), False),
        ({"startTime": time(0)}, status(None, 60, throughput={"tokensPerSecond": "0"}), False),
        ({"startTime": time(0)}, status(None, 60), False),
        ({}, status(None, 60, **FAST), False),
        ({"startTime": time(0)}, status(None, None, **FAST), False),
        ({"startTime": time(0)}, {"progress": {"updated": time(60), "estimatedEnd": time(360)}, **FAST}, True),
        ({"startTime": time(0)}, {"progress": {"updated": time(60), "estimatedEnd": time(359)}, **FAST}, False),
    ],
)
def test_what_is_worth_a_write_before_its_time(held: dict[str, Any], wanted: dict[str, Any], worth: bool) -> None:
    assert progress.is_worth_a_write(held, wanted) is worth
    assert progress.differs(held, wanted) is worth
    assert progress.differs(held, wanted | {"display": {"cost": "$1.00"}})
    shown = {"display": {"cost": "$1.00"}}
    assert progress.differs(held | shown, wanted | shown) is worth


@pytest.mark.parametrize(
    ("rate", "text"),
    [(100.4, "100"), (100, "100"), (99.94, "99.9"), (99.96, "100"), (1e-3, "0.001"), (0.00123456, "0.00123"), (9.99e-4, "0"), (0, "0")],
)  # fmt: skip
def test_a_rate_in_three_digits(rate: float, text: str) -> None:
    assert progress.members({}, Measured(AT, rates={"steps": rate}))["throughput"] == {"stepsPerSecond": text}
