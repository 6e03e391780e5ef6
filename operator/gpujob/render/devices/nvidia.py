"""What NVIDIA devices need in a pod: a cache of their own, and no devices where none are asked."""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Manifest

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Set by the device plugin where GPUs are asked. CUDA images carry `all`, and a container runtime that honours it shows
every GPU of the node to a container that asked for none."""

NO_DEVICES: Final[Manifest] = {"name": VISIBLE_DEVICES, "value": "void"}


def defaults(home: str) -> list[Manifest]:
    """Variables that a user may change: where compiled kernels are kept."""
    return [{"name": "CUDA_CACHE_PATH", "value": f"{home}/.cache/nvidia"}]
