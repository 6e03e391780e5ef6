"""Creations of children: those of a namespace where they hang are few at once, and those of a burst have longer to start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from gpujob.cluster.client.rate_limit import Clock
from gpujob.cluster.queue.hanging import Hanging
from gpujob.cluster.writer.child_errors import ChildNotCreated
from gpujob.lifecycle.timings import Timings

TRIES: Final = 2
"""Creations at once in a namespace where they hang: they try for all jobs of it."""


class Hang(NamedTuple):
    """What the last creation that hung in a namespace said."""

    words: str
    retry_after: float | None


class Creations:
    """What creations of children have shown lately, by namespace."""

    def __init__(self, clock: Clock, timings: Timings) -> None:
        self._clock, self._timings = clock, timings
        self._created = deque[float]()
        """When children were created, within the last seconds."""
        self.hanging = Hanging(clock)
        self._hangs: dict[str, Hang] = {}
        """What is reported about those that hung, by namespace."""

    @contextmanager
    def one(self, namespace: str) -> Iterator[None]:
        """The creation of the children of one job; where those of its namespace hang and enough are under way, it fails as they do."""
        hanging, hang = self.hanging, self._hangs.get(namespace)
        if hang is not None and hanging.under_way(namespace) >= TRIES and hanging.hangs(namespace):
            raise ChildNotCreated(hang.words, hang.retry_after)
        try:
            with hanging.one(namespace):
                yield
            self._hangs.pop(namespace, None)
        except ChildNotCreated as error:
            if hanging.hangs(namespace):
                self._hangs = {name: held for name, held in self._hangs.items() if hanging.hangs(name)}
                self._hangs[namespace] = Hang(str(error), error.retry_after)
            raise

    def burst(self, now: float) -> float:
        """Seconds that the pods of a child created now get beside `placed`, because others were created shortly before."""
        timings = self._timings
        while self._created and self._created[0] <= now - timings.placed:
            self._created.popleft()
        seconds = min(len(self._created) * timings.burst_each, timings.burst_longest)
        self._created.append(now)
        return seconds
