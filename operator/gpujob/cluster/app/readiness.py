"""Whether the operator can work, and what prevents it: the answer to the readiness probe."""

from __future__ import annotations

from typing import Final

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.reflector import WatchHealth
from gpujob.cluster.client.outage_gate import OutageGate

PATIENCE: Final = 30.0
"""Seconds without a good response of the API server before readiness fails; a restart takes less."""


def hindrances(cache: ObjectCache, health: WatchHealth, gate: OutageGate) -> list[str]:
    """What prevents the operator from working, a line each; empty: it is ready."""
    found = []
    if gate.seconds() >= PATIENCE:
        what = f"HTTP {gate.last_status}" if gate.last_status else "unreachable"
        found.append(f"no good answer of the API server for {gate.seconds():.0f} s, the last: {what}")
    for key, kind in cache.kinds.items():
        refused = health.refused.get(key, "")
        if refused and not kind.optional:
            found.append(f"{key} may not be read: {refused}")
        elif not cache.is_listed(key):
            found.append(f"{key} is not listed yet" + (f": {refused}" if refused else ""))
    return found


def unknowns(cache: ObjectCache) -> list[str]:
    """The kinds that the operator runs without, a line each."""
    return [f"{kind} is unknown, it may not be read: {why}" for kind, why in sorted(cache.unread.items())]
