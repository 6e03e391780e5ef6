"""Reads what torch knows of itself, without importing it, without waiting for a device; called twice a second at most.

Memory comes from torch's own allocator, whose statistics need no call of the driver. cudaMemGetInfo, which does, is called
once a minute, and only for devices on which this process holds memory (else it would make a context there).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from gpujob_runner.report.settings import whole

SECONDS_BETWEEN_DEVICE_QUERIES = 60.0
SECONDS_BETWEEN_SEARCHES = 60.0


def place_in_job(environment: Mapping[str, str]) -> tuple[int, int]:
    """(rank, world size): of torch's process group where there is one, else of the environment, else (0, 1)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), max(1, int(distributed.get_world_size()))
    rank, world = whole(environment.get("RANK")), whole(environment.get("WORLD_SIZE"))
    return rank or 0, world or 1


class Devices:
    """Memory of the devices on which this process holds some."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, float]] = {}
        self._searched = float("-inf")
        self._queried = float("-inf")

    def figures(self) -> dict[int, dict[str, float]]:
        """Figures in bytes by device, as the process numbers them; peaks outlive torch's reset_peak_memory_stats."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return {}
        clock = time.monotonic()
        searches = not self._known or clock - self._searched >= SECONDS_BETWEEN_SEARCHES
        if searches:
            self._searched = clock
        for device in range(cuda.device_count()) if searches else list(self._known):
            self._read(cuda, device)
        if self._known and clock - self._queried >= SECONDS_BETWEEN_DEVICE_QUERIES:
            self._queried = clock
            for device, known in self._known.items():
                free, total = cuda.mem_get_info(device)
                known["used_bytes"], known["total_bytes"] = float(total - free), float(total)
        return {device: dict(known) for device, known in self._known.items()}

    def _read(self, cuda: Any, device: int) -> None:
        # As torch's C++ gives them; memory_stats flattens and sorts a hundred of them in Python.
        stats = cuda.memory_stats_as_nested_dict(device)
        reserved = _of_all(stats, "reserved_bytes", "current")
        known = self._known.get(device)
        if known is None:
            if not reserved:
                return
            known = self._known[device] = {"peak_bytes": 0.0, "reserved_peak_bytes": 0.0}
        known["allocated_bytes"] = _of_all(stats, "allocated_bytes", "current")
        known["reserved_bytes"] = reserved
        known["peak_bytes"] = max(known["peak_bytes"], _of_all(stats, "allocated_bytes", "peak"))
        known["reserved_peak_bytes"] = max(known["reserved_peak_bytes"], _of_all(stats, "reserved_bytes", "peak"))


def _of_all(stats: Mapping[str, Any], what: str, when: str) -> float:
    """A figure over all sizes of block; 0 where the allocator keeps none."""
    return float(stats.get(what, {}).get("all", {}).get(when, 0))


def info(device: int | None) -> dict[str, str]:
    """Versions of torch and its backend, and the name of `device`; backend is cpu where no device is used."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"torch": "", "backend": "cpu", "backend_version": "", "device": ""}
    version = getattr(torch, "version", None)
    hip, cuda = getattr(version, "hip", None), getattr(version, "cuda", None)
    state = {"torch": str(getattr(torch, "__version__", "")), "backend": "cpu", "backend_version": "", "device": ""}
    if device is not None:
        state["backend"], state["backend_version"] = ("rocm", str(hip)) if hip else ("cuda", str(cuda or ""))
        state["device"] = str(torch.cuda.get_device_name(device))
    return state
