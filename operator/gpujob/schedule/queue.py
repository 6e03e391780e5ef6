"""Places all waiting jobs against one snapshot, by priority and then by age.

A job without room gets nothing; the free devices of the nodes where it lacks the fewest are reserved for it against lower
priorities (`placement.scoring.reservations`), so that lower jobs never overtake it there. Among equal priorities nothing is
reserved. Within a round free capacity only shrinks, so equal demands without room share one result. The other candidates are
evaluated and explained only if the decision is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.kubernetes.priority_classes import holds_devices, priority_of
from gpujob.fleet.pools.ahead import Ahead, Taking
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.choose import choose, waits_for
from gpujob.placement.engine.decide import decide
from gpujob.placement.engine.exploration import place_of, with_one_more, with_trial
from gpujob.placement.filters.limit_range import bounded
from gpujob.placement.filters.volumes import mounted
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Choice, Decision
from gpujob.placement.scoring.reservations import Reservation
from gpujob.placement.suggestions.search import with_fix
from gpujob.schedule.quota_ledger import Charges
from gpujob.values.vocabulary import Verdict


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue: its uid, its creation time (RFC 3339), its demand; plan_only reserves nothing."""

    uid: str
    created: str
    demand: Demand
    plan_only: bool = False
    namespace: str = ""
    name: str = ""
    holds: bool = True
    """Whether devices are reserved for it while it waits; never for a plan."""


