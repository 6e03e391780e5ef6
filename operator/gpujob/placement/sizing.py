"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node the counts are powers of two up to what the pool's largest node has; beyond that, whole nodes. More than one
GPU hold a model only if it is sharded over them, which is assumed (and said) where the job does not say how.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet
from gpujob.placement.demand import Demand
from gpujob.placement.gang import Gang
from gpujob.placement.needs import estimates_of, workload_of
from gpujob.vocabulary import Method, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimates
    from gpujob.memory.workload import Workload

MOST_NODES: Final = 8
"""The largest gang that is tried unasked; larger ones are the user's to ask for."""

SEVERAL: Final = Gang(1, 2)


def estimated(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with the ids that its words for accelerators mean, and what its model needs of each GPU, in the gangs that it
    names or in those that hold the model."""
    demand = _resolved(demand, catalog)
    work = workload_of(demand.model, catalog) if demand.model is not None else None
    if work is None:
        return demand
    if not demand.sized_by_model or not fleet.pools:
        gangs = (gang.sized(_estimates(work, demand, gang).on(gang.gpus)) for gang in demand.gangs)
        return demand.but(gangs=tuple(gangs))
    # On one GPU a model that is spread takes what it takes as a whole.
    needs = _estimates(work, demand, SEVERAL)
    pools: dict[Gang, list[str]] = {}
    for largest, named in _sizes(fleet).items():
        for memory, gang in _fewest(_shapes(demand, largest), named, needs).items():
            pools.setdefault(gang, []).extend(named[memory])
    ordered = sorted(pools, key=lambda gang: (gang.gpus, gang.nodes))
    return demand.but(gangs=tuple(gang.sized(needs.on(gang.gpus), frozenset(pools[gang])) for gang in ordered))


def _resolved(demand: Demand, catalog: Catalog) -> Demand:
    """The demand with the ids that its words for accelerators mean, where they are no ids themselves."""
    shapes = (gang.accelerator for gang in demand.gangs if gang.accelerator is not None)
    words = sorted({*demand.accelerators_allowed, *demand.accelerators_denied, *shapes})
    named = ((word, frozenset(catalog.named(word))) for word in words)
    meant = tuple((word, ids) for word, ids in named if ids and ids != {word})
    return demand if meant == demand.meant else demand.but(meant=meant)


def _estimates(work: Workload, demand: Demand, gang: Gang) -> Estimates:
    """The estimates of the work, spread over the GPUs of such a gang where that is assumed."""
    return estimates_of(_spread(work) if demand.spreads(gang) else work)


def _sizes(fleet: Fleet) -> Mapping[int, Mapping[float, list[str]]]:
    """The names of the pools by the devices of their largest node and the bytes of a device, endless where nobody knows
    them: many pools are of one size. Kept with the fleet until a pool is of another."""
    sizes = list(map(attrgetter("size"), fleet.pools))
    kept = fleet.answers.get(_sizes)
    if kept is None or kept[0] != sizes:
        found: dict[int, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
        for name, largest, memory in sizes:
            found[largest][inf if memory is None else memory].append(name)
        kept = fleet.answers[_sizes] = (sizes, found)
    return cast("Mapping[int, Mapping[float, list[str]]]", kept[1])


def _fewest(shapes: Iterable[Gang], memories: Collection[float], needs: Estimates) -> dict[float, Gang]:
    """For devices of each memory the smallest gang that holds the model, else that nearly does, else the largest.

    No larger gang is estimated than is needed, and no `high` where the least is too much.
    """
    left, doubtful, gang = sorted(memories), sorted(memories), Gang()
    found, nearly = dict[float, Gang](), dict[float, Gang]()
    for gang in shapes:
        need = needs.on(gang.gpus)
        while doubtful and need.expected <= doubtful[-1]:
            nearly[doubtful.pop()] = gang
        while left and need.expected <= left[-1] and need.high <= left[-1]:
            found[left.pop()] = gang
        if not left:
            break
    return dict.fromkeys(doubtful, gang) | nearly | found


def _shapes(demand: Demand, largest: int) -> Sequence[Gang]:
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_said else None
    alone = model is None or (model.sharding_said and model.sharding is Sharding.NONE)
    return (Gang(nodes or 1, 1),) if alone else _gangs(nodes, largest)


@lru_cache(maxsize=256)
def _gangs(nodes: int | None, largest: int) -> Sequence[Gang]:
    """The gangs to try, the smallest first; a number of nodes that the job names is kept."""
    found, gpus, more = [], 1, 2
    while gpus == 1 or gpus <= largest:
        found.append(Gang(nodes or 1, gpus))
        gpus *= 2
    while nodes is None and more <= MOST_NODES:
        found.append(Gang(more, largest))
        more *= 2
    return tuple(found)


def _spread(work: Workload) -> Workload:
    """The work over several GPUs, as most programs do it: FSDP where it learns, tensor parallel where it serves."""
    if work.method is Method.INFERENCE:
        return work.but(tensor_parallel=True)
    return work.but(sharding=Sharding.FSDP)
