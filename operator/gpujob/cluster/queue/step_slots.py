"""The number of concurrent steps, and the order of the waiting ones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

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
