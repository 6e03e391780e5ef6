"""The equipment that images are checked against: a pool's devices, drivers and hosts. Pools of equal equipment get equal findings
for each image.
"""

from __future__ import annotations

from typing import NamedTuple

from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import Vendor


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
