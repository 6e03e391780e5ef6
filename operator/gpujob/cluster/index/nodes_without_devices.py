"""New nodes without devices, by age: those whose devices are pending, and those whose time is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.pools.arriving import Arriving, is_bare
from gpujob.status.attempts.waits import read_time, write_time


class NodesWithoutDevices:
    """Tracks nodes as they change. Those older than twice the wait are dropped, because they no longer matter."""

    def __init__(self) -> None:
        self._bare: dict[str, Node] = {}

    def put(self, name: str, node: Node | None) -> None:
        """Applies a node, new or changed; None if it is deleted."""
        if node is not None and node.created and is_bare(node):
            self._bare[name] = node
        else:
            self._bare.pop(name, None)

    def nodes(self, now: datetime, seconds: float) -> Iterator[tuple[Node, Arriving]]:
        """The nodes created within twice this number of seconds, sorted by name, with the deadline of one wait."""
        for name in sorted(self._bare):
            node = self._bare[name]
            since = read_time(node.created)
            if since is None or now >= since + timedelta(seconds=2 * seconds):
                del self._bare[name]
            else:
                yield node, Arriving(name, node.created, write_time(since + timedelta(seconds=seconds)))
