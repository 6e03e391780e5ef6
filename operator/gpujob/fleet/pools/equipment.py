"""The equipment that images are checked against: a pool's devices, drivers and hosts. Pools of equal equipment get equal findings
for each image.
"""

from __future__ import annotations

from typing import NamedTuple

from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import CapacityType, Vendor


class Equipment(NamedTuple):
    """The facts of a pool that image filters read, and nothing else."""

    vendor: Vendor
    accelerator: Accelerator | None
    driver: str | None
    """From labels; None if they do not have it."""
    host_architecture: str
    """The CPU architecture of the hosts."""
    is_read: bool
    """Whether no fact about the devices must be fixed first."""
    newest_driver: str | None = None
    """Of an admin's pool whose nodes have several drivers; `driver` is the oldest."""


class Best(NamedTuple):
    """The best of each fact in which the nodes of an admin's pool differ. The worst counts for all of them; a job that only the best
    would accept has a pool to be narrowed, and none that can never run it.
    """

    capacity_types: frozenset[CapacityType]
    driver: str | None
    memory: int | None
    """Bytes of a device."""
    price: int | None
    """Micro-dollars an hour of a device."""
