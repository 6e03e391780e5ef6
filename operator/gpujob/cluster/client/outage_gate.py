"""One gate for everybody while the API server gives no good answer: a dead server is asked for one job at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from gpujob.cluster.client.rate_limit import Clock

LONGEST_OUTAGE_DELAY: Final = 15.0
"""Seconds after which the API server is asked again at the latest: what was stopped goes on that soon after it is back."""


def outage_delay(failures: int, chance: Callable[[], float]) -> float:
    """Seconds until the next try after so many failures in a row: doubled each time, spread, 15 at most."""
    return min(LONGEST_OUTAGE_DELAY, 2.0 ** min(failures - 1, 8)) * (0.5 + 0.5 * chance())


def is_outage(status: int) -> bool:
    """Whether an HTTP code (0: no answer) says something of the API server and not of the request: 5xx, 429, 401 or none."""
    return status == 0 or status >= 500 or status in (401, 429)


class OutageGate:
    """Is told every answer. The first failure shuts it, the first good answer opens it."""

    def __init__(self, clock: Clock, chance: Callable[[], float] = random.random) -> None:
        self._clock, self._chance = clock, chance
        self._failures, self._until = 0, float("-inf")
        self._since = 0.0
        self.last_status = 0
        """The HTTP code of the last failure."""
        self.on_open: Callable[[bool], None] = lambda _: None
        """Is called when it opens; True: after more than one failure in a row, so that there was an outage."""

    def note(self, status: int) -> None:
        """Takes the HTTP code of one answer, 0 when none came."""
        if not is_outage(status):
            failures, self._failures = self._failures, 0
            if failures:
                self.on_open(failures > 1)
            return
        self.last_status = status
        if not self._failures:
            self._since = self._clock()
        if not self._failures or self._clock() >= self._until:
            # What was under way together fails together, and counts once.
            self._shut()

    def seconds(self) -> float:
        """Seconds since the last good answer was followed by a failure; 0 while answers are good."""
        return self._clock() - self._since if self._failures else 0.0

    def wait(self) -> float:
        """Seconds that the next job waits; 0 for one job each time that the wait is over, which finds out for all."""
        if not self._failures:
            return 0.0
        left = self._until - self._clock()
        if left > 0:
            return left
        self._shut()
        return 0.0

    def _shut(self) -> None:
        self._failures += 1
        self._until = self._clock() + outage_delay(self._failures, self._chance)
