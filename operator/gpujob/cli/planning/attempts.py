"""The attempts of a job: those that its status lists as over, and the one that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.status.attempts.cost import dollars
from gpujob.status.job.job_status import ended_attempts
from gpujob.values.quantity import exact_dollars
from gpujob.values.untrusted import table, whole_number


def attempts_of(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of status.attempts, and one like them without a reason for the attempt that goes on."""
    entries = ended_attempts(status)
    number = whole_number(status.get("attempt"))
    if status.get("jobName") and number and all(entry["attempt"] != number for entry in entries):
        entries.append(_current(status, number))
    return entries


def _current(status: Mapping[str, Any], number: int) -> dict[str, Any]:
    placement, cost = table(status, "placement"), table(status, "cost")
    nodes, accrued = placement.get("nodeNames"), dollars(cost.get("accrued"))
    spent = None if accrued is None else exact_dollars(max(0, accrued - (dollars(cost.get("earlier")) or 0)))
    entry = {
        "attempt": number,
        "pool": placement.get("pool"),
        "vendor": placement.get("vendor"),
        "nodes": [str(node) for node in nodes] if isinstance(nodes, list) else [],
        "from": status.get("startTime"),
        "cost": spent if status.get("startTime") else None,
    }
    return {key: value for key, value in entry.items() if value not in (None, [])}
