"""The folders of every pod: a writable HOME, below which libraries keep their caches, shared memory, and /tmp for a read-only image.

A uid without an entry in the image's /etc/passwd has no home, and libraries then write to / or fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gpujob.api.kinds.gpujob import GPUJobSpec
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.pod import checkpoint
from gpujob.values.quantity import quantity_of_bytes

HOME: Final = "/gpujob/home"
CODE: Final = "/gpujob/code"
SHARED_MEMORY: Final = "/dev/shm"
TEMPORARY: Final = "/tmp"
USER: Final = "gpujob"

CACHES: Final = frozenset({
    "XDG_CACHE_HOME", "HF_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCH_HOME", "CUDA_CACHE_PATH", "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
})  # fmt: skip
"""Variables of caches. Where none is set, each library uses a folder below HOME or the temporary one, so that no pod needs them."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the operator's in the training container."""

    volume: str
    path: str
    memory: int | None = None
    """Bytes of main memory that hold it; None: the node's disk, under the pod's ephemeral-storage limit."""

    @property
    def as_volume(self) -> Manifest:
        """The pod's volume."""
        in_memory = {} if self.memory is None else {"medium": "Memory", "sizeLimit": quantity_of_bytes(self.memory)}
        return {"name": self.volume, "emptyDir": in_memory}

    @property
    def as_mount(self) -> Manifest:
        """The container's mount."""
        return {"name": self.volume, "mountPath": self.path}


def folders(attempt: Attempt) -> list[Folder]:
    """The folders of a pod; a user's volume at the same path replaces one."""
    spec = attempt.spec
    wanted = [
        Folder(volume_name("home", spec), HOME),
        Folder(volume_name("shm", spec), SHARED_MEMORY, attempt.choice.shared_memory),
    ]
    if read_only(spec):
        wanted.append(Folder(volume_name("tmp", spec), TEMPORARY))
    taken = {str(PurePosixPath(mount.mount_path)) for mount in checkpoint.mounts(spec)}
    return [folder for folder in wanted if folder.path not in taken]


def volume_name(part: str, spec: GPUJobSpec) -> str:
    """A name for a volume of the operator's that no volume of the user's has."""
    taken = {volume.name for volume in spec.volumes}
    name = f"gpujob-{part}"
    while name in taken:
        name += "-x"
    return name


def read_only(spec: GPUJobSpec) -> bool:
    """Whether the image's own files are read-only."""
    return bool(spec.security_context and spec.security_context.read_only_root_filesystem)


def defaults(spec: GPUJobSpec) -> list[Manifest]:
    """Variables that a user can change: HOME and the user's name."""
    # TorchInductor and others ask getpass for a name, which fails for a uid that /etc/passwd does not know.
    paths = {"HOME": HOME, "USER": USER}
    if read_only(spec):
        paths["TMPDIR"] = TEMPORARY
    return [{"name": name, "value": value} for name, value in paths.items()]
