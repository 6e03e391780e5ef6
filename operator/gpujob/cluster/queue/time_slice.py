"""Long work in slices, so that watches, writes and the Lease run between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


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
