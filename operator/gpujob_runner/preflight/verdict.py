"""What differs from the expectation: each finding is one reason with its numbers, which the operator turns into a sentence.

The order is that of causes: an image for the other backend sees no devices either, so the first finding is the one to fix.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gpujob_runner.preflight.expected import Expected
from gpujob_runner.preflight.nodes import Nodes
from gpujob_runner.preflight.probing import Seen
from gpujob_runner.preflight.refusal import Refusal

Finding = dict[str, Any]

CONTEXT = 1 << 30
"""What the probe's own context on a device holds at most: memory that is free again when the program starts."""

CHOSEN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables by which a job hides some of its own devices from itself."""

UNCERTAIN = frozenset({"NoInterpreter", "PreflightTimedOut", "PreflightFault"})
"""Reasons that say nothing about the devices: the program runs."""


def of_torch(expected: Expected, seen: Seen, nodes: Nodes, environment: dict[str, str]) -> list[Finding]:
    """The findings about image and devices, by torch and by the device nodes."""
    if seen.torch is not None and seen.backend != expected.backend and seen.backend != "unknown":
        found = f"{seen.backend} {seen.number}".strip()
        return [_finding("ImageBackendMismatch", torch=seen.torch, found=found, wanted=expected.backend)]
    if seen.broken:
        return [_finding("ImageBroken", error=seen.broken)]
    if seen.torch is None:
        return of_nodes(expected, nodes) or _unseen(seen)
    if seen.hung and seen.import_seconds is None:
        return [_finding("PreflightTimedOut", stage="import")]
    if seen.import_seconds is None:
        return [_finding("ImageBroken", error=f"the import of torch ended Python with code {seen.died}")]
    return of_devices(expected, seen, nodes, environment)


def _unseen(seen: Seen) -> list[Finding]:
    """Why torch could not be probed; empty if the image is known to have no torch."""
    if seen.absent:
        return []
    if seen.hung:
        return [_finding("PreflightTimedOut", stage="began")]
    return [
        _finding("PreflightFault", error=f"the command's Python ended with code {seen.died} before it looked for torch")
    ]


def of_nodes(expected: Expected, nodes: Nodes) -> list[Finding]:
    """The findings about devices without torch: missing ones, and those that may not be opened."""
    if nodes.denied:
        return [_denied(nodes)]
    wanted = expected.gpus if expected.exact else min(expected.gpus, 1)
    if nodes.lacking or len(nodes.cards) < wanted:
        return [
            _finding(
                "DeviceCountMismatch", seen=0 if nodes.lacking else len(nodes.cards), wanted=expected.gpus, nodes=True
            )
        ]
    return []


def of_devices(expected: Expected, seen: Seen, nodes: Nodes, environment: dict[str, str]) -> list[Finding]:
    """The findings about the devices that torch sees; of missing ones the device nodes may show the cause."""
    count = seen.count
    if count is None:
        return [_finding("DeviceUnusable", device=0, error=_ended(seen, "counting the devices"))]
    fewer = count < expected.gpus if expected.exact else count < 1
    if fewer and nodes.denied:
        return [_denied(nodes)]
    chosen = next((name for name in CHOSEN if name in environment), None)
    if fewer and count == 0 and nodes.cards and not nodes.lacking and not chosen:
        return [_finding("DeviceUnusable", error=seen.error or "torch sees no device", wanted=expected.gpus)]
    if fewer or (expected.exact and count > expected.gpus):
        return [
            _finding("DeviceCountMismatch", seen=count, wanted=expected.gpus, variable=chosen, error=seen.error or None)
        ]
    return [*_unusable(seen, count), *_too_small(expected, seen)]


def _unusable(seen: Seen, count: int) -> list[Finding]:
    for device in seen.devices:
        if device.error or device.product is False:
            error = device.error or "a matrix product has a wrong result"
            return [_finding("DeviceUnusable", device=device.index, name=device.name, error=error)]
    done = sum(device.product is True for device in seen.devices)
    if done < min(count, 64):
        return [_finding("DeviceUnusable", device=done, error=_ended(seen, "memory or a matrix product"))]
    return []


def _ended(seen: Seen, what: str) -> str:
    """How a probe ended that has not printed everything."""
    return f"no answer to {what}" if seen.hung else f"{what} ended Python with code {seen.died}"


def _too_small(expected: Expected, seen: Seen) -> list[Finding]:
    """The device with the least free memory, if that is less than expected."""
    if expected.memory is None or not seen.devices:
        return []
    least = min(seen.devices, key=lambda device: device.free)
    usable = least.total if least.total - least.free <= CONTEXT else least.free
    if not least.total or usable >= expected.memory:
        return []
    return [
        _finding(
            "MemBelowRequest",
            device=least.index,
            name=least.name,
            free=least.free,
            total=least.total,
            wanted=expected.memory,
            shared=expected.shared or None,
        )
    ]


def of_folders(expected: Expected, shared_memory: int | None, closed: Sequence[Refusal]) -> list[Finding]:
    """The findings about /dev/shm and about folders."""
    findings = []
    wanted = expected.shared_memory
    # A page is rounded off at most; 1/64 is far more.
    if wanted is not None and shared_memory is not None and shared_memory < wanted - wanted // 64:
        findings.append(_finding("SharedMemoryTooSmall", size=shared_memory, wanted=wanted))
    findings += [
        _finding("FolderNotWritable", mount=folder.path in expected.mounts or None, **_access(folder))
        for folder in closed[:2]
    ]
    return findings


def _denied(nodes: Nodes) -> Finding:
    return _finding("DevicePermission", **_access(nodes.denied[0]))


def _access(place: Refusal) -> dict[str, Any]:
    """The owner of a path, and the user of this process."""
    return {
        "path": place.path, "owner": place.owner, "group": place.group, "mode": f"{place.mode:04o}",
        "error": place.error, "uid": os.getuid(), "groups": sorted({os.getgid(), *os.getgroups()})[:16],
    }  # fmt: skip


def _finding(reason: str, **numbers: Any) -> Finding:
    return {"reason": reason, **{key: value for key, value in numbers.items() if value is not None}}
