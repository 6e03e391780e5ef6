"""The user's code: an init container copies it to a writable folder, where the training container runs it.

The same image does the copy, so that nothing else has to be pulled or trusted; it needs sh and cp.
"""

from __future__ import annotations

from typing import Final

from gpujob.api.kinds.gpujob import Code
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices import nvidia
from gpujob.render.devices.resources import limited, limits_alone
from gpujob.render.pod.environment import as_written
from gpujob.render.pod.folders import CODE, Folder, volume_name
from gpujob.render.pod.security import container_security

SOURCE: Final = "/gpujob/source"

COPY_CONFIG_MAP: Final = f"exec cp -rL {SOURCE}/..data/. {CODE}/"
"""The kubelet keeps a ConfigMap's files in a folder behind the link ..data; beside it are links to each of them."""

COPY_FOLDER: Final = f"""set -e
cd {SOURCE}
for entry in * .[!.]* ..?*; do
  if [ "$entry" = lost+found ]; then continue; fi
  if [ -e "$entry" ] || [ -h "$entry" ]; then cp -R -- "$entry" {CODE}/; fi
done"""
"""All of a claim or an image except lost+found, which only root can read; links are copied as links."""


def code_folder(attempt: Attempt) -> list[Folder]:
    """The writable folder, if there is code."""
    return [Folder(volume_name("code", attempt.spec), CODE)] if attempt.spec.code else []


def source_volume(attempt: Attempt) -> list[Manifest]:
    """The volume that holds the code; the training container does not see it."""
    code = attempt.spec.code
    if code is None:
        return []
    name = volume_name("source", attempt.spec)
    if code.image is not None:
        return [{"name": name, "image": as_written([code.image])[0]}]
    if code.persistent_volume_claim is not None:
        # Not readOnly: the same claim may be a writable volume of the job, and a volume is attached in one mode.
        return [{"name": name, "persistentVolumeClaim": {"claimName": code.persistent_volume_claim.claim_name}}]
    return [{"name": name, "configMap": {"name": code.config_map.name if code.config_map else ""}}]


def copy_container(attempt: Attempt) -> list[Manifest]:
    """The init container that copies; it requests no GPU and sees none."""
    code = attempt.spec.code
    if code is None:
        return []
    mounts = [_source_mount(attempt, code), *(folder.as_mount for folder in code_folder(attempt))]
    return [
        {
            "name": "gpujob-code",
            "image": attempt.image,
            "command": ["/bin/sh", "-c", COPY_CONFIG_MAP if code.config_map else COPY_FOLDER],
            # An image's own working folder may be closed to a uid that is not root.
            "workingDir": "/",
            "env": [nvidia.NO_DEVICES],
            # It runs before training, so its requests within the pod's cost nothing, and no LimitRange rejects it.
            "resources": limits_alone(limited(attempt.choice.needs)),
            "volumeMounts": mounts,
            "securityContext": container_security(read_only=True),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    ]


def _source_mount(attempt: Attempt, code: Code) -> Manifest:
    mount: Manifest = {"name": volume_name("source", attempt.spec), "mountPath": SOURCE, "readOnly": True}
    claim = code.persistent_volume_claim
    return mount | ({"subPath": claim.sub_path} if claim and claim.sub_path else {})
