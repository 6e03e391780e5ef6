"""What is worth a write: the merge patch that makes a status another one, or nothing where that says nothing new.

That the numbers of a waiting job move (3 of 8 GPUs free, then 2) while its reason and its nearest pool stay is told later:
see the cluster room's Retelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.status.job import telemetry as reading
from gpujob.values.untrusted import table, tables
from gpujob.values.vocabulary import State


def patch(held: Mapping[str, Any], wanted: Mapping[str, Any], *, moved: bool = False) -> dict[str, Any] | None:
    """The JSON merge patch that turns the held status into the wanted one; None when it says nothing new.

    `moved`: that progress, speed and cost are others is worth a write now.
    """
    if not moved and _meaning(held) == _meaning(wanted):
        return None
    return _merge_patch(held, wanted) or None


def has_other_numbers(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a status says the same as the one held, in other words: numbers, prices and names in its sentences."""
    return _words(held) != _words(wanted)


def _words(status: Mapping[str, Any]) -> tuple[object, ...]:
    sentences = sorted((str(c.get("type")), str(c.get("message"))) for c in tables(status, "conditions"))
    told = table(status, "placement")
    # Which of equal nodes a plan would take is not told again: it changes with every other job.
    chosen = told.get("message"), told.get("pricePerHour")
    return sentences, list(tables(status, "candidates")), chosen


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
    """What a reader would call different: state, reasons, generation, placement, times and the nearest pool."""
    claims = tuple(
        (c.get("type"), c.get("status"), c.get("reason"), c.get("observedGeneration"))
        for c in status.get("conditions") or ()
        if not reading.is_one(c)
    )
    nearest = (status.get("candidates") or [{}])[0]
    placement = status.get("placement") or {}
    kept = ("state", "jobName", "attempt", "startTime", "completionTime", "observedGeneration")
    # A plan promises no node: which of equal nodes it would take changes with every other job.
    nodes = () if status.get("state") == State.SUSPENDED else tuple(placement.get("nodeNames") or ())
    chosen = tuple(placement.get(key) for key in ("pool", "image")), nodes
    shown = (status.get("display") or {}).get("reason")
    return (*(status.get(key) for key in kept), claims, chosen, nearest.get("pool"), nearest.get("reason"), shown)
