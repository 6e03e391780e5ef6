"""What a job has come to, without what differs from run to run, and that no two children of it lived at one time."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from tests.e2e.api_server import AuditLog, Object
from tests.e2e.team import Team

ATTEMPT = re.compile(r"(?P<job>.+-[0-9a-f]{8})-(?P<number>\d+)")
"""The name of a child Job: its GPUJob's name, a hash of that one's uid, and the number of the attempt."""


def created(audit: AuditLog, mark: int, name: str) -> Counter[str]:
    """What was created for one job since a mark, by resource."""
    return Counter(
        entry["objectRef"]["resource"]
        for entry in audit.since(mark)
        if entry["verb"] == "create"
        and entry["responseStatus"]["code"] == 201
        and entry["objectRef"].get("name", "").startswith(name)
    )


def masked(status: Mapping[str, Any], uid: str, name: str) -> Any:
    """A status without what differs from run to run: names with a hash of the uid, times, and what they cost."""
    status = {**status, "cost": "COST", "jobUID": "UID OF THE CHILD", "display": {**status["display"], "cost": "COST"}}
    status["attempts"] = [{**entry, "cost": "COST" if "cost" in entry else None} for entry in status["attempts"]]
    text = json.dumps(status, sort_keys=True).replace(uid, "UID")
    text = re.sub(rf"{name}-[0-9a-f]{{8}}-(\d)(-\d-[a-z0-9]{{5}})?", r"CHILD \1", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return json.loads(text)


Life = tuple[datetime, datetime | None, str]
"""From when to when a child Job lived, and its name; one without an end lives on."""


def lives(audit: AuditLog, mark: int, team: Team) -> dict[str, list[Life]]:
    """The child Jobs of a team that the operator created since a mark, by their GPUJob, in their order.

    A child lives from the answer to its creation until it is deleted, or until its own conditions say that it ended.
    """
    ends = {job["metadata"]["name"]: end for job in team.jobs() if (end := _end(job)) is not None}
    born: dict[str, datetime] = {}
    for entry in audit.since(mark):
        target, code = entry.get("objectRef", {}), entry.get("responseStatus", {}).get("code", 0)
        if target.get("resource") == "jobs" and target.get("namespace") == team.namespace and code < 300:
            at, name = _time(entry["stageTimestamp"]), target["name"]
            if entry["verb"] == "create":
                born[name] = at
            elif entry["verb"] == "delete":
                ends[name] = min(at, ends.get(name, at))
    found: dict[str, list[Life]] = {}
    for name, at in sorted(born.items(), key=lambda each: each[1]):
        match = ATTEMPT.fullmatch(name)
        assert match is not None, name
        found.setdefault(match["job"], []).append((at, ends.get(name), name))
    return found


def assert_one_live_child(audit: AuditLog, mark: int, team: Team) -> None:
    """No child Job was created before the one before it had ended: by the audit log and the Jobs' own conditions."""
    for job, each in lives(audit, mark, team).items():
        for (_, end, one), (born, _, other) in pairwise(each):
            # Conditions have whole seconds, cut off.
            assert end is not None, f"{other} was created while {one} lived"
            assert end <= born, f"{other} was created {(end - born).total_seconds():.2f} s before {one} of {job} ended"


def _end(job: Object) -> datetime | None:
    conditions = job.get("status", {}).get("conditions", [])
    times = [
        each["lastTransitionTime"] for each in conditions if each["type"] in ("Complete", "Failed", "FailureTarget")
    ]
    return min(map(_time, times), default=None)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
