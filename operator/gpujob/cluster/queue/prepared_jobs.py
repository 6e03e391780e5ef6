"""The jobs of the queue as a decision takes them, prepared again only where something of a job has changed.

To prepare a job costs more than to find that a demand equal to its own has no room: its status is read for what failed it, its
namespace for what it learned. Equal demands are one object, which makes them one key at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.fleet.pools.arriving import Arriving
from gpujob.placement.request.demand import Demand
from gpujob.schedule.pending_job import PendingJob
from gpujob.status.attempts import waits
from gpujob.status.attempts.cost import seconds_to_run
from gpujob.status.attempts.exclusions import Clocks, by_own_clock
from gpujob.status.records.objects import JobRecord

SPARE = 1000
"""Demands beyond one for each job that are kept before those of no job are dropped."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job as it was prepared, and from what."""

    job: JobRecord
    arriving: tuple[Arriving, ...]
    learned_from: object
    until: float
    """When time alone changes it, by the controller's clock; at that time at the latest the job is reconciled."""
    waiting: PendingJob


class PreparedJobs:
    """`informed` adds what a job's profile knows; `learned_from` is what that depends on, None if it must be asked each time."""

    def __init__(
        self,
        work: ControllerState,
        informed: Callable[[JobRecord, Demand], Demand],
        learned_from: Callable[[JobRecord, Demand], object | None],
    ) -> None:
        self._work, self._informed, self._learned_from = work, informed, learned_from
        self._held: dict[str, Prepared] = {}
        self._equal: dict[Demand, Demand] = {}

    def waiting(self, job: JobRecord, arriving: tuple[Arriving, ...]) -> PendingJob | None:
        """A job of the queue; None if its spec cannot be read. `arriving`: new nodes whose devices are still pending."""
        held = self._held.get(job.uid)
        if held is not None and self._is_current(held, job, arriving):
            return held.waiting
        demand = self._work.parsed_spec(job).demand
        if demand is None:
            return None
        learned_from = self._learned_from(job, demand)
        waiting, until = self._prepare(job, replace(demand, arriving=arriving) if arriving else demand)
        self._held[job.uid] = Prepared(job, arriving, learned_from, until, waiting)
        return waiting

    def forget_gone(self) -> None:
        """Drops jobs that no longer wait, and demands that no job has."""
        queue = self._work.queue
        if len(self._held) > len(queue) or not queue:
            self._held = {uid: held for uid, held in self._held.items() if uid in queue}
        if len(self._equal) > len(self._held) + SPARE or not queue:
            self._equal = {held.waiting.demand: held.waiting.demand for held in self._held.values()}

    def _is_current(self, held: Prepared, job: JobRecord, arriving: tuple[Arriving, ...]) -> bool:
        if held.job is not job or held.arriving != arriving or held.learned_from is None:
            return False
        # Where another time came first, the job must be given its own again.
        if self._work.clock() >= held.until or self._work.due.get(job.uid, math.inf) > held.until:
            return False
        demand = self._work.parsed_spec(job).demand
        return demand is not None and held.learned_from == self._learned_from(job, demand)

    def _prepare(self, job: JobRecord, demand: Demand) -> tuple[PendingJob, float]:
        """The job, and when time alone changes it: the job is reconciled at that time."""
        work, now = self._work, self._work.wall()
        # Its reservation has a limit, because the pods on those devices may never end.
        left = waits.reservation_left(job.created, job.status, now, work.timings.hold)
        memory, lasts = work.remember(job.uid), work.timings.exclusions
        clocks = Clocks(work.clock(), now, work.here() if work.here is not None else None)
        status, memory.excluded, over = by_own_clock(job.status, memory.excluded, clocks, lasts)
        changes = waits.next_change(demand, job.created, status, now)
        seconds = min(math.inf if changes is None else changes, left or math.inf, over)
        if seconds < math.inf:
            work.requeue_after(job.uid, seconds)
        demand = self._informed(job, waits.timely(demand, job.created, status, now))
        demand = self._equal.setdefault(demand, demand)
        is_plan = job.spec.get("suspend") is True
        until = now + timedelta(seconds=left)
        runs_for = seconds_to_run(job.spec.get("activeDeadlineSeconds"), job.status, now)
        waiting = PendingJob(job.uid, job.created, demand, is_plan, job.namespace, job.name, until, runs_for)
        return waiting, work.clock() + seconds
