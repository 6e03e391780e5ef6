"""What only NVIDIA pods get: the RuntimeClass where it exists, and the CUDA cache."""

from __future__ import annotations

from typing import Final

from gpujob.fleet.pools import Pool
from gpujob.render.folders import HOME

DEFAULT_CLASS: Final = "nvidia"

ENVIRONMENT: Final = {"CUDA_CACHE_PATH": f"{HOME}/.cache/cuda"}


def runtime_class(pool: Pool, existing: frozenset[str]) -> str | None:
    """The RuntimeClass for an NVIDIA pod: the pool's own, else `nvidia`; only if that object exists."""
    name = pool.runtime_class or DEFAULT_CLASS
    return name if name in existing else None
