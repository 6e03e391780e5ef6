"""Changes of a job in words."""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.placement.scoring.candidate import Change
from gpujob.values.finding import listed


def said(every: Sequence[Change]) -> str:
    """What to set and what to leave out."""
    parts = []
    for preposition, changes in (
        ("with", [change for change in every if change.after is not None]),
        ("without", [change for change in every if change.after is None]),
    ):
        if changes:
            parts.append(f"{preposition} {listed(map(_worded, changes))}")
    return " and ".join(parts)


def _worded(change: Change) -> str:
    if change.after is None:
        return f"{change.field} ({_text(change.before)})"
    instead = f" instead of {_text(change.before)}" if change.before is not None else ""
    return f"{change.field} {_text(change.after)}{instead}"


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(part)}" for key, part in value.items()) + "}"
    return "nothing" if value is None else str(value)
