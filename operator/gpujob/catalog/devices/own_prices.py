"""What admins pay, by accelerator or by instance type: before every list price, after what a GPUPool or a node says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpujob.values.vocabulary import CapacityType


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """Micro-dollars an hour by the way of paying: of a whole device, or of a node where `word` is an instance type."""

    word: str
    amounts: Mapping[CapacityType, int]
    of_node: bool = False

    def per_gpu_hour(self, capacity: CapacityType, devices: int, parts: int = 1) -> int | None:
        """Micro-dollars for a whole one of a node's `devices`, halves rounded up; None where this way of paying has no price.

        Of a node that has one of `parts` of a device, a whole device is what so many nodes cost.
        """
        amount = self.amounts.get(capacity)
        if amount is None or not self.of_node:
            return amount
        return (2 * amount * parts + devices) // (2 * devices)
