"""One at a time: two `up` of one cluster, or two builds into one cache folder, wait for each other."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file `path` (made where missing) until the block ends; a holder may delete it with its folder."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_still(path, descriptor):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether `path` still names the file that was locked: its last holder may have removed it while we waited."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
