"""An event loop whose clock jumps to the next thing that is due: an hour takes milliseconds."""

from __future__ import annotations

import asyncio
import selectors
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


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on a loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
