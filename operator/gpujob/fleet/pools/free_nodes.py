"""The nodes of a pool in the order in which capacity asks for them, so that a decision looks at a few of them only.

Made with a pool of the index, else on first use, and carried from one version of a pool to the next: a pod that comes or
goes moves one node.
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
"""How good a node is for one more pod, best first: what advises against it, free devices, free bytes, name."""

Tolerates = Callable[[Taint], bool]

UNLIMITED: Final = 2**62

MOST_TAINTS: Final = 1_000_000
"""More taints than any node has: a node that may be faulty comes after all that are merely advised against."""


class Stock:
    """A pool's nodes without a taint that keeps its pods away (`open`), sorted, and the least that one of them has."""

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
        """The least allocatable of each figure; disk 0 where one does not report it."""
        devices = [UNLIMITED if node.total is None else node.total for _, node in opened]
        self.least_devices, self.most_devices = min(devices, default=UNLIMITED), max(devices, default=0)
        self.least_disk = min((size.storage for size in sizes if size.storage is not None), default=UNLIMITED)
        """The least disk of those that report it; `of_all`: of the nodes that are not open, too."""
        disks = (node.allocatable.storage for node in nodes)
        self.least_disk_of_all = min((disk for disk in disks if disk is not None), default=UNLIMITED)
        self.selected = not any(node.unlabelled for _, node in opened)
        """Whether each of those has the labels that the RuntimeClass of the pool's pods asks for."""
        told = {node.handlers for _, node in opened if node.handlers is not None}
        self.handlers = frozenset.intersection(*told) if told else None
        """The handlers that each of those has that say theirs; None where none does."""
        ready = sorted(((_place(node, index), node) for index, node in opened if node.unready is None), key=_by_place)
        self._places, self._nodes = [place for place, _ in ready], [node for _, node in ready]

    def with_free(self, gpus: int) -> Iterator[PoolNode]:
        """Open nodes that are ready and have so many free devices: discouraged ones last, then the fullest first."""
        places, index = self._places, 0
        while index < len(places):
            discouraged = places[index][0]
            index = bisect_left(places, (discouraged, gpus), index)
            while index < len(places) and places[index][0] == discouraged:
                yield self._nodes[index]
                index += 1

    def with_free_at(self, gpus: int) -> Iterator[tuple[int, PoolNode]]:
        """What `with_free` gives, each node with its index in the pool."""
        for place, node in zip(self._places, self._nodes, strict=True):
            if node.free >= gpus:
                yield place[4], node

    def has_free(self, gpus: int, nodes: int) -> bool:
        """Whether `with_free` gives so many nodes."""
        places, index = self._places, 0
        while index < len(places) and nodes > 0:
            discouraged = places[index][0]
            end = bisect_left(places, (discouraged + 1,), index)
            nodes -= end - bisect_left(places, (discouraged, gpus), index, end)
            index = end
        return nodes <= 0

    def emptiest(self) -> Iterator[PoolNode]:
        """Open nodes that are ready, those with the most free devices first, of equal ones those that nothing advises
        against."""
        if not self._places or self._places[0][0] == self._places[-1][0]:
            return reversed(self._nodes)
        ordered = sorted(zip(self._places, self._nodes, strict=True), key=lambda found: _emptier(found[0]))
        return (node for _, node in ordered)

    def moved(self, changes: Iterable[tuple[int, PoolNode, PoolNode]], tolerates: Tolerates) -> Stock | None:
        """The stock after nodes changed: index, before, after. None when more changed than what is free or ready."""
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
    """What of a node the figures of all are made of."""
    return (node.total, node.allocatable, node.taints, node.handlers, node.unlabelled)


def _place(node: PoolNode, index: int) -> Place:
    discouraged = sum(taint.effect == "PreferNoSchedule" for taint in node.taints) if node.taints else 0
    if node.suspected is not None:
        discouraged += MOST_TAINTS
    return (discouraged, node.free, node.left.memory, node.name, index)


def _by_place(found: tuple[Place, PoolNode]) -> Place:
    return found[0]


def _emptier(place: Place) -> tuple[int, int, int, str]:
    discouraged, free, left, name, _ = place
    return (-free, discouraged, -left, name)
