"""What nodes of equal devices differ in, and the sets of them that are at least as good as one another in each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from itertools import combinations
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

    capacity: int
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


def levels_of(found: Collection[Level]) -> list[Level]:
    """The levels of parts: those of nodes, then what several of them have in common, but for what all have."""
    known = {level for level in found if level.driver is not ANY}
    bought = {(level.capacity, level.cheap) for level in known}
    own = known | {
        level
        for level in found
        if not any(capacity >= level.capacity and cheap >= level.cheap for capacity, cheap in bought)
    }
    ordered = sorted(own, reverse=True)
    common = {one.met(other) for one, other in combinations(ordered[:MOST_PARTS], 2)}
    while len(common) <= MOST_PARTS and (more := {one.met(other) for one in common for other in own} - common):
        common |= more
    ordered += sorted(common - own, reverse=True)
    return [level for level in ordered if level != met(found)][:MOST_PARTS]


def met(levels: Iterable[Level]) -> Level:
    """The worst of each fact."""
    return reduce(Level.met, levels)
