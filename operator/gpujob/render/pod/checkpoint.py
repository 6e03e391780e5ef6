"""The folder of checkpoints in the training container: its mount and the variable that names it; and the time to save in the end."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from gpujob.api.kinds.gpujob import CHECKPOINTS, GPUJobSpec
from gpujob.api.kinds.pods import VolumeMount
from gpujob.render.attempt import Attempt, Manifest

GRACE_SECONDS: Final = 30

SAVING_GRACE_SECONDS: Final = 120
"""The grace of a job with checkpoints before a save was measured: what the shortest notice of a spot node leaves (AWS)."""

LONGEST_GRACE_SECONDS: Final = 3600

OF_LAUNCHER: Final = 30
"""Seconds after which torchrun ends its ranks with SIGKILL by default (torch/distributed/launcher/api.py)."""

LEFT_TO_LAUNCHER: Final = 5
"""Seconds of the grace in which a launcher whose ranks did not end can still end by itself."""


def folder(spec: GPUJobSpec) -> str | None:
    """The path of the folder; None where the program keeps its checkpoints elsewhere or the job names none."""
    checkpoint = spec.checkpoint
    return (checkpoint.path or CHECKPOINTS) if checkpoint and checkpoint.volume else None


def mounts(spec: GPUJobSpec) -> tuple[VolumeMount, ...]:
    """The job's own mounts and that of its checkpoints, unless one of its own holds the folder already."""
    path, checkpoint = folder(spec), spec.checkpoint
    if path is None or checkpoint is None or checkpoint.volume is None:
        return spec.volume_mounts
    wanted = PurePosixPath(path)
    holding = (m for m in spec.volume_mounts if m.name == checkpoint.volume and not m.read_only)
    if any(wanted.is_relative_to(mount.mount_path) for mount in holding):
        return spec.volume_mounts
    return (*spec.volume_mounts, VolumeMount(name=checkpoint.volume, mount_path=path))


def grace(attempt: Attempt) -> int:
    """Seconds between SIGTERM and SIGKILL: a program with checkpoints ends a save under way and makes the last one."""
    said = attempt.spec.termination_grace_period_seconds
    if said is not None:
        return said
    if attempt.save_seconds is not None:
        return max(GRACE_SECONDS, min(2 * attempt.save_seconds + GRACE_SECONDS, LONGEST_GRACE_SECONDS))
    return SAVING_GRACE_SECONDS if attempt.spec.checkpoint else GRACE_SECONDS


def of_launchers(attempt: Attempt) -> list[Manifest]:
    """The variable by which torchrun, and what is built on it, gives its ranks that time instead of its own 30 seconds."""
    seconds = grace(attempt) - LEFT_TO_LAUNCHER
    return [{"name": "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "value": str(seconds)}] if seconds > OF_LAUNCHER else []
