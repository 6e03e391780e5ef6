"""Who goes next, so that nothing waits for long: slices of the loop's time, turns of progress writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from gpujob.cluster.client.rate_limit import Clock


class TimeSlice:
    """Work that takes at most this number of seconds before the other tasks of the loop run."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._began = clock()

    def begin(self) -> None:
        """The work begins: the other tasks have just run."""
        self._began = self._clock()

    async def pause(self) -> bool:
        """Lets the other tasks run if the slice is used up; returns whether they ran. Called between any two small pieces."""
        if self._clock() - self._began < self._seconds:
            return False
        await asyncio.sleep(0)
        self._began = self._clock()
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
