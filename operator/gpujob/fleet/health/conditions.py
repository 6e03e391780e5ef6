"""Conditions of a node's status that report trouble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpujob.fleet.health.signals import Where, signal_of
from gpujob.values.untrusted import one_line, tables

MOST_CONDITIONS: Final = 64
"""Conditions of a node that are kept."""


def read_conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of a node's status that report trouble, sorted by type."""
    found = []
    for condition in tables(status, "conditions"):
        kind, state = condition.get("type"), str(condition.get("status"))
        signal = signal_of(Where.CONDITION, kind[:128]) if isinstance(kind, str) else None
        if signal is not None and signal.reports_trouble(state):
            found.append(
                Condition(
                    one_line(str(kind)[:128]), one_line(state[:16]), one_line(_text(condition)[:64]), _since(condition)
                )
            )
    return tuple(sorted(found)[:MOST_CONDITIONS])


def _text(condition: Mapping[str, Any]) -> str:
    reason = condition.get("reason")
    return reason if isinstance(reason, str) else ""


def _since(condition: Mapping[str, Any]) -> str:
    since = condition.get("lastTransitionTime")
    return one_line(since[:32]) if isinstance(since, str) else ""


class Condition(NamedTuple):
    """A condition of a node that reports trouble: its type, status and reason."""

    type: str
    status: str
    reason: str
    since: str = ""
    """When it began, as its author wrote it."""
