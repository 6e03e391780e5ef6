"""Namespaces whose writes of one kind hang, such as those that wait for an admission webhook that times out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from gpujob.cluster.client.rate_limit import Clock

SLOW: Final = 5.0
"""Seconds after which a write that fails says that those of its namespace hang."""

REMEMBERED: Final = 300.0
"""Seconds for which that counts without another failure: longer than the tries of 200 such namespaces take."""

WIDE: Final = 8
"""Namespaces in which writes hang at once, from which on those of others may hang too: a webhook of the whole cluster."""


class Hanging:
    """What writes of one kind have shown lately, by namespace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended: dict[str, float] = {}
        """When the last one that hung ended, until one succeeds."""
        self._under_way: dict[str, list[float]] = {}
        """When those under way began, the first first."""
        self._succeeded: dict[str, float] = {}
        """When the last one succeeded, the latest at the end."""

    def under_way(self, namespace: str) -> int:
        """The number of writes of a namespace that are under way."""
        return len(self._under_way.get(namespace, ()))

    def hangs(self, namespace: str) -> bool:
        """Whether writes of a namespace hang: one is under way for long, or ended so lately."""
        now, under_way = self._clock(), self._under_way.get(namespace)
        if under_way and now - under_way[0] >= SLOW:
            return True
        ended = self._ended.get(namespace)
        return ended is not None and now - ended < REMEMBERED

    def may_hang(self, namespaces: Collection[str]) -> set[str]:
        """Those of these namespaces whose writes hang; while they hang in many, also those in which none has succeeded lately."""
        found = set(filter(self.hangs, namespaces))
        if sum(map(self.hangs, {*self._ended, *self._under_way})) >= WIDE:
            long_ago = self._clock() - REMEMBERED
            found |= {name for name in namespaces if self._succeeded.get(name, long_ago) <= long_ago}
        return found

    @contextmanager
    def one(self, namespace: str) -> Iterator[None]:
        """One write of a namespace."""
        began, under_way = self._clock(), self._under_way.setdefault(namespace, [])
        under_way.append(began)
        try:
            yield
            self._note_success(namespace)
        except Exception:
            if (now := self._clock()) - began >= SLOW:
                self._ended = {name: ended for name, ended in self._ended.items() if now - ended < REMEMBERED}
                self._ended[namespace] = now
            raise
        finally:
            under_way.remove(began)
            if not under_way:
                del self._under_way[namespace]

    def _note_success(self, namespace: str) -> None:
        now = self._clock()
        self._ended.pop(namespace, None)
        self._succeeded.pop(namespace, None)
        self._succeeded[namespace] = now
        while self._succeeded[first := next(iter(self._succeeded))] <= now - REMEMBERED:
            del self._succeeded[first]
