"""The API server's clock as far as this process's own clocks bear it out, for a sum that grows over months.

One answer of a wrong clock would book an hour for every job, for good. Used for the monthly budgets of namespaces.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gpujob.status.attempts.cost import CLOCKS

KEPT: Final = 120.0
"""Seconds for which the server's clock keeps to a time against the other clocks until it is believed."""


class Turn(NamedTuple):
    """A moment until which is counted, and from when."""

    until: datetime
    since: datetime | None
    """None: from where the last count ended."""


class BelievedClock:
    """The server's time, or that of the last turn plus what passed since, if the two differ by more than clocks may. A process that
    starts has no last turn: there the clock of its machine is the witness."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        """The time that was believed last, and the monotonic seconds then."""
        self._other: tuple[datetime, float] | None = None
        """Another time that the server says, and the monotonic seconds when it said so first."""
        self._measured = False
        """Whether the time that is believed was the server's since this process started."""

    def now(self, elapsed: float, server: datetime) -> datetime:
        """The time at this many monotonic seconds; the server's before the first turn."""
        return server if self._last is None else self._last[0] + timedelta(seconds=elapsed - self._last[1])

    def turn(self, elapsed: float, server: datetime, here: datetime | None, counted: datetime | None) -> Turn:
        """The next turn, at this many monotonic seconds, by the server's clock and that of this machine; `counted`: where the last
        process ended."""
        if self._last is None and here is not None and (counted or here) <= here < server - timedelta(seconds=CLOCKS):
            self._last = here, elapsed
        if self._last is None:
            self._last, self._measured = (server, elapsed), True
            return Turn(server, None)
        passed = timedelta(seconds=elapsed - self._last[1])
        until, since = self._last[0] + passed, None
        if _agree(server, until):
            until, self._other, self._measured = server, None, True
        elif self._is_kept(elapsed, server):
            # Of a clock that was set, only what passed by the own one counts.
            since = server - passed if self._measured else None
            until, self._other, self._measured = server, None, True
        self._last = until, elapsed
        return Turn(until, since)

    def _is_kept(self, elapsed: float, server: datetime) -> bool:
        """Whether the server has said for long enough that it is another time."""
        if self._other is None or not _agree(server, self._other[0] + timedelta(seconds=elapsed - self._other[1])):
            self._other = server, elapsed
        return elapsed - self._other[1] >= KEPT


def _agree(one: datetime, other: datetime) -> bool:
    return abs((one - other).total_seconds()) <= CLOCKS
