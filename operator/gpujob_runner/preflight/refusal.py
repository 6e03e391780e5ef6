"""A path that refuses the program's user: whose it is and what the system said."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A path that is there and does not do what was asked of it; owner and group are -1 where even they are hidden."""

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
