"""Names of whole machines that clouds write where others write the name of a device."""

from __future__ import annotations

import re
from typing import Final

MACHINE: Final = re.compile(
    r"gpu[-_].+|[bv]m\.gpu\.[a-z].+|standard_nd[0-9]+[a-z]+_.+_v[0-9]+|gx[0-9]d?-[0-9]+x[0-9]+x[0-9]+.+"
    r"|[a-z0-9]+-[0-9]+gb(?:-[a-z]+)*\.[0-9]+x",
    re.IGNORECASE,
)
"""Names of machines that contain a model's name and have whole devices: gpu-h100-sxm, gpu_8x_h100_sxm5, gpu-mi300x8-1536gb;
Oracle's BM.GPU.MI355X-v1.8, Azure's Standard_ND128isr_GB300_v6, IBM's gx3d-160x1792x8mi300x, Crusoe's h100-80gb-sxm-ib.8x.
"""
_MACHINE_WITH_COUNT: Final = re.compile(
    r"gpu-[a-z0-9]+x([1-9][0-9]?)-[0-9]+gb|gpu_([1-9][0-9]?)x_.+|gx[0-9]d?-[0-9]+x[0-9]+x([1-9][0-9]?)[a-z].*"
    r"|[a-z0-9]+-[0-9]+gb(?:-[a-z]+)*\.([1-9][0-9]?)x",
    re.IGNORECASE,
)
"""Names of machines that contain the number of their devices: those of DigitalOcean, Lambda, IBM and Crusoe."""


def devices_in_machine_name(name: str) -> int | None:
    """The number of whole devices in a machine's name; None if its form has none."""
    found = _MACHINE_WITH_COUNT.fullmatch(name)
    return int(next(filter(None, found.groups()))) if found else None
