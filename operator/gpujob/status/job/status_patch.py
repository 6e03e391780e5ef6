"""Whether a status is worth a write: the merge patch to the new status, or nothing if it says nothing new.

If only the numbers of a waiting job change (3 of 8 GPUs free, then 2), with the same reason and the same nearest pool, the write
is delayed: see the cluster room's `status_refresh`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.status.job import telemetry as reading
from gpujob.values.untrusted import table, tables
from gpujob.values.vocabulary import State


def patch(held: Mapping[str, Any], wanted: Mapping[str, Any], *, moved: bool = False) -> dict[str, Any] | None:
    """The JSON merge patch from the stored status to the new one; None if it says nothing new.

    `moved`: a change of progress, speed and cost is worth a write now.
    """
    if not moved and _meaning(held) == _meaning(wanted):
        return None
    return _merge_patch(held, wanted) or None


def has_other_numbers(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status equals the stored one except for numbers, prices and names in its messages."""
    return _words(held) != _words(wanted)


def _words(status: Mapping[str, Any]) -> tuple[object, ...]:
    sentences = sorted((str(c.get("type")), str(c.get("message"))) for c in tables(status, "conditions"))
    # The planned one of equal nodes is not written again: it changes with every other job.
    return sentences, list(tables(status, "candidates")), table(status, "placement").get("pricePerHour")


def _merge_patch(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {key: None for key in held if key not in wanted}
    for key, value in wanted.items():
        before = held.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = _merge_patch(before, value)
            if inner:
                changes[key] = inner
        elif value != before:
            changes[key] = value
    return changes


def _meaning(status: Mapping[str, Any]) -> tuple[object, ...]:
    """The facts that make a status different for a reader: state, reasons, generation, placement, times and the nearest pool."""
    claims = tuple(
        (c.get("type"), c.get("status"), c.get("reason"), c.get("observedGeneration"))
        for c in status.get("conditions") or ()
        if not reading.is_one(c)
    )
    nearest = (status.get("candidates") or [{}])[0]
    placement = status.get("placement") or {}
    kept = ("state", "jobName", "attempt", "startTime", "completionTime", "observedGeneration")
    # A plan guarantees no node: the planned one of equal nodes changes with every other job.
    nodes = () if status.get("state") == State.SUSPENDED else tuple(placement.get("nodeNames") or ())
    chosen = tuple(placement.get(key) for key in ("pool", "image", "currentPricePerHour")), nodes
    shown = (status.get("display") or {}).get("reason")
    left_out = tuple(e.get("until") for key in ("excludedPools", "excludedNodes") for e in tables(status, key))
    return (
        *(status.get(key) for key in kept),
        claims,
        chosen,
        nearest.get("pool"),
        nearest.get("reason"),
        shown,
        left_out,
    )
