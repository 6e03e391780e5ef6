"""One gate for all jobs while the API server gives no good response: only one job at a time tries it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from gpujob.cluster.client.rate_limit import Clock

LONGEST_OUTAGE_DELAY: Final = 15.0
"""The longest wait in seconds between two tries: blocked jobs continue at most this long after the server is back."""

PATIENCE: Final = 30.0
"""Seconds without a good response of the API server, or without a Lease that can be written, before readiness fails and the log
warns; a restart takes less.
"""


def outage_delay(failures: int, chance: Callable[[], float]) -> float:
    """Seconds until the next try after a number of failures in a row: doubled each time, spread, 15 at most."""
    return min(LONGEST_OUTAGE_DELAY, 2.0 ** min(failures - 1, 8)) * (0.5 + 0.5 * chance())


def is_outage(status: int) -> bool:
    """Whether an HTTP code (0: no response) concerns the API server instead of the request: 5xx, 429, 401 or none."""
    return status == 0 or status >= 500 or status in (401, 429)


class OutageGate:
    """Reads every response. The first failure closes the gate, the first good response opens it."""

    def __init__(self, clock: Clock, chance: Callable[[], float] = random.random) -> None:
        self._clock, self._chance = clock, chance
        self._failures, self._until = 0, float("-inf")
        self._since = 0.0
        self.last_status = 0
        """The HTTP code of the last failure."""
        self.ended = float("-inf")
        """When the last outage ended."""
        self.on_open: Callable[[bool], None] = lambda _: None
        """Called on opening; True after more than one failure in a row, which counts as an outage."""

    def note(self, status: int) -> None:
        """Applies the HTTP code of one response, 0 without a response."""
        if not is_outage(status):
            failures, self._failures = self._failures, 0
            if failures > 1:
                self.ended = self._clock()
            if failures:
                self.on_open(failures > 1)
            return
        self.last_status = status
        if not self._failures:
            self._since = self._clock()
        if not self._failures or self._clock() >= self._until:
            # Requests that were in flight together fail together, and count once.
            self._shut()

    def seconds(self) -> float:
        """Seconds since the last good answer was followed by a failure; 0 while answers are good."""
        return self._clock() - self._since if self._failures else 0.0

    def wait(self) -> float:
        """Seconds that the next job waits; 0 for one job after each wait, which tries for all."""
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
