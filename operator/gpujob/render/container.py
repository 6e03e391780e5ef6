"""What the training container and the preflight share, so that one sees exactly what the other will see."""

from __future__ import annotations

from gpujob.render import reporting
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.code import code_folder
from gpujob.render.devices import with_devices
from gpujob.render.environment import as_written
from gpujob.render.folders import CODE, Folder, folders, read_only
from gpujob.render.security import container_security


def own_folders(attempt: Attempt) -> list[Folder]:
    """The operator's writable folders."""
    return [*folders(attempt), *code_folder(attempt)]


def arguments(attempt: Attempt) -> list[str]:
    """The program's arguments: the chosen shape's, else the job's."""
    return list((attempt.entry and attempt.entry.args) or attempt.spec.args)


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
            *reporting.mounts(attempt),
            *as_written(spec.volume_mounts),
        ],
        "securityContext": container_security(read_only=read_only(spec)),
        # The last lines of a failed program's output are then in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
