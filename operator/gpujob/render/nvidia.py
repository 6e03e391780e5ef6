"""What NVIDIA devices need in a pod: a RuntimeClass where the cluster has it, and no devices where none are asked."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from gpujob.render.attempt import Attempt, Manifest

RUNTIME_CLASS: Final = "nvidia"
"""What the GPU operator calls its RuntimeClass by default; a pod that names one which is not there is refused."""

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Set by the device plugin where GPUs are asked. CUDA images carry `all`, and a container runtime that honours it shows
every GPU of the node to a container that asked for none."""

NO_DEVICES: Final[Manifest] = {"name": VISIBLE_DEVICES, "value": "void"}


def runtime_class(attempt: Attempt, existing: Set[str]) -> str | None:
    """The pod's RuntimeClass: the pool's (placement saw it), else `nvidia` where that object exists; never for AMD."""
    if attempt.amd:
        return None
    return attempt.pool.runtime_class or (RUNTIME_CLASS if RUNTIME_CLASS in existing else None)


def defaults(home: str) -> list[Manifest]:
    """Variables that a user may change: where compiled kernels are kept."""
    return [{"name": "CUDA_CACHE_PATH", "value": f"{home}/.cache/nvidia"}]
