"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node every count is tried up to what the pool's usable nodes have; beyond that, whole nodes. Nodes that no pod of the
pool can use (a taint, a label or a handler that is missing) count only where there is no other. Where a pool's nodes differ,
the smaller ones together are an alternative to the larger one alone. More than one GPU hold a model only if it is sharded over
them, which is assumed (and said) where the job does not say how.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import MOST_NODES, NodeSizes, Pool
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import ModelDemand, estimates_of, workload_of
from gpujob.values.vocabulary import Method, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimates
    from gpujob.memory.workload import Workload

SEVERAL: Final = Gang(1, 2)

EVERY_COUNT: Final = 16
"""Up to so many GPUs of a node every count is tried, beyond that each eighth and all of them: parts of devices are many."""


def estimated(demand: Demand, fleet: Fleet, catalog: Catalog, *, tight: bool = False) -> Demand:
    """The demand with the ids that its words for accelerators mean, and what its model needs of each GPU, in the gangs that it
    names or in those that hold the model.

    `tight`: also in those that hold it with a doubt only (MemTight), where others hold it without one.
    """
    demand = _resolved(demand, catalog)
    if demand.model is None:
        return demand
    if not demand.sized_by_model or not fleet.pools:
        return demand.but(gangs=tuple(_sized(demand, gang, catalog) for gang in demand.gangs))
    needs = division(demand.model, demand, SEVERAL, catalog)
    if needs is None:
        return demand
    # On one GPU a model that is spread takes what it takes as a whole.
    pools: dict[Gang, list[str]] = {}
    for (sizes, whole), named in _sizes(fleet, demand.nodes if demand.nodes_said else 1).items():
        for memory, gangs in _alternatives(demand, sizes, whole, named, needs, tight=tight).items():
            for gang in gangs:
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


def has_more_gangs(tight: Demand, demand: Demand) -> bool:
    """Whether some pool has more gangs to try in one demand than in another."""
    return [(gang, gang.pools) for gang in tight.gangs] != [(gang, gang.pools) for gang in demand.gangs]


def division(model: ModelDemand, demand: Demand, gang: Gang, catalog: Catalog) -> Estimates | None:
    """What a model takes of each GPU, divided over the GPUs of such a gang as the job says or as is assumed; None for a name
    that the catalog does not have. Sizing and fixes ask it alike."""
    work = workload_of(model, catalog)
    if work is None:
        return None
    return estimates_of(_spread(work) if demand.spreads(gang) else work)


def fewer(demand: Demand, gang: Gang, pool: Pool, most: float = inf) -> Gang:
    """The largest gang that a pool's nodes make and that has fewer GPUs than this one, at most `most`; else one GPU."""
    _, sizes, whole, _ = pool.size
    nodes = demand.gang.nodes if demand.nodes_said else None
    made = [each for each in _made(nodes, sizes, whole) if each.gpus < gang.gpus and each.gpus <= most]
    return max(made, key=lambda each: (each.gpus, -each.nodes), default=Gang(nodes or 1, 1))


def _sized(demand: Demand, gang: Gang, catalog: Catalog) -> Gang:
    needs = division(demand.model, demand, gang, catalog) if demand.model is not None else None
    return gang if needs is None else gang.sized(needs.on(gang.gpus))


_Gangs = Sequence[Sequence[Gang]]
"""Gangs in the order of trying: groups, each by its GPUs."""

_BySize = Mapping[tuple[NodeSizes, bool], Mapping[float, list[str]]]


def _sizes(fleet: Fleet, nodes: int) -> _BySize:
    """The names of the pools by the devices of their nodes and the bytes of a device, endless where nobody knows them: many
    pools are of one size. Kept with the fleet until a pool is of another, but for gangs of many nodes."""
    if nodes > MOST_NODES:
        return _by_size((pool.name, pool.node_sizes(nodes), *pool.size[2:]) for pool in fleet.pools)
    sizes = list(map(attrgetter("size"), fleet.pools))
    kept = fleet.answers.get(_sizes)
    if kept is None or kept[0] != sizes:
        kept = fleet.answers[_sizes] = (sizes, _by_size(sizes))
    return cast("_BySize", kept[1])


