"""status.excludedPools and status.excludedNodes by this process's own clock: no entry counts for longer than such entries last, and
none ends because the API server's clock jumps.

The times in them are the API server's, whose clock may be set, or be that of one of several servers. A process that starts has
measured nothing: there the clock of its machine is the witness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gpujob.status.attempts.cost import CLOCKS
from gpujob.status.attempts.waits import REMEMBERED, read_time, write_time
from gpujob.values.untrusted import tables

Seen = Mapping[tuple[str, str, str], float]
"""When an entry is over by this process's monotonic clock, by member of the status, name and `until`."""

NOTHING: Final[Seen] = MappingProxyType({})


class Clocks(NamedTuple):
    """One moment by all clocks."""

    own: float
    """Seconds of this process's monotonic clock."""
    server: datetime
    here: datetime | None = None
    """The time of this process's machine; None where it is not asked."""


def by_own_clock(
    status: Mapping[str, Any], seen: Seen, now: Clocks, seconds: Mapping[str, float]
) -> tuple[Mapping[str, Any], Seen, float]:
    """The status without entries that have counted for as long as those of their member last (`seconds`), with times as the server's
    clock says them now; the entries seen, and the seconds until the next one is over. An entry with `othersUntil` lasts twice as long.
    """
    changed, found, left = dict[str, Any](), dict[tuple[str, str, str], float](), math.inf
    for member, longest in seconds.items():
        entries, kept = list(tables(status, member))[:REMEMBERED], list[Mapping[str, Any]]()
        for entry in entries:
            key, until = (member, str(entry.get("name")), str(entry.get("until"))), read_time(entry.get("until"))
            most = longest * (2 if entry.get("othersUntil") else 1)
            first = most if until is None or key in seen else _seconds_left(until, now, most)
            over = found[key] = seen.get(key, now.own + first)
            if (rest := over - now.own) > 0:
                kept.append(_by_servers_clock(entry, until, now.server, rest))
                left = min(left, rest)
        if kept != entries:
            changed[member] = kept
    return {**status, **changed} if changed else status, found or NOTHING, left


def with_right_times(
    status: Mapping[str, Any], seen: Seen, now: Clocks, seconds: Mapping[str, float]
) -> Mapping[str, Any] | None:
    """The status with the times of its entries as `by_own_clock` says them, for the next process, which has measured nothing. None
    where they are right, and while the clocks of the server and of this machine differ, so that a wrong one writes nothing.
    """
    if now.here is None or abs((now.server - now.here).total_seconds()) > CLOCKS:
        return None
    said, _, _ = by_own_clock(status, seen, now, seconds)
    moved = (each for member in seconds for each in tables(said, member) if each not in tables(status, member))
    return said if any(moved) else None


def _seconds_left(until: datetime, now: Clocks, most: float) -> float:
    """For how long an entry that this process sees for the first time counts: until its time by the server's clock, or by that of
    this machine where it says that more is left. A clock that says more than `most` is not the one by which the entry was written.
    """
    by_server = (until - now.server).total_seconds()
    here = (until - now.here).total_seconds() if now.here is not None else by_server
    if here <= most + CLOCKS and abs(here - by_server) > CLOCKS:
        return min(here if by_server > most + CLOCKS else max(here, by_server), most)
    return min(by_server, most)


def _by_servers_clock(
    entry: Mapping[str, Any], until: datetime | None, server: datetime, rest: float
) -> Mapping[str, Any]:
    """An entry whose times are the server's, where its clock was set since they were written."""
    end = server + timedelta(seconds=rest)
    if until is None or abs((end - until).total_seconds()) <= CLOCKS:
        return entry
    others = read_time(entry.get("othersUntil"))
    moved = {"othersUntil": write_time(others + (end - until))} if others is not None else {}
    return {**entry, "until": write_time(end), **moved}
