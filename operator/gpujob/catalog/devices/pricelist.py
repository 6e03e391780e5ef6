"""List prices: of an instance type in a region, and of a model in general."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.entities import Price
from gpujob.values.vocabulary import CapacityType


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """Micro-dollars an hour by the way of paying: of a whole device, or of a node where `word` is an instance type."""

    word: str
    amounts: Mapping[CapacityType, int]
    of_node: bool = False

    def per_gpu_hour(self, capacity: CapacityType, devices: int, parts: int = 1) -> int | None:
        """Micro-dollars for a whole one of a node's `devices`, rounded down so that together they never cost more than the node; None
        where this way of paying has no price.

        Of a node that has one of `parts` of a device, a whole device is what so many nodes cost.
        """
        amount = self.amounts.get(capacity)
        if amount is None or not self.of_node:
            return amount
        return amount * parts // devices


ANYWHERE: Final = "any"
"""The region of a price that holds in all of a cloud's regions."""


class PriceList:
    """The price rows by instance type, and by model where a cloud sells GPUs."""

    __slots__ = ("_by_instance_type", "_by_model", "_rows")

    def __init__(self, rows: Sequence[Price]) -> None:
        self._rows = rows
        self._by_instance_type: dict[tuple[str, CapacityType], list[Price]] = {}
        self._by_model: dict[tuple[str, str, CapacityType], list[Price]] = {}
        for row in rows:
            if row.instance_type is not None:
                self._by_instance_type.setdefault((row.instance_type, row.capacity_type), []).append(row)
            else:
                self._by_model.setdefault((row.cloud, row.accelerator, row.capacity_type), []).append(row)

    def listed(self, cloud: str | None, instance_type: str, region: str, capacity: CapacityType) -> Price | None:
        """The row of this region, else of the closest region name in the same cloud."""
        rows = self._by_instance_type.get((instance_type, capacity), ())
        return _nearest([row for row in rows if cloud is None or row.cloud == cloud], region)

    def of_model(self, cloud: str, accelerator: str, region: str, capacity: CapacityType) -> Price | None:
        """The row of a cloud that sells this model by the GPU, for any machine; of this region, else the closest."""
        rows = self._by_model.get((cloud, accelerator, capacity), [])
        return _nearest(rows, region)

    def median(self, accelerator: str, capacity: CapacityType) -> Price | None:
        """The median price of a model over the clouds, each represented by the median of its own rows.

        Without that step the clouds with the longest price tables, which are the most expensive, would decide NVIDIA's figures but
        not AMD's, which they hardly offer.
        """
        rows = [row for row in self._rows if row.accelerator == accelerator and row.capacity_type == capacity]
        if not rows:
            return None
        clouds = sorted({row.cloud for row in rows})
        each = [_middle([row.per_gpu_hour for row in rows if row.cloud == cloud]) for cloud in clouds]
        first, last = min(row.checked_on for row in rows), max(row.checked_on for row in rows)
        whose = f"median of {len(clouds)} clouds' list prices" if len(clouds) > 1 else f"list price of {clouds[0]}"
        return replace(
            rows[0],
            cloud="",
            instance_type=None,
            region="",
            per_gpu_hour=_middle(each),
            source=f"indicative: {whose} {first if first == last else f'{first} to {last}'}",
            checked_on=last,
        )


def _nearest(rows: Sequence[Price], region: str) -> Price | None:
    """The row of this region, else of the region with the closest name; a row for all regions is returned as one of this region."""
    if not rows:
        return None
    best = min(rows, key=lambda row: (row.region != region, -_shared_start(row.region, region), row.region))
    return replace(best, region=region) if best.region == ANYWHERE and region else best


def _middle(amounts: Sequence[int]) -> int:
    """The median; of an even number of amounts, the mean of the middle two."""
    ordered = sorted(amounts)
    upper, lower = len(ordered) // 2, (len(ordered) - 1) // 2
    return (ordered[lower] + ordered[upper]) // 2


def _shared_start(one: str, other: str) -> int:
    """The number of leading characters that two region names share: eastus and eastus2 are closer than westeurope."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
