"""Gangs in the order in which sizing tries them, in groups: within a group, a larger gang holds every model that a smaller one
holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Final

from gpujob.fleet.pools.pool import MOST_NODES, NodeSizes
from gpujob.placement.filters.memory import divides
from gpujob.placement.request.gang import Gang

FEW: Final = 16
"""Gangs of a group that are made at once, since all jobs read them."""


@dataclass(frozen=True, slots=True)
class GangGroup:
    """Gangs in the order of their GPUs. Of many, a gang is made when it is read: a node may have thousands of fractions of devices."""

    divided: bool
    """Whether the GPUs on a node divide the model's heads, if these are divided at all."""
    count: int
    at: Callable[[int], Gang]
    """The gang of an index."""

    def largest(self, most: float = inf) -> Gang | None:
        """The last gang of at most so many GPUs; None if there is none."""
        end = (
            self.count if most == inf else bisect_right(range(self.count), most, key=lambda index: self.at(index).gpus)
        )
        return self.at(end - 1) if end else None


def first_that_holds(group: GangGroup, start: int, holds: Callable[[Gang], bool]) -> int:
    """The index of the first gang that holds, from an index on, if all after one that holds do too; the number of gangs if none
    does. Tried are the first, second, fourth … one and the last, then the middle of what remains, because few GPUs mostly do. One GPU
    may hold what two do not, because two exchange data; it is tried first.
    """
    low, tried = start, start
    while tried < group.count and not holds(group.at(tried)):
        low, tried = tried + 1, min(2 * tried - start + 1, group.count - 1)
        if low == group.count:
            return low
    return bisect_left(range(group.count), True, low, tried, key=lambda index: holds(group.at(index)))


@lru_cache(maxsize=1024)  # 50 µs: 44 calls for 60 jobs with a model, 3 different; 2.4 of 71 ms
def groups_in_search_order(
    nodes: int | None, sizes: NodeSizes, whole: bool, heads: tuple[int, int] | None
) -> Sequence[GangGroup]:
    """The gangs that nodes form, in search order: on one node, then on several. For tensor parallel models the gangs whose GPUs on
    a node divide the heads come first, because engines reject others unless layers are divided too: on the fewest nodes, where a
    part of each node is tried as well.

    A number of nodes that the job names is fixed. Pools that assign whole nodes form no partial gangs.
    """
    asked = nodes or 1
    largest = max((size for size, count in sizes if count >= asked), default=0)
    several = list(_of_whole_nodes(sizes)) if nodes is None else []
    if whole:
        return _of_list([Gang(asked, largest), *several] if largest else several, heads)
    if heads is None:
        return (_every(asked, largest), *_of_list(several, heads))
    dividing = tuple(gpus for gpus in range(1, min(largest, heads[0]) + 1) if divides(gpus, heads))
    together = _by_nodes(sizes, dividing) if nodes is None else ()
    undivided = [gang for gang in several if not divides(gang.gpus_per_node, heads)]
    return (
        _listed(True, [Gang(asked, gpus) for gpus in dividing]),
        *together,
        _every(asked, largest, dividing),
        _listed(False, sorted(undivided, key=lambda gang: (gang.gpus, gang.nodes))),
    )


def _of_whole_nodes(sizes: NodeSizes) -> Iterator[Gang]:
    """The gangs of several whole nodes."""
    return (Gang(more, size) for size, count in sizes for more in range(2, min(count, MOST_NODES) + 1))


def _by_nodes(sizes: NodeSizes, dividing: Sequence[int]) -> Iterator[GangGroup]:
    """For each number of nodes, the fewest first, the gangs with one of these numbers of GPUs on each: more nodes with fewer GPUs
    each would exchange data over the network and leave parts of more nodes.
    """
    for nodes in range(2, MOST_NODES + 1):
        largest = max((size for size, count in sizes if count >= nodes), default=0)
        yield _listed(True, [Gang(nodes, gpus) for gpus in dividing if gpus <= largest])


def _of_list(gangs: Iterable[Gang], heads: tuple[int, int] | None) -> tuple[GangGroup, ...]:
    """One group, or with heads those that divide them, then the others."""
    ordered = sorted(gangs, key=lambda gang: (gang.gpus, gang.nodes))
    if heads is None:
        return (_listed(True, ordered),)
    fits = [divides(gang.gpus_per_node, heads) for gang in ordered]
    return tuple(
        _listed(same, [gang for gang, divided in zip(ordered, fits, strict=True) if divided is same])
        for same in (True, False)
    )


def _listed(divided: bool, gangs: Sequence[Gang]) -> GangGroup:
    return GangGroup(divided, len(gangs), gangs.__getitem__)


def _every(nodes: int, largest: int, without: Sequence[int] = ()) -> GangGroup:
    """Every number of GPUs on a node up to the largest, except some, which are those that divide the heads."""
    skips = [gpus - place for place, gpus in enumerate(without)]

    def at(index: int) -> Gang:
        return Gang(nodes, index + 1 + bisect_right(skips, index + 1))

    count = largest - len(without)
    return _listed(not without, list(map(at, range(count)))) if count <= FEW else GangGroup(not without, count, at)
