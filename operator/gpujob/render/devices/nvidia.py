"""The needs of NVIDIA devices in a pod: a cache of their own, and no devices unless requested."""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Manifest

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Set by the device plugin if GPUs are requested. CUDA images carry `all`, and a container runtime that honours it shows every GPU
of the node to a container that requests none.
"""

NO_DEVICES: Final[Manifest] = {"name": VISIBLE_DEVICES, "value": "void"}


def defaults(home: str) -> list[Manifest]:
    """Variables that a user may change: where compiled kernels are kept."""
    return [{"name": "CUDA_CACHE_PATH", "value": f"{home}/.cache/nvidia"}]
