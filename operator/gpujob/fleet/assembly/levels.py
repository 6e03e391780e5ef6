"""What nodes of equal devices differ in, and the sets of them that suit some jobs better than all of them.

Of capacity types none is better than another for a job: it accepts some of them. In the other facts more is better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain, combinations, zip_longest
from typing import Final, NamedTuple

from gpujob.catalog.images.versions import Release
from gpujob.values.vocabulary import CapacityType

MOST_PARTS: Final = 16
"""The most parts of a pool; of more kinds of nodes the further ones count in the whole pool only."""

RANKS: Final = (CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.RESERVED)
"""Capacity types, that of the worst first: a pool of several types is of the first."""

ANY: Final[Release] = (1 << 31,)
"""Above each driver: that of a node whose device plugin is down is not known, and no reason against the others."""


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
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))  # type: ignore[operator]

    def met(self, other: Level) -> Level:
        """The worse of each fact."""
        return Level(*map(min, zip(self, other, strict=True)))  # type: ignore[arg-type]


def sets_of(levels: Mapping[str, Level], types: Mapping[str, CapacityType]) -> Iterator[frozenset[str]]:
    """Each set of names once: those of each set of capacity types, the largest first, then of each of these the names that reach a
    level.
    """
    kinds = sorted(set(types.values()))
    wholes = [
        {name: level for name, level in levels.items() if types[name] in some}
        for number in range(len(kinds), 0, -1)
        for some in combinations(kinds, number)
    ]
    found = chain(map(frozenset, wholes), *zip_longest(*map(_reaching, wholes)))
    yield from dict.fromkeys(names for names in found if names is not None)


def _reaching(levels: Mapping[str, Level]) -> list[frozenset[str]]:
    """The names that reach each level of these."""
    return [frozenset(name for name, its in levels.items() if its.reaches(level)) for level in _levels(levels.values())]


def _levels(found: Collection[Level]) -> list[Level]:
    """The levels of nodes, then what several of them have in common, but for what all have."""
    known = {level for level in found if level.driver is not ANY}
    best = max((level.cheap for level in known), default=None)
    own = known | {level for level in found if best is None or level.cheap > best}
    ordered = sorted(own, reverse=True)
    common = {one.met(other) for one, other in combinations(ordered[:MOST_PARTS], 2)}
    while len(common) <= MOST_PARTS and (more := {one.met(other) for one in common for other in own} - common):
        common |= more
    ordered += sorted(common - own, reverse=True)
    return [level for level in ordered if level != met(found)][:MOST_PARTS]


def met(levels: Iterable[Level]) -> Level:
    """The worst of each fact."""
    return reduce(Level.met, levels)


def first_of_each_type(found: Iterable[tuple[CapacityType, str]]) -> tuple[tuple[CapacityType, str], ...]:
    """Capacity types that differ, the worst first, each with the first of its nodes by name; none if all nodes are of one."""
    first: dict[CapacityType, str] = {}
    for kind, name in found:
        first[kind] = min(first.get(kind, name), name)
    return tuple(sorted(first.items(), key=lambda each: RANKS.index(each[0]))) if len(first) > 1 else ()
