"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node the counts are powers of two up to what the pool's largest node has; beyond that, whole nodes. More than one
GPU hold a model only if it is sharded over them, which is assumed (and said) where the job does not say how.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Final, cast

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet
from gpujob.placement.demand import Demand
from gpujob.placement.gang import Gang
from gpujob.placement.needs import estimate_for, workload_of
from gpujob.vocabulary import Method, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimate
    from gpujob.memory.workload import Workload

MOST_NODES: Final = 8
"""The largest gang that is tried unasked; larger ones are the user's to ask for."""


def estimated(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with what its model needs of each GPU, in the gangs that it names or in those that hold the model."""
    work = workload_of(demand.model, 1, catalog) if demand.model is not None else None
    if work is None:
        return demand
    needs = _Needs(demand, work)
    if not demand.sized_by_model or not fleet.pools:
        return demand.but(gangs=tuple(gang.sized(needs.of(gang)) for gang in demand.gangs))
    pools: dict[Gang, list[str]] = {}
    for largest, named in _sizes(fleet).items():
        for memory, gang in _fewest(_shapes(demand, largest), named, needs).items():
            pools.setdefault(gang, []).extend(named[memory])
    ordered = sorted(pools, key=lambda gang: (gang.gpus, gang.nodes))
    return demand.but(gangs=tuple(gang.sized(needs.of(gang), frozenset(pools[gang])) for gang in ordered))


def _sizes(fleet: Fleet) -> Mapping[int, Mapping[float, list[str]]]:
    """The names of the pools by the devices of their largest node and the bytes of a device, endless where nobody knows
    them: many pools are of one size. Kept with the fleet until a pool is of another."""
    sizes = [pool.size for pool in fleet.pools]
    kept = fleet.answers.get(_sizes)
    if kept is None or kept[0] != sizes:
        found: dict[int, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
        for name, largest, memory in sizes:
            found[largest][inf if memory is None else memory].append(name)
        kept = fleet.answers[_sizes] = (sizes, found)
    return cast("Mapping[int, Mapping[float, list[str]]]", kept[1])


class _Needs:
    """What a demand's model needs of each GPU in gangs of any size, worked out where it is asked and once."""

    __slots__ = ("_demand", "_known", "_works")

    def __init__(self, demand: Demand, work: Workload) -> None:
        self._demand, self._works = demand, {False: work, True: _spread(work)}
        self._known: dict[Gang, Estimate] = {}

    def of(self, gang: Gang) -> Estimate:
        """The estimate."""
        found = self._known.get(gang)
        if found is None:
            spread = self._demand.spreads(gang)
            work = self._works[spread] = self._works[spread].on(gang.gpus)
            found = self._known[gang] = estimate_for(work)
        return found


def _fewest(shapes: Iterable[Gang], memories: Collection[float], needs: _Needs) -> dict[float, Gang]:
    """For devices of each memory the smallest gang that holds the model, else that nearly does, else the largest.

    No larger gang is estimated than is needed.
    """
    left, gang = sorted(memories), Gang()
    found, nearly = dict[float, Gang](), dict[float, Gang]()
    for gang in shapes:
        need = needs.of(gang)
        while left and need.high <= left[-1]:
            found[left.pop()] = gang
        if not left:
            return found
        nearly |= {memory: gang for memory in left if need.expected <= memory and memory not in nearly}
    return found | {memory: nearly.get(memory, gang) for memory in left}


def _shapes(demand: Demand, largest: int) -> Iterator[Gang]:
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_said else 1
    yield Gang(nodes, 1)
    if model is None or (model.sharding_said and model.sharding is Sharding.NONE):
        return
    count = 2
    while count <= largest:
        yield Gang(nodes, count)
        count *= 2
    # A number of nodes that the job names is kept.
    more = 2
    while not demand.nodes_said and more <= MOST_NODES:
        yield Gang(more, largest)
        more *= 2


def _spread(work: Workload) -> Workload:
    """The work over several GPUs, as most programs do it: FSDP where it learns, tensor parallel where it serves."""
    if work.method is Method.INFERENCE:
        return work.but(tensor_parallel=True)
    return work.but(sharding=Sharding.FSDP)
