"""The nodes of a pool in the order in which capacity reads them, so that a decision reads only a few.

Built with a pool of the index, else on first use, and carried over between versions of a pool: a pod that starts or ends moves one
node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Final

from gpujob.fleet.kubernetes.objects import Resources, Taint

if TYPE_CHECKING:
    from gpujob.fleet.pools.node import PoolNode

SortKey = tuple[int, int, int, str, int]
"""The rank of a node for one more pod, best first: discouraging taints, free devices, free bytes, name."""

Tolerates = Callable[[Taint], bool]

UNLIMITED: Final = 2**62

MOST_TAINTS: Final = 1_000_000
"""More taints than any node has: a node that may be faulty ranks after all discouraged ones."""


class Stock:
    """A pool's nodes without a taint that keeps its pods away (`open`), sorted, and the minimum of their resources."""

    __slots__ = (
        "_keys",
        "_nodes",
        "handlers",
        "least",
        "least_devices",
        "least_disk",
        "least_disk_of_all",
        "most_devices",
        "open",
        "selected",
    )

    def __init__(self, nodes: Sequence[PoolNode], tolerates: Tolerates) -> None:
        opened = [(index, node) for index, node in enumerate(nodes) if all(map(tolerates, node.taints))]
        self.open = len(opened)
        sizes = [node.allocatable for _, node in opened]
        self.least = Resources(
            min((size.millicores for size in sizes), default=0),
            min((size.memory for size in sizes), default=0),
            min((size.storage or 0 for size in sizes), default=0),
            min((size.pods for size in sizes), default=0),
        )
        """The minimum of each allocatable figure; disk 0 if one node does not report it."""
        devices = [UNLIMITED if node.total is None else node.total for _, node in opened]
        self.least_devices, self.most_devices = min(devices, default=UNLIMITED), max(devices, default=0)
        self.least_disk = min((size.storage for size in sizes if size.storage is not None), default=UNLIMITED)
        """The least disk of those that report it; `of_all`: including nodes that are not open."""
        disks = (node.allocatable.storage for node in nodes)
        self.least_disk_of_all = min((disk for disk in disks if disk is not None), default=UNLIMITED)
        self.selected = not any(node.unlabelled for _, node in opened)
        """Whether each of them has the labels that the RuntimeClass of the pool's pods requires."""
        known = {node.handlers for _, node in opened if node.handlers is not None}
        self.handlers = frozenset.intersection(*known) if known else None
        """The handlers that all nodes that report handlers have in common; None if none reports any."""
        ready = sorted(((_sort_key(node, index), node) for index, node in opened if node.unready is None), key=_by_key)
        self._keys, self._nodes = [key for key, _ in ready], [node for _, node in ready]

    def with_free(self, gpus: int) -> Iterator[PoolNode]:
        """Open, ready nodes with this number of free devices: discouraged ones last, then the fullest first."""
        keys, index = self._keys, 0
        while index < len(keys):
            discouraged = keys[index][0]
            index = bisect_left(keys, (discouraged, gpus), index)
            while index < len(keys) and keys[index][0] == discouraged:
                yield self._nodes[index]
                index += 1

    def with_free_at(self, gpus: int) -> Iterator[tuple[int, PoolNode]]:
        """The nodes of `with_free`, each with its index in the pool."""
        for key, node in zip(self._keys, self._nodes, strict=True):
            if node.free >= gpus:
                yield key[4], node

    def has_free(self, gpus: int, nodes: int) -> bool:
        """Whether `with_free` has this number of nodes."""
        keys, index = self._keys, 0
        while index < len(keys) and nodes > 0:
            discouraged = keys[index][0]
            end = bisect_left(keys, (discouraged + 1,), index)
            nodes -= end - bisect_left(keys, (discouraged, gpus), index, end)
            index = end
        return nodes <= 0

    def emptiest(self) -> Iterator[PoolNode]:
        """Open, ready nodes, those with the most free devices first, then those without discouraging taints."""
        if not self._keys or self._keys[0][0] == self._keys[-1][0]:
            return reversed(self._nodes)
        ordered = sorted(zip(self._keys, self._nodes, strict=True), key=lambda found: _emptier(found[0]))
        return (node for _, node in ordered)

    def moved(self, changes: Iterable[tuple[int, PoolNode, PoolNode]], tolerates: Tolerates) -> Stock | None:
        """The stock after nodes changed: index, before, after. None if more than free devices or readiness changed."""
        new = copy(self)
        new._keys, new._nodes = list(self._keys), list(self._nodes)
        for index, before, after in changes:
            if _fixed(before) != _fixed(after):
                return None
            new._take_out(_sort_key(before, index))
            if after.unready is None and all(map(tolerates, after.taints)):
                new._put_in(_sort_key(after, index), after)
        return new

    def _take_out(self, key: SortKey) -> None:
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            del self._keys[at], self._nodes[at]

    def _put_in(self, key: SortKey, node: PoolNode) -> None:
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self._nodes.insert(at, node)


def _fixed(node: PoolNode) -> tuple[object, ...]:
    """The figures of a node that contribute to the pool's."""
    return (node.total, node.allocatable, node.taints, node.handlers, node.unlabelled)


def _sort_key(node: PoolNode, index: int) -> SortKey:
    discouraged = sum(taint.effect == "PreferNoSchedule" for taint in node.taints) if node.taints else 0
    if node.suspected is not None:
        discouraged += 2 * MOST_TAINTS
    elif node.planned is not None:
        discouraged += MOST_TAINTS
    return (discouraged, node.free, node.left.memory, node.name, index)


def _by_key(found: tuple[SortKey, PoolNode]) -> SortKey:
    return found[0]


def _emptier(key: SortKey) -> tuple[int, int, int, str]:
    discouraged, free, left, name, _ = key
    return (-free, discouraged, -left, name)
