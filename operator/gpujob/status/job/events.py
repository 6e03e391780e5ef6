"""What a written status says elsewhere: an event for each state that ends a wait, and a line of the operator's log.

An event's name prevents duplicates. A line stands for a change of state or reason, never for changed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.status.records.objects import JobRecord
from gpujob.values.untrusted import condition, one_line, table, tables
from gpujob.values.vocabulary import API_VERSION, FIELD_MANAGER, ConditionType, Reason, State

EVENT_NAMESPACE: Final = "default"
"""The namespace of events about objects without one."""

WARNINGS: Final = frozenset({State.RESTARTING, State.FAILED, State.MISCONFIGURED, State.IMPOSSIBLE})
WITH_EVENT: Final = frozenset({State.PLACED, State.SUCCEEDED}) | WARNINGS
"""States with an event; the others are in the status only."""

_EXPLAINED_BY: Final = {
    State.STARTING: ConditionType.RUNNING,
    State.RUNNING: ConditionType.RUNNING,
    State.SUCCEEDED: ConditionType.COMPLETE,
    State.FAILED: ConditionType.FAILED,
}
"""The condition whose message explains a state; Placed explains all others."""

_OF_PLACEMENT: Final = ("pool", "accelerator", "nodes", "gpusPerNode", "image", "pricePerHour")
"""The members of the placement that a line of the log has."""


def event_of(job: JobRecord, status: Mapping[str, Any], instance: str, now: str) -> dict[str, Any] | None:
    """The events.k8s.io/v1 Event of a written status: of a new state that has one, or of a stall that begins; None otherwise."""
    if (stalled := _new_stall(job, status)) is not None:
        return _event(job, status, stalled, (f"stalled.{_digits(stalled)}", "Warning", "Run"), instance, now)
    state = State(status["state"])
    placed_now = state in (State.STARTING, State.RUNNING) and not job.status.get("jobName")
    entered = State.PLACED if placed_now else state
    over_budget = state is State.SUSPENDED and status["display"].get("reason") == Reason.BUDGET_EXCEEDED
    # A child that was suspended or resumed was placed before.
    if state is State.RESTARTING and not _has_failed(status):
        return None
    placed_before = entered is State.PLACED and job.status.get("jobName") == status.get("jobName")
    # A deleted job needs no event about its deletion.
    if (
        not (entered in WITH_EVENT or over_budget)
        or job.status.get("state") == status["state"]
        or placed_before
        or job.leaving
    ):
        return None
    kind = _EXPLAINED_BY.get(entered, ConditionType.PLACED)
    reported = condition(status, kind) or {"reason": entered.value}
    how = "Warning" if entered in WARNINGS or over_budget else "Normal"
    action = "Place" if entered is not State.SUCCEEDED else "Run"
    return _event(job, status, reported, (entered.lower(), how, action), instance, now)


def _event(
    job: JobRecord,
    status: Mapping[str, Any],
    reported: Mapping[str, Any],
    what: tuple[str, str, str],
    instance: str,
    now: str,
) -> dict[str, Any]:
    """The Event of a condition; `what`: the part of its name that makes it one of the attempt, its type and its action."""
    word, how, action = what
    name = f"{job.name[:200]}.{job.uid[:8]}.{status.get('attempt') or 0}.{word}.{job.generation}"
    whose = {"kind": "GPUJob", "namespace": job.namespace, "name": job.name, "uid": job.uid}
    return event_about(whose, name, (how, action, reported["reason"]), str(reported.get("message", "")), instance, now)


def event_about(
    whose: Mapping[str, str], name: str, what: tuple[str, str, str], note: str, instance: str, now: str
) -> dict[str, Any]:
    """The Event of an object of the operator's own kinds; `what`: its type, its action and its reason."""
    how, action, reason = what
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": whose.get("namespace", EVENT_NAMESPACE)},
        "eventTime": now.replace("Z", ".000000Z"),
        "type": how,
        "action": action,
        "reason": reason,
        "note": note[:1024],
        "regarding": {"apiVersion": API_VERSION, **whose},
        "reportingController": f"gpujob.dev/{FIELD_MANAGER}",
        "reportingInstance": instance[:128],
    }


def _new_stall(job: JobRecord, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition Stalled where this write makes it True."""
    before, after = _stall_in(job.status), _stall_in(status)
    return after if after is not None and before is None else None


def _stall_in(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return condition(status, ConditionType.STALLED, now="True") or None


def _digits(condition: Mapping[str, Any]) -> str:
    """The time of a transition as digits: an attempt may stall more than once."""
    return "".join(filter(str.isdigit, str(condition.get("lastTransitionTime"))))[:14]


def _has_failed(status: Mapping[str, Any]) -> bool:
    """Whether the job starts again since its last attempt failed; else it only waits for the end of a stopped one."""
    last = next((e for e in tables(status, "attempts") if e.get("attempt") == status.get("attempt")), {})
    return "blame" in last


def transition(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The members of a log line for a written status; None if state, reason and attempt stay."""
    if _summary(held) == _summary(wanted):
        return None
    state = wanted.get("state")
    kind = next((kind for word, kind in _EXPLAINED_BY.items() if word == state), ConditionType.PLACED)
    if table(wanted, "display").get("reason") == Reason.CHILD_SUSPENDED:
        kind = ConditionType.RUNNING
    placement = table(wanted, "placement") if state == State.PLACED or not table(held, "placement") else {}
    line = {
        "was": held.get("state"),
        "state": state,
        "reason": table(wanted, "display").get("reason"),
        "message": one_line(str(condition(wanted, kind).get("message", ""))),
        "attempt": wanted.get("attempt"),
        "cost": table(wanted, "display").get("cost") if wanted.get("completionTime") else None,
        **{key: placement.get(key) for key in _OF_PLACEMENT},
    }
    return {key: value for key, value in line.items() if value not in (None, "")}


def _summary(status: Mapping[str, Any]) -> tuple[object, ...]:
    """The key by which a job's lines differ."""
    return status.get("state"), table(status, "display").get("reason"), status.get("jobName")
