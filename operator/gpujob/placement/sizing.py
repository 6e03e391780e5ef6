"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node the counts are powers of two up to what the pool's largest node has; beyond that, whole nodes. More than one
GPU hold a model only if it is sharded over them, which is assumed (and said) where the job does not say how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Final

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement.demand import Demand, Gang
from gpujob.placement.needs import ModelDemand, estimate_of
from gpujob.vocabulary import Method, Sharding

MOST_NODES: Final = 8
"""The largest gang that is tried unasked; larger ones are the user's to ask for."""


def estimated(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with what its model needs of each GPU, in the gangs that it names or in those that hold the model."""
    if demand.model is None:
        return demand
    if not demand.sized_by_model:
        return demand.but(gangs=tuple(_with_memory(demand, catalog, gang) for gang in demand.gangs))
    # Many pools have devices and nodes of one size.
    sizes: dict[tuple[int | None, int], list[str]] = {}
    for pool in fleet.pools:
        sizes.setdefault((pool.memory, _largest(pool)), []).append(pool.name)
    with_memory = cache(partial(_with_memory, demand, catalog))
    shapes = {most: tuple(_shapes(demand, most)) for most in {most for _, most in sizes}}
    pools: dict[Gang, list[str]] = {}
    for (memory, largest), names in sizes.items():
        pools.setdefault(_fewest(shapes[largest], memory, with_memory), []).extend(names)
    if not pools:
        return demand.but(gangs=tuple(_with_memory(demand, catalog, gang) for gang in demand.gangs))
    ordered = sorted(pools, key=lambda gang: (gang.gpus, gang.nodes))
    return demand.but(gangs=tuple(replace(gang, pools=frozenset(pools[gang])) for gang in ordered))


def _largest(pool: Pool) -> int:
    """The devices of a pool's largest node, be it there or to be added, at least 1."""
    if pool.growth is None:
        return pool.largest or 1
    # A node whose devices are all gone, and of which nobody says what it had, counts as one of one GPU.
    coming = pool.growth.template
    return max(1, pool.largest, coming.total or coming.healthy)


def _fewest(shapes: Iterable[Gang], memory: int | None, with_memory: Callable[[Gang], Gang]) -> Gang:
    """The smallest gang whose devices, of so much memory, hold the model, else that nearly does, else the largest.

    No larger one is estimated than is needed.
    """
    gang, nearly = Gang(), None
    for gang in map(with_memory, shapes):
        if memory is None or gang.memory is None or gang.memory.high <= memory:
            return gang
        if nearly is None and gang.memory.expected <= memory:
            nearly = gang
    return nearly or gang


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


def _with_memory(demand: Demand, catalog: Catalog, gang: Gang) -> Gang:
    """The gang with what the demand's model needs of each of its GPUs."""
    assert demand.model is not None
    model = _spread(demand.model) if demand.spreads(gang) else demand.model
    return replace(gang, memory=estimate_of(model, gang.gpus, catalog))


def _spread(model: ModelDemand) -> ModelDemand:
    """The model over several GPUs, as most programs do it: FSDP where it learns, tensor parallel where it serves."""
    if model.method is Method.INFERENCE:
        return replace(model, tensor_parallel=True)
    return replace(model, sharding=Sharding.FSDP)
