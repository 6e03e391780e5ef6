"""Whose an object with the name of a child is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.status.attempts.ownership import is_child
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import owner_uid, read_child
from gpujob.values.untrusted import table


def is_made_for(held: Any, body: Mapping[str, Any], job: JobRecord) -> bool:
    """Whether an object with the name of a child is the job's; one other than a Job must also equal what would be created now.

    A Job may come from a decision before a crash, with another fleet.
    """
    if body["kind"] == "Job":
        return is_child(read_child(held), job)
    return owner_uid(table(held, "metadata")) == job.uid and _holds(held.get("spec"), body["spec"])


def _holds(held: Any, wanted: Any) -> bool:
    """Whether everything that was written is present; the API server adds defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(held, dict) and all(_holds(held.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(held, list) and len(held) == len(wanted) and all(map(_holds, held, wanted))
    return bool(held == wanted)
