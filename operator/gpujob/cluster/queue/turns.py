"""Who goes next, so that nothing waits for long: slots of steps, slices of the loop's time, turns of progress writes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gpujob.cluster.client.rate_limit import Clock

MOST_IN_A_ROW: Final = 7
"""The most urgent steps before one of the others, so that reports of running jobs are late but not delayed without limit."""


class StepSlots:
    """A bounded number of steps at once. Urgent steps go first, each kind in its order of arrival."""

    def __init__(self, count: int) -> None:
        self._free, self._in_a_row = count, 0
        self._urgent, self._others = deque[asyncio.Future[None]](), deque[asyncio.Future[None]]()

    @asynccontextmanager
    async def slot(self, *, urgent: bool) -> AsyncIterator[None]:
        """Waits for a slot and holds it."""
        await self._take(self._urgent if urgent else self._others)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, line: deque[asyncio.Future[None]]) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._urgent or self._others:
            turn = self._next()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _next(self) -> asyncio.Future[None]:
        if self._urgent and (self._in_a_row < MOST_IN_A_ROW or not self._others):
            self._in_a_row += 1
            return self._urgent.popleft()
        self._in_a_row = 0
        return self._others.popleft()


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
