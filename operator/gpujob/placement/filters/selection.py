"""Which filters run on a pool: those that can reject it, by the fields of the job and the pool's facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.filters import pool_filters
from gpujob.placement.filters.access import host_access_denied, namespace_excluded, part_of_a_node, pod_security_blocked
from gpujob.placement.filters.limit_range import beyond_limits
from gpujob.placement.filters.memory import memory_too_small, memory_unknown, ran_out_before
from gpujob.placement.filters.pool_filters import PoolRule
from gpujob.placement.filters.volumes import volume_of_one_node
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Vendor


def _requests_no_memory(demand: Demand) -> bool:
    return demand.model is None and demand.gpu_memory is None


_SILENT: Final[Mapping[PoolRule, Callable[[Demand], bool]]] = {
    pool_filters.vendor_excluded: lambda demand: (
        len(demand.vendors) == len(Vendor) and not demand.own_images and demand.resumes_on is None
    ),
    pool_filters.accelerator_excluded: lambda demand: (
        not demand.accelerators_allowed and not demand.accelerators_denied
    ),
    pool_filters.other_shape: lambda demand: all(gang.accelerator is None for gang in demand.gangs),
    pool_filters.pool_excluded: lambda demand: (
        not demand.pools_allowed and not demand.pools_denied and not demand.stays_on
    ),
    pool_filters.probe_failed: lambda demand: not demand.probes_failed,
    pool_filters.parts_in_group: lambda demand: all(gang.gpus == 1 for gang in demand.gangs),
    memory_too_small: _requests_no_memory,
    memory_unknown: _requests_no_memory,
    ran_out_before: lambda demand: demand.memory_floor is None,
    pool_filters.precision_unsupported: lambda demand: demand.precision not in pool_filters.FORMATS,
    pool_filters.price_over_cap: lambda demand: demand.max_price is None,
    pool_filters.price_unknown: lambda demand: demand.max_price is None and not demand.budgeted,
    volume_of_one_node: lambda demand: not demand.single,
    beyond_limits: lambda demand: demand.limits is None,
}
"""When a filter rejects no pool at all, because the job leaves its field out."""

_ASKED: Final = tuple((rule, _SILENT.get(rule)) for rule in pool_filters.POOL_RULES)

_QUIET: Final[Mapping[PoolRule, Callable[[Pool], bool]]] = {
    pool_filters.unread: lambda pool: pool.problem is None,
    memory_unknown: lambda pool: pool.memory is not None,
    pool_filters.accelerator_unsupported: lambda pool: (
        pool.accelerator is None or pool.accelerator.support != "unsupported"
    ),
    pool_filters.price_unknown: lambda pool: pool.price is not None,
    pool_filters.runtime_class_missing: lambda pool: (
        pool.runtime_class is None and not (pool.handler and pool.handler.brings.unread)
    ),
    namespace_excluded: lambda pool: not pool.namespaces,
    part_of_a_node: lambda pool: not pool.host_devices,
    host_access_denied: lambda pool: not pool.host_devices and not (pool.fabric and pool.fabric.host_network),
}
"""When a filter rejects the pool for no job, because of the pool's facts."""


def rules_for_every_gang(demand: Demand) -> list[PoolRule]:
    """The filters that can reject a pool of a class for all gangs of the demand."""
    return [rule for rule in _FOR_EVERY_GANG if rule not in _SILENT or not _SILENT[rule](demand)]


def rules_of(demand: Demand) -> tuple[PoolRule, ...]:
    """The filters that can reject a pool for a gang of the demand; those about absent fields are left out."""
    return tuple([rule for rule, silent in _ASKED if silent is None or not silent(demand)])


_OF_POOL_CLASS: Final = frozenset(
    {
        pool_filters.vendor_excluded,
        pool_filters.accelerator_excluded,
        pool_filters.other_shape,
        pool_filters.capacity_type_excluded,
        pool_filters.device_excluded,
        pool_filters.parts_in_group,
        memory_unknown,
        pool_filters.accelerator_unsupported,
        pool_filters.precision_unsupported,
        pool_filters.price_unknown,
        pod_security_blocked,
        host_access_denied,
        volume_of_one_node,
    }
)
"""Filters that read only facts that equivalent pools share."""

