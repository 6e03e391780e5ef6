"""What the search of one gang finds that holds for the other gangs of its job too."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.filters.selection import PoolClass
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.pool_order import PoolOrder, order_pools
from gpujob.placement.scoring.score import Aim
from gpujob.values.vocabulary import Objective


@dataclass(frozen=True, slots=True)
class SharedByGangs:
    """The orders of the pools and the classes of pools: a model has up to a dozen gangs, and most of them read a few pools each."""

    _orders: dict[tuple[Objective, bool], PoolOrder] = field(default_factory=dict)
    _classes: dict[object, tuple[set[PoolClass], set[PoolClass]]] = field(default_factory=dict)

    def order(self, demand: Demand, aim: Aim, fleet: Fleet, catalog: Catalog) -> PoolOrder:
        """The pools, best first, for a demand of one gang; only measured or tried gangs have an order of their own."""
        key = (aim.objective, aim.at_worst)
        found = self._orders.get(key)
        if found is None or demand.learned is not None or demand.trying is not None:
            found = self._orders[key] = order_pools(demand, aim, fleet, catalog)
        return found

    def classes(self, gang: Gang) -> tuple[set[PoolClass], set[PoolClass]]:
        """The classes of pools that the filters accept and those that they reject, for all gangs that these filters treat alike; a
        search adds to them."""
        key = (gang.accelerator, gang.nodes > 1, gang.gpus_per_node > 1)
        return self._classes.setdefault(key, (set(), set()))
