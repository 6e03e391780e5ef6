"""Folders that the program writes to, and the size of its shared memory in bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping

from gpujob_runner.preflight.refusal import Refusal, refusal

HOMES = ("HOME", "TMPDIR")
"""Variables whose folder every program may count on."""

CACHES = (
    "XDG_CACHE_HOME",
    "HF_HOME",
    "TORCH_HOME",
    "TORCH_EXTENSIONS_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR",
    "CUDA_CACHE_PATH",
    "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
)
"""Variables whose folder may be meant for reading only: models that are there already."""


def unwritable(paths: Iterable[str]) -> list[Refusal]:
    """The folders in which no file can be created; of a missing one its nearest existing parent is tried."""
    found = (_try(path) for path in dict.fromkeys(paths))
    return [each for each in found if each is not None]


def folders_of(environment: Mapping[str, str], names: Iterable[str]) -> Iterator[str]:
    """The folders that environment variables name."""
    for name in names:
        path = environment.get(name, "")
        if os.path.isabs(path):
            yield path


def useless(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables with a folder that cannot be written and has no readable file, such as /root/.cache for another uid than 0."""
    named = {name: path for name in names for path in folders_of(environment, [name])}
    closed = {each.path for each in unwritable(named.values())}
    return {name: path for name, path in named.items() if path in closed and not _holds_files(path)}


def size_of(path: str) -> int | None:
    """The size in bytes of the file system at a path, None where it is unknown."""
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    return facts.f_blocks * facts.f_frsize


def _holds_files(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entries)
    except OSError:
        return False


def _try(path: str) -> Refusal | None:
    folder = os.path.normpath(path)
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        handle, name = tempfile.mkstemp(prefix=".gpujob-preflight-", dir=folder)
        try:
            os.write(handle, b"x")
        finally:
            os.close(handle)
            os.unlink(name)
    except OSError as error:
        return refusal(path, error, by=folder)
    return None
