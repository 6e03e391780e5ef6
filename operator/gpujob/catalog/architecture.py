"""Which compiled code a device can run.

NVIDIA (CUDA C++ programming guide, binary and PTX compatibility): machine code runs on devices of the same major
compute capability and an equal or higher minor one (8.6 code on 8.9); PTX ("12.0+PTX") is compiled by the driver for
any equal or higher capability. AMD code objects run on exactly the gfx architecture that they were compiled for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_CAPABILITY: Final = re.compile(r"([0-9]{1,2})\.([0-9])(\+PTX)?", re.ASCII)


def runs_on(device_arch: str, compiled: Iterable[str]) -> bool:
    """Whether a device ("gfx942", "8.9") runs code compiled for one of these ("gfx942", "8.6", "12.0+PTX")."""
    device = _CAPABILITY.fullmatch(device_arch)
    if device is None:
        # A driver may append the modes of a device: gfx90a:sramecc+:xnack-
        return device_arch.partition(":")[0] in compiled
    capability = (int(device[1]), int(device[2]))
    return any(_runs(capability, architecture) for architecture in compiled)


def _runs(device: tuple[int, int], architecture: str) -> bool:
    code = _CAPABILITY.fullmatch(architecture)
    if code is None:
        return False
    compiled = (int(code[1]), int(code[2]))
    return compiled <= device and (compiled[0] == device[0] or code[3] is not None)
