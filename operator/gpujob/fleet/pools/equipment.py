"""What images are held against: a pool's devices, and what drives and hosts them. For pools of equal equipment, the same is
true of each image."""

from __future__ import annotations

from typing import NamedTuple

from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import Vendor


class Equipment(NamedTuple):
    """The facts of a pool that rules of images look at, and all of them."""

    vendor: Vendor
    accelerator: Accelerator | None
    driver: str | None
    """As labels say it; None where they do not."""
    host_architecture: str
    """The CPU architecture of the hosts."""
    is_read: bool
    """Whether nothing about the devices must be fixed first."""
