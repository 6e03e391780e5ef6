"""The API server's clock by the Date headers of its answers, whatever the clock of the operator's machine says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpujob.cluster.client.server_clock import ServerClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Time:
    """A monotonic clock, and a machine whose wall clock is wrong by so many seconds; one that `goes` is noon at second 100."""

    def __init__(self, skew: float = 0.0, *, goes: bool = False) -> None:
        self.seconds = 100.0
        self.clock = ServerClock(
            lambda: self.seconds, lambda: NOON + timedelta(seconds=skew + (self.seconds - 100.0 if goes else 0.0))
        )

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


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_server_whose_clock_is_set_is_followed_after_three_answers_in_ten_seconds(step: int) -> None:
    time = settled()
    for second in (0, 1, 2, 9):
        time.seconds = 200.0 + second
        time.answer(NOON + timedelta(seconds=100 + step + second))
        assert time.clock.now() == NOON + timedelta(seconds=100 + second)
    time.seconds = 210.0
    time.answer(NOON + timedelta(seconds=110 + step))
    assert time.clock.now() == NOON + timedelta(seconds=110 + step)


def test_one_of_several_servers_whose_clock_is_wrong_changes_nothing() -> None:
    time = settled()
    for second in range(600):
        time.seconds = 200.0 + second
        wrong = 3600 if second % 3 else 0
        time.answer(NOON + timedelta(seconds=100 + second + wrong))
        assert time.clock.now() == NOON + timedelta(seconds=100 + second)


@pytest.mark.parametrize("wrong", [-3600, -180, 180, 3600])
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_servers_the_one_counts_that_the_clock_of_the_machine_supports(wrong: int, first: int) -> None:
    time = Time(2.0, goes=True)
    for second in range(600):
        time.seconds = 100.0 + second
        time.answer(NOON + timedelta(seconds=second + (wrong if second % 2 == first else 0)))
        if second > 20:
            assert time.clock.now() == NOON + timedelta(seconds=second)


def test_a_machine_whose_clock_is_wrong_supports_no_server() -> None:
    time = Time(-7200.0, goes=True)
    for second in range(600):
        time.seconds = 100.0 + second
        time.answer(NOON + timedelta(seconds=second + (3600 if second % 2 else 0)))
        assert time.clock.now() == NOON + timedelta(seconds=second)


def test_of_the_first_ten_seconds_the_earliest_answer_counts() -> None:
    time = Time()
    time.answer(NOON + timedelta(hours=1))
    time.seconds += 2
    time.answer(NOON + timedelta(seconds=2))
    assert time.clock.now() == NOON + timedelta(seconds=2)
    time.seconds += 2
    time.answer(NOON + timedelta(hours=1, seconds=4))
    assert time.clock.now() == NOON + timedelta(seconds=4)


def settled() -> Time:
    """At monotonic second 200 the server's time is 100 seconds after noon."""
    time = Time()
    time.answer(NOON)
    time.seconds = 200.0
    time.answer(NOON + timedelta(seconds=100))
    return time
