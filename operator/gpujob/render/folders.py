"""Folders that a non-root process needs: HOME and caches, /dev/shm in memory, and a writable copy of the code."""

from __future__ import annotations

from typing import Any, Final

from gpujob.api.gpujob import Code, GPUJobSpec
from gpujob.quantity import quantity_of_bytes

HOME: Final = "/gpujob/home"
CODE: Final = "/gpujob/code"
SOURCE: Final = "/gpujob/source"
SHM: Final = "/dev/shm"  # noqa: S108 - the kernel's own path

CACHES: Final = {
    "HOME": HOME,
    # A uid without a passwd entry has no name; TorchInductor asks for one.
    "USER": "gpujob",
    "LOGNAME": "gpujob",
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "TORCHINDUCTOR_CACHE_DIR": f"{HOME}/.cache/torchinductor",
    "TRITON_CACHE_DIR": f"{HOME}/.cache/triton",
    "TORCH_EXTENSIONS_DIR": f"{HOME}/.cache/torch_extensions",
    "NUMBA_CACHE_DIR": f"{HOME}/.cache/numba",
    "MPLCONFIGDIR": f"{HOME}/.config/matplotlib",
}

COPY: Final = "cp -RL /gpujob/source/. /gpujob/code/"
"""Symbolic links are resolved: a ConfigMap's files are links into a hidden folder."""


def volumes(spec: GPUJobSpec, shared_memory: int) -> list[dict[str, Any]]:
    """Our own volumes, then the user's."""
    own: list[dict[str, Any]] = [{"name": "gpujob-home", "emptyDir": {}}]
    if not _mounts_shm(spec):
        limit = quantity_of_bytes(shared_memory)
        own.append({"name": "gpujob-shm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
    if spec.security_context and spec.security_context.read_only_root_filesystem:
        own.append({"name": "gpujob-tmp", "emptyDir": {}})
    if spec.code is not None:
        own += [{"name": "gpujob-code", "emptyDir": {}}, {"name": "gpujob-source", **_source(spec.code)}]
    return own + [volume.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True) for volume in spec.volumes]


def mounts(spec: GPUJobSpec) -> list[dict[str, Any]]:
    """Mounts of the training container."""
    own: list[dict[str, Any]] = [{"name": "gpujob-home", "mountPath": HOME}]
    if not _mounts_shm(spec):
        own.append({"name": "gpujob-shm", "mountPath": SHM})
    if spec.security_context and spec.security_context.read_only_root_filesystem:
        own.append({"name": "gpujob-tmp", "mountPath": "/tmp"})  # noqa: S108 - a volume of the pod's own
    if spec.code is not None:
        own.append({"name": "gpujob-code", "mountPath": CODE})
    return own + [mount.model_dump(by_alias=True, exclude_none=True) for mount in spec.volume_mounts]


def copying_container(spec: GPUJobSpec, image: str) -> dict[str, Any] | None:
    """The init container that copies the code, in the job's own image; None for a job without code."""
    if spec.code is None:
        return None
    claim = spec.code.persistent_volume_claim
    source = {"name": "gpujob-source", "mountPath": SOURCE, "readOnly": True}
    if claim is not None and claim.sub_path:
        source["subPath"] = claim.sub_path
    small = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": "gpujob-code",
        "image": image,
        "command": ["/bin/sh", "-c", COPY],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"requests": small, "limits": small},
        "volumeMounts": [source, {"name": "gpujob-code", "mountPath": CODE}],
    }


def _source(code: Code) -> dict[str, Any]:
    if code.config_map is not None:
        return {"configMap": {"name": code.config_map.name}}
    claim = code.persistent_volume_claim
    return {"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}} if claim else {"emptyDir": {}}


def _mounts_shm(spec: GPUJobSpec) -> bool:
    return any(mount.mount_path.rstrip("/") == SHM for mount in spec.volume_mounts)