def _by_size(sizes: Iterable[tuple[str, NodeSizes, bool, int | None]]) -> _BySize:
    found: dict[tuple[NodeSizes, bool], dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, nodes, whole, memory in sizes:
        found[nodes, whole][inf if memory is None else memory].append(name)
    return found


def _alternatives(
    demand: Demand, sizes: NodeSizes, whole: bool, memories: Collection[float], needs: Estimates, *, tight: bool
) -> Mapping[float, Sequence[Gang]]:
    """For devices of each memory the gangs to try: of those that all usable nodes make the fewest GPUs that hold the model, and
    of those that the nodes up to each smaller size make.

    Where none holds it: the fewest that nearly do, else the gang that would, of however many nodes it is.
    """
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_said else None
    if model is not None and model.sharding_said and model.sharding is Sharding.NONE:
        return dict.fromkeys(memories, (Gang(nodes or 1, 1),))
    heads = _heads(demand, needs)
    found: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    nearly: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    for first in range(len(sizes)):
        _fewest(_ordered(nodes, sizes[first:], whole, heads), found, nearly, needs)
    chosen = {
        memory: tuple(found[memory] | nearly[memory] if tight else found[memory] or nearly[memory])
        for memory in memories
    }
    beyond = [memory for memory, gangs in chosen.items() if not gangs]
    if beyond:
        endless = _ordered(nodes, ((sizes[0][0], max(MOST_NODES, nodes or 1)),), whole, heads)
        _fewest(endless, {memory: found[memory] for memory in beyond}, nearly, needs)
        last = max((gang for group in endless for gang in group), key=attrgetter("gpus"))
        chosen |= {memory: next(((gang,) for gang in found[memory] | nearly[memory]), (last,)) for memory in beyond}
    return chosen


_Found = Mapping[float, dict[Gang, None]]
"""Gangs by the memory of a device, those found first in front."""


def _fewest(gangs: _Gangs, found: _Found, nearly: _Found, needs: Estimates) -> None:
    """Adds for devices of each memory the first gang that holds the model to `found`, and the first that nearly does.

    Where a gang does not even nearly hold it, those before it in its group do not, so that few are asked. No `high` is worked
    out where the least is too much.
    """
    left, doubtful = sorted(found), sorted(found)
    for group in gangs:
        low = 0
        for last in _probes(len(group)):
            if left and needs.on(group[last].gpus).expected <= left[-1]:
                for gang in group[low : last + 1]:
                    need = needs.on(gang.gpus)
                    while doubtful and need.expected <= doubtful[-1]:
                        nearly[doubtful.pop()].setdefault(gang)
                    while left and need.expected <= left[-1] and need.high <= left[-1]:
                        found[left.pop()].setdefault(gang)
            if not left:
                return
            low = last + 1


@lru_cache(maxsize=256)
def _probes(count: int) -> Sequence[int]:
    """Which of so many gangs are asked first: the first, second, fourth … and the last."""
    return tuple(sorted({*(2**power - 1 for power in range(count.bit_length())), count - 1} - {-1}))


def _heads(demand: Demand, needs: Estimates) -> tuple[int, int] | None:
    """Attention heads and KV heads that a tensor parallel model divides over its GPUs; None where it is divided otherwise."""
    work = needs.on(SEVERAL.gpus).work
    return (work.shape.heads, work.shape.kv_heads) if work.tensor_parallel and demand.spreads(SEVERAL) else None


@lru_cache(maxsize=1024)
def _ordered(nodes: int | None, sizes: NodeSizes, whole: bool, heads: tuple[int, int] | None) -> _Gangs:
    """The gangs that nodes make in the order of trying: the fewest GPUs first, of equally many the fewest nodes. Of tensor
    parallel models those on one node that divide the heads come first: engines refuse others unless layers are divided too.
    """
    made = sorted(_made(nodes, sizes, whole), key=lambda gang: (gang.gpus, gang.nodes))
    if heads is None:
        return (made,)
    groups: dict[tuple[bool, bool], list[Gang]] = defaultdict(list)
    for gang in made:
        groups[nodes is None and gang.nodes > 1, not _divides(gang.gpus_per_node, heads)].append(gang)
    return [group for _, group in sorted(groups.items())]


def _divides(gpus: int, heads: tuple[int, int]) -> bool:
    every, of_cache = heads
    return every % gpus == 0 and (of_cache % gpus == 0 or gpus % of_cache == 0)


@lru_cache(maxsize=1024)
def _made(nodes: int | None, sizes: NodeSizes, whole: bool) -> Sequence[Gang]:
    """The gangs that nodes of these sizes make: every count on one node, then whole nodes; a number of nodes that the job names
    is kept, and pools that give out whole nodes give no part of one."""
    asked = nodes or 1
    largest = max((size for size, count in sizes if count >= asked), default=0)
    found = [Gang(asked, gpus) for gpus in ((largest,) if whole else _counts(largest)) if gpus]
    if nodes is None:
        found += [Gang(more, size) for size, count in sizes for more in range(2, min(count, MOST_NODES) + 1)]
    return tuple(found)


def _counts(largest: int) -> Iterator[int]:
    yield from range(1, min(largest, EVERY_COUNT) + 1)
    yield from range(EVERY_COUNT + 8, largest, 8)
    if largest > EVERY_COUNT:
        yield largest


def _spread(work: Workload) -> Workload:
    """The work over several GPUs, as most programs do it: FSDP where it learns, tensor parallel where it serves."""
    if work.method is Method.INFERENCE:
        return work.but(tensor_parallel=True)
    return work.but(sharding=Sharding.FSDP)
