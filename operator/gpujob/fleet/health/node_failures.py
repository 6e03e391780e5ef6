"""Nodes on which attempts of jobs failed repeatedly: a score for each node that halves every hour.

The failures are those of status.excludedNodes of all GPUJobs, so that a restart loses none. A node with a high score is used after
all other nodes, as one with a fault that its agents report.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from gpujob.values.finding import counted, listed
from gpujob.values.untrusted import one_line, tables

HALF_LIFE: Final = timedelta(hours=1)
SUSPECT: Final = 1.5
"""The score from which a node is suspect: two failures within an hour of each other reach it, one alone never does."""

MOST: Final = 16
"""Entries of one job that are read."""


class NodeFailure(NamedTuple):
    """A failed attempt: when its exclusion of the node ends, and its reason."""

    at: datetime
    reason: str


class Suspicion(NamedTuple):
    """Why a node is suspect, and until when."""

    sentence: str
    until: datetime


class NodeFailures:
    """The failed attempts of all jobs by node."""

    def __init__(self) -> None:
        self._by_job: dict[str, dict[str, NodeFailure]] = {}
        self._by_node: dict[str, dict[str, NodeFailure]] = defaultdict(dict)

    def put(self, uid: str, status: Mapping[str, Any] | None) -> set[str]:
        """Replaces the failures of a job (None: the job is gone); returns the nodes with changes."""
        before, after = self._by_job.pop(uid, {}), read_failures(status or {})
        for node in before:
            self._by_node[node].pop(uid, None)
            if not self._by_node[node]:
                del self._by_node[node]
        if after:
            self._by_job[uid] = after
        for node, failure in after.items():
            self._by_node[node][uid] = failure
        return {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}

    def suspicion(self, node: str, now: datetime) -> Suspicion | None:
        """Why a node is suspect now; None if it is not."""
        failures = self._by_node.get(node)
        return None if failures is None else suspicion(failures.values(), now)


def read_failures(status: Mapping[str, Any]) -> dict[str, NodeFailure]:
    """The failures of one job by node; entries without a node or a time are left out."""
    found = {}
    for entry in tables(status, "excludedNodes")[:MOST]:
        name, at = entry.get("name"), _time(entry.get("until"))
        if isinstance(name, str) and name and at is not None:
            found[name[:253]] = NodeFailure(at, one_line(str(entry.get("reason") or "")[:64]))
    return found


def suspicion(failures: Iterable[NodeFailure], now: datetime) -> Suspicion | None:
    """Why a node with these failures is suspect; None if it is not."""
    recent = [failure for failure in failures if now - failure.at < 8 * HALF_LIFE]
    score = sum(0.5 ** (max(timedelta(0), now - failure.at) / HALF_LIFE) for failure in recent)
    if score < SUSPECT:
        return None
    until = now + HALF_LIFE * math.log2(score / SUSPECT)
    why = listed(sorted({failure.reason for failure in recent if failure.reason}))
    return Suspicion(f"{counted(len(recent), 'job')} failed there lately" + (f" ({why})" if why else ""), until)


def _time(text: Any) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