_FOR_EVERY_GANG: Final = (
    pool_filters.vendor_excluded,
    pool_filters.accelerator_excluded,
    pool_filters.capacity_type_excluded,
    pool_filters.device_excluded,
    pool_filters.accelerator_unsupported,
    pool_filters.precision_unsupported,
    pool_filters.price_unknown,
)
"""Those of them that read nothing of the gang."""

_OF_NUMBERS: Final = frozenset({memory_too_small, pool_filters.price_over_cap})
"""Filters that compare one number of the pool with one of the job."""


class PoolClass:
    """A class of pools that the filters cannot distinguish, and the filters that may reject it."""

    __slots__ = ("rules",)

    def __init__(self, asked: frozenset[PoolRule]) -> None:
        self.rules = asked


def pool_class_of(pool: Pool) -> PoolClass:
    """The class of a pool; it follows from the pool's facts and is cached with them."""
    kept = pool.answers.get(pool_class_of)
    if kept is None:
        prices = (pool.price is None, bool(pool.node_prices))
        of_device = (pool.models, pool.portion, pool.all_capacity_types, pool.memory is None, *prices)
        of_admin = (pool.namespaces, pool.host_devices, pool.fabric, pool.vendor_assumed)
        asked = frozenset(rule for rule in pool_filters.POOL_RULES if rule not in _QUIET or not _QUIET[rule](pool))
        kept = pool.answers[pool_class_of] = (None, _pool_class((*pool.equipment, *of_device, *of_admin), asked))
    known: PoolClass = kept[1]
    return known


@lru_cache(maxsize=1024)  # one object a class: pools of one class share its results by identity
def _pool_class(facts: tuple[object, ...], asked: frozenset[PoolRule]) -> PoolClass:
    return PoolClass(asked)


class FilterSelection:
    """The filters for a demand, run for each of its gangs on one pool after the other."""

    __slots__ = ("_but_numbers", "_rules")

    def __init__(self, demand: Demand) -> None:
        self._rules = rules_of(demand)
        self._but_numbers: dict[frozenset[PoolRule], tuple[Sequence[PoolRule], bool]] = {}

    def rejections(
        self, demand: Demand, pool: Pool, fleet: Fleet, left: dict[PoolClass, Sequence[PoolRule]]
    ) -> Iterator[Finding]:
        """All findings that reject a pool for a gang. `left` belongs to the gang: the filters for further pools of a class, without
        those that pass all of it.
        """
        pool_class = pool_class_of(pool)
        if pool_class in left:
            return filter(None, [rule(demand, pool, fleet) for rule in left[pool_class]])
        asked = [rule for rule in self._rules if rule in pool_class.rules]
        found = [rule(demand, pool, fleet) for rule in asked]
        shared = _OF_POOL_CLASS if _OF_POOL_CLASS.issuperset(set(asked) - _OF_NUMBERS) else frozenset[PoolRule]()
        rules = zip(asked, found, strict=True)
        left[pool_class] = [rule for rule, finding in rules if finding is not None or rule not in shared]
        return filter(None, found)

    def first_refusal(self, demand: Demand, pool: Pool, fleet: Fleet) -> tuple[Finding | None, bool]:
        """The first finding, numbers aside, that rejects a pool for a gang, and whether it rejects the whole class; later
        filters do not run.
        """
        about = pool_class_of(pool).rules
        if about not in self._but_numbers:
            asked = [rule for rule in self._rules if rule in about and rule not in _OF_NUMBERS]
            self._but_numbers[about] = (asked, _OF_POOL_CLASS.issuperset(asked))
        rest, shared = self._but_numbers[about]
        for rule in rest:
            found = rule(demand, pool, fleet)
            if found is not None:
                return found, shared
        if pool.node_prices:
            # The price depends on the number of nodes.
            return pool_filters.price_over_cap(demand, pool, fleet), False
        return None, shared
