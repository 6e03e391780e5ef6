"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node the counts are powers of two up to what the pool's largest node has; beyond that, whole nodes. More than one
GPU hold a model only if it is sharded over them, which is assumed (and said) where the job does not say how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
        return replace(demand, gangs=tuple(_with_memory(demand, demand.gangs, catalog)))
    # Many pools have devices and nodes of one size.
    sizes: dict[tuple[int | None, int], list[str]] = {}
    for pool in fleet.pools:
        sizes.setdefault((pool.memory, _largest(pool)), []).append(pool.name)
    gangs = {most: tuple(_with_memory(demand, _shapes(demand, most), catalog)) for most in {most for _, most in sizes}}
    pools: dict[Gang, list[str]] = {}
    for (memory, largest), names in sizes.items():
        pools.setdefault(_fewest(gangs[largest], memory), []).extend(names)
    if not pools:
        return replace(demand, gangs=tuple(_with_memory(demand, demand.gangs, catalog)))
    ordered = sorted(pools, key=lambda gang: (gang.gpus, gang.nodes))
    return replace(demand, gangs=tuple(replace(gang, pools=frozenset(pools[gang])) for gang in ordered))


def _largest(pool: Pool) -> int:
    """The devices of a pool's largest node, be it there or to be added, at least 1."""
    templates = [pool.growth.template] if pool.growth else []
    # A node whose devices are all gone, and of which nobody says what it had, counts as one of one GPU.
    return max(1, pool.largest, *(node.total or node.healthy for node in templates))


def _fewest(gangs: Sequence[Gang], memory: int | None) -> Gang:
    """The smallest gang whose devices, of so much memory, hold the model, else that nearly does, else the largest."""
    for end in ("high", "expected"):
        for gang in gangs:
            if memory is None or gang.memory is None or getattr(gang.memory, end) <= memory:
                return gang
    return gangs[-1]


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


def _with_memory(demand: Demand, gangs: Iterable[Gang], catalog: Catalog) -> Iterator[Gang]:
    for gang in gangs:
        assert demand.model is not None
        model = _spread(demand.model) if demand.spreads(gang) else demand.model
        yield replace(gang, memory=estimate_of(model, gang.gpus, catalog))


def _spread(model: ModelDemand) -> ModelDemand:
    """The model over several GPUs, as most programs do it: FSDP where it learns, tensor parallel where it serves."""
    if model.method is Method.INFERENCE:
        return replace(model, tensor_parallel=True)
    return replace(model, sharding=Sharding.FSDP)
