"""The API server's clock by the Date headers of its answers, whatever the clock of the operator's machine says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpujob.cluster.client.server_clock import ServerClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Time:
    """A monotonic clock, and a machine whose wall clock is wrong by so many seconds."""

    def __init__(self, skew: float = 0.0) -> None:
        self.seconds = 100.0
        self.clock = ServerClock(lambda: self.seconds, lambda: NOON + timedelta(seconds=skew))

    def answer(self, at: datetime) -> None:
        self.clock.note(format_datetime(at, usegmt=True))


@pytest.mark.parametrize("skew", [0.0, 3600.0, -3600.0])
def test_the_first_answer_says_the_time_and_the_monotonic_clock_carries_it_on(skew: float) -> None:
    time = Time(skew)
    assert time.clock.now() == NOON + timedelta(seconds=skew)
    time.answer(NOON)
    assert time.clock.now() == NOON
    time.seconds += 90.0
    assert time.clock.now() == NOON + timedelta(seconds=90)


@pytest.mark.parametrize("header", [None, "", "yesterday", "Thu, 99 Jan 2026 12:00:00 GMT", "0", "\u2603"])
def test_what_is_no_date_is_ignored(header: str | None) -> None:
    time = Time()
    time.answer(NOON)
    time.clock.note(header)
    assert time.clock.now() == NOON


def test_an_answer_that_took_long_does_not_set_the_clock_back() -> None:
    time = Time()
    time.answer(NOON)
    time.seconds += 60
    time.answer(NOON + timedelta(seconds=1))
    time.answer(NOON + timedelta(seconds=60))
    assert time.clock.now() == NOON + timedelta(seconds=60)


def test_a_server_whose_clock_is_set_is_followed_ahead_at_once_and_back_after_three_answers() -> None:
    time = Time()
    time.answer(NOON)
    time.answer(NOON + timedelta(hours=1))
    assert time.clock.now() == NOON + timedelta(hours=1)
    for number in range(3):
        assert time.clock.now() >= NOON + timedelta(hours=1)
        time.seconds += 1
        time.answer(NOON + timedelta(seconds=number))
    assert abs((time.clock.now() - NOON).total_seconds() - 2) <= 1
