"""Who goes next, so that nothing waits for long: slices of the loop's time, garbage collections between them, turns of progress
writes.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from typing import Final

from gpujob.cluster.client.rate_limit import Clock

DUE: Final = (5_000, 3, 2)
"""New objects after which the youngest are collected, and collections of one generation before one of the next: a full collection
has at most 60,000 objects to visit then, which takes it 15 to 30 ms."""


def collect_if_due() -> None:
    """A garbage collection between two pieces of work, so that none comes within a decision: it takes 3 ms and more."""
    young, middle, old = gc.get_count()
    if young > DUE[0]:
        gc.collect(0 if middle <= DUE[1] else 1 if old <= DUE[2] else 2)


class TimeSlice:
    """Work that takes at most this number of seconds before the other tasks of the loop run."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._began = clock()
        self.away = 0.0
        """Seconds in which the other tasks ran, so far."""

    def begin(self) -> None:
        """The work begins: the other tasks have just run."""
        self._began = self._clock()
        collect_if_due()

    async def pause(self) -> bool:
        """Lets the other tasks run if the slice is used up; returns whether they ran. Called between any two small pieces."""
        if self._clock() - self._began < self._seconds:
            return False
        left = self._clock()
        await asyncio.sleep(0)
        self.away += self._clock() - left
        self.begin()
        return True

    async def run(self, pieces: Iterable[object]) -> None:
        """Does work that comes in small pieces."""
        self.begin()
        for _ in pieces:
            await self.pause()


class ProgressPace:
    """Gives each job with news a turn; turns are 1 / rate seconds apart.

    Jobs take turns, so that with many of them each is written less often, never more writes a second.
    """

    def __init__(self, clock: Clock, every: float, rate: float) -> None:
        self._clock, self._every, self._rate = clock, every, rate
        self._written: dict[str, float] = {}
        self._turns: dict[str, float] = {}
        self._next_turn = 0.0

    def wait(self, uid: str, *, soon: bool) -> float:
        """Seconds until a job can write its progress: 0 takes its turn. `soon`: skips its own minimum wait."""
        now = self._clock()
        ripe = self._written.setdefault(uid, now) + self._every
        if uid not in self._turns:
            if not soon and now < ripe:
                return ripe - now
            self._turns[uid] = max(now, self._next_turn)
            self._next_turn = self._turns[uid] + 1 / self._rate
        if now < self._turns[uid]:
            return self._turns[uid] - now
        del self._turns[uid]
        self._written[uid] = now
        return 0.0

    def forget(self, uid: str) -> None:
        """A job no longer runs."""
        self._written.pop(uid, None)
        self._turns.pop(uid, None)
