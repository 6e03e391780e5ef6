"""The cluster's own waiting jobs that go first: their reservations are not free for the planned jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpujob.cli.cluster_file.jobs import waits
from gpujob.cli.planning.planner import Profiles, informed
from gpujob.fleet.kubernetes.priority_classes import priority_of
from gpujob.lifecycle.timings import Timings
from gpujob.schedule.pending_job import PendingJob
from gpujob.status.attempts.cost import seconds_to_run
from gpujob.status.attempts.waits import reservation_left, timely
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import table

if TYPE_CHECKING:
    from gpujob.fleet.pools.fleet import Fleet


def rivals_in(
    documents: Iterable[Any], asked: Sequence[PendingJob], fleet: Fleet, profiles: Profiles, now: datetime
) -> list[PendingJob]:
    """The other GPUJobs of a cluster's documents that wait, with a higher priority than one of the planned jobs."""
    from gpujob.fleet.sources.cluster_file import objects_in

    lowest = min((priority_of(each.demand.priority_class, fleet.priorities) for each in asked), default=0)
    known = {(each.namespace, each.name) for each in asked}
    waiting = (each for each in objects_in(documents, []) if each.get("kind") == "GPUJob" and waits(each))
    found = (_waiting(each, profiles, now) for each in waiting)
    return [
        each
        for each in found
        if each
        and (each.namespace, each.name) not in known
        and priority_of(each.demand.priority_class, fleet.priorities) > lowest
    ]


def _waiting(raw: Mapping[str, Any], profiles: Profiles, now: datetime) -> PendingJob | None:
    """A job as in the operator's queue; None if it cannot be read, which its status reports."""
    from gpujob.api.manifest import read_gpujob

    try:
        job = read_gpujob(raw)
    except BadInput:
        return None
    metadata, status = table(raw, "metadata"), table(raw, "status")
    created, namespace = str(metadata.get("creationTimestamp") or ""), job.metadata.namespace or "default"
    left = reservation_left(created, status, now, Timings().hold)
    uid = f"{namespace}/{job.metadata.name}"
    demand = timely(informed(job, profiles), created, status, now)
    runs_for = seconds_to_run(job.spec.active_deadline_seconds, status, now)
    return PendingJob(
        uid, created, demand, False, namespace, job.metadata.name, now + timedelta(seconds=left), runs_for
    )
