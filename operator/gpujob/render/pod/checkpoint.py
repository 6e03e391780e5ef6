"""The folder of checkpoints in the training container: its mount and the variable that names it."""

from __future__ import annotations

from pathlib import PurePosixPath

from gpujob.api.kinds.gpujob import CHECKPOINTS, GPUJobSpec
from gpujob.api.kinds.pods import VolumeMount


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
