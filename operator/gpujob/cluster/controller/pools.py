"""Publishes discovered pools as GPUPool objects and writes the status of all pools, rarely unless an admin changes one."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from gpujob.cluster.cache.watched_kinds import PoolRecord
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.turns import TimeSlice
from gpujob.cluster.queue.work_queue import DEFAULT_TIMINGS
from gpujob.cluster.writer.writes import NotLeader, Writer
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.status import pools as publish
from gpujob.status.attempts.waits import write_time

log = structlog.get_logger(__name__)

EVERY: Final = 30.0
"""The shortest time in seconds between two writes of a pool's status, unless an admin changes a GPUPool."""

LOOKS_EVERY: Final = 0.5
"""Seconds between two checks whether there is something to publish."""


class PoolPublisher:
    """Keeps GPUPool objects equal to the fleet while this process leads; writes nothing while nothing changes."""

    def __init__(
        self,
        index: ClusterIndex,
        writer: Writer,
        is_leader: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._index, self._writer, self._is_leader, self._wall, self._clock = index, writer, is_leader, wall, clock
        self._slice = TimeSlice(clock, DEFAULT_TIMINGS.loop_slice)
        self._published_at: tuple[int, ...] = ()
        self._published = -math.inf
        self._given: frozenset[tuple[str, int]] = frozenset()
        """The admins' GPUPools at that time; an admin who changes one expects its status soon, and that of the pools that lose
        nodes to it.
        """

    async def run(self) -> None:
        """Publishes soon after the start, soon after an admin's GPUPool changed, and else at most every 30 seconds."""
        while True:
            if self._is_leader() and self._index.cache.complete and self.is_due():
                self.note()
                await self._publish_once()
            await asyncio.sleep(LOOKS_EVERY)

    def is_due(self) -> bool:
        """Whether the fleet changed and was not published lately, or an admin's GPUPool was added, changed or deleted."""
        if self._published_at == self._index.fleet_version():
            return False
        return self._clock() >= self._published + EVERY or self._given != self._admins()

    def note(self) -> None:
        """Records what is published now, and when."""
        self._published_at, self._published, self._given = self._index.fleet_version(), self._clock(), self._admins()

    def _admins(self) -> frozenset[tuple[str, int]]:
        records = self._index.pool_records().values()
        return frozenset((record.uid, record.generation) for record in records if record.admin is not None)

    async def _publish_once(self) -> None:
        try:
            await self._slice.run(self._index.read_nodes())
            await self.publish(self._index.fleet())
        except NotLeader as error:
            self._published_at = ()
            log.info("pools not published", error=str(error))
        except Exception as error:  # an error in the status of pools does not stop the placement of jobs
            self._published_at = ()
            log.exception("pools not published", error=repr(error))

    async def publish(self, fleet: Fleet) -> None:
        """Creates, updates and deletes what differs."""
        records = self._index.pool_records()
        for pool in fleet.whole_pools:
            try:
                await self._publish_pool(pool, fleet, records.get(pool.name))
            except ApiError as error:  # an error in one pool does not stop the others
                self._published_at = ()
                log.warning("pool not published", pool=pool.name, error=str(error))
        alive = {pool.name for pool in fleet.whole_pools}
        for name in sorted(records.keys() - alive):
            if records[name].admin is None:
                await self._remove(name, records[name].uid)

    async def _remove(self, name: str, uid: str) -> None:
        log.info("discovered pool removed, no node has its devices", pool=name)
        try:
            await self._writer.delete_pool(name, uid)
        except ApiError as error:  # it is removed with the next publication
            self._published_at = ()
            log.warning("pool not removed", pool=name, error=str(error))

    async def _publish_pool(self, pool: Pool, fleet: Fleet, record: PoolRecord | None) -> None:
        if record is None and pool.discovered:
            record = await self._create(pool)
        if record is not None:
            await self._update(pool, fleet, record)

    async def _create(self, pool: Pool) -> PoolRecord | None:
        created = await self._writer.create_pool(publish.manifest(pool))
        return PoolRecord(created) if created else None

    async def _update(self, pool: Pool, fleet: Fleet, record: PoolRecord) -> None:
        now = write_time(self._wall())
        edited = publish.is_edited(pool, record.spec, record.generation)
        wanted = publish.status(pool, fleet, record.status, now, record.generation, edited=edited)
        changes = _differences(record.status, wanted)
        if changes:
            await self._writer.write_pool(record, changes)
            await self._writer.record_pool_event(pool, record.uid, record.status)


def _differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {key: None for key in held if key not in wanted}
    changes.update({key: value for key, value in wanted.items() if held.get(key) != value})
    return changes
