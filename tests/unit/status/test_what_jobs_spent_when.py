"""The spans of time in which a job held GPUs, and what of them lies in a window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.status.attempts.spending import spans

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
PLACEMENT = {"pool": "h100", "nodes": 2, "gpusPerNode": 8, "pricePerHour": "36.00"}


def entry(number: int, hour: int, cost: str | None = "36.00", **more: Any) -> dict[str, Any]:
    times = {"from": f"2026-01-01T{hour:02}:00:00Z", "to": f"2026-01-01T{hour + 1:02}:00:00Z"}
    return {
        "attempt": number,
        "pool": "l4",
        "gpus": 4,
        "reason": "x",
        **times,
        **({"cost": cost} if cost else {}),
        **more,
    }


def used(status: dict[str, Any], hours: float = 12.0) -> list[tuple[str, float, int | None]]:
    """Pool, GPU-hours and dollars of each span within the last hours."""
    found = [(span.pool, span.within(NOON - timedelta(hours=hours), NOON)) for span in spans(status, CREATED, NOON)]
    return [(pool, seconds / 3600, None if cost is None else cost // 10**6) for pool, (seconds, cost) in found]


def test_a_running_attempt_counts_until_now_and_earlier_ones_by_their_entries() -> None:
    status = {
        "attempt": 3, "startTime": "2026-01-01T10:00:00Z", "placement": PLACEMENT,
        "attempts": [entry(1, 3), entry(2, 5, None)], "cost": {"accrued": "108.00", "earlier": "36.00"},
    }  # fmt: skip
    assert used(status) == [("l4", 4.0, 36), ("l4", 4.0, None), ("h100", 32.0, 72)]
    assert used(status, 1.0) == [("l4", 0.0, 0), ("l4", 0.0, None), ("h100", 16.0, 36)]
    assert used(status, 8.5) == [("l4", 2.0, 18), ("l4", 4.0, None), ("h100", 32.0, 72)]


def test_the_last_attempt_of_a_job_that_has_ended_counts_once() -> None:
    ended = {
        "attempt": 1, "startTime": "2026-01-01T03:00:00Z", "completionTime": "2026-01-01T04:00:00Z",
        "placement": PLACEMENT, "attempts": [entry(1, 3)], "cost": {"accrued": "36.00"},
    }  # fmt: skip
    assert used(ended) == [("l4", 4.0, 36)]
    # As an earlier version wrote it.
    del ended["attempts"]
    assert used(ended) == [("h100", 16.0, 36)]


def test_attempts_that_are_listed_no_more_lie_before_those_that_are() -> None:
    status = {"attempt": 7, "attempts": [entry(6, 8), entry(7, 10)], "cost": {"accrued": "92.00", "earlier": "92.00"}}
    assert used(status) == [("l4", 4.0, 36), ("l4", 4.0, 36), ("", 0.0, 20)]
    assert used(status, 6.0) == [("l4", 4.0, 36), ("l4", 4.0, 36), ("", 0.0, 5)]


@pytest.mark.parametrize(
    "status",
    [{}, {"attempts": "x"}, {"attempts": [{"attempt": 1, "from": 7, "to": []}]}, {"startTime": "soon", "placement": "p"},
     {"attempts": [entry(1, 3) | {"to": "2026-01-01T02:00:00Z"}]}],
)  # fmt: skip
def test_what_cannot_be_read_is_left_out(status: dict[str, Any]) -> None:
    assert used(status) == []


def test_numbers_that_are_none_count_nothing() -> None:
    status = {"attempt": 1, "startTime": "2026-01-01T11:00:00Z", "placement": {"nodes": 10**12, "gpusPerNode": -1}}
    assert used(status) == [("", 0.0, None)]


def test_an_attempt_that_ended_when_it_began_is_listed() -> None:
    at_once = {"attempts": [entry(1, 3) | {"to": "2026-01-01T03:00:00Z"}]}
    assert [(span.begin, span.end) for span in spans(at_once, CREATED, NOON)] == [(NOON - timedelta(hours=9),) * 2]
