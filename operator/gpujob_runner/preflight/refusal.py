"""A path that refuses the program's user: its owner, its group and the error of the system."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """An existing path on which an operation failed; owner and group are -1 if they cannot be read."""

    path: str
    owner: int
    group: int
    mode: int
    error: str
    """The system's word for it, like `EACCES`."""


def refusal(path: str, error: OSError, by: str | None = None) -> Refusal:
    """What refused, with the facts of `by` where another path (a folder above) is the one that did."""
    word = errno.errorcode.get(error.errno or 0, "unknown")
    try:
        facts = os.stat(by or path)
    except OSError:
        return Refusal(path, -1, -1, 0, word)
    return Refusal(path, facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode), word)
