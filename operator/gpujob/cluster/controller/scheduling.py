"""One scheduling round: decides all waiting jobs on one snapshot of the fleet and reserves devices for those that it places.

A full explanation costs more than a decision, and a user can write a job whose explanation is costly. So placed jobs start first; the
others get their explanation after them, within a time limit per round, and the rest of the operator runs in between. Decisions
and explanations each take at most a third of the time, and a decision waits only for an explanation in progress.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import structlog

from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.messages.explanations import Explanations
from gpujob.cluster.messages.status_refresh import StatusRefresh
from gpujob.cluster.queue.prepared_jobs import PreparedJobs
from gpujob.cluster.queue.turns import TimeSlice
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.fleet.assembly.usage import reservations_of
from gpujob.fleet.policy.resource_quota import objects_of
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.fleet import Fleet
from gpujob.lifecycle.attempts import next_attempt
from gpujob.placement.engine.exploration import device_and_gang
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.answers import LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import QueueDecision, SchedulingCycle
from gpujob.schedule.shares import Shares
from gpujob.status.attempts import waits
from gpujob.status.records.objects import JobRecord

log = structlog.get_logger(__name__)


class SchedulingRound:
    """Decides the queue when what a decision depends on has changed, and not more often than it can afford."""

    def __init__(
        self, work: ControllerState, steps: JobActions, learning: ProfileUpdates, refresh: StatusRefresh
    ) -> None:
        self._work, self._steps, self._learning = work, steps, learning
        self._timings = work.timings
        self._arriving: tuple[Arriving, ...] = ()
        self._next_decision = 0.0
        self._slice = TimeSlice(work.clock, work.timings.loop_slice)
        self._explanations = Explanations(work, refresh, self._slice)
        self._prepared = PreparedJobs(work, learning.informed, learning.learned_from)
        self._last_rejections = LastRejections()
        self._shares = Shares(work.clock, work.timings.namespace_share, work.timings.left_jobs)
        self._left = 0
        """The number of jobs that the last cycle left for the next one."""
        self._decided_with: tuple[object, ...] = ()
        """What the last decision read: the queue, what is in no pool, and the fleet."""

    def seconds_to_next(self) -> float | None:
        """Seconds until the next decision about the queue, or explanation of one, is allowed; None while there is no need."""
        queue, under_way = self._work.queue, self._work.reserved
        if not queue:
            self._forget_all()
        # A job that gets its child now needs no decision.
        if len(under_way) >= len(queue) and all(uid in under_way for uid in queue):
            return None
        at = -math.inf if self._stale() else self._explanations.next_at()
        return None if at is None else max(self._next_decision, at) - self._work.clock()

    def must_decide(self) -> bool:
        """Whether a job waits and something has changed, or still lacks its message."""
        seconds = self.seconds_to_next()
        return seconds is not None and seconds <= 0

    def prepare(self, job: JobRecord) -> None:
        """A job was reconciled: it is prepared for the next decision, which then need not wait for that, and may lack a message."""
        if job.uid in self._work.queue:
            self._prepared.waiting(job, self._arriving)
        self._explanations.requeue(job.uid)

    async def decide(self) -> None:
        """Decides for the whole queue; a step of its own renders, creates and reports each placed job."""
        began, away = self._work.clock(), self._slice.away
        self._slice.begin()
        if self._stale():
            await self._decide_again()
            decided = self._work.clock()
            # A long queue is decided less often, so that decisions take at most a third of the time, in which others may run too.
            self._next_decision = decided + 2 * (decided - began - (self._slice.away - away))
        at = self._explanations.next_at()
        if at is not None and at <= self._work.clock():
            await self._explanations.explain()
        self._work.counters.decide_seconds += self._work.clock() - began

    async def _decide_again(self) -> None:
        await self._slice.run(self._work.index.fleet_in_pieces())
        before, self._work.decided_at = self._work.decided_at, self._inputs()
        fleet = self._work.index.fleet(p for reservations in self._work.reserved.values() for p in reservations)
        facts = self._work.index.other_versions()
        was, self._decided_with = self._decided_with, (self._work.decided_at[1:], facts, fleet)
        # Exploring jobs also depend on the runs of others.
        if before and not self._left and not self._learning.counted_runs and was[:2] == self._decided_with[:2]:
            # Most pods of a cluster use no node with devices.
            if was == self._decided_with:
                return
            if await self._refused_again(fleet):
                self._explanations.renew(self._work.decided_at)
                return
        self._learning.decides()
        # Which namespaces have other quotas than before is seen in the fleets of the two cycles.
        self._last_rejections.begin(self._work.index.other_versions("resourcequotas"))
        without_place, placed = list[QueueDecision](), set[str]()
        async for job, decided in self._decisions(fleet):
            if decided.choice is None or decided.job.plan_only:
                without_place.append(decided)
            else:
                placed.add(job.uid)
                with self._work.alone(job):
                    decision = decided.decision
                    self._reserve(job, decision)
                    # Devices are idle until the child exists; reports of other jobs can wait a moment.
                    self._steps.start(job, self._steps.place(job, decision, fleet.runtime_classes), urgent=True)
                    self._explanations.count(decision)
            await self._slice.pause()
        self._explanations.begin(without_place, self._work.decided_at, placed, left=self._left)
        self._prepared.forget_gone()

    async def _refused_again(self, fleet: Fleet) -> bool:
        """Whether no waiting job gets a place, so that only numbers in messages may differ."""
        facts = self._work.index.other_versions("resourcequotas")
        try:
            for refused in self._last_rejections.retry(fleet, self._work.index.catalog, facts):
                if not refused:
                    return False
                await self._slice.pause()
        except Exception:  # the cycle finds the job that cannot be decided
            log.exception("the whole queue is decided again")
            return False
        return True

    def _forget_all(self) -> None:
        """Drops what was kept of waiting jobs, because none waits."""
        self._prepared.forget_gone()
        self._explanations.begin((), ())
        self._last_rejections.forget()
        self._shares.forget()
        self._decided_with, self._left = (), 0

    def _stale(self) -> bool:
        return self._left > 0 or self._work.decided_at != self._inputs()

    def _inputs(self) -> tuple[object, ...]:
        """The inputs of a decision about the queue."""
        return (self._work.index.fleet_version(), self._work.queue.version, frozenset(self._work.reserved))

    async def _decisions(self, fleet: Fleet) -> AsyncIterator[tuple[JobRecord, QueueDecision]]:
        now = self._work.wall()
        newcomers = (arriving for _, arriving in self._work.index.newcomers(now, self._timings.provision))
        self._arriving = tuple(waits.still_arriving(newcomers, now))
        self._work.passed_over = {uid for uid in self._work.tasks if uid in self._work.queue}
        # A job whose creation is under way or has no answer keeps its devices: on others a second request could be performed too.
        found = (self._work.index.jobs.get(uid) for uid in self._work.queue if uid not in self._work.reserved)
        jobs = [job for job in found if job is not None]
        waiting = list[PendingJob]()
        for job in jobs:
            if (prepared := self._prepared.waiting(job, self._arriving)) is not None:
                waiting.append(prepared)
            await self._slice.pause()
        # Jobs that join during this cycle are decided in the next one.
        passed_over = frozenset(self._work.passed_over)
        self._shares.begin({job.uid for job in jobs})
        cycle = SchedulingCycle(self._work.index.catalog, self._not_decided, self._last_rejections, shares=self._shares)
        for decided in cycle.run(waiting, fleet, now):
            if decided is None:
                await self._slice.pause()
            elif decided.job.uid not in passed_over:
                yield self._work.index.jobs[decided.job.uid], decided
        self._left = cycle.left

    def _not_decided(self, waiting: PendingJob, error: Exception) -> None:
        job = self._work.index.jobs[waiting.uid]
        self._work.queue.discard(job.uid)
        self._work.requeue_with_backoff(job, error, job.generation)

    def _reserve(self, job: JobRecord, decision: Decision) -> None:
        choice = decision.choice
        if choice is not None:
            pool, gpus = choice.candidate.pool, choice.candidate.gang.gpus_per_node
            self._learning.count_placed(job, device_and_gang(choice.candidate))
            attempt = next_attempt(job)
            self._work.reserved[job.uid] = reservations_of(
                job.uid,
                attempt,
                job.namespace,
                choice.nodes,
                pool.family,
                pool.resource,
                gpus,
                choice.needs,
                pool.fabric.resources if pool.fabric and len(choice.nodes) > 1 else (),
                decision.demand.priority_class,
                objects_of(len(choice.nodes), pool.request is not None).items(),
                choice.not_on,
                decision.demand.claims,
                job.name,
                decision.demand.new_claims,
            )
