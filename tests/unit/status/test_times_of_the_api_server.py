"""Times as the API server writes them; whatever else a status says is no time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpujob.status.attempts.waits import read_time, write_time


def test_a_time_is_read_as_it_is_written() -> None:
    moment = datetime(2026, 11, 29, 13, 4, 5, tzinfo=UTC)
    assert read_time(write_time(moment)) == moment
    assert read_time("2024-02-29T23:59:59Z") == datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    [
        None, 7, True, [], {}, "", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00", "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.123456Z", "2026-W01-1T00:00:00Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z",
        "2026-01-01T25:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "20260101T00:00:00000Z", "-026-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z", "2026-01-01T00:00:0٣Z", "２０２６-01-01T00:00:00Z", "2026-01-01T00:00:00z", "2026/01/01T00:00:00Z",
        "2026-01-01T00-00-00Z", "2026-01-01T00:00:00\x00Z",
    ],
)  # fmt: skip
def test_what_is_none_is_none(said: Any) -> None:
    assert read_time(said) is None
