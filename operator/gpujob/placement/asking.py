"""Which rules are asked of a pool: those that may refuse it, by the fields that the job has and by the pool's facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

from gpujob.finding import Finding
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement import rules
from gpujob.placement.access import namespace_excluded, part_of_a_node
from gpujob.placement.demand import Demand
from gpujob.placement.memory import memory_too_small, memory_unknown
from gpujob.placement.mounts import volume_of_one_node
from gpujob.placement.rules import PoolRule
from gpujob.vocabulary import Vendor


def _asks_no_memory(demand: Demand) -> bool:
    return demand.model is None and demand.gpu_memory is None


_SILENT: Final[Mapping[PoolRule, Callable[[Demand], bool]]] = {
    rules.vendor_excluded: lambda demand: len(demand.vendors) == len(Vendor) and not demand.own_images,
    rules.accelerator_excluded: lambda demand: not demand.accelerators_allowed and not demand.accelerators_denied,
    rules.other_shape: lambda demand: all(gang.accelerator is None for gang in demand.gangs),
    rules.pool_excluded: lambda demand: not demand.pools_allowed and not demand.pools_denied,
    rules.probe_failed: lambda demand: not demand.probes_failed,
    rules.parts_in_group: lambda demand: all(gang.gpus == 1 for gang in demand.gangs),
    memory_too_small: _asks_no_memory,
    memory_unknown: _asks_no_memory,
    rules.precision_unsupported: lambda demand: demand.precision not in rules.FORMATS,
    rules.price_over_cap: lambda demand: demand.max_price is None,
    rules.price_unknown: lambda demand: demand.max_price is None,
    volume_of_one_node: lambda demand: not demand.single,
}
"""When a rule refuses no pool whatever, since the job leaves its field out."""

_ASKED: Final = tuple((rule, _SILENT.get(rule)) for rule in rules.POOL_RULES)

_QUIET: Final[Mapping[PoolRule, Callable[[Pool], bool]]] = {
    rules.unread: lambda pool: pool.problem is None,
    memory_unknown: lambda pool: pool.memory is not None,
    rules.accelerator_unsupported: lambda pool: pool.accelerator is None or pool.accelerator.support != "unsupported",
    rules.price_unknown: lambda pool: pool.price is not None,
    rules.runtime_class_missing: lambda pool: pool.runtime_class is None or pool.vendor is Vendor.AMD,
    namespace_excluded: lambda pool: not pool.namespaces,
    part_of_a_node: lambda pool: not pool.host_devices,
}
"""When a rule refuses the pool to no job whatever, by its facts."""


def rules_of(demand: Demand) -> tuple[PoolRule, ...]:
    """The rules that may refuse a pool to a gang of the demand: those about fields that it leaves out need no asking."""
    return tuple([rule for rule, silent in _ASKED if silent is None or not silent(demand)])


def rules_about(pool: Pool) -> frozenset[PoolRule]:
    """The rules that may refuse the pool to some job; follows from its facts, and is kept with them."""
    kept = pool.answers.get(rules_about)
    if kept is None:
        asked = frozenset(rule for rule in rules.POOL_RULES if rule not in _QUIET or not _QUIET[rule](pool))
        kept = pool.answers[rules_about] = (None, asked)
    return cast("frozenset[PoolRule]", kept[1])


class Asking:
    """The rules for a demand, asked for each of its gangs of one pool after the other."""

    __slots__ = ("_of_kinds", "_rules")

    def __init__(self, demand: Demand) -> None:
        self._rules = rules_of(demand)
        self._of_kinds: dict[frozenset[PoolRule], Sequence[PoolRule]] = {}

    def refusals(self, demand: Demand, pool: Pool, fleet: Fleet) -> Iterator[Finding]:
        """All that refuses a pool to a gang."""
        return filter(None, [rule(demand, pool, fleet) for rule in self._for(pool)])

    def first_refusal(self, demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
        """The first thing that refuses a pool to a gang; no rule after that is asked."""
        for rule in self._for(pool):
            found = rule(demand, pool, fleet)
            if found is not None:
                return found
        return None

    def _for(self, pool: Pool) -> Sequence[PoolRule]:
        about = rules_about(pool)
        found = self._of_kinds.get(about)
        if found is None:
            found = self._of_kinds[about] = [rule for rule in self._rules if rule in about]
        return found
