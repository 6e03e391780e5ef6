"""Records on jobs that no operator acts on them, where the served CRDs lack what this version writes.

Such an operator does not lead and writes nothing else. While another process leads (an earlier version, to which the CRDs belong), it
writes the statuses and this one nothing. A job that was placed before keeps its status as it is: a write would delete what the CRDs
lack of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final, cast

import structlog

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import GPUJOBS
from gpujob.cluster.client.api_errors import ApiError, Conflict, JsonObject, NotFound
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.rate_limit import Patience
from gpujob.cluster.election.election import Acquire, Sighting, boot_clock, next_step, record_of, sight
from gpujob.status.attempts.waits import write_time
from gpujob.status.job.job_status import unreadable
from gpujob.status.job.status_patch import patch
from gpujob.status.records.objects import JobRecord
from gpujob.values.vocabulary import Reason, State

log = structlog.get_logger(__name__)

EVERY: Final = 5.0
"""Seconds between two checks."""
UNPLACED: Final = ("", State.QUEUED, State.MISCONFIGURED, State.IMPOSSIBLE)
"""States of jobs that have run nowhere yet."""
_UNQUEUED: Final = Patience(queued=False, tries=1)
"""A process that does not lead can send no queued write."""


class OutdatedCrds:
    """Records on each job once that this process does not act; `hindrances` gives the sentences, none where it can act."""

    def __init__(
        self,
        client: ApiClient,
        cache: ObjectCache,
        lease: str,
        hindrances: Callable[[], Sequence[str]],
        *,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._cache, self._lease, self._hindrances = client, cache, lease, hindrances
        self._clock, self._wall, self._sleep = clock, wall, sleep
        self._seen: Sighting | None = None
        self._recorded: set[tuple[str, int, str]] = set()

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            try:
                await self.check()
            except ApiError as error:
                log.info("outdated CRDs not recorded on jobs", error=str(error))
            await self._sleep(EVERY)

    async def check(self) -> None:
        """Writes the condition on the jobs that have run nowhere, while no process leads."""
        sentence = "; ".join(self._hindrances())
        if not sentence:
            self._seen = None
            return
        if await self._another_leads():
            return
        for job in [cast("JobRecord", held) for held in self._cache.objects("gpujobs").values()]:
            if is_unplaced(job) and (job.uid, job.generation, sentence) not in self._recorded:
                await self._record(job, sentence)

    async def _another_leads(self) -> bool:
        """By the Lease as the election reads it: a holder that stops renewing leads for its duration more."""
        try:
            lease: JsonObject | None = await self._client.get(self._lease, patience=_UNQUEUED)
        except NotFound:
            lease = None
        self._seen = sight(self._seen, record_of(lease) if lease else None, self._clock())
        return not isinstance(next_step(self._seen, "", self._clock()), Acquire)

    async def _record(self, job: JobRecord, sentence: str) -> None:
        status = unreadable(job, Reason.CRDS_OUTDATED, sentence, write_time(self._wall()))
        changes = patch(job.status, status)
        if changes is not None:
            body = {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": changes}
            path = GPUJOBS.path(job.namespace, job.name, "status")
            try:
                await self._client.patch(path, body, patience=_UNQUEUED)
            except (NotFound, Conflict):
                return
            log.info("outdated CRDs recorded on a job", job=f"{job.namespace}/{job.name}")
        # The CRDs may drop this too, and then the next check finds nothing of it.
        self._recorded.add((job.uid, job.generation, sentence))


def is_unplaced(job: JobRecord) -> bool:
    """Whether the job's status holds no attempt, so that a write loses nothing of it."""
    held = job.status
    return not (job.leaving or held.get("jobName") or held.get("attempt")) and str(held.get("state") or "") in UNPLACED
