"""How fast writes may go, and how long a call waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
REQUEST_TIMEOUT = 30.0
LONGEST_RETRY_DELAY = 60.0
"""Seconds after which a call is tried again at the latest, whatever the server asked for."""


class TokenBucket:
    """Hands out `rate` permits a second, `burst` at once, in the order asked."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._permits, self._at = float(burst), clock()

    def take(self) -> float:
        """The seconds to wait before the permit that this call takes is good."""
        now = self._clock()
        self._permits = min(self._burst, self._permits + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._permits / self._rate)


@dataclass(frozen=True, slots=True)
class Patience:
    """How a call waits: seconds for one try, how many tries, and whether it stands in the queue of writes."""

    timeout: float = REQUEST_TIMEOUT
    tries: int = 5
    queued: bool = True


ORDINARY = Patience()
