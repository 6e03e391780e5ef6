"""An event loop whose clock jumps to the next thing that is due: an hour takes milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from asyncio.futures import _set_result_unless_cancelled
from collections.abc import Coroutine
from typing import Any


class _Jump(selectors.SelectSelector):
    """Waits by moving the clock."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits and nothing is due")
        self.loop.seconds += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is virtual seconds since its start."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _Jump()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.seconds

    def calls_to_come(self) -> int:
        """How many calls are due that were asked for by `call_at` or `call_later`; sleeps and limits of waits are no such calls."""
        pending = (handle for handle in self._scheduled if not handle.cancelled())
        return sum(not _belongs_to_a_wait(handle._callback) for handle in pending)


def _belongs_to_a_wait(callback: Any) -> bool:
    return callback is _set_result_unless_cancelled or isinstance(getattr(callback, "__self__", None), asyncio.Timeout)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
