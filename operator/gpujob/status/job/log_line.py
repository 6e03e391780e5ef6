"""One line of the operator's log for each change of a job's state or reason, never for changed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.values.untrusted import one_line, table, tables
from gpujob.values.vocabulary import ConditionType, Reason, State

_EXPLAINED_BY: Final = {
    State.STARTING: ConditionType.RUNNING,
    State.RUNNING: ConditionType.RUNNING,
    State.SUCCEEDED: ConditionType.COMPLETE,
    State.FAILED: ConditionType.FAILED,
}
"""The condition whose message explains a state; Placed explains all others."""

_OF_PLACEMENT: Final = ("pool", "accelerator", "nodes", "gpusPerNode", "image", "pricePerHour")


def transition(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The members of a log line for a written status; None if state, reason and attempt stay."""
    if _summary(held) == _summary(wanted):
        return None
    state = wanted.get("state")
    kind = next((kind for told, kind in _EXPLAINED_BY.items() if told == state), ConditionType.PLACED)
    if table(wanted, "display").get("reason") == Reason.CHILD_SUSPENDED:
        kind = ConditionType.RUNNING
    told: Mapping[str, Any] = next((c for c in tables(wanted, "conditions") if c.get("type") == kind), {})
    placement = table(wanted, "placement") if state == State.PLACED or not table(held, "placement") else {}
    line = {
        "was": held.get("state"),
        "state": state,
        "reason": table(wanted, "display").get("reason"),
        "message": one_line(str(told.get("message", ""))),
        "attempt": wanted.get("attempt"),
        "cost": table(wanted, "display").get("cost") if wanted.get("completionTime") else None,
        **{key: placement.get(key) for key in _OF_PLACEMENT},
    }
    return {key: value for key, value in line.items() if value not in (None, "")}


def _summary(status: Mapping[str, Any]) -> tuple[object, ...]:
    """The key by which a job's lines differ."""
    return status.get("state"), table(status, "display").get("reason"), status.get("jobName")
