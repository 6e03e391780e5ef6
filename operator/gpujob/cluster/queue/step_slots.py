"""Which steps write at the same time: a bounded number, shared by the namespaces.

A namespace whose writes are slow (an admission webhook that times out) holds its own share only, which is smaller the more namespaces
write, so that the next one finds a free slot. Where none is left, it goes to the namespace that holds the fewest. Urgent steps leave a
part of the share to the others: creations are urgent and can hang, and must not delay suspensions, ends and reports. The steps of one
kind in all namespaces where they hang, or may, hold at most a part of the slots together, so that a webhook of the whole cluster delays
no namespace that it exempts: that one is among those without a known result, and the last of these takes turns with the first.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from gpujob.cluster.client.rate_limit import Clock
from gpujob.cluster.queue.hanging import Hanging

MOST_IN_A_ROW: Final = 7
"""The most urgent steps before one of the others, so that reports of running jobs are late but not delayed without limit."""

LEFT_TO_OTHERS: Final = 4
"""Urgent steps leave the others one slot of this many that their namespace may hold; one at least, unless it may hold only one."""

OF_HANGING: Final = 2
"""The steps of one kind in namespaces where they hang hold at most one of this many slots together."""

BEFORE_OTHERS: Final = 8
"""While they hold fewer than one of this many slots they take turns with the others, and after that go last."""

Turn = tuple[int, asyncio.Future[None]]
"""The number of a step by its arrival, and what it waits for."""


class StepSlots:
    """Slots for steps: at most `each` of one namespace at once and `total` of all; a share of the total is free for one more
    namespace. Urgent steps go first, then steps of the namespace with the fewest slots, then by arrival. `urgent` says where
    urgent steps hang; where the others do is noted here."""

    def __init__(self, each: int, total: int, urgent: Hanging | None = None, clock: Clock = time.monotonic) -> None:
        self._hanging = {True: urgent or Hanging(clock), False: Hanging(clock)}
        self._last_first = False
        """Whether the last of the namespaces in which steps may hang goes next, and not the first."""
        self._each, self._total, self._free, self._in_a_row = each, total, total, 0
        self._held, self._urgent_held = Counter[str](), Counter[str]()
        self._urgent, self._others = dict[str, deque[Turn]](), dict[str, deque[Turn]]()
        self._arrivals = count()

    @asynccontextmanager
    async def slot(self, namespace: str, *, urgent: bool) -> AsyncIterator[None]:
        """Waits for a slot and holds it."""
        await self._take(namespace, urgent)
        try:
            if urgent:
                yield
            else:
                with self._hanging[False].one(namespace):
                    yield
        finally:
            self._give_back(namespace, urgent)

    async def _take(self, namespace: str, urgent: bool) -> None:
        late = self._hanging[urgent].hangs(namespace) and self._late_are_many(urgent)
        if self._free and self._may(namespace, urgent, self._share(namespace)) and not late:
            self._hold(namespace, urgent)
            return
        lines = self._urgent if urgent else self._others
        turn = asyncio.get_running_loop().create_future()
        lines.setdefault(namespace, deque()).append((next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(namespace, urgent)
            raise

    def _may(self, namespace: str, urgent: bool, share: int) -> bool:
        """Whether a namespace may hold one slot more for a step of this kind. Of those that are not urgent one goes beside urgent ones
        that hold all of its share: where very many namespaces write, that is one slot."""
        held, urgent_held = self._held[namespace], self._urgent_held[namespace]
        most_urgent = max(1, share - max(1, share // LEFT_TO_OTHERS))
        return held < share and urgent_held < most_urgent if urgent else held < max(share, urgent_held + 1)

    def _late_are_many(self, urgent: bool, part: int = OF_HANGING) -> bool:
        """Whether steps of a kind in namespaces where they hang, or may, hold their part of all slots."""
        of_kind = self._urgent_held if urgent else self._held - self._urgent_held
        held = sum(of_kind[name] for name in self._hanging[urgent].may_hang(of_kind))
        return held >= max(1, self._total // part)

    def _share(self, *more: str) -> int:
        """The slots that each namespace may hold, of those that write or wait and `more`."""
        namespaces = {*self._held, *self._urgent, *self._others, *more}
        return max(1, min(self._each, self._total // (len(namespaces) + 1)))

    def _hold(self, namespace: str, urgent: bool) -> None:
        self._free -= 1
        self._held[namespace] += 1
        self._urgent_held[namespace] += urgent

    def _give_back(self, namespace: str, urgent: bool) -> None:
        self._free += 1
        self._held[namespace] -= 1
        self._urgent_held[namespace] -= urgent
        if not self._held[namespace]:
            del self._held[namespace], self._urgent_held[namespace]
        # More than one where the shares have grown since namespaces are done.
        while self._free and (following := self._next()) is not None:
            chosen, urgent, turn = following
            if not turn.done():
                self._hold(chosen, urgent)
                turn.set_result(None)

    def _next(self) -> tuple[str, bool, asyncio.Future[None]] | None:
        """The step that goes next, and whether it is urgent; None where each namespace with waiting steps holds its share."""
        urgent, others = self._first(self._urgent, urgent=True), self._first(self._others, urgent=False)
        if urgent is not None and (self._in_a_row < MOST_IN_A_ROW or others is None):
            self._in_a_row += 1
            return urgent, True, _leave(self._urgent, urgent)
        if others is None:
            return None
        self._in_a_row = 0
        return others, False, _leave(self._others, others)

    def _first(self, lines: dict[str, deque[Turn]], *, urgent: bool) -> str | None:
        share = self._share()
        may = [name for name in lines if self._may(name, urgent, share)]
        late = self._hanging[urgent].may_hang(may)
        if late and self._late_are_many(urgent):
            may, late = [name for name in may if name not in late], set()
        last = late if late and self._late_are_many(urgent, BEFORE_OTHERS) else ()

        def turn(name: str) -> tuple[bool, int, int]:
            arrived = lines[name][0][0]
            return name in last, self._held[name], -arrived if self._last_first and name in late else arrived

        first = min(may, key=turn, default=None)
        self._last_first ^= first in late
        return first


def _leave(lines: dict[str, deque[Turn]], namespace: str) -> asyncio.Future[None]:
    line = lines[namespace]
    _, turn = line.popleft()
    if not line:
        del lines[namespace]
    return turn
