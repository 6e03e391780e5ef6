"""Long work in pieces: the watches, the writes and the Lease have their turn between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TimeSlice:
    """One piece of work may take so many seconds before the other tasks of the loop run."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._began = clock()

    def begin(self) -> None:
        """The work begins: the others have just had their turn."""
        self._began = self._clock()

    async def pause(self) -> bool:
        """Lets the others run if the slice is used up; whether they ran. Called between any two small pieces."""
        if self._clock() - self._began < self._seconds:
            return False
        await asyncio.sleep(0)
        self._began = self._clock()
        return True
