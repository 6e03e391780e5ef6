"""Pools and nodes that a status leaves out come back after the time that such entries last, whatever the API server's clock says."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from gpujob.status.attempts.exclusions import NOTHING, Clocks, by_own_clock, with_right_times
from gpujob.status.job.status_patch import patch

LASTS = {"excludedPools": 900.0, "excludedNodes": 600.0}
POOL = {"name": "p", "until": "2026-01-01T13:15:00Z", "reason": "Unschedulable"}
NODE = {"name": "n", "until": "2026-01-01T13:10:00Z", "attempt": 1}
ONE_O_CLOCK: Final = datetime(2026, 1, 1, 13, tzinfo=UTC)


def at(own: float, server: float = 0.0, here: float | None = None) -> Clocks:
    """A moment: seconds after one o'clock by the server, and by this machine."""
    machine = None if here is None else ONE_O_CLOCK + timedelta(seconds=here)
    return Clocks(own, ONE_O_CLOCK + timedelta(seconds=server), machine)


def test_an_entry_counts_for_as_long_as_such_entries_last_since_this_process_saw_it() -> None:
    status = {"state": "Queued", "excludedPools": [POOL], "excludedNodes": [NODE]}
    now, seen, left = by_own_clock(status, NOTHING, at(100.0), LASTS)
    assert (now, left) == (status, 600.0)
    now, seen, left = by_own_clock(status, seen, at(700.0, 600.0), LASTS)
    assert (now, left) == ({"state": "Queued", "excludedPools": [POOL], "excludedNodes": []}, 300.0)
    now, seen, left = by_own_clock(status, seen, at(1000.0, 900.0), LASTS)
    assert (now, left) == ({"state": "Queued", "excludedPools": [], "excludedNodes": []}, math.inf)


def test_one_that_is_written_again_begins_again_and_what_is_gone_is_forgotten() -> None:
    _, seen, _ = by_own_clock({"excludedPools": [POOL]}, NOTHING, at(100.0), LASTS)
    again = {"excludedPools": [POOL | {"until": "2026-01-01T13:30:00Z"}]}
    now, seen, left = by_own_clock(again, seen, at(1000.0, 900.0), LASTS)
    assert (now, left) == (again, 900.0)
    assert by_own_clock({}, seen, at(1000.0, 900.0), LASTS) == ({}, NOTHING, math.inf)


def test_one_that_keeps_other_pools_away_lasts_twice_as_long() -> None:
    both = {"excludedPools": [POOL | {"until": "2026-01-01T13:30:00Z", "othersUntil": "2026-01-01T13:15:00Z"}]}
    assert by_own_clock(both, NOTHING, at(0.0), LASTS)[2] == 1800.0


def test_what_is_no_entry_is_left_alone() -> None:
    for odd in (None, 7, "x", [None, 7, "x"], {"name": "p"}):
        status = {"excludedPools": odd}
        assert by_own_clock(status, NOTHING, at(0.0), LASTS) == (status, NOTHING, math.inf)


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 180.0, -180.0])
def test_a_jump_of_the_servers_clock_ends_no_entry_and_makes_none_longer(jump: float) -> None:
    """The status has its times as the server's clock says them then."""
    status = {"excludedPools": [POOL | {"othersUntil": "2026-01-01T13:07:00Z"}], "excludedNodes": [NODE]}
    _, seen, _ = by_own_clock(status, NOTHING, at(100.0), LASTS)
    moved, seen, left = by_own_clock(status, seen, at(150.0, 50.0 + jump), LASTS)
    assert left == 550.0
    shifted = {
        name: ONE_O_CLOCK + timedelta(minutes=minutes, seconds=jump)
        for name, minutes in (("n", 10), ("o", 7), ("p", 15))
    }
    said = {name: f"{time:%Y-%m-%dT%H:%M:%SZ}" for name, time in shifted.items()}
    assert moved["excludedNodes"] == [NODE | {"until": said["n"]}]
    assert moved["excludedPools"] == [POOL | {"until": said["p"], "othersUntil": said["o"]}]


