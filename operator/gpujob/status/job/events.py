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
    """The events.k8s.io/v1 Event of a written status, None if its state is not new or has no event."""
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
    conditions: list[Mapping[str, Any]] = status.get("conditions") or []
    condition = next((c for c in conditions if c.get("type") == kind), {})
    attempt = status.get("attempt") or 0
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.name[:200]}.{job.uid[:8]}.{attempt}.{told.lower()}.{job.generation}",
            "namespace": job.namespace,
        },
        "eventTime": now.replace("Z", ".000000Z"),
        "type": "Warning" if told in WARNINGS or over_budget else "Normal",
        "action": "Place" if told is not State.SUCCEEDED else "Run",
        "reason": condition.get("reason", told.value),
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


def _has_failed(status: Mapping[str, Any]) -> bool:
    """Whether the job starts again since its last attempt failed; else it only waits for the end of a stopped one."""
    last = next((e for e in tables(status, "attempts") if e.get("attempt") == status.get("attempt")), {})
    return "blame" in last
