"""Events: at most one for each state that ends a wait, with a name that prevents duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.status.records.objects import JobRecord
from gpujob.values.untrusted import tables
from gpujob.values.vocabulary import API_VERSION, FIELD_MANAGER, ConditionType, Reason, State

WARNINGS: Final = frozenset({State.RESTARTING, State.FAILED, State.MISCONFIGURED, State.IMPOSSIBLE})
TOLD: Final = frozenset({State.PLACED, State.SUCCEEDED}) | WARNINGS
"""States with an event; the others are in the status only."""

_EXPLAINED_BY: Final = {State.SUCCEEDED: ConditionType.COMPLETE, State.FAILED: ConditionType.FAILED}


def event_of(job: JobRecord, status: Mapping[str, Any], instance: str, now: str) -> dict[str, Any] | None:
    """The events.k8s.io/v1 Event of a written status: of a new state that has one, or of a stall that begins; None otherwise."""
    if (stalled := _new_stall(job, status)) is not None:
        return _event(job, status, stalled, (f"stalled.{_digits(stalled)}", "Warning", "Run"), instance, now)
    state = State(status["state"])
    placed_now = state in (State.STARTING, State.RUNNING) and not job.status.get("jobName")
    told = State.PLACED if placed_now else state
    over_budget = state is State.SUSPENDED and status["display"].get("reason") == Reason.BUDGET_EXCEEDED
    # A child that was suspended or resumed was placed before.
    if state is State.RESTARTING and not _has_failed(status):
        return None
    placed_before = told is State.PLACED and job.status.get("jobName") == status.get("jobName")
    # A deleted job needs no event about its deletion.
    if not (told in TOLD or over_budget) or job.status.get("state") == status["state"] or placed_before or job.leaving:
        return None
    kind = _EXPLAINED_BY.get(told, ConditionType.PLACED)
    condition = next((c for c in status.get("conditions") or [] if c.get("type") == kind), {"reason": told.value})
    how = "Warning" if told in WARNINGS or over_budget else "Normal"
    action = "Place" if told is not State.SUCCEEDED else "Run"
    return _event(job, status, condition, (told.lower(), how, action), instance, now)


def _event(
    job: JobRecord,
    status: Mapping[str, Any],
    condition: Mapping[str, Any],
    what: tuple[str, str, str],
    instance: str,
    now: str,
) -> dict[str, Any]:
    """The Event of a condition; `what`: the part of its name that makes it one of the attempt, its type and its action."""
    word, how, action = what
    attempt = status.get("attempt") or 0
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.name[:200]}.{job.uid[:8]}.{attempt}.{word}.{job.generation}",
            "namespace": job.namespace,
        },
        "eventTime": now.replace("Z", ".000000Z"),
        "type": how,
        "action": action,
        "reason": condition["reason"],
        "note": str(condition.get("message", ""))[:1024],
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": "GPUJob",
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
        "reportingController": f"gpujob.dev/{FIELD_MANAGER}",
        "reportingInstance": instance[:128],
    }


def _new_stall(job: JobRecord, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition Stalled where this write makes it True."""
    before, after = _stall_in(job.status), _stall_in(status)
    return after if after is not None and before is None else None


def _stall_in(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = (c for c in tables(status, "conditions") if c.get("type") == ConditionType.STALLED)
    return next((c for c in found if c.get("status") == "True"), None)


def _digits(condition: Mapping[str, Any]) -> str:
    """The time of a transition as digits: an attempt may stall more than once."""
    return "".join(filter(str.isdigit, str(condition.get("lastTransitionTime"))))[:14]


def _has_failed(status: Mapping[str, Any]) -> bool:
    """Whether the job starts again since its last attempt failed; else it only waits for the end of a stopped one."""
    last = next((e for e in tables(status, "attempts") if e.get("attempt") == status.get("attempt")), {})
    return "blame" in last
