"""The common part of the training container and the preflight, so that both see the same devices and folders."""

from __future__ import annotations

from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices.resources import limited, with_devices
from gpujob.render.pod import checkpoint, host_devices, reporter
from gpujob.render.pod.code import code_folder
from gpujob.render.pod.environment import as_written
from gpujob.render.pod.folders import CODE, Folder, folders, read_only
from gpujob.render.pod.security import container_security, security_on_devices


def own_folders(attempt: Attempt) -> list[Folder]:
    """The operator's writable folders."""
    return [*folders(attempt), *code_folder(attempt)]


def on_devices(attempt: Attempt, variables: list[Manifest]) -> Manifest:
    """A container of the chosen image with the pod's devices, folders and rights; it has no name and no command yet."""
    spec = attempt.spec
    return {
        "image": attempt.image,
        "workingDir": spec.working_dir or (CODE if spec.code else None),
        "envFrom": as_written(spec.env_from),
        "env": variables,
        "resources": with_devices(attempt),
        "volumeMounts": [
            *(folder.as_mount for folder in own_folders(attempt)),
            *reporter.mounts(attempt),
            *host_devices.device_mounts(attempt),
            *as_written(checkpoint.mounts(spec)),
        ],
        "securityContext": security_on_devices(attempt, read_only=read_only(spec)),
        # The last lines of a failed program's output are then in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def without_devices(attempt: Attempt, variables: list[Manifest]) -> Manifest:
    """The same without devices and their settings."""
    mounts = host_devices.device_mounts(attempt)
    container = on_devices(attempt, variables)
    return container | {
        "resources": limited(attempt.choice.needs),
        "volumeMounts": [mount for mount in container["volumeMounts"] if mount not in mounts],
        "securityContext": container_security(read_only=read_only(attempt.spec)),
    }
