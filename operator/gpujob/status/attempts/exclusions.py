"""status.excludedPools and status.excludedNodes by this process's own clock: no entry counts for longer than such entries last.

The times in them are the API server's, whose clock may be set, or be that of one of several servers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gpujob.status.attempts.waits import REMEMBERED
from gpujob.values.untrusted import tables

Seen = Mapping[tuple[str, str, str], float]
"""When this process first saw an entry, by member of the status, name and `until`."""

NOTHING: Final[Seen] = MappingProxyType({})


def by_own_clock(
    status: Mapping[str, Any], seen: Seen, clock: float, seconds: Mapping[str, float]
) -> tuple[Mapping[str, Any], Seen, float]:
    """The status without entries that have counted for as long as those of their member last (`seconds`), the entries seen, and the
    seconds until the next one is over. An entry with `othersUntil` lasts twice as long.
    """
    changed, found, left = dict[str, Any](), dict[tuple[str, str, str], float](), math.inf
    for member, longest in seconds.items():
        entries, kept = list(tables(status, member))[:REMEMBERED], list[Mapping[str, Any]]()
        for entry in entries:
            key = member, str(entry.get("name")), str(entry.get("until"))
            since = found[key] = seen.get(key, clock)
            rest = since + longest * (2 if entry.get("othersUntil") else 1) - clock
            if rest > 0:
                kept.append(entry)
                left = min(left, rest)
        if len(kept) < len(entries):
            changed[member] = kept
    return {**status, **changed} if changed else status, found or NOTHING, left
