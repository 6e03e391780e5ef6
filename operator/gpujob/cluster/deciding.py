"""The decision about all jobs that wait, on one snapshot of the fleet: placed ones are promised their devices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpujob.cluster.desk import Desk, next_attempt
from gpujob.cluster.learning import Learning
from gpujob.cluster.retelling import Retelling
from gpujob.cluster.steps import Steps
from gpujob.fleet.arriving import Arriving
from gpujob.fleet.pools import Fleet
from gpujob.fleet.usage import promises_of
from gpujob.placement import explain
from gpujob.placement.decision import Decision
from gpujob.placement.demand import Demand
from gpujob.placement.trying import place_of
from gpujob.schedule.queue import Placing, Waiting, place_all
from gpujob.status import patience, report
from gpujob.status.records import JobRecord
from gpujob.vocabulary import State, Verdict

IMPOSSIBLE_AFTER: Final = 300.0
"""Seconds that Impossible must hold for a job that fitted before, until it is said."""


TOLD_AGAIN_AFTER: Final = 5.0
"""Seconds after which a job that still waits is told anew why: with many waiting jobs words cost more than decisions."""


class Deciding:
    """Decides the queue when what a decision depends on has changed, and not more often than it can afford."""

    def __init__(
        self,
        desk: Desk,
        steps: Steps,
        learning: Learning,
        retelling: Retelling,
        provision_seconds: float,
        hold_seconds: float,
    ) -> None:
        self._desk, self._steps, self._learning, self._retelling = desk, steps, learning, retelling
        self._provision_seconds, self._hold_seconds = provision_seconds, hold_seconds
        self._arriving: tuple[Arriving, ...] = ()
        self._next_decision = 0.0

    def seconds_to_next(self) -> float | None:
        """Seconds until the queue may be decided again; None while there is no need."""
        return self._next_decision - self._desk.clock() if self._desk.queue and self._stale() else None

    def must_decide(self) -> bool:
        """Whether somebody waits and something has changed."""
        return bool(self._desk.queue) and self._stale() and self._desk.clock() >= self._next_decision

    def decide(self) -> None:
        """Decides for the whole queue; each placed job is rendered, created and reported by a step of its own."""
        began = self._desk.clock()
        self._desk.decided_at = self._inputs()
        self._learning.decides()
        fleet = self._desk.book.fleet(p for promises in self._desk.promised.values() for p in promises)
        for job, placing in self._decisions(fleet):
            with self._desk.alone(job):
                if job.spec.get("suspend") is True:
                    self._retelling.report(job, report.planned(job, placing.decision, self._desk.now()))
                elif placing.choice is not None:
                    decision = placing.decision
                    self._promise(job, decision)
                    self._steps.start(job, self._steps.place(job, decision, fleet))
                    self._count(decision)
                elif not self._was_told(job, placing.verdict):
                    self._refuse(job, placing.decision)
        took = self._desk.clock() - began
        self._desk.tally.decide_seconds += took
        # A long queue is looked at less often, so that deciding never takes more than a third of the time.
        self._next_decision = self._desk.clock() + 2 * took

    def _stale(self) -> bool:
        return self._desk.decided_at != self._inputs()

    def _inputs(self) -> tuple[object, ...]:
        """What a decision about the queue depends on."""
        asks = frozenset(
            (uid, self._desk.book.jobs[uid].generation) for uid in self._desk.queue if uid in self._desk.book.jobs
        )
        return (self._desk.book.fleet_version(), asks, frozenset(self._desk.promised))

    def _decisions(self, fleet: Fleet) -> Iterator[tuple[JobRecord, Placing]]:
        now = self._desk.wall()
        newcomers = (arriving for _, arriving in self._desk.book.newcomers(now, self._provision_seconds))
        self._arriving = tuple(patience.still_arriving(newcomers, now))
        self._desk.passed_over = self._desk.queue & self._desk.tasks.keys()
        # One with a write under way is decided next time; until then nobody gets what is its turn to get.
        present = self._desk.queue - (self._desk.passed_over & self._desk.promised.keys())
        jobs = [self._desk.book.jobs[uid] for uid in present if uid in self._desk.book.jobs]
        waiting = [self._waiting(job, demand) for job in jobs if (demand := self._desk.wish(job).demand) is not None]
        for placing in place_all(waiting, fleet, self._desk.book.catalog, self._not_decided):
            if placing.job.uid not in self._desk.passed_over:
                yield self._desk.book.jobs[placing.job.uid], placing

    def _waiting(self, job: JobRecord, demand: Demand) -> Waiting:
        """A job of the queue; devices are held for it only so long, since nobody knows whether pods on them ever end."""
        demand = self._timely(job, demand)
        left = patience.hold_left(job.created, job.status, self._desk.wall(), self._hold_seconds)
        if left > 0:
            self._desk.look_again(job.uid, left)
        plan_only = job.spec.get("suspend") is True
        return Waiting(job.uid, job.created, demand, plan_only, job.namespace, job.name, holds=left > 0)

    def _timely(self, job: JobRecord, demand: Demand) -> Demand:
        """What a job asks for now; it is looked at again when time alone changes that."""
        now = self._desk.wall()
        demand = replace(demand, arriving=self._arriving) if self._arriving else demand
        seconds = patience.next_change(demand, job.created, job.status, now)
        if seconds is not None:
            self._desk.due[job.uid] = self._desk.clock() + seconds
        return self._learning.informed(job, patience.timely(demand, job.created, job.status, now))

    def _not_decided(self, waiting: Waiting, error: Exception) -> None:
        job = self._desk.book.jobs[waiting.uid]
        self._desk.queue.discard(job.uid)
        self._desk.retry_later(job, error, job.generation)

    def _was_told(self, job: JobRecord, verdict: Verdict) -> bool:
        """Whether a job that still waits was told why a moment ago: then it is told again later, if that changed."""
        memory, now = self._desk.remember(job.uid), self._desk.clock()
        waits = verdict is Verdict.WAITING and job.status.get("state") == State.QUEUED
        if waits and job.status.get("observedGeneration") == job.generation and now < memory.told_at + TOLD_AGAIN_AFTER:
            self._desk.due[job.uid] = min(self._desk.due.get(job.uid, math.inf), memory.told_at + TOLD_AGAIN_AFTER)
            return True
        memory.told_at = now
        return False

    def _refuse(self, job: JobRecord, decision: Decision) -> None:
        memory = self._desk.remember(job.uid)
        if decision.verdict is not Verdict.IMPOSSIBLE:
            memory.impossible_since = None
        elif job.status.get("state") == State.QUEUED:
            now = self._desk.clock()
            memory.impossible_since = memory.impossible_since or now
            ripe = memory.impossible_since + IMPOSSIBLE_AFTER
            if ripe > now:
                self._desk.due[job.uid] = ripe
                return
        self._retelling.report(job, report.refused(job, decision, self._desk.now()))
        self._count(decision)

    def _count(self, decision: Decision) -> None:
        """Counts a decision that is told; those that a waiting job hears of later, or never, have no words yet."""
        self._desk.tally.decisions[decision.verdict.value, explain.reason(decision).value] += 1

    def _promise(self, job: JobRecord, decision: Decision) -> None:
        choice = decision.choice
        if choice is not None:
            pool, gpus = choice.candidate.pool, choice.candidate.gang.gpus_per_node
            self._learning.placing(job, place_of(choice.candidate))
            attempt = next_attempt(job)
            self._desk.promised[job.uid] = promises_of(
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
