"""New nodes without devices, by age: whose devices are still waited for, and for which they are not waited any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.pools.arriving import Arriving, is_bare
from gpujob.status.attempts.waits import read_time, write_time


class Newcomers:
    """Takes nodes as they change. Those that are older than twice the wait are let go of, since nobody asks for them."""

    def __init__(self) -> None:
        self._bare: dict[str, Node] = {}

    def put(self, name: str, node: Node | None) -> None:
        """Takes a node, new or changed; None when it is gone."""
        if node is not None and node.created and is_bare(node):
            self._bare[name] = node
        else:
            self._bare.pop(name, None)

    def nodes(self, now: datetime, seconds: float) -> Iterator[tuple[Node, Arriving]]:
        """The nodes that came within twice so many seconds, in the order of their names, with the time of the one wait."""
        for name in sorted(self._bare):
            node = self._bare[name]
            since = read_time(node.created)
            if since is None or now >= since + timedelta(seconds=2 * seconds):
                del self._bare[name]
            else:
                yield node, Arriving(name, node.created, write_time(since + timedelta(seconds=seconds)))
