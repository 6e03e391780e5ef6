"""The rate limit of writes, and the waits of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
REQUEST_TIMEOUT = 30.0
LONGEST_RETRY_DELAY = 60.0
"""The longest wait in seconds before a call is tried again, whatever the server requests."""
LONGEST_PAUSE = 2.0
"""The longest wait in seconds of a write between two tries; a longer one is its caller's, who then holds nothing that others need."""


def retry_after_of(retry_after: float | None) -> float:
    """The seconds that the API server asks to wait (Retry-After), a minute at most; 0 if it asks for none."""
    return min(retry_after or 0.0, LONGEST_RETRY_DELAY)


class TokenBucket:
    """Gives `rate` permits a second, `burst` at once, first come, first served."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._permits, self._at = float(burst), clock()

    def take(self) -> float:
        """The seconds to wait before the permit that this call takes is good."""
        now = self._clock()
        self._permits = min(self._burst, self._permits + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._permits / self._rate)


class Pauses:
    """Namespaces whose writes the server slowed down, and until when: otherwise each of their writers floods it once more.

    A webhook or a quota slows down the writes of one namespace, so those of others go on; a busy server says it to each.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def begin(self, namespace: str, seconds: float) -> None:
        """The server slowed a write down."""
        now = self._clock()
        self._until = {held: until for held, until in self._until.items() if until > now}
        self._until[namespace] = max(self._until.get(namespace, now), now + seconds)

    def end(self, namespace: str) -> None:
        """The server accepted a write."""
        self._until.pop(namespace, None)

    def left(self, namespace: str) -> float:
        """Seconds for which a write waits."""
        until = self._until.get(namespace)
        return 0.0 if until is None else max(0.0, until - self._clock())


@dataclass(frozen=True, slots=True)
class Patience:
    """The waits of a call: seconds for one try, the number of tries, and whether it uses the queue of writes."""

    timeout: float = REQUEST_TIMEOUT
    tries: int = 5
    queued: bool = True


ORDINARY = Patience()
