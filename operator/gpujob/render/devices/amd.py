"""The needs of AMD devices in a pod: the groups that own them on the host, and ROCm's environment.

The device plugin passes /dev/kfd and the allocated /dev/dri nodes by itself: there is never a hostPath here.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpujob.render.attempt import Attempt, Manifest


def device_groups(attempt: Attempt) -> Iterable[int]:
    """Group ids that open /dev/kfd and /dev/dri/renderD* on the pool's hosts (0660, unlike NVIDIA's devices)."""
    return attempt.pool.supplemental_groups if attempt.amd else ()


def defaults(attempt: Attempt) -> list[Manifest]:
    """The variable that a user may change: RCCL's setting for MI300.

    No *_VISIBLE_DEVICES: the device plugin shows the container its own devices only, counted from 0.
    """
    accelerator = attempt.pool.accelerator
    if attempt.amd and accelerator and accelerator.architecture == "gfx942" and attempt.gpus * attempt.nodes > 1:
        # Keeps scratch memory between kernels: faster RCCL; AMD's own training images set it too.
        return [{"name": "HSA_NO_SCRATCH_RECLAIM", "value": "1"}]
    return []
