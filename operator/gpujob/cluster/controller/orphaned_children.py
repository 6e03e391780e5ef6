"""Deletes child Jobs, Services and ResourceClaimTemplates that `kubectl delete gpujob --cascade=orphan` left behind, and the pods of a
Job that a finalizer keeps although its GPUJob is gone: nothing else ends them.

Their names are made from the GPUJob's uid, so an object that only has its labels is never taken for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import structlog

from gpujob.cluster.cache.watched_kinds import JOBS, SERVICES
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import NotLeader, Writer
from gpujob.lifecycle.children import TERMINAL
from gpujob.status.records.objects import ChildRecord, ServiceRecord
from gpujob.values.names import child_name

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A Job or Service whose owner is gone or was taken off, and the GPUJob that it was made for."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    job_name: str
    job_uid: str


class OrphanedChildren:
    """Finds children without an owner; one that is seen twice, and whose GPUJob the API server does not have, is deleted, its pods
    first."""

    def __init__(self, work: ControllerState, writer: Writer) -> None:
        self._work, self._writer = work, writer
        self._seen: set[Orphan] = set()
        """What the last search found: watches may be that far apart."""

    async def run(self, is_leader: Callable[[], bool]) -> None:
        """Searches until cancelled, while this process leads."""
        while True:
            await asyncio.sleep(self._work.timings.orphans)
            if is_leader() and self._work.index.cache.complete:
                await self.sweep()

    async def sweep(self) -> None:
        """One check of all children."""
        found = list(self._orphans())
        for orphan in found:
            if orphan in self._seen:
                await self._end(orphan)
        self._seen = set(found)

    def _orphans(self) -> Iterator[Orphan]:
        jobs = self._work.index.jobs
        for resource in (SERVICES, JOBS):
            held = self._work.index.cache.objects(resource.plural)
            for (namespace, name), child in cast("dict[tuple[str, str], ChildRecord | ServiceRecord]", held).items():
                uid = child.orphan_of or _kept(child, name)
                if uid and uid not in jobs and not self._ends(child):
                    yield Orphan(resource, namespace, name, child.uid, child.job_name, uid)

    def _ends(self, child: ChildRecord | ServiceRecord) -> bool:
        """Whether nothing is left to delete: a Job that a finalizer keeps can have pods that run on."""
        if not isinstance(child, ChildRecord) or not child.leaving:
            return False
        return all(pod.leaving or pod.phase in TERMINAL for pod in self._work.index.pods_whatever_job(child))

    async def _end(self, orphan: Orphan) -> None:
        what = f"{orphan.resource.plural} {orphan.namespace}/{orphan.name}"
        try:
            if not await self._writer.has_job(orphan.namespace, orphan.job_name, orphan.job_uid):
                if orphan.resource is JOBS:
                    # It is not watched. The Job goes last: it is what another search would find again.
                    await self._writer.delete_orphaned_template(orphan.namespace, orphan.name, orphan.job_uid)
                await self._writer.delete_orphan(orphan.resource, orphan.namespace, orphan.name, orphan.uid)
                log.info("orphaned child deleted", job=f"{orphan.namespace}/{orphan.job_name}", child=what)
        except (ApiError, NotLeader) as error:
            log.warning("orphaned child not deleted", child=what, error=str(error))


def _kept(child: ChildRecord | ServiceRecord, name: str) -> str:
    """The uid of the GPUJob of a deleted Job that is still there: garbage collection deletes it in the background, and a finalizer of
    another controller keeps it with its pods. Empty for any other object."""
    if not isinstance(child, ChildRecord) or not child.leaving:
        return ""
    return child.owner_uid if name == child_name(child.job_name, child.owner_uid, child.attempt) else ""
