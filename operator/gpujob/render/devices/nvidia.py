"""The needs of NVIDIA devices in a pod: no devices unless requested."""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Manifest

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Set by the device plugin if GPUs are requested. CUDA images carry `all`, and a container runtime that honours it shows every GPU
of the node to a container that requests none.
"""

NO_DEVICES: Final[Manifest] = {"name": VISIBLE_DEVICES, "value": "void"}