@pytest.mark.parametrize(
    ("server", "here", "left"),
    [
        (30.0, 30.0, 570.0),
        (30.0, None, 570.0),
        (3630.0, 30.0, 570.0),
        (210.0, 30.0, 570.0),
        (-3570.0, 30.0, 570.0),
        (3630.0, None, math.inf),
        (3630.0, 3630.0, math.inf),
        (30.0, 3630.0, 570.0),
        (30.0, -3570.0, 570.0),
        (-3570.0, -3570.0, 600.0),
        (-3570.0, 630.0, math.inf),
        (-300.0, -300.0, 600.0),
        (900.0, 300.0, 300.0),
        (3600.0, 0.0, 600.0),
    ],
    ids=[
        "both agree",
        "no machine is asked",
        "the server is an hour ahead",
        "the server is three minutes ahead",
        "the server is an hour behind",
        "it is over",
        "it is over by both",
        "the machine is an hour ahead",
        "the machine is an hour behind",
        "both say that it lasts for longer than any",
        "it is over, and the server is an hour behind",
        "of a clock that is a little ahead",
        "it is over for as long as it lasts by the machine",
        "a new one, and the server is an hour ahead",
    ],
)
def test_a_process_that_starts_asks_its_machine_too(server: float, here: float | None, left: float) -> None:
    status = {"excludedNodes": [NODE]}
    now, seen, rest = by_own_clock(status, NOTHING, at(100.0, server, here), LASTS)
    assert rest == left
    assert bool(now["excludedNodes"]) is (left < math.inf)
    # From then on its own clock counts.
    assert by_own_clock(status, seen, at(110.0, server - 7000.0, here), LASTS)[2] == (
        left - 10.0 if left < math.inf else math.inf
    )


def test_a_pool_of_another_clock_is_left_out_no_longer_than_pools_are() -> None:
    far = {"excludedPools": [POOL | {"until": "2027-01-01T13:15:00Z"}]}
    now, _, left = by_own_clock(far, NOTHING, at(0.0), LASTS)
    assert (now, left) == ({"excludedPools": [POOL]}, 900.0)


@pytest.mark.parametrize("wrong", [3600.0, -3600.0, -600.0, 180.0])
def test_times_that_a_wrong_clock_wrote_are_written_again_once_it_is_right(wrong: float) -> None:
    """The entry is 50 s old by this process's clock."""
    until = f"{ONE_O_CLOCK + timedelta(seconds=600.0 + wrong):%Y-%m-%dT%H:%M:%SZ}"
    status = {"state": "Queued", "excludedNodes": [NODE | {"until": until}]}
    _, seen, _ = by_own_clock(status, NOTHING, at(100.0, wrong, 0.0), LASTS)
    seen = {("excludedNodes", "n", until): 700.0} | dict(seen)
    assert with_right_times(status, seen, at(150.0, 50.0 + wrong, 50.0), LASTS) is None, "it is wrong still"
    assert with_right_times(status, seen, at(150.0, 50.0), LASTS) is None, "there is no witness"
    right = with_right_times(status, seen, at(150.0, 50.0, 51.0), LASTS)
    assert right is not None
    assert patch(status, right) == {"excludedNodes": right["excludedNodes"]}
    (entry,) = right["excludedNodes"]
    assert abs((datetime.fromisoformat(entry["until"]) - ONE_O_CLOCK).total_seconds() - 600.0) <= 1.0
    _, seen, _ = by_own_clock(right, seen, at(151.0, 51.0, 52.0), LASTS)
    assert with_right_times(right, seen, at(300.0, 200.0, 201.0), LASTS) is None, "once"
    # What a right clock wrote no wrong one writes again.
    assert with_right_times(right, seen, at(300.0, 200.0 + wrong, 201.0), LASTS) is None


def test_entries_that_are_over_are_no_write() -> None:
    status = {"excludedNodes": [NODE], "excludedPools": [POOL]}
    _, seen, _ = by_own_clock(status, NOTHING, at(0.0, 0.0, 0.0), LASTS)
    assert with_right_times(status, seen, at(700.0, 700.0, 700.0), LASTS) is None
