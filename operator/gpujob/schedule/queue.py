"""Places all waiting jobs against one snapshot, oldest first; a blocked job takes nothing and blocks nobody.

Within a round free capacity only shrinks, so equal demands that found no room share one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet
from gpujob.placement.decide import decide
from gpujob.placement.decision import Decision
from gpujob.placement.demand import Demand
from gpujob.placement.fixes import nearest_fix
from gpujob.vocabulary import Verdict


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue: its uid, when it was created (RFC 3339), what it asks; plan_only reserves nothing."""

    uid: str
    created: str
    demand: Demand
    plan_only: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Placing:
    """A job of the queue with its decision."""

    job: Waiting
    decision: Decision


def place_all(
    jobs: Iterable[Waiting],
    fleet: Fleet,
    catalog: Catalog,
    failed: Callable[[Waiting, Exception], None] | None = None,
) -> Iterator[Placing]:
    """Decisions for all waiting jobs, oldest first (then by uid), each on what the earlier ones left.

    A job that cannot be decided about is told to `failed` and left out; without it the error is raised.
    """
    without_room: dict[Demand, Decision] = {}
    for job in sorted(jobs, key=lambda job: (job.created, job.uid)):
        # Only quotas tell namespaces apart.
        demand = replace(job.demand, namespace=job.namespace) if job.namespace in fleet.quotas else job.demand
        try:
            decision = without_room.get(demand) or _decided(demand, fleet, catalog)
        except Exception as error:  # whatever one job asks, the others are placed
            if failed is None:
                raise
            failed(job, error)
            continue
        choice = decision.choice
        if choice is None:
            without_room[demand] = decision
        elif not job.plan_only:
            chosen = choice.candidate
            fleet = fleet.reserve(chosen.pool, chosen.gang.gpus_per_node, choice.needs, choice.nodes, job.namespace)
        yield Placing(job, decision)


def _decided(demand: Demand, fleet: Fleet, catalog: Catalog) -> Decision:
    decision = decide(demand, fleet, catalog)
    if decision.verdict is Verdict.IMPOSSIBLE and decision.fix is None:
        decision = replace(decision, fix=nearest_fix(decision, fleet, catalog))
    return decision
