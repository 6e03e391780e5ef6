"""One scheduling round: decides all waiting jobs on one snapshot of the fleet and reserves devices for those that it places.

A full explanation costs more than a decision, and a user can write a job whose explanation is costly. So placed jobs start first; the
others get their explanation after them, within a time limit per round, and the rest of the operator runs in between. Decisions
and explanations each take at most a third of the time, and a decision waits only for an explanation in progress.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.status_refresh import StatusRefresh
from gpujob.cluster.queue.time_slice import TimeSlice
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.fleet.assembly.usage import promises_of
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.fleet import Fleet
from gpujob.lifecycle.attempts import next_attempt
from gpujob.placement.engine.exploration import place_of
from gpujob.placement.report import summary
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.queue import Placing, SchedulingCycle, Waiting
from gpujob.schedule.round_robin import in_turns
from gpujob.status.attempts import waits
from gpujob.status.job import job_status
from gpujob.status.records.objects import JobRecord
from gpujob.values.vocabulary import State, Verdict


class SchedulingRound:
    """Decides the queue when what a decision depends on has changed, and not more often than it can afford."""

    def __init__(
        self,
        work: ControllerState,
        steps: JobActions,
        learning: ProfileUpdates,
        retelling: StatusRefresh,
    ) -> None:
        self._work, self._steps, self._learning, self._retelling = work, steps, learning, retelling
        self._timings = work.timings
        self._arriving: tuple[Arriving, ...] = ()
        self._next_decision = 0.0
        self._next_telling = 0.0
        self._untold = False
        """Whether some job still lacks the message of the last decision."""
        self._without_place = list[tuple[JobRecord, Placing]]()
        """The jobs without a place of the last decision, while one of them lacks its message."""
        self._slice = TimeSlice(work.clock, work.timings.loop_slice)
        self._decided_on: tuple[object, ...] = ()
        self._decided_with: tuple[object, ...] = ()
        """The inputs of `_decided_on`: the fleet, and what else a decision reads."""
        self._told_in: dict[str, float] = {}
        """The time of the last explanation for each namespace with untold jobs."""

    def seconds_to_next(self) -> float | None:
        """Seconds until the next decision about the queue is allowed; None while there is no need."""
        if not self._work.queue or not (self._stale() or self._untold):
            return None
        at = self._next_decision if self._stale() else max(self._next_decision, self._next_telling)
        return at - self._work.clock()

    def must_decide(self) -> bool:
        """Whether a job waits and something has changed, or still lacks its message."""
        seconds = self.seconds_to_next()
        return seconds is not None and seconds <= 0

    async def decide(self) -> None:
        """Decides for the whole queue; a step of its own renders, creates and reports each placed job."""
        began = self._work.clock()
        self._slice.begin()
        if not self._stale():
            # Only messages are missing: the last decision has them, and nothing that it depends on has changed.
            await self._explain_rest(self._work.clock())
            self._work.tally.decide_seconds += self._work.clock() - began
            return
        before, self._work.decided_at = self._work.decided_at, self._inputs()
        fleet = self._work.book.fleet(p for promises in self._work.promised.values() for p in promises)
        behind = (self._work.decided_at[1:], self._work.book.other_versions(), fleet)
        # Most pods of a cluster use no node with devices. Exploring jobs also depend on the runs of others.
        if before and not self._untold and not self._learning.counted_runs and behind == self._decided_with:
            return
        self._decided_on, self._decided_with = self._work.decided_at, behind
        self._learning.decides()
        without_place = self._without_place = list[tuple[JobRecord, Placing]]()
        async for job, placing in self._decisions(fleet):
            if placing.choice is None or _is_plan(job):
                without_place.append((job, placing))
            else:
                with self._work.alone(job):
                    decision = placing.decision
                    self._promise(job, decision)
                    # Devices are idle until the child exists; reports of other jobs can wait a moment.
                    self._steps.start(job, self._steps.place(job, decision, fleet), urgent=True)
                    self._count(decision)
            await self._slice.pause()
        decided = self._work.clock()
        if decided >= self._next_telling:
            await self._explain_rest(decided)
        else:
            self._untold = bool(without_place)
        self._work.tally.decide_seconds += self._work.clock() - began
        # A long queue is decided less often, so that decisions take at most a third of the time.
        self._next_decision = decided + 2 * (decided - began)

    async def _explain_rest(self, began: float) -> None:
        """Writes messages of the last decision; jobs that have left the queue or have a write in flight get none from it."""
        work, held = self._work, self._without_place
        jobs = ((work.book.jobs.get(placing.job.uid), placing) for _, placing in held)
        waiting = [(job, placing) for job, placing in jobs if job and job.uid in work.queue]
        left = await self._explain((job, placing) for job, placing in waiting if job.uid not in work.tasks)
        # A job has one step at a time; it gets its message when that has ended, unless that is its message.
        self._untold = left or any(
            not self._has_words(job, placing) for job, placing in waiting if job.uid in work.tasks
        )
        if not self._untold:
            self._without_place = []
        self._next_telling = work.clock() + 2 * (work.clock() - began)

    def _stale(self) -> bool:
        return self._work.decided_at != self._inputs()

    def _inputs(self) -> tuple[object, ...]:
        """The inputs of a decision about the queue."""
        return (self._work.book.fleet_version(), self._work.queue.version, frozenset(self._work.promised))

    async def _decisions(self, fleet: Fleet) -> AsyncIterator[tuple[JobRecord, Placing]]:
        now = self._work.wall()
        newcomers = (arriving for _, arriving in self._work.book.newcomers(now, self._timings.provision))
        self._arriving = tuple(waits.still_arriving(newcomers, now))
        self._work.passed_over = {uid for uid in self._work.tasks if uid in self._work.queue}
        # A job with a write in flight is decided next time; until then no other job gets its reserved devices.
        absent = self._work.passed_over & self._work.promised.keys()
        found = (self._work.book.jobs.get(uid) for uid in self._work.queue if uid not in absent)
        jobs = [job for job in found if job is not None]
        waiting = list[Waiting]()
        for job in jobs:
            if (demand := self._work.parsed_spec(job).demand) is not None:
                waiting.append(self._waiting(job, demand))
            await self._slice.pause()
        # Jobs that join during this cycle are decided in the next one.
        passed_over = frozenset(self._work.passed_over)
        for placing in SchedulingCycle(self._work.book.catalog, self._not_decided).run(waiting, fleet):
            if placing is None:
                await self._slice.pause()
            elif placing.job.uid not in passed_over:
                yield self._work.book.jobs[placing.job.uid], placing

    def _waiting(self, job: JobRecord, demand: Demand) -> Waiting:
        """A job of the queue; its reservation has a limit, because the pods on those devices may never end."""
        demand = self._timely(job, demand)
        left = waits.hold_left(job.created, job.status, self._work.wall(), self._timings.hold)
        if left > 0:
            self._work.requeue_after(job.uid, left)
        return Waiting(job.uid, job.created, demand, _is_plan(job), job.namespace, job.name, holds=left > 0)

    def _timely(self, job: JobRecord, demand: Demand) -> Demand:
        """The current demand of a job; the job is requeued for the time at which time alone changes it."""
        now = self._work.wall()
        demand = replace(demand, arriving=self._arriving) if self._arriving else demand
        seconds = waits.next_change(demand, job.created, job.status, now)
        if seconds is not None:
            self._work.due[job.uid] = self._work.clock() + seconds
        return self._learning.informed(job, waits.timely(demand, job.created, job.status, now))

    def _not_decided(self, waiting: Waiting, error: Exception) -> None:
        job = self._work.book.jobs[waiting.uid]
        self._work.queue.discard(job.uid)
        self._work.requeue_with_backoff(job, error, job.generation)

    async def _explain(self, without_place: Iterable[tuple[JobRecord, Placing]]) -> bool:
        """Explains to jobs why they are not placed, or where a suspended one would go, namespaces in turn. Returns whether some
        are left.
        """
        until = self._work.clock() + self._timings.explain_slice
        untold = []
        for job, placing in without_place:
            if not self._may_wait(job, placing):
                untold.append(((job, placing), job.namespace, self._work.remember(job.uid).told_at))
            await self._slice.pause()
        spaces = {namespace for _, namespace, _ in untold}
        self._told_in = {namespace: at for namespace, at in self._told_in.items() if namespace in spaces}
        for number, (job, placing) in enumerate(in_turns(untold, self._told_in)):
            # A new placement does not wait for the remaining explanations.
            if self._work.clock() >= until or (number and self._work.book.mirror.changed.is_set()):
                return True
            with self._work.alone(job):
                self._say(job, placing)
            await self._slice.pause()
        return False

    def _has_words(self, job: JobRecord, placing: Placing) -> bool:
        """Whether the job's last explanation was made from this decision."""
        return self._work.remember(job.uid).told_of == (self._decided_on, placing.job.demand)

    def _is_told(self, job: JobRecord, placing: Placing) -> bool:
        """Whether the job's last explanation has the same inputs, and its status is still as it was then or as it was written then."""
        memory = self._work.remember(job.uid)
        if not self._has_words(job, placing):
            return False
        if memory.told_version != job.version and memory.told_status == digest_of(job.status):
            memory.told_version = job.version
        return memory.told_version == job.version

    def _may_wait(self, job: JobRecord, placing: Placing) -> bool:
        """Whether a job with the same outcome needs no explanation now: nothing changed, or it gets the changes later."""
        memory, now, verdict = self._work.remember(job.uid), self._work.clock(), placing.verdict
        state = State.SUSPENDED if _is_plan(job) else job_status.STATE_OF[verdict]
        if verdict is Verdict.IMPOSSIBLE and state is State.IMPOSSIBLE and job.status.get("state") == State.QUEUED:
            return self._is_unripe(job)
        if verdict is not Verdict.IMPOSSIBLE:
            memory.impossible_since = None
        if self._is_told(job, placing):
            return True
        again = memory.told_at + max(self._timings.explain_again, self._timings.explain_factor * memory.words_took)
        same = job.status.get("state") == state and job.status.get("observedGeneration") == job.generation
        if same and now < again:
            self._work.requeue_after(job.uid, again - now)
            return True
        return False

    def _is_unripe(self, job: JobRecord) -> bool:
        """Whether a job that fitted before has been impossible for too short a time to report it."""
        memory, now = self._work.remember(job.uid), self._work.clock()
        memory.impossible_since = memory.impossible_since or now
        ripe = memory.impossible_since + self._timings.impossible
        if ripe > now:
            self._work.due[job.uid] = ripe
        return ripe > now

    def _say(self, job: JobRecord, placing: Placing) -> None:
        """Explains to one job, and records the inputs and the duration of its explanation."""
        memory, began = self._work.remember(job.uid), self._work.clock()
        tell = job_status.planned if _is_plan(job) else job_status.refused
        status = tell(job, placing.decision, self._work.now())
        self._retelling.report(job, status)
        if not _is_plan(job):
            self._count(placing.decision)
        memory.told_at, memory.told_of = self._work.clock(), (self._decided_on, placing.job.demand)
        memory.told_version, memory.told_status = job.version, digest_of(status)
        memory.words_took = memory.told_at - began
        self._told_in[job.namespace] = memory.told_at

    def _count(self, decision: Decision) -> None:
        """Counts an explained decision; waiting jobs whose explanation is delayed, or never comes, have none."""
        self._work.tally.decisions[decision.verdict.value, summary.reason(decision).value] += 1

    def _promise(self, job: JobRecord, decision: Decision) -> None:
        choice = decision.choice
        if choice is not None:
            pool, gpus = choice.candidate.pool, choice.candidate.gang.gpus_per_node
            self._learning.placing(job, place_of(choice.candidate))
            attempt = next_attempt(job)
            self._work.promised[job.uid] = promises_of(
                job.uid,
                attempt,
                job.namespace,
                choice.nodes,
                pool.name,
                pool.resource,
                gpus,
                choice.needs,
                pool.fabric.resources if pool.fabric and len(choice.nodes) > 1 else (),
                decision.demand.priority_class,
            )


def digest_of(status: Mapping[str, Any]) -> bytes:
    """A short form of a status, to recognise it when the watch shows it."""
    return hashlib.blake2b(json.dumps(status, sort_keys=True, default=str).encode(), digest_size=16).digest()


def _is_plan(job: JobRecord) -> bool:
    return job.spec.get("suspend") is True
