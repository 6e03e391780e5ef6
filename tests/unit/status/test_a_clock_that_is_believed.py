"""The clock by which a namespace's spending is booked: the server's, as far as the own monotonic clock bears it out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpujob.status.attempts.believed_clock import KEPT, BelievedClock, Turn

T = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = 3600.0


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def begun() -> BelievedClock:
    """A clock whose first turn was at second 0."""
    clock = BelievedClock()
    assert clock.turn(0.0, T, T, None) == Turn(T, None)
    return clock


def test_a_clock_that_goes_on_is_believed_to_the_second() -> None:
    clock = begun()
    assert clock.turn(30.0, at(31.0), at(30.0), None) == Turn(at(31.0), None)
    assert clock.turn(60.0, at(60.0), at(60.0), None) == Turn(at(60.0), None)
    assert clock.now(75.0, at(0.0)) == at(75.0)


@pytest.mark.parametrize("off", [HOUR, -HOUR, 40 * 24 * HOUR])
def test_a_jump_that_passes_changes_nothing(off: float) -> None:
    clock = begun()
    assert clock.turn(30.0, at(30.0 + off), at(30.0), None) == Turn(at(30.0), None)
    assert clock.now(40.0, at(40.0 + off)) == at(40.0)
    assert clock.turn(60.0, at(60.0), at(60.0), None) == Turn(at(60.0), None)


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_of_a_clock_that_is_set_only_the_time_that_passed_counts(off: float) -> None:
    clock = begun()
    turns = [clock.turn(second, at(second + off), at(second), None) for second in (30.0, 60.0, 120.0, 30.0 + KEPT)]
    assert turns[:-1] == [Turn(at(30.0), None), Turn(at(60.0), None), Turn(at(120.0), None)]
    assert turns[-1] == Turn(at(150.0 + off), at(120.0 + off))
    assert clock.turn(180.0, at(180.0 + off), at(180.0), None) == Turn(at(180.0 + off), None)


def test_two_servers_that_say_other_times_in_turn_are_not_believed() -> None:
    clock = begun()
    for second in range(30, 600, 30):
        off = HOUR if second % 60 else -HOUR
        assert clock.turn(float(second), at(second + off), at(second), None) == Turn(at(second), None)


def test_a_process_that_starts_asks_its_machine() -> None:
    clock = BelievedClock()
    assert clock.turn(0.0, at(HOUR), at(0.0), at(-30.0)) == Turn(at(0.0), None)
    assert clock.turn(30.0, at(30.0), at(30.0), None) == Turn(at(30.0), None)


def test_a_machine_that_is_behind_is_not_believed_for_long_and_nothing_is_lost() -> None:
    clock = BelievedClock()
    for second in (0.0, 60.0):
        turn = clock.turn(second, at(HOUR + second), at(second), at(-30.0))
        assert turn == Turn(at(second), None)
    # The hour before it is booked then, from where the count ended.
    assert clock.turn(KEPT, at(HOUR + KEPT), at(KEPT), None) == Turn(at(HOUR + KEPT), None)


@pytest.mark.parametrize("here", [-HOUR, 2 * HOUR, None], ids=["before the last count", "ahead", "not asked"])
def test_a_machine_that_is_no_witness_is_left_out(here: float | None) -> None:
    clock = BelievedClock()
    turn = clock.turn(0.0, at(HOUR), None if here is None else at(here), at(0.0))
    assert turn == Turn(at(HOUR), None)
