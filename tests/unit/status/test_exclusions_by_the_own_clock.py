"""Pools and nodes that a status leaves out come back after the time that such entries last, whatever the API server's clock says."""

from __future__ import annotations

import math

from gpujob.status.attempts.exclusions import NOTHING, by_own_clock

LASTS = {"excludedPools": 900.0, "excludedNodes": 600.0}
POOL = {"name": "p", "until": "2026-01-01T13:15:00Z", "reason": "Unschedulable"}
NODE = {"name": "n", "until": "2026-01-01T13:10:00Z", "attempt": 1}


def test_an_entry_counts_for_as_long_as_such_entries_last_since_this_process_saw_it() -> None:
    status = {"state": "Queued", "excludedPools": [POOL], "excludedNodes": [NODE]}
    now, seen, left = by_own_clock(status, NOTHING, 100.0, LASTS)
    assert (now, left) == (status, 600.0)
    now, seen, left = by_own_clock(status, seen, 700.0, LASTS)
    assert (now, left) == ({"state": "Queued", "excludedPools": [POOL], "excludedNodes": []}, 300.0)
    now, seen, left = by_own_clock(status, seen, 1000.0, LASTS)
    assert (now, left) == ({"state": "Queued", "excludedPools": [], "excludedNodes": []}, math.inf)


def test_one_that_is_written_again_begins_again_and_what_is_gone_is_forgotten() -> None:
    _, seen, _ = by_own_clock({"excludedPools": [POOL]}, NOTHING, 100.0, LASTS)
    again = {"excludedPools": [POOL | {"until": "2026-01-01T13:30:00Z"}]}
    now, seen, left = by_own_clock(again, seen, 1000.0, LASTS)
    assert (now, left) == (again, 900.0)
    assert by_own_clock({}, seen, 1000.0, LASTS) == ({}, NOTHING, math.inf)


def test_one_that_keeps_other_pools_away_lasts_twice_as_long() -> None:
    both = {"excludedPools": [POOL | {"othersUntil": "2026-01-01T13:00:00Z"}]}
    assert by_own_clock(both, NOTHING, 0.0, LASTS)[2] == 1800.0


def test_what_is_no_entry_is_left_alone() -> None:
    for odd in (None, 7, "x", [None, 7, "x"], {"name": "p"}):
        status = {"excludedPools": odd}
        assert by_own_clock(status, NOTHING, 0.0, LASTS) == (status, NOTHING, math.inf)
