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

Place = tuple[int, int, int, str, int]
"""The rank of a node for one more pod, best first: discouraging taints, free devices, free bytes, name."""

Tolerates = Callable[[Taint], bool]

UNLIMITED: Final = 2**62

MOST_TAINTS: Final = 1_000_000
"""More taints than any node has: a node that may be faulty ranks after all discouraged ones."""


class Stock:
    """A pool's nodes without a taint that keeps its pods away (`open`), sorted, and the minimum of their resources."""

    __slots__ = (
        "_nodes",
        "_places",
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
        told = {node.handlers for _, node in opened if node.handlers is not None}
        self.handlers = frozenset.intersection(*told) if told else None
        """The handlers that all nodes that report handlers have in common; None if none reports any."""
        ready = sorted(((_place(node, index), node) for index, node in opened if node.unready is None), key=_by_place)
        self._places, self._nodes = [place for place, _ in ready], [node for _, node in ready]

    def with_free(self, gpus: int) -> Iterator[PoolNode]:
        """Open, ready nodes with this number of free devices: discouraged ones last, then the fullest first."""
        places, index = self._places, 0
        while index < len(places):
            discouraged = places[index][0]
            index = bisect_left(places, (discouraged, gpus), index)
            while index < len(places) and places[index][0] == discouraged:
                yield self._nodes[index]
                index += 1

    def with_free_at(self, gpus: int) -> Iterator[tuple[int, PoolNode]]:
        """The nodes of `with_free`, each with its index in the pool."""
        for place, node in zip(self._places, self._nodes, strict=True):
            if node.free >= gpus:
                yield place[4], node

    def has_free(self, gpus: int, nodes: int) -> bool:
        """Whether `with_free` has this number of nodes."""
        places, index = self._places, 0
        while index < len(places) and nodes > 0:
            discouraged = places[index][0]
            end = bisect_left(places, (discouraged + 1,), index)
            nodes -= end - bisect_left(places, (discouraged, gpus), index, end)
            index = end
        return nodes <= 0

    def emptiest(self) -> Iterator[PoolNode]:
        """Open, ready nodes, those with the most free devices first, then those without discouraging taints."""
        if not self._places or self._places[0][0] == self._places[-1][0]:
            return reversed(self._nodes)
        ordered = sorted(zip(self._places, self._nodes, strict=True), key=lambda found: _emptier(found[0]))
        return (node for _, node in ordered)

    def moved(self, changes: Iterable[tuple[int, PoolNode, PoolNode]], tolerates: Tolerates) -> Stock | None:
        """The stock after nodes changed: index, before, after. None if more than free devices or readiness changed."""
        new = copy(self)
        new._places, new._nodes = list(self._places), list(self._nodes)
        for index, before, after in changes:
            if _fixed(before) != _fixed(after):
                return None
            new._take_out(_place(before, index))
            if after.unready is None and all(map(tolerates, after.taints)):
                new._put_in(_place(after, index), after)
        return new

    def _take_out(self, place: Place) -> None:
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            del self._places[at], self._nodes[at]

    def _put_in(self, place: Place, node: PoolNode) -> None:
        at = bisect_left(self._places, place)
        self._places.insert(at, place)
        self._nodes.insert(at, node)


def _fixed(node: PoolNode) -> tuple[object, ...]:
    """The figures of a node that contribute to the pool's."""
    return (node.total, node.allocatable, node.taints, node.handlers, node.unlabelled)


def _place(node: PoolNode, index: int) -> Place:
    discouraged = sum(taint.effect == "PreferNoSchedule" for taint in node.taints) if node.taints else 0
    if node.suspected is not None:
        discouraged += 2 * MOST_TAINTS
    elif node.planned is not None:
        discouraged += MOST_TAINTS
    return (discouraged, node.free, node.left.memory, node.name, index)


def _by_place(found: tuple[Place, PoolNode]) -> Place:
    return found[0]


def _emptier(place: Place) -> tuple[int, int, int, str]:
    discouraged, free, left, name, _ = place
    return (-free, discouraged, -left, name)
