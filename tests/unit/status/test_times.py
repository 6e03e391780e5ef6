"""Times of Kubernetes are read as they are written, and nothing else is a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.status.attempts.waits import read_time, write_time


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda time: time.year >= 1000))
def test_a_written_time_is_read_to_the_second(time: datetime) -> None:
    assert read_time(write_time(time)) == time.replace(microsecond=0)


def test_a_time_is_in_utc() -> None:
    found = read_time("2026-02-28T23:59:59Z")
    assert found == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    assert found is not None
    assert found.utcoffset() is not None


@pytest.mark.parametrize("text", [
    None, "", 7, [], {}, b"2026-01-01T12:00:00Z", "2026-01-01", "2026-01-01T12:00:00", "2026-01-01T12:00:00+00:00",
    "2026-01-01T12:00:00.000000Z", "2026-13-01T12:00:00Z", "2026-02-30T12:00:00Z", "2026-01-01T24:00:01Z",
    "2026-01-01T12:00:60Z", "2026-W01-4T10:00:00Z", "2026-1-01T012:00:00Z", "0000-01-01T12:00:00Z",
    "٢٠٢٦-01-01T12:00:00Z", "2026-01-01T12:00:00Z\n", " 2026-01-01T12:00:00Z", "2026-01-01 12:00:00Z",
])  # fmt: skip
def test_what_is_no_time(text: Any) -> None:
    assert read_time(text) is None
