"""The preflight: an init container with the program's own image, devices and folders, which checks them before the start.

The command is not wrapped: the preflight only reads its first words, to run the same Python that the program will use. It needs a
shell and a Python in the image; without them a new attempt runs without a preflight.
"""

from __future__ import annotations

import json
from typing import Final

from gpujob.api.kinds.pods import Volume
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices import nvidia
from gpujob.render.devices.resources import limits_alone
from gpujob.render.pod import checkpoint
from gpujob.render.pod.container import on_devices, own_folders, without_devices
from gpujob.render.pod.environment import caches_of_the_job, for_preflight
from gpujob.render.pod.folders import SHARED_MEMORY
from gpujob.render.runner import FOLDER, NOTES
from gpujob.values.quantity import parse_bytes
from gpujob.values.vocabulary import PREFLIGHT, DeviceKind, PreflightMode

NOTE: Final = "gpujob-note"
WANTED: Final = "GPUJOB_PREFLIGHT"
"""The variable with the expected devices and folders, for the preflight."""

WORDS: Final = 8
"""The number of the command's words that it gets: the first ones show which Python runs."""

START: Final = f"{FOLDER}/gpujob_runner/preflight/start.sh"
"""Finds a Python of the image. It is in the ConfigMap, since each byte of a pod is stored with every Job and every pod."""

NOTE_PYTHONPATH: Final = f"""case "$PYTHONPATH" in
  ''|*[\\"\\\\]*) ;;
  *) printf '{{"PYTHONPATH": "%s"}}' "$PYTHONPATH" >{NOTES}/image.json;;
esac"""
"""The image's own PYTHONPATH is gone once the pod sets the variable; the reporter puts it back from this note."""


def preflight_container(attempt: Attempt) -> list[Manifest]:
    """The init container; without a preflight, if the program is measured, one that only notes PYTHONPATH."""
    if attempt.checks:
        words = [*attempt.spec.command, *attempt.arguments][:WORDS]
        wanted = {"name": WANTED, "value": json.dumps(_wanted(attempt), separators=(",", ":"), sort_keys=True)}
        container = on_devices(attempt, [wanted, *for_preflight(attempt, words)])
        return [{"name": PREFLIGHT, "command": ["/bin/sh", START], "args": words or [""], **_brief(container)}]
    if attempt.reports:
        variables = [entry for entry in for_preflight(attempt, ()) if entry["name"] != nvidia.VISIBLE_DEVICES]
        container = without_devices(attempt, [*variables, nvidia.NO_DEVICES])
        return [{"name": NOTE, "command": ["/bin/sh", "-c", NOTE_PYTHONPATH], **_brief(container)}]
    return []


def _brief(container: Manifest) -> Manifest:
    return container | {"resources": limits_alone(container["resources"])}


def _wanted(attempt: Attempt) -> Manifest:
    """The expectations of each pod; amounts in bytes."""
    pool, gang = attempt.pool, attempt.choice.candidate.gang
    asked = attempt.spec.gpu_memory
    memory = gang.memory.expected if gang.memory is not None else None if asked is None else parse_bytes(asked)
    folders = own_folders(attempt)
    shared = any(folder.path == SHARED_MEMORY for folder in folders)
    wanted = {
        "backend": attempt.backend.value,
        "vendor": pool.vendor.value,
        "gpus": attempt.gpus,
        # CUDA shows one MIG slice to a process, and two shared devices may be one card.
        "exact": attempt.amd or pool.kind in (DeviceKind.WHOLE, DeviceKind.INTEGRATED),
        "shared": pool.kind is DeviceKind.SHARED,
        "memory": memory,
        "sharedMemory": attempt.choice.shared_memory if shared else None,
        "folders": [folder.path for folder in folders if folder.path != SHARED_MEMORY],
        "mounts": _writable_mounts(attempt),
        "caches": caches_of_the_job(attempt),
        "command": bool(attempt.spec.command),
        "required": attempt.preflight is PreflightMode.REQUIRED,
    }
    return {key: value for key, value in wanted.items() if value not in (None, [])}


def _writable_mounts(attempt: Attempt) -> list[str]:
    """Paths of the user's writable mounts."""
    written = {volume.name for volume in attempt.spec.volumes if _writable(volume)}
    return [m.mount_path for m in checkpoint.mounts(attempt.spec) if not m.read_only and m.name in written]


def _writable(volume: Volume) -> bool:
    claim, csi = volume.persistent_volume_claim, volume.csi
    if claim is not None or csi is not None:
        return not (claim and claim.read_only) and not (csi and csi.read_only)
    return volume.empty_dir is not None or volume.ephemeral is not None
