"""The election in a thread with a loop of its own: however long one piece of the operator's work takes, the Lease is renewed.

The interpreter gives each thread its turn after milliseconds, also within a piece that never yields. Only what stops the whole process
(a freeze, a call into C that holds the interpreter) stops the election too, and then `is_leader()` says so by the clock. A loop that
never turns again is the liveness probe's to end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.election.election import Leadership


class LeaseThread:
    """Runs one process's part in the election; `client` is used by nothing else, because connections belong to a loop.

    `note_date` and `note_answer` are called in the loop of `run`, with the Date header of each answer and the time by
    `time.monotonic` at which it came, and with its HTTP code (0 without an answer).
    """

    def __init__(
        self,
        leadership: Leadership,
        client: ApiClient,
        note_date: Callable[[str | None, float], None] = lambda header, at: None,
        note_answer: Callable[[int], None] = lambda status: None,
    ) -> None:
        self._leadership, self._client = leadership, client
        self._note_date, self._note_answer = note_date, note_answer

    async def run(self) -> None:
        """Takes part until cancelled, and returns after the Lease is released; raises what ends the election."""
        here = asyncio.get_running_loop()
        self._client.on_date = lambda header: _call(here, partial(self._note_date, header, time.monotonic()))
        self._client.on_answer = lambda status: _call(here, partial(self._note_answer, status))
        stop = Future[Callable[[], None]]()
        electing = asyncio.ensure_future(asyncio.to_thread(self._elect, stop))
        try:
            await asyncio.shield(electing)
        except asyncio.CancelledError:
            (await asyncio.wrap_future(stop))()
            await electing
            raise

    def _elect(self, stop: Future[Callable[[], None]]) -> None:
        """The thread's work; `stop` becomes what ends it."""

        async def elect() -> None:
            task = asyncio.current_task()
            assert task is not None
            loop = asyncio.get_running_loop()
            stop.set_result(lambda: _call(loop, task.cancel))
            async with self._client:
                await self._leadership.run()

        with suppress(asyncio.CancelledError):
            asyncio.run(elect())


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Calls a function in the loop of another thread, unless that one has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)
