"""For which devices a choice sizes a model: those of the pools that some gang may run on.

A pool that its devices, its offer or its price exclude for every gang is infeasible whatever the model needs there, so that a choice
does without the estimates for it. An explanation shows them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.filters.fixable import can_be_fixed
from gpujob.placement.filters.selection import PoolClass, pool_class_of, rules_for_every_gang
from gpujob.placement.images.compatibility import suitability
from gpujob.placement.images.filters import required_by
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.pool_order import kept_with_facts


def most_gpus(demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None) -> Mapping[float, float]:
    """The most GPUs that the job's price limit allows, by the bytes of a device (infinite if unknown), on pools that are feasible
    for some gang; memory sizes without a feasible pool are absent. With `only`, on this pool and pools that have only nodes of
    it."""
    limit, found = demand.max_price, dict[float, float]()
    rules, features = rules_for_every_gang(demand), required_by(demand, catalog)
    if only is None:
        every = kept_with_facts(fleet, most_gpus, catalog, lambda: _offers(fleet.pools))
    else:
        every = _offers(pool for pool in fleet.pools if pool.name in {only, *fleet.within.get(only, ())})
    for memory, offers in every.items():
        for pool, price in offers:
            gpus = limit // price if limit is not None and price else inf
            if gpus <= found.get(memory, 0):
                continue
            of_class = pool_class_of(pool).rules
            findings = [rule(demand, pool, fleet) for rule in rules if rule in of_class]
            if features:
                findings += map(suitability(pool, catalog).missing_on_device, features)
            if can_be_fixed(pool, tuple(filter(None, findings))):
                found[memory] = gpus
                if gpus == inf:
                    break
    return found


def _offers(pools: Iterable[Pool]) -> Mapping[float, Sequence[tuple[Pool, int]]]:
    """By the bytes of a device, the cheapest pool of each class: micro-dollars of a GPU an hour, 0 if unknown."""
    found: dict[float, dict[PoolClass, tuple[Pool, int]]] = defaultdict(dict)
    for pool in pools:
        price = pool.price.per_gpu_hour if pool.price else 0
        cheapest = found[inf if pool.memory is None else pool.memory]
        if price < cheapest.setdefault(pool_class_of(pool), (pool, price))[1]:
            cheapest[pool_class_of(pool)] = pool, price
    return {memory: tuple(cheapest.values()) for memory, cheapest in found.items()}
