"""The score of each pool for a kind of work, whatever the job's size, and the pools in the order of an objective.

A gang's price and, if it scales, its speed are those of one GPU times its GPUs, so the order of the pools is the same for every
gang. It depends on facts and is cached with the fleet: a decision starts with the best pools and does not read all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import NamedTuple, TypeVar

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.filters.selection import PoolClass, pool_class_of
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring import score
from gpujob.placement.scoring.score import Aim, Rank, Worth
from gpujob.placement.scoring.speed import speed_of

T = TypeVar("T")


class PoolScore(NamedTuple):
    """One pool: its name, its index in the fleet, and the score of one GPU."""

    pool: str
    position: int
    """Its index in `Fleet.pools`."""
    price: int | None
    """Micro-dollars an hour, at least."""
    speed: int | None
    """Millionths of the reference's speed."""
    error: int
    """Error of the speed in per cent."""
    warnings: int
    """Warnings about the pool that lower its rank."""
    memory: int | None
    """Bytes of one GPU."""
    pool_class: PoolClass
    at_worst: int | None
    at_best: int | None
    """The value of one GPU at worst and at best (`score.Worth`); for a gang that scales it is that of the gang."""
    measured: bool = False
    """Whether earlier runs of the job's profile measured the speed."""

    @property
    def without_speed(self) -> bool:
        """Whether its value is unknown although it has a price."""
        return self.price is not None and not self.speed

    def objective_key(self, gpus: int, aim: Aim, *, scales: bool) -> tuple[int, ...]:
        """The lower bound of `score.objective_key` for a number of its GPUs."""
        if not (aim.at_worst and (scales or self.measured) and self.price is not None and self.speed):
            return score.objective_key_of(self.worth(gpus, scales=scales), aim)
        return (False, False, self.at_worst or 0, False, self.price * gpus, -self.speed * gpus)

    def is_beyond(self, gpus: int, aim: Aim, *, scales: bool) -> bool:
        """Whether a number of its GPUs is certainly beyond the aim's ceiling."""
        if aim.ceiling is None:
            return False
        if scales or self.measured:
            return (self.at_best or 0) > aim.ceiling
        return score.is_beyond(self.worth(gpus, scales=scales), aim)

    def worth(self, gpus: int, *, scales: bool) -> Worth:
        """The price and the speed of a number of its GPUs on existing nodes; `scales` as in Candidate."""
        price, times = None if self.price is None else self.price * gpus, gpus if scales or self.measured else 1
        return Worth(price, None if self.speed is None else self.speed * times, self.error)

    def ties(self, pool: Pool, gang: Gang, warnings: int, *, scales: bool) -> Rank:
        """The lower bound of `score.ties_of` for a gang on its existing nodes."""
        paid = None if self.price is None or self.speed is None else self.speed
        return score.ties_of(pool, gang, warnings, paid and paid * (gang.gpus if scales or self.measured else 1))


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """All pools of a fleet in the order of one objective, best first, and those of unknown value."""

    ordered: Sequence[PoolScore]
    without_speed: Sequence[PoolScore]
    ranks: Mapping[str, int]
    """The index of each pool in `ordered`, by its name."""

    def only(self, names: Iterable[str]) -> Sequence[PoolScore]:
        """The pools of these names, best first."""
        ranks = self.ranks
        return [self.ordered[rank] for rank in sorted([ranks[name] for name in names if name in ranks])]


def _order_of(ordered: Sequence[PoolScore]) -> PoolOrder:
    without_speed = [each for each in ordered if each.without_speed]
    return PoolOrder(ordered, without_speed, {each.pool: rank for rank, each in enumerate(ordered)})


def order_pools(demand: Demand, aim: Aim, fleet: Fleet, catalog: Catalog) -> PoolOrder:
    """The pools for a demand of one gang, in the order of the lower bounds of their ranks.

    A ceiling does not move the pools beyond it; `GangSearch.candidates` leaves them out.
    """
    aim = aim._replace(ceiling=None)

    def each() -> Sequence[PoolScore]:
        return _each(demand, fleet, catalog)

    def ordered() -> PoolOrder:
        return _ordered(kept_with_facts(fleet, demand.work, catalog, each), demand, aim, fleet)

    # Measurements of earlier runs belong to the job and depend on the gang.
    own = demand.learned is not None
    found = (
        _ordered(each(), demand, aim, fleet) if own else kept_with_facts(fleet, (aim, demand.work), catalog, ordered)
    )
    if demand.trying is None:
        return found
    gang = demand.gang
    first = sorted(found.ordered, key=lambda each: score.is_late(demand, fleet.pools[each.position], gang))
    return replace(_order_of(first), without_speed=found.without_speed)


def _ordered(pools: Sequence[PoolScore], demand: Demand, aim: Aim, fleet: Fleet) -> PoolOrder:
    gang, scales = demand.gang, demand.scales(demand.gang)
    found = sorted(
        pools,
        key=lambda each: (
            each.objective_key(gang.gpus, aim, scales=scales),
            each.ties(fleet.pools[each.position], gang, each.warnings, scales=scales),
        ),
    )
    return _order_of(found)


def _each(demand: Demand, fleet: Fleet, catalog: Catalog) -> Sequence[PoolScore]:
    found = []
    for index, pool in enumerate(fleet.pools):
        speed = speed_of(demand, pool, catalog)
        worth = Worth(pool.least_price, speed.millionths if speed else None, speed.error if speed else 0)
        found.append(
            PoolScore(
                pool.name,
                index,
                worth.price,
                worth.speed,
                worth.error,
                score.telling(pool.warnings),
                pool.memory,
                pool_class_of(pool),
                worth.at_worst,
                worth.at_best,
                bool(speed and speed.measured),
            )
        )
    return found


def kept_with_facts(fleet: Fleet, what: object, catalog: Catalog, work_out: Callable[[], T]) -> T:
    """Results cached for one set of pools and one catalog."""
    kept = fleet.answers.get(what)
    if kept is not None:
        found: T = kept[1]
        of_catalog, facts = kept[0]
        if of_catalog is catalog and facts is fleet.facts:
            return found
        if of_catalog is catalog and len(facts) == len(fleet.facts) and all(map(is_, facts, fleet.facts)):
            # With this fleet's facts as key the next comparison is by identity.
            fleet.answers[what] = ((catalog, fleet.facts), found)
            return found
    found = work_out()
    fleet.answers[what] = ((catalog, fleet.facts), found)
    return found