class Answer:
    """The result of a demand on one snapshot: verdict and choice at once, the whole decision on demand."""

    __slots__ = ("_decision", "catalog", "demand", "fleet", "pick")

    def __init__(self, demand: Demand, fleet: Fleet, catalog: Catalog) -> None:
        self.demand, self.fleet, self.catalog = with_trial(demand, fleet, catalog), fleet, catalog
        self.pick = choose(self.demand, fleet, catalog)
        self._decision: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The decision with every candidate and, for an impossible job, the nearest fix."""
        if self._decision is None:
            decision = decide(self.demand, self.fleet, self.catalog)
            self._decision = with_fix(decision, self.fleet, self.catalog)
        return self._decision


@dataclass(frozen=True, slots=True)
class Placing:
    """A job of the queue with its result."""

    job: Waiting
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


def place_all(
    jobs: Iterable[Waiting],
    fleet: Fleet,
    catalog: Catalog,
    failed: Callable[[Waiting, Exception], None] | None = None,
) -> Iterator[Placing]:
    """`SchedulingCycle.run` without yielding."""
    return (placing for placing in SchedulingCycle(catalog, failed).run(jobs, fleet) if placing is not None)


class SchedulingCycle:
    """One decision about a whole queue on one snapshot of the fleet; without I/O and without a clock.

    A job whose decision fails is passed to `failed` and left out; without `failed` the error is raised.
    """

    def __init__(self, catalog: Catalog, failed: Callable[[Waiting, Exception], None] | None = None) -> None:
        self._catalog, self._failed = catalog, failed

    def run(self, jobs: Iterable[Waiting], fleet: Fleet) -> Iterator[Placing | None]:
        """The placement of each job on what the earlier ones leave: by priority, then the oldest first, then by uid.

        Yields None between two pieces of work that place no job, so that the caller can run other tasks there.
        """
        priorities = fleet.priorities

        def priority(job: Waiting) -> int:
            return priority_of(job.demand.priority_class, priorities)

        queue = sorted(jobs, key=lambda job: (-priority(job), job.created, job.uid))
        lowest = priority(queue[-1]) if queue else 0
        snapshot = _Snapshot(fleet, self._catalog, self._failed)
        for level, equals in groupby(queue, key=priority):
            placings = []
            for job in equals:
                placing = snapshot.place(job)
                if placing is not None:
                    placings.append(placing)
                yield placing
            if level != lowest:
                yield from snapshot.put_ahead(placings, level)


class _Snapshot:
    """The fleet after the placements so far."""

    def __init__(
        self, fleet: Fleet, catalog: Catalog, failed: Callable[[Waiting, Exception], None] | None = None
    ) -> None:
        self._fleet, self._catalog, self._failed = fleet, catalog, failed
        self._without_room: dict[Demand, Answer] = {}
        self._tried: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        self._choosy = fleet.asks_namespaces
        self._charges = Charges()

    def place(self, job: Waiting) -> Placing | None:
        """The result of the next job; None if its decision fails."""
        # Nothing else depends on namespaces, so that equal jobs of many of them are one demand.
        apart = self._choosy or job.namespace in self._fleet.quotas or job.demand.as_root
        demand = replace(job.demand, namespace=job.namespace) if apart else job.demand
        demand = bounded(mounted(demand, self._fleet, job.namespace), self._fleet, job.namespace)
        learned = demand.learned
        of_profile = self._tried[job.namespace, learned.profile] if learned else Counter[tuple[str, str]]()
        demand = with_one_more(demand, of_profile)
        try:
            answer = self._without_room.get(demand) or Answer(demand, self._fleet, self._catalog)
        except Exception as error:  # an error in one job's decision does not stop the others
            if self._failed is None:
                raise
            self._failed(job, error)
            return None
        choice = answer.pick.choice
        if choice is None:
            self._without_room[demand] = answer
        elif not job.plan_only:
            chosen = choice.candidate
            of_profile[place_of(chosen)] += 1
            self._fleet = self._fleet.reserve(
                chosen.pool,
                chosen.gang.gpus_per_node,
                choice.needs,
                choice.nodes,
                job.namespace,
                job.demand.priority_class,
                demand.new_claims,
            )
        return Placing(job, answer)

    def put_ahead(self, placings: Iterable[Placing], priority: int) -> Iterator[None]:
        """Jobs of lower priority follow: the previous ones go first, and devices are reserved for the waiting ones, one by one."""
        real = [placing for placing in placings if not placing.job.plan_only]
        took = (_taken(placing, priority) for placing in real if placing.choice is not None)
        self._fleet = self._fleet.led_by([each for each in took if each is not None])
        self._charges.begin(self._fleet.quotas)
        # Free devices and quotas only shrink: equal demands without reservations share that result.
        hold_nothing: set[Demand] = set()
        for placing in real:
            if placing.verdict is not Verdict.WAITING or not _may_hold(placing.job):
                continue
            demand = placing.answer.demand
            if demand not in hold_nothing and not self._hold(placing, priority):
                hold_nothing.add(demand)
            yield
        # Jobs that go first are named in their own namespace only.
        self._choosy = self._choosy or any(pool.ahead for pool in self._fleet.pools)

    def _hold(self, placing: Placing, priority: int) -> bool:
        """Reserves what a job waits for, as far as quotas and earlier reservations allow; returns whether that is anything."""
        job, demand, before = placing.job, placing.answer.demand, self._fleet
        for hold in waits_for(demand, self._charges.seen(self._fleet), self._catalog):
            if self._charges.take(self._fleet, demand, hold):
                self._fleet = self._fleet.led_by([_held(job, hold, priority)])
        return self._fleet is not before


def _may_hold(job: Waiting) -> bool:
    return job.holds and holds_devices(job.demand.priority_class, job.namespace)


def _taken(placing: Placing, priority: int) -> Ahead | None:
    """The devices of a placed job; None if nodes must be added for it first."""
    choice, job = placing.choice, placing.job
    if choice is None or not all(choice.nodes):
        return None
    gang, resource = choice.candidate.gang, choice.candidate.pool.resource
    on = tuple((name, gang.gpus_per_node) for name in choice.nodes)
    taking = Taking(resource, on, choice.needs + choice.candidate.pool.overhead, linked=gang.nodes > 1)
    return Ahead(job.name, job.namespace, priority, gang.nodes, gang.gpus_per_node, taking, waits=False)


def _held(job: Waiting, hold: Reservation, priority: int) -> Ahead:
    """The reservation of a waiting job."""
    taking = Taking(hold.pool.resource, hold.on, hold.needs + hold.pool.overhead, linked=hold.nodes > 1)
    return Ahead(job.name, job.namespace, priority, hold.nodes, hold.gpus, taking, waits=True)
