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
from gpujob.schedule.gains import gained
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

    @staticmethod
    def tries(demand: Demand) -> bool:
        """Whether a demand names a pool to try first by what has room, so that its result is of one snapshot alone."""
        return demand.probe_steps is not None or demand.exploration is not None

    def follow(self, fleet: Fleet) -> None:
        """The result holds on a newer snapshot too: the decision is of that one."""
        if fleet is not self.fleet:
            self.fleet, self._decision = fleet, None

    def refuses_again(self, fleet: Fleet) -> bool:
        """Whether the demand has no place on this snapshot either; then the result is of that one."""
        pick = choose(self.demand, fleet, self.catalog)
        if pick.choice is not None:
            return False
        self.fleet, self.pick, self._decision = fleet, pick, None
        return True

    @property
    def decision(self) -> Decision:
        """The decision with every candidate and, for an impossible job, the nearest fix."""
        if self._decision is None:
            decision = decide(self.demand, self.fleet, self.catalog)
            self._decision = with_fix(decision, self.fleet, self.catalog)
        return self._decision


class LastRejections:
    """The demands that got no place in the last cycle, for the next one: each is decided again only where it may gain by it.

    `facts` is what a demand can depend on besides pools: it is compared by the caller of `begin`.
    """

    def __init__(self) -> None:
        self._answers: dict[Demand, Answer] = {}
        self._facts: object = None
        self._all_refused = False

    def begin(self, facts: object) -> None:
        """A cycle begins; with other facts nothing that was decided before holds."""
        if facts != self._facts:
            self._answers, self._facts = {}, facts

    def still_holds(self, demand: Demand, fleet: Fleet, catalog: Catalog) -> Answer | None:
        """The answer of the last cycle for this snapshot, if the demand had no place and no pool gained anything for it since."""
        answer = self._answers.get(demand)
        if answer is None or answer.catalog is not catalog or gained(answer.fleet, fleet, demand.namespace):
            return None
        answer.follow(fleet)
        return answer

    def keep(self, answers: dict[Demand, Answer], *, all_refused: bool) -> None:
        """The refusals of a whole cycle; `all_refused`: it placed no job and reserved nothing."""
        trials = (Answer.tries(demand) for demand in answers)
        self._answers = {
            demand: each for (demand, each), tries in zip(answers.items(), trials, strict=True) if not tries
        }
        self._all_refused = all_refused and len(self._answers) == len(answers)

    def retry(self, fleet: Fleet, catalog: Catalog, facts: object) -> Iterator[bool]:
        """Decides again each class of equal demands whose pools gained something, in pieces: for each of them whether it is
        refused again. A whole cycle is needed after False; the explanations of the others are of `fleet` from now on.
        """
        if not self._all_refused or facts != self._facts:
            yield False
            return
        for demand, answer in self._answers.items():
            if self.still_holds(demand, fleet, catalog) is None and not answer.refuses_again(fleet):
                yield False
                return
            yield True


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

    A job whose decision fails is passed to `failed` and left out; without `failed` the error is raised. `refusals` are those of
    the cycle before, and afterwards of this one.
    """

    def __init__(
        self,
        catalog: Catalog,
        failed: Callable[[Waiting, Exception], None] | None = None,
        refusals: LastRejections | None = None,
    ) -> None:
        self._catalog, self._failed, self._refusals = catalog, failed, refusals or LastRejections()

    def run(self, jobs: Iterable[Waiting], fleet: Fleet) -> Iterator[Placing | None]:
        """The placement of each job on what the earlier ones leave: by priority, then the oldest first, then by uid.

        Yields None between two pieces of work that place no job, so that the caller can run other tasks there.
        """
        values: dict[str | None, int] = {}

        def priority(job: Waiting) -> int:
            named = job.demand.priority_class
            if named not in values:
                values[named] = priority_of(named, fleet.priorities)
            return values[named]

        queue = sorted(jobs, key=lambda job: (-priority(job), job.created, job.uid))
        lowest = priority(queue[-1]) if queue else 0
        snapshot = _Snapshot(fleet, self._catalog, self._failed, self._refusals)
        for level, equals in groupby(queue, key=priority):
            placings = []
            for job in equals:
                placing = snapshot.place(job)
                if placing is not None:
                    placings.append(placing)
                yield placing
            if level != lowest:
                yield from snapshot.put_ahead(placings, level)
        self._refusals.keep(snapshot.without_room, all_refused=snapshot.all_refused)


class _Snapshot:
    """The fleet after the placements so far."""

    def __init__(
        self,
        fleet: Fleet,
        catalog: Catalog,
        failed: Callable[[Waiting, Exception], None] | None,
        refusals: LastRejections,
    ) -> None:
        self._fleet, self._catalog, self._failed, self._refusals = fleet, catalog, failed, refusals
        self.without_room: dict[Demand, Answer] = {}
        self.all_refused = True
        """Whether it is as it was at first, and each job was refused."""
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
        of_profile = self._tried[job.namespace, learned.profile] if learned else None
        if of_profile:
            demand = with_one_more(demand, of_profile)
        try:
            answer = self.without_room.get(demand) or self._answer(demand)
        except Exception as error:  # an error in one job's decision does not stop the others
            if self._failed is None:
                raise
            self._failed(job, error)
            return None
        choice = answer.pick.choice
        self.all_refused = self.all_refused and choice is None
        if choice is None:
            self.without_room[demand] = answer
        elif not job.plan_only:
            chosen = choice.candidate
            if of_profile is not None:
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

    def _answer(self, demand: Demand) -> Answer:
        held = self._refusals.still_holds(demand, self._fleet, self._catalog)
        return held or Answer(demand, self._fleet, self._catalog)

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
                self._fleet, self.all_refused = self._fleet.led_by([_held(job, hold, priority)]), False
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
