"""For which pools a model is sized: those that some gang may run on.

A pool that its devices, its offer or its price exclude for every gang is infeasible whatever the model needs there, so that a choice
does without the estimates for it, and an explanation shows the fewest GPUs that hold the model and no other gang.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import MOST_NODES, NodeSizes, Pool
from gpujob.placement.filters.fixable import can_be_fixed
from gpujob.placement.filters.selection import PoolClass, pool_class_of, rules_for_every_gang
from gpujob.placement.images.compatibility import suitability
from gpujob.placement.images.filters import required_by
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.pool_order import kept_with_facts
from gpujob.values.quantity import most_within

PoolsBySize = Mapping[tuple[NodeSizes, bool], Mapping[float, list[str]]]
"""Names of pools by the devices of their nodes, whether these are given whole, and the bytes of a device."""

_Sized = tuple[str, NodeSizes, bool, float | None]


def pools_by_size(fleet: Fleet, nodes: int, only: str | None = None) -> PoolsBySize:
    """The names of the pools, or of one, by the devices of their nodes and the bytes of a device (infinite if unknown), because many
    pools have one size. Cached with the fleet until a pool's size changes, except for gangs of many nodes.
    """
    alone = fleet.pool(only) if only is not None else None
    if nodes > MOST_NODES:
        pools = fleet.pools if alone is None else [alone]
        return _by_size((pool.name, pool.node_sizes(nodes), *pool.size[2:]) for pool in pools)
    if alone is not None:
        return _by_size([alone.size])
    # Comparing all sizes takes a tenth of a decision, so a fleet that stays as it is remembers the result.
    known: PoolsBySize | None = fleet.__dict__.get("sizes")
    if known is None:
        sizes = list(map(attrgetter("size"), fleet.pools))
        kept = fleet.answers.get(pools_by_size)
        if kept is None or kept[0] != sizes:
            kept = fleet.answers[pools_by_size] = (sizes, _by_size(sizes))
        known = fleet.__dict__["sizes"] = kept[1]
    return known


def _by_size(sizes: Iterable[_Sized]) -> PoolsBySize:
    found: dict[tuple[NodeSizes, bool], dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, nodes, whole, memory in sizes:
        found[nodes, whole][inf if memory is None else memory].append(name)
    return found


def most_gpus(demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None) -> Mapping[float, float]:
    """The most GPUs that the job's price limit allows, by the bytes of a device (infinite if unknown), on pools that are feasible
    for some gang; memory sizes without a feasible pool are absent. With `only`, on this pool and pools that have only nodes of
    it."""
    admits, found = _Admission(demand, fleet, catalog), dict[float, float]()
    if only is None:
        every = kept_with_facts(fleet, most_gpus, catalog, lambda: _offers(fleet.pools))
    else:
        every = _offers(pool for pool in fleet.pools if pool.name in {only, *fleet.within.get(only, ())})
    for memory, offers in every.items():
        for pool in offers:
            gpus = admits.most_gpus(pool)
            if gpus > found.get(memory, 0) and admits.some_gang(pool):
                found[memory] = gpus
                if gpus == inf:
                    break
    return found


def by_admission(
    by_size: PoolsBySize, demand: Demand, fleet: Fleet, catalog: Catalog
) -> tuple[PoolsBySize, PoolsBySize]:
    """The pools that some gang may run on, and those that none may run on."""
    admission, of_classes = _Admission(demand, fleet, catalog), dict[PoolClass, bool]()
    pools = {pool.name: pool for pool in fleet.pools}
    found: tuple[list[_Sized], list[_Sized]] = [], []
    for (nodes, whole), of_memory in by_size.items():
        for memory, name in ((memory, name) for memory, names in of_memory.items() for name in names):
            key = pool_class_of(pools[name])
            if key not in of_classes:
                of_classes[key] = admission.some_gang(pools[name])
            admitted = of_classes[key] and admission.most_gpus(pools[name]) > 0
            found[not admitted].append((name, nodes, whole, memory))
    some, none = map(_by_size, found)
    return some, none


class _Admission:
    """What the job requires of pools, whatever the gang."""

    def __init__(self, demand: Demand, fleet: Fleet, catalog: Catalog) -> None:
        self._demand, self._fleet, self._catalog = demand, fleet, catalog
        self._rules, self._features = rules_for_every_gang(demand), required_by(demand, catalog)

    def most_gpus(self, pool: Pool) -> float:
        """How many GPUs the price limit allows."""
        limit, price = self._demand.max_price, _price(pool)
        return most_within(limit) // price if limit is not None and price else inf

    def some_gang(self, pool: Pool) -> bool:
        """Whether devices and offer of the pool, or what they become once it is fixed, admit some gang."""
        of_class = pool_class_of(pool).rules
        findings = [rule(self._demand, pool, self._fleet) for rule in self._rules if rule in of_class]
        if self._features:
            findings += map(suitability(pool, self._catalog).missing_on_device, self._features)
        return can_be_fixed(pool, tuple(filter(None, findings)))


def _offers(pools: Iterable[Pool]) -> Mapping[float, Sequence[Pool]]:
    """By the bytes of a device, the cheapest pool of each class; one without a price is the cheapest."""
    found: dict[float, dict[PoolClass, Pool]] = defaultdict(dict)
    for pool in pools:
        cheapest = found[inf if pool.memory is None else pool.memory]
        if _price(pool) < _price(cheapest.setdefault(pool_class_of(pool), pool)):
            cheapest[pool_class_of(pool)] = pool
    return {memory: tuple(cheapest.values()) for memory, cheapest in found.items()}


def _price(pool: Pool) -> int:
    """Micro-dollars of a GPU an hour, 0 if unknown."""
    return pool.least_price or 0
