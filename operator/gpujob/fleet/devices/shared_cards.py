"""Cards that several resources of a node offer at once, and what is free of one after pods use another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpujob.fleet.labels.device_fraction import Share


@dataclass(frozen=True, slots=True)
class Silicon:
    """The cards of several resources, and the fraction of a card that one device of each resource is."""

    physical: int | Fraction
    shares: tuple[tuple[str, Share], ...]

    def holds(self, resource: str) -> bool:
        """Whether a resource's devices are these cards."""
        return any(name == resource for name, _ in self.shares)

    def cards(self, resource: str, devices: int) -> Fraction:
        """A number of devices of a resource in cards; 0 for a resource of other cards."""
        share = dict(self.shares).get(resource)
        return devices * Fraction(*share) if share else Fraction(0)

    def left(self, resource: str, taken: Mapping[str, int]) -> int:
        """Devices of a resource that fit on its cards beside the pods' devices of all resources; may be below 0."""
        used = sum((self.cards(name, taken.get(name, 0)) for name, _ in self.shares), Fraction(0))
        return int((self.physical - used) // Fraction(*dict(self.shares)[resource]))

    def as_many(self, resource: str, other: str, devices: int) -> int:
        """Devices of `resource` that are missing after this many of `other` are used, rounded up; 0 for other cards."""
        share = dict(self.shares).get(resource)
        return int(-(-self.cards(other, devices) // Fraction(*share))) if share else 0
