"""Places all waiting jobs against one snapshot, by the policies of `schedule.policies`.

A job without room gets nothing; the free devices of the nodes where it lacks the fewest are reserved for it against lower
priorities (`placement.scoring.reservations`). Among equal priorities nothing is reserved. The other candidates are evaluated and
explained only if the decision is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.ahead import Ahead, Taking
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.storage.claim_volumes import Mount, with_mount
from gpujob.placement.engine.choose import waits_for
from gpujob.placement.engine.exploration import device_and_gang, with_one_more
from gpujob.placement.filters.limit_range import bounded
from gpujob.placement.filters.maintenance import undisturbed
from gpujob.placement.filters.volumes import bound_by, mounted
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Choice, Decision
from gpujob.placement.scoring.reservations import Reservation
from gpujob.schedule.answers import Answer, LastRejections
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.policies import NOTHING_HELPS, Level, in_order, why_unreserved
from gpujob.schedule.quota_ledger import QuotaLedger
from gpujob.schedule.shares import Shares
from gpujob.values.vocabulary import Verdict


@dataclass(frozen=True, slots=True)
class QueueDecision:
    """A job of the queue with its result."""

    job: PendingJob
    answer: Answer

    @property
    def verdict(self) -> Verdict:
        """Placed, waiting, misconfigured or impossible."""
        return self.answer.pick.verdict

    @property
    def choice(self) -> Choice | None:
        """The pool and nodes that it gets."""
        return self.answer.pick.choice

    @property
    def decision(self) -> Decision:
        """The whole decision: computed on first use, which takes longer than the choice."""
        return self.answer.decision


ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


def place_all(
    jobs: Iterable[PendingJob],
    fleet: Fleet,
    catalog: Catalog,
    failed: Callable[[PendingJob, Exception], None] | None = None,
    now: datetime = ALWAYS,
) -> Iterator[QueueDecision]:
    """`SchedulingCycle.run` without yielding; at `ALWAYS` no reservation has ended, and no job ends before any maintenance."""
    return (decided for decided in SchedulingCycle(catalog, failed).run(jobs, fleet, now) if decided is not None)


class SchedulingCycle:
    """One decision about a whole queue on one snapshot of the fleet, by the policies in their order; without I/O and without a clock.

    A job whose decision fails is passed to `failed` and left out; without `failed` the error is raised. `refusals` are those of
    the cycle before, and afterwards of this one. `all_reasons`: the lowest priority gets its reasons too, as if others followed.
    `shares`: the time of each namespace for jobs that never waited; without it the cycle decides all.
    """

    def __init__(
        self,
        catalog: Catalog,
        failed: Callable[[PendingJob, Exception], None] | None = None,
        refusals: LastRejections | None = None,
        *,
        shares: Shares | None = None,
        all_reasons: bool = False,
    ) -> None:
        self._catalog, self._failed, self._last_rejections = catalog, failed, refusals or LastRejections()
        self._all_reasons, self._shares = all_reasons, shares
        self.left = 0
        """The number of jobs that the cycle left for the next one, because the share of their namespace is used up."""
        self.unreserved: dict[str, str] = {}
        """By uid of each job without a place, of all but the lowest priority: why nothing is reserved for it; empty if something is."""

    def run(self, queue: Iterable[PendingJob], fleet: Fleet, now: datetime) -> Iterator[QueueDecision | None]:
        """The placement of each job on what the earlier ones leave, in the order of the queue; `now` ends reservations (UTC).

        Yields None between two pieces of work that place no job, so that the caller can run other tasks there.
        """
        snapshot = _Snapshot(fleet, self._catalog, self._failed, self._last_rejections, now)
        for level in in_order(queue, fleet.priorities):  # ORDER
            decisions = []
            for job in level.jobs:
                if self._shares is not None and self._shares.leaves(job) and not snapshot.knows(job):  # SHARES
                    self.left += 1
                    yield None
                    continue
                decided = self._placed(snapshot, job)  # WHOLE_GANGS, EQUAL_DEMANDS
                if decided is not None:
                    decisions.append(decided)
                yield decided
            if self.left and (self._shares is None or self._shares.blocks_lower()):
                # What they would get goes to no job of a lower priority, for a while.
                break
            if not level.last or self._all_reasons:
                snapshot.put_ahead(decisions, level)  # PRECEDENCE
                for decided in decisions:
                    if decided.choice is None:
                        reason = why_unreserved(decided.job, decided.verdict, now)
                        reason = reason or snapshot.reserve(decided, level)  # RESERVATION, QUOTA
                        self.unreserved[decided.job.uid] = reason
                        yield None
                snapshot.let_others_in()  # BACKFILL
        if self._shares is not None:
            self._shares.end(self.left)
        refused = snapshot.all_refused and not self.left
        self._last_rejections.keep(
            snapshot.without_room, snapshot.plans.values(), all_refused=refused, whole=not self.left
        )

    def _placed(self, snapshot: _Snapshot, job: PendingJob) -> QueueDecision | None:
        if self._shares is None:
            return snapshot.place(job)
        began = self._shares.now()
        decided = snapshot.place(job)
        self._shares.count(job, None if decided is None else decided.verdict, began)
        return decided


class _Snapshot:
    """The fleet after the placements so far."""

    def __init__(
        self,
        fleet: Fleet,
        catalog: Catalog,
        failed: Callable[[PendingJob, Exception], None] | None,
        refusals: LastRejections,
        now: datetime,
    ) -> None:
        self._fleet, self._catalog, self._failed, self._last_rejections = fleet, catalog, failed, refusals
        self._now = now
        self.without_room: dict[Demand, Answer] = {}
        self.plans: dict[Demand, Answer] = {}
        self.all_refused = True
        """Whether it is as it was at first, and each job was refused but those that only ask for a plan."""
        self._tried: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        self._choosy = fleet.depends_on_namespaces
        self._ledger = QuotaLedger()
        self._unhelped: set[Demand] = set()
        """Demands of this level that reservations do not help."""

    def place(self, job: PendingJob) -> QueueDecision | None:
        """The result of the next job; None if its decision fails."""
        learned = job.demand.learned
        of_profile = self._tried[job.namespace, learned.profile] if learned else None
        try:
            demand = self._resolved(job)
            if of_profile:
                demand = with_one_more(demand, of_profile)
            answer = self._earlier(demand) or self._plan(demand, job) or self._answer(demand)
        except Exception as error:  # an error in one job's decision does not stop the others
            if self._failed is None:
                raise
            self._failed(job, error)
            return None
        choice = answer.pick.choice
        self.all_refused = self.all_refused and (choice is None or job.plan_only)
        if choice is None:
            self.without_room[demand] = answer
        elif job.plan_only:
            self.plans[demand] = answer
        else:
            chosen = choice.candidate
            if of_profile is not None:
                of_profile[device_and_gang(chosen)] += 1
            self._fleet = self._fleet.reserve(
                chosen.pool,
                chosen.gang.gpus_per_node,
                choice.needs,
                choice.nodes,
                job.namespace,
                job.demand.priority_class,
                demand.new_claims,
            )
            volumes = bound_by(demand, self._fleet, job.namespace, choice.nodes)
            if volumes is not self._fleet.volumes:
                self._fleet = replace(self._fleet, volumes=volumes)
            if demand.single:
                mount = Mount(choice.nodes[0], f"job {job.name}", starts=True)
                mounts = with_mount(self._fleet.mounts, job.namespace, demand.single, mount)
                self._fleet = replace(self._fleet, mounts=mounts)
        return QueueDecision(job, answer)

    def knows(self, job: PendingJob) -> bool:
        """Whether the result of a job is known without a decision."""
        try:
            demand = self._resolved(job)
            refused = self._last_rejections.still_valid(demand, self._fleet, self._catalog)
            return refused is not None or demand in self.without_room
        except Exception:  # `place` reports it
            return True

    def _resolved(self, job: PendingJob) -> Demand:
        """The demand of a job with what its namespace, its claims and its time limit mean on this snapshot."""
        # Nothing else depends on namespaces, so that equal jobs of many of them are one demand.
        apart = self._choosy or job.namespace in self._fleet.quotas or job.demand.as_root
        demand = replace(job.demand, namespace=job.namespace) if apart else job.demand
        demand = bounded(mounted(demand, self._fleet, job.namespace), self._fleet, job.namespace)
        if job.runs_for is not None and self._now is not ALWAYS:
            demand = undisturbed(demand, self._fleet, self._now + timedelta(seconds=job.runs_for))
        return demand

    def _earlier(self, demand: Demand) -> Answer | None:
        """The refusal of an equal demand before, in the numbers of now: what jobs between took is not free any more."""
        answer = self.without_room.get(demand)
        return None if answer is None else answer.on(self._fleet)

    def _plan(self, demand: Demand, job: PendingJob) -> Answer | None:
        """The result of an equal plan on the same snapshot."""
        answer = self.plans.get(demand) if job.plan_only else None
        return answer if answer is not None and answer.fleet is self._fleet else None

    def _answer(self, demand: Demand) -> Answer:
        held = self._last_rejections.still_valid(demand, self._fleet, self._catalog)
        return held or Answer(demand, self._fleet, self._catalog, self._last_rejections.known(demand, self._fleet))

    def put_ahead(self, decisions: Iterable[QueueDecision], level: Level) -> None:
        """Jobs of lower priority follow: what these took goes first."""
        real = ((decided.job, decided.choice) for decided in decisions if not decided.job.plan_only)
        # What needs nodes to be added first takes nothing that is there.
        took = ((job, choice) for job, choice in real if choice is not None and all(choice.nodes))
        self._fleet = self._fleet.led_by([_taken(job, choice, level.priority) for job, choice in took])
        self._ledger.begin(self._fleet.quotas)
        self._unhelped.clear()

    def reserve(self, decided: QueueDecision, level: Level) -> str:
        """Reserves what a job waits for, as far as quotas and earlier reservations allow; why nothing is reserved, empty where
        something is."""
        job, demand, before = decided.job, decided.answer.demand, self._fleet
        # Free devices and quotas only shrink: equal demands without reservations share that result.
        if demand in self._unhelped:
            return NOTHING_HELPS
        for reservation in waits_for(demand, self._ledger.seen(self._fleet), self._catalog):
            if self._ledger.take(self._fleet, demand, reservation):
                self._fleet, self.all_refused = self._fleet.led_by([_reserved(job, reservation, level.priority)]), False
        if self._fleet is not before:
            return ""
        self._unhelped.add(demand)
        return NOTHING_HELPS

    def let_others_in(self) -> None:
        """The next level takes what is free and not reserved; jobs that go first are named in their own namespace only."""
        self._choosy = self._choosy or any(pool.ahead for pool in self._fleet.pools)


def _taken(job: PendingJob, choice: Choice, priority: int) -> Ahead:
    """The devices of a placed job."""
    gang, resource = choice.candidate.gang, choice.candidate.pool.resource
    on = tuple((name, gang.gpus_per_node) for name in choice.nodes)
    taking = Taking(resource, on, choice.needs + choice.candidate.pool.overhead, linked=gang.nodes > 1)
    return Ahead(job.name, job.namespace, priority, gang.nodes, gang.gpus_per_node, taking, waits=False)


def _reserved(job: PendingJob, reservation: Reservation, priority: int) -> Ahead:
    """The reservation of a waiting job."""
    # What one node lacks, devices or what goes with them, is reserved whole: no pod of a gang comes to its links meanwhile.
    needs = reservation.needs + reservation.pool.overhead
    taking = Taking(reservation.pool.resource, reservation.on, needs, linked=True)
    return Ahead(job.name, job.namespace, priority, reservation.nodes, reservation.gpus, taking, waits=True)
