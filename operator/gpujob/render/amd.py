"""What only AMD pods get: the groups that own the devices, and the environment of ROCm.

/dev/kfd and /dev/dri/renderD* belong to host groups with numbers of their own (ROCm/k8s-device-plugin issue 39); the
device plugin mounts them, so there is never a hostPath here.
"""

from __future__ import annotations

from typing import Final

from gpujob.fleet.pools import Pool
from gpujob.render.folders import HOME

ENVIRONMENT: Final = {
    "MIOPEN_USER_DB_PATH": f"{HOME}/.cache/miopen/db",
    "MIOPEN_CUSTOM_CACHE_DIR": f"{HOME}/.cache/miopen/kernels",
    # CUDA images set it to `all`; on a node whose default runtime is NVIDIA's it would show every GPU.
    "NVIDIA_VISIBLE_DEVICES": "void",
}


def environment(pool: Pool, gpus: int) -> dict[str, str]:
    """Variables for ROCm; MI300-class devices keep scratch memory between kernels of several GPUs (RCCL performance)."""
    many = pool.accelerator is not None and pool.accelerator.architecture == "gfx942" and gpus > 1
    return ENVIRONMENT | ({"HSA_NO_SCRATCH_RECLAIM": "1"} if many else {})


def groups(pool: Pool, own: tuple[int, ...]) -> list[int]:
    """The user's groups first, then those that own the devices of this pool's hosts."""
    return list(dict.fromkeys((*own, *pool.supplemental_groups)))
