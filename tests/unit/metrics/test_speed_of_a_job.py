"""Rates over a window of readings: steady, and right after a restart or when a counter comes late."""

from __future__ import annotations

import pytest

from gpujob.cluster.metrics.durations import Durations
from gpujob.cluster.metrics.window import SPAN, Window


def test_a_rate_is_what_a_counter_gained_over_the_window() -> None:
    window = Window()
    for at in range(0, 300, 15):
        window.add(float(at), {"steps": at * 2.0})
    assert window.rates() == {"steps": pytest.approx(2.0)}
    assert window.readings[-1][0] - window.readings[0][0] == pytest.approx(SPAN, abs=15)


def test_a_job_that_stopped_shows_nothing_once_the_window_has_passed() -> None:
    window = Window()
    for at in range(0, 300, 15):
        window.add(float(at), {"steps": min(at, 60) * 2.0})
    assert window.rates() == {"steps": 0.0}


def test_one_reading_and_two_close_ones_tell_no_rate() -> None:
    window = Window()
    assert window.rates() == {}
    window.add(0.0, {"steps": 5.0})
    window.add(1.0, {"steps": 9.0})
    assert window.rates() == {}


def test_a_program_that_began_anew_is_measured_anew() -> None:
    window = Window()
    window.add(0.0, {"steps": 500.0})
    window.add(15.0, {"steps": 3.0})
    assert window.rates() == {}
    window.add(30.0, {"steps": 18.0})
    assert window.rates() == {"steps": pytest.approx(1.0)}


def test_a_counter_that_comes_late_is_measured_since_it_came() -> None:
    window = Window()
    window.add(0.0, {"steps": 0.0})
    window.add(50.0, {"steps": 50.0, "tokens": 1000.0})
    window.add(60.0, {"steps": 60.0, "tokens": 2000.0})
    assert window.rates() == {"steps": pytest.approx(1.0), "tokens": pytest.approx(100.0)}


def test_durations_are_counted_below_their_bounds() -> None:
    durations = Durations()
    for seconds in (0.005, 0.01, 0.3, 200000.0, -4.0):
        durations.observe(seconds)
    buckets = dict(durations.buckets())
    assert (buckets["0.01"], buckets["0.25"], buckets["0.5"], buckets["86400.0"], buckets["+Inf"]) == (3, 3, 4, 4, 5)
    assert durations.total == pytest.approx(200000.315)


def test_a_counter_that_was_away_and_comes_back_lower_is_measured_anew() -> None:
    window = Window()
    for at, counters in (
        (0.0, {"steps": 10.0, "tokens": 1000.0}),
        (10.0, {"steps": 20.0}),
        (20.0, {"steps": 30.0, "tokens": 5.0}),
    ):
        window.add(at, counters)
    assert (window.rates(), window.overall()) == ({}, ({}, 0.0))
    window.add(30.0, {"steps": 40.0, "tokens": 15.0})
    assert window.rates() == {"steps": 1.0, "tokens": 1.0}


def test_a_process_that_ends_before_the_others_sets_no_counter_back() -> None:
    """A counter of Prometheus that goes back began again: all that it counts would be gained once more."""
    window = Window()
    for at, steps, tokens in (
        (0.0, 100.0, 1000.0),
        (15.0, 115.0, 1150.0),
        (30.0, 114.0, 1010.0),
        (45.0, 130.0, 1300.0),
    ):
        window.add(at, {"steps": steps, "tokens": tokens})
    assert [counters["tokens"] for _, counters in window.readings] == [1000.0, 1150.0, 1150.0, 1300.0]
    assert [counters["steps"] for _, counters in window.readings] == [100.0, 115.0, 115.0, 130.0]
    assert window.rates()["steps"] == pytest.approx(30 / 45)


TRAINS = {"steps": 100.0, "samples": 3200.0, "tokens": 6400.0}


@pytest.mark.parametrize("late", [("samples",), ("tokens",), ("samples", "tokens"), ("steps",)])
@pytest.mark.parametrize("steps", [0.0, 1.0])
def test_a_counter_that_the_first_reading_lacks_is_measured_all_the_same(late: tuple[str, ...], steps: float) -> None:
    """The unit of a profile is the same in each run, whenever the operator looks first."""
    window = Window()
    before = {"steps": steps, "samples": 32 * steps, "tokens": 64 * steps}
    window.add(0.0, {key: value for key, value in before.items() if key not in late})
    for at in (15.0, 30.0, 45.0):
        window.add(at, {key: value * at / 15 for key, value in TRAINS.items()})
    rates, seconds = window.overall()
    assert (rates.keys(), seconds) == (TRAINS.keys(), 45.0)
    assert rates == pytest.approx({"steps": 100 / 15, "samples": 3200 / 15, "tokens": 6400 / 15}, rel=0.01)
    assert window.rates().keys() == TRAINS.keys()


def test_a_counter_of_the_last_reading_alone_counted_nothing_before_the_first_step() -> None:
    window = Window()
    window.add(0.0, {"steps": 0.0})
    window.add(20.0, {"steps": 10.0, "samples": 320.0})
    assert window.overall() == ({"steps": 0.5, "samples": 16.0}, 20.0)
    assert window.rates() == {"steps": 0.5, "samples": 16.0}
    # What it had counted while steps were made is not known.
    began = Window()
    began.add(0.0, {"steps": 1.0})
    began.add(20.0, {"steps": 11.0, "samples": 320.0})
    assert (began.overall()[0], began.rates()) == ({"steps": 0.5}, {"steps": 0.5})


def test_a_program_that_began_anew_keeps_no_first_reading_of_any_counter() -> None:
    window = Window()
    window.add(0.0, {"steps": 500.0, "samples": 5000.0})
    window.add(15.0, {"steps": 0.0})
    window.add(30.0, {"steps": 15.0, "samples": 150.0})
    window.add(45.0, {"steps": 30.0, "samples": 300.0})
    assert window.overall() == ({"steps": 1.0, "samples": 10.0}, 30.0)
