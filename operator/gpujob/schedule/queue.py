"""Places all waiting jobs against one snapshot, by priority and then by age; a blocked job takes and blocks nothing.

Within a round free capacity only shrinks, so equal demands that found no room share one answer. What became of the other
candidates is worked out and worded only when somebody asks for the decision.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet
from gpujob.fleet.priorities import priority_of
from gpujob.placement.choose import choose
from gpujob.placement.decide import decide
from gpujob.placement.decision import Choice, Decision
from gpujob.placement.demand import Demand
from gpujob.placement.fixes import with_fix
from gpujob.placement.mounts import mounted
from gpujob.placement.trying import place_of, with_one_more, with_trial
from gpujob.vocabulary import Verdict


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue: its uid, when it was created (RFC 3339), what it asks; plan_only reserves nothing."""

    uid: str
    created: str
    demand: Demand
    plan_only: bool = False
    namespace: str = ""


class Answer:
    """What a demand got on one snapshot: verdict and choice at once, the whole decision when it is asked for."""

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
    """A job of the queue with what it got."""

    job: Waiting
    answer: Answer

    @property
    def verdict(self) -> Verdict:
        """Placed, waiting, misconfigured or impossible."""
        return self.answer.pick.verdict

    @property
    def choice(self) -> Choice | None:
        """Where it goes."""
        return self.answer.pick.choice

    @property
    def decision(self) -> Decision:
        """The whole decision: made on first use, which takes longer than the choice."""
        return self.answer.decision


def place_all(
    jobs: Iterable[Waiting],
    fleet: Fleet,
    catalog: Catalog,
    failed: Callable[[Waiting, Exception], None] | None = None,
) -> Iterator[Placing]:
    """Decisions for all waiting jobs, each on what the earlier ones left: by priority, then the oldest first, then by uid.

    A job that cannot be decided about is told to `failed` and left out; without it the error is raised.
    """
    without_room: dict[Demand, Answer] = {}
    placed: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    choosy = fleet.asks_namespaces
    priorities = fleet.priorities

    def turn(job: Waiting) -> tuple[int, str, str]:
        return -priority_of(job.demand.priority_class, priorities), job.created, job.uid

    for job in sorted(jobs, key=turn):
        # Nothing else tells namespaces apart, so that equal jobs of many of them are one demand.
        apart = choosy or job.namespace in fleet.quotas or job.demand.as_root
        demand = replace(job.demand, namespace=job.namespace) if apart else job.demand
        demand = mounted(demand, fleet, job.namespace)
        of_profile = placed[job.namespace, demand.learned.profile] if demand.learned else Counter[tuple[str, str]]()
        demand = with_one_more(demand, of_profile)
        try:
            answer = without_room.get(demand) or Answer(demand, fleet, catalog)
        except Exception as error:  # whatever one job asks, the others are placed
            if failed is None:
                raise
            failed(job, error)
            continue
        choice = answer.pick.choice
        if choice is None:
            without_room[demand] = answer
        elif not job.plan_only:
            chosen = choice.candidate
            of_profile[place_of(chosen)] += 1
            fleet = fleet.reserve(chosen.pool, chosen.gang.gpus_per_node, choice.needs, choice.nodes, job.namespace)
        yield Placing(job, answer)
