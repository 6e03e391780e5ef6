"""Quotas of GPUJob objects: the API server refuses a manifest's job that is one too many, in the order of the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpujob.fleet.policy.resource_quota import OF_GPUJOBS
from gpujob.schedule.pending_job import PendingJob
from gpujob.values.untrusted import table

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpujob.fleet.pools.fleet import Fleet

Name = tuple[str, str]
"""Namespace and name of a GPUJob."""


def gpujobs_in(documents: Iterable[Any]) -> frozenset[Name]:
    """The GPUJobs among a cluster's documents, which its quotas have counted."""
    from gpujob.fleet.sources.cluster_file import objects_in

    found = (table(each, "metadata") for each in objects_in(documents, []) if each.get("kind") == "GPUJob")
    return frozenset((str(each.get("namespace") or "default"), str(each.get("name"))) for each in found)


def with_object_quotas(
    jobs: Sequence[PendingJob], fleet: Fleet, existing: Collection[Name]
) -> tuple[list[PendingJob], Fleet]:
    """The jobs, those marked that a quota of GPUJobs refuses, and the fleet whose quotas have counted the others.

    A suspended job and one that waits are objects too.
    """
    admitted: Counter[str] = Counter()
    marked = []
    for job in jobs:
        quotas = fleet.quotas.get(job.namespace, ()) if (job.namespace, job.name) not in existing else ()
        limits = [quota.left.get(OF_GPUJOBS) for quota in quotas if OF_GPUJOBS in {*quota.left, *quota.unread}]
        if any(left is None or left <= admitted[job.namespace] for left in limits):
            job = replace(job, demand=job.demand.but(refused_as_object=True))
        else:
            admitted[job.namespace] += 1
        marked.append(job)
    counted = {
        namespace: tuple(quota.after({OF_GPUJOBS: admitted[namespace]}) for quota in found)
        for namespace, found in fleet.quotas.items()
    }
    return marked, replace(fleet, quotas=counted)
