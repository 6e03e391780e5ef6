"""What nodes of equal devices differ in, and the sets of them that suit some jobs better than all of them.

Of capacity types none is better than another for a job: it accepts some of them. In the other facts more is better.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import chain, combinations, zip_longest
from typing import Final, NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.versions import Release, release
from gpujob.values.vocabulary import CapacityType

MOST_PARTS: Final = 64
"""The most parts of a pool for each set of capacity types. Where nodes have more levels, only those drivers count apart that an image
of the catalog distinguishes; where they still have more, a part is better in one fact only.
"""

RANKS: Final = (CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.RESERVED)
"""Capacity types, the worst first; a pool of several types counts as the first of them."""

ANY: Final[Release] = (1 << 31,)
"""Above every driver: an unknown one (its device plugin is down) counts against no other node."""


UNKNOWN: Final = 1 << 62
"""Above every memory: the memory of unknown devices, likewise."""


class Level(NamedTuple):
    """The facts of nodes that filters and scores read, more is better in each."""

    driver: Release
    """Empty if it is unknown."""
    memory: int
    """Bytes of a device, 0 if unknown."""
    cheap: tuple[bool, int]
    """Whether the price is known, and the negative price."""

    def reaches(self, other: Level) -> bool:
        """Whether it is at least as good in each fact."""
        return self.driver >= other.driver and self.memory >= other.memory and self.cheap >= other.cheap

    def met(self, other: Level) -> Level:
        """The worse of each fact."""
        return Level(min(self.driver, other.driver), min(self.memory, other.memory), min(self.cheap, other.cheap))


@lru_cache(maxsize=4)  # 34 µs over all images against 0.1, for each part of an admin's pool
def driver_steps(catalog: Catalog) -> tuple[Release, ...]:
    """The drivers from which on an image or a device of the catalog runs, or is tested, the oldest first."""
    stacks = [*catalog.stacks, *(row.stack for row in catalog.runtimes if row.stack is not None)]
    drivers = {
        *(row.min_driver for row in catalog.accelerators),
        *(row.min_driver for row in catalog.runtimes),
        *(row.min_driver for row in stacks),
        *(driver for row in catalog.runtimes for driver in row.driver_window),
        *(driver for row in stacks for driver in (row.tested_from, row.tested_to, row.toolkit_driver)),
        *(driver for row in stacks for driver in row.forward_drivers),
    }
    return tuple(sorted(filter(None, map(release, drivers))))


def sets_of(
    levels: Mapping[str, Level], types: Mapping[str, CapacityType], steps: Sequence[Release]
) -> Iterator[frozenset[str]]:
    """Each set of names once: those of each set of capacity types, the largest first, then of each of these the names that reach a
    level. `steps` are those of `driver_steps`.
    """
    kinds = sorted(set(types.values()))
    wholes = [
        {name: level for name, level in levels.items() if types[name] in some}
        for number in range(len(kinds), 0, -1)
        for some in combinations(kinds, number)
    ]
    found = chain(map(frozenset, wholes), *zip_longest(*(_reaching(whole, steps) for whole in wholes)))
    yield from dict.fromkeys(names for names in found if names is not None)


def _reaching(levels: Mapping[str, Level], steps: Sequence[Release]) -> list[frozenset[str]]:
    """The names that reach each level of these."""
    return [
        frozenset(name for name, its in read.items() if its.reaches(level))
        for read in _readings(levels)
        for level in _levels(read.values(), steps)
    ]


def _readings(levels: Mapping[str, Level]) -> Iterator[Mapping[str, Level]]:
    """The levels with an unknown driver as the oldest, because others surely run an image, then as the newest, because one that is
    known to be too old may be all that the image cannot run on.
    """
    yield levels
    if len({level.driver == () for level in levels.values()}) > 1:
        yield {name: level if level.driver else level._replace(driver=ANY) for name, level in levels.items()}


def _levels(found: Collection[Level], steps: Sequence[Release]) -> list[Level]:
    """The levels of nodes, then what several of them have in common, but for what all have."""
    own = set(found)
    levels = _closed(own)
    if len(levels) > MOST_PARTS:
        own = _by_steps(own, steps)
        levels = _closed(own)
    ordered = [*sorted(own & levels, reverse=True), *sorted(levels - own, reverse=True)]
    if len(ordered) > MOST_PARTS:
        ordered = _by_fact(own)
    worst = met(found)
    return [level for level in ordered if level != worst]


def _closed(own: Collection[Level]) -> set[Level]:
    """The levels and what any of them have in common; some of that, but more than MOST_PARTS, if there is more."""
    levels = new = set(own)
    while new and len(levels) <= MOST_PARTS:
        new = {one.met(other) for one in new for other in own} - levels
        levels = levels | new
    return levels


def _by_steps(levels: Iterable[Level], steps: Sequence[Release]) -> set[Level]:
    """The levels with the oldest of the drivers between the same steps."""
    oldest: dict[int, Release] = {}
    for level in sorted(levels, reverse=True):
        oldest[bisect_right(steps, level.driver)] = level.driver
    return {
        level if level.driver is ANY else level._replace(driver=oldest[bisect_right(steps, level.driver)])
        for level in levels
    }


def _by_fact(levels: Collection[Level]) -> list[Level]:
    """The levels that are the worst in all but one fact: of each fact as many values as have room, spread evenly."""
    worst, most = met(levels), MOST_PARTS // len(Level._fields)
    found = dict[Level, None]()
    for fact in Level._fields:
        values = sorted({getattr(level, fact) for level in levels}, reverse=True)
        spread = {len(values) * place // most for place in range(most)}
        found |= dict.fromkeys(worst._replace(**{fact: values[index]}) for index in sorted(spread))
    return list(found)


def met(levels: Iterable[Level]) -> Level:
    """The worst of each fact."""
    return reduce(Level.met, levels)


def unlike_prices(prices: Iterable[int]) -> tuple[int, ...]:
    """Prices of nodes, the most expensive first; none if all are equal."""
    ordered = tuple(sorted(prices, reverse=True))
    return ordered if ordered and ordered[0] != ordered[-1] else ()


def first_of_each_type(found: Iterable[tuple[CapacityType, str]]) -> tuple[tuple[CapacityType, str], ...]:
    """Capacity types that differ, the worst first, each with the first of its nodes by name; none if all nodes are of one."""
    first: dict[CapacityType, str] = {}
    for kind, name in found:
        first[kind] = min(first.get(kind, name), name)
    return tuple(sorted(first.items(), key=lambda each: RANKS.index(each[0]))) if len(first) > 1 else ()
