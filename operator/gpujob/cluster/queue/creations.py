"""Creations of children: those of a namespace where they hang are few at once, and those of a burst have longer to start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from gpujob.cluster.client.rate_limit import Clock
from gpujob.cluster.writer.child_errors import ChildNotCreated
from gpujob.lifecycle.timings import Timings

SLOW: Final = 5.0
"""Seconds after which a creation that fails says that those of its namespace hang: an admission webhook that times out."""

TRIES: Final = 2
"""Creations at once in such a namespace: they try for all jobs of it."""

REMEMBERED: Final = 300.0
"""Seconds for which that counts without another failure: longer than the tries of 200 such namespaces take."""


class Hang(NamedTuple):
    """A creation that hung."""

    ended: float
    """When it failed, in monotonic seconds."""
    words: str
    retry_after: float | None


class Creations:
    """What creations of children have shown lately, by namespace."""

    def __init__(self, clock: Clock, timings: Timings) -> None:
        self._clock, self._timings = clock, timings
        self._created = deque[float]()
        """When children were created, within the last seconds."""
        self._hanging: dict[str, Hang] = {}
        """The last creation of a namespace that hung, until one succeeds."""
        self._under_way: dict[str, list[float]] = {}
        """When the creations under way began, by namespace, the first first."""

    def hangs(self, namespace: str) -> bool:
        """Whether creations of a namespace hang: one is under way for long, or ended so lately."""
        now, under_way = self._clock(), self._under_way.get(namespace)
        if under_way and now - under_way[0] >= SLOW:
            return True
        hang = self._hanging.get(namespace)
        return hang is not None and now - hang.ended < REMEMBERED

    @contextmanager
    def one(self, namespace: str) -> Iterator[None]:
        """The creation of the children of one job; where those of its namespace hang and enough are under way, it fails as they do."""
        began, under_way = self._clock(), self._under_way.get(namespace, [])
        hang = self._hanging.get(namespace)
        if hang is not None and began - hang.ended < REMEMBERED and len(under_way) >= TRIES:
            raise ChildNotCreated(hang.words, hang.retry_after)
        self._under_way[namespace] = under_way
        under_way.append(began)
        try:
            yield
            self._hanging.pop(namespace, None)
        except ChildNotCreated as error:
            if (now := self._clock()) - began >= SLOW:
                self._hanging = {name: held for name, held in self._hanging.items() if now - held.ended < REMEMBERED}
                self._hanging[namespace] = Hang(now, str(error), error.retry_after)
            raise
        finally:
            under_way.remove(began)
            if not under_way:
                del self._under_way[namespace]

    def burst(self, now: float) -> float:
        """Seconds that the pods of a child created now get beside `placed`, because others were created shortly before."""
        timings = self._timings
        while self._created and self._created[0] <= now - timings.placed:
            self._created.popleft()
        seconds = min(len(self._created) * timings.burst_each, timings.burst_longest)
        self._created.append(now)
        return seconds
