"""Deletes child Jobs that `kubectl delete gpujob --cascade=orphan` left behind: without an owner nothing else ends their pods.

Their names are made from the GPUJob's uid, so a Job that only has its labels is never taken for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

import structlog

from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import NotLeader, Writer
from gpujob.status.records.objects import ChildRecord

log = structlog.get_logger(__name__)


class OrphanedChildren:
    """Looks for children without an owner; one that is seen twice, and whose GPUJob the API server does not have, is deleted."""

    def __init__(self, work: ControllerState, writer: Writer) -> None:
        self._work, self._writer = work, writer
        self._seen: set[str] = set()
        """The uids of the last look: watches may be that far apart."""

    async def run(self, is_leader: Callable[[], bool]) -> None:
        """Looks for ever while this process leads."""
        while True:
            await asyncio.sleep(self._work.timings.orphans)
            if is_leader() and self._work.book.mirror.complete:
                await self.sweep()

    async def sweep(self) -> None:
        """One look at all child Jobs."""
        found = list(self._orphans())
        for child in found:
            if child.uid in self._seen:
                await self._end(child)
        self._seen = {child.uid for child in found}

    def _orphans(self) -> Iterator[ChildRecord]:
        jobs = self._work.book.jobs
        held = cast("dict[tuple[str, str], ChildRecord]", self._work.book.mirror.objects("jobs"))
        return (
            child for child in held.values() if child.orphan_of and not child.leaving and child.orphan_of not in jobs
        )

    async def _end(self, child: ChildRecord) -> None:
        try:
            if not await self._writer.has_job(child.namespace, child.job_name, child.orphan_of):
                await self._writer.delete_orphan(child)
                log.info("orphaned child deleted", job=f"{child.namespace}/{child.job_name}", child=child.name)
        except (ApiError, NotLeader, ValueError) as error:
            log.warning("orphaned child not deleted", child=f"{child.namespace}/{child.name}", error=str(error))
