"""How many GPUs a model needs on each pool, for a job that does not say: the fewest that hold it.

On one node every count up to the pool's usable nodes is tried; beyond that, whole nodes. Nodes that no pod of the pool can use
(a taint, a missing label or handler) count only if there are no others. If a pool's nodes differ, the smaller ones together are
an alternative to the larger one. Several GPUs hold a model only if the program shards it over them; if the job does not say so,
the decision assumes it and warns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import MOST_NODES, NodeSizes, Pool
from gpujob.placement.filters.memory import divides, known_heads
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import ModelDemand, estimates_of, workload_of
from gpujob.values.vocabulary import Method, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimates
    from gpujob.memory.workload import Workload

SEVERAL: Final = Gang(1, 2)

EVERY_COUNT: Final = 16
"""Up to this number of GPUs on a node every count is tried; above it each eighth and all, because device fractions are many."""


def estimated(demand: Demand, fleet: Fleet, catalog: Catalog, *, tight: bool = False) -> Demand:
    """The demand with the ids of its accelerator names, and the memory that its model needs on each GPU, for the gangs that it
    names or for those that hold the model.

    With `tight`, also the gangs that hold it only with the warning MemTight, if others hold it without.
    """
    demand = _resolved(demand, catalog)
    if demand.model is None:
        return demand
    if not demand.sized_by_model or not fleet.pools:
        return demand.but(gangs=tuple(_sized(demand, gang, catalog) for gang in demand.gangs))
    needs = division(demand.model, demand, SEVERAL, catalog)
    if needs is None:
        return demand
    # A model that is spread takes its whole size on one GPU.
    pools: dict[Gang, list[str]] = {}
    for (sizes, whole), named in _sizes(fleet, demand.nodes if demand.nodes_said else 1).items():
        for memory, gangs in _alternatives(demand, sizes, whole, named, needs, tight=tight).items():
            for gang in gangs:
                pools.setdefault(gang, []).extend(named[memory])
    ordered = sorted(pools, key=lambda gang: (gang.gpus, gang.nodes))
    return demand.but(gangs=tuple(gang.sized(needs.on(gang.gpus), frozenset(pools[gang])) for gang in ordered))


def _resolved(demand: Demand, catalog: Catalog) -> Demand:
    """The demand with the ids of its accelerator names that are not ids themselves."""
    shapes = (gang.accelerator for gang in demand.gangs if gang.accelerator is not None)
    words = sorted({*demand.accelerators_allowed, *demand.accelerators_denied, *shapes})
    named = ((word, frozenset(catalog.named(word))) for word in words)
    meant = tuple((word, ids) for word, ids in named if ids and ids != {word})
    return demand if meant == demand.meant else demand.but(meant=meant)


def has_more_gangs(tight: Demand, demand: Demand) -> bool:
    """Whether some pool has more gangs to try in one demand than in another."""
    return [(gang, gang.pools) for gang in tight.gangs] != [(gang, gang.pools) for gang in demand.gangs]


def division(model: ModelDemand, demand: Demand, gang: Gang, catalog: Catalog) -> Estimates | None:
    """The memory that a model needs on each GPU, divided over the gang's GPUs as the job says or as is assumed; None for a name
    that the catalog does not have. Sizing and the fix search share it.
    """
    work = workload_of(model, catalog)
    if work is None:
        return None
    return estimates_of(_spread(work) if demand.spreads(gang) else work)


def fewer(demand: Demand, gang: Gang, pool: Pool, catalog: Catalog, most: float = inf) -> _Gangs:
    """The largest gang that a pool's nodes can form with fewer GPUs than this one and at most `most`, one GPU if there is none:
    of those that divide the model's heads, and of the others.
    """
    _, sizes, whole, _ = pool.size
    nodes = demand.gang.nodes if demand.nodes_said else None
    needs = division(demand.model, demand, SEVERAL, catalog) if demand.model is not None else None
    heads = _heads(demand, needs) if needs is not None else None
    made = [each for group in _ordered(nodes, sizes, whole, heads) for each in group]
    smaller = [each for each in made if each.gpus < gang.gpus and each.gpus <= most] or [Gang(nodes or 1, 1)]
    apart = ([each for each in smaller if _is_divided(each, heads) is same] for same in (True, False))
    return tuple((max(alike, key=lambda each: (each.gpus, -each.nodes)),) for alike in apart if alike)


def largest_gangs(demand: Demand, pool: Pool, catalog: Catalog) -> _Gangs:
    """The largest gang of each group that a pool's usable nodes form for a model that says no number of GPUs, those that divide
    the model's heads apart from those that do not: if one of them does not hold the model, no other of its group does.
    """
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_said else None
    needs = division(model, demand, SEVERAL, catalog) if model is not None else None
    if model is None or needs is None or (model.sharding_said and model.sharding is Sharding.NONE):
        return ((Gang(nodes or 1, 1),),)
    _, sizes, whole, _ = pool.size
    if nodes is not None and nodes > MOST_NODES:
        sizes = pool.node_sizes(nodes)
    heads = _heads(demand, needs)
    largest = [group[-1] for group in _ordered(nodes, sizes, whole, heads) if group]
    apart = ([gang for gang in largest if _is_divided(gang, heads) is same] for same in (True, False))
    return tuple(filter(None, apart))


def is_open_ended(demand: Demand) -> bool:
    """Whether neither GPUs nor nodes are said, so that gangs of up to MOST_NODES nodes are tried for a model."""
    model = demand.model
    if model is None or not demand.sized_by_model or demand.nodes_said:
        return False
    return not (model.sharding_said and model.sharding is Sharding.NONE)


def _sized(demand: Demand, gang: Gang, catalog: Catalog) -> Gang:
    needs = division(demand.model, demand, gang, catalog) if demand.model is not None else None
    return gang if needs is None else gang.sized(needs.on(gang.gpus))


_Gangs = Sequence[Sequence[Gang]]
"""Gangs in search order: groups, each sorted by its GPUs."""

_BySize = Mapping[tuple[NodeSizes, bool], Mapping[float, list[str]]]


def _sizes(fleet: Fleet, nodes: int) -> _BySize:
    """The names of the pools by the devices of their nodes and the bytes of a device (infinite if unknown), because many pools
    have one size. Cached with the fleet until a pool's size changes, except for gangs of many nodes.
    """
    if nodes > MOST_NODES:
        return _by_size((pool.name, pool.node_sizes(nodes), *pool.size[2:]) for pool in fleet.pools)
    sizes = list(map(attrgetter("size"), fleet.pools))
    kept = fleet.answers.get(_sizes)
    if kept is None or kept[0] != sizes:
        kept = fleet.answers[_sizes] = (sizes, _by_size(sizes))
    known: _BySize = kept[1]
    return known


def _by_size(sizes: Iterable[tuple[str, NodeSizes, bool, int | None]]) -> _BySize:
    found: dict[tuple[NodeSizes, bool], dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, nodes, whole, memory in sizes:
        found[nodes, whole][inf if memory is None else memory].append(name)
    return found


def _alternatives(
    demand: Demand, sizes: NodeSizes, whole: bool, memories: Collection[float], needs: Estimates, *, tight: bool
) -> Mapping[float, Sequence[Gang]]:
    """The gangs to try by device memory: the fewest GPUs that hold the model on all usable nodes, and on the nodes up to each
    smaller size.

    If none holds it: the fewest that nearly do, else the gang that would, however many nodes it has.
    """
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_said else None
    if model is not None and model.sharding_said and model.sharding is Sharding.NONE:
        return dict.fromkeys(memories, (Gang(nodes or 1, 1),))
    heads = _heads(demand, needs)
    found: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    nearly: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    for first in range(len(sizes)):
        gangs = _ordered(nodes, sizes[first:], whole, heads)
        _fewest(gangs, found, nearly, needs, heads if not tight else None)
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
"""Gangs by the memory of a device, gangs that are found first in front."""


def _fewest(
    gangs: _Gangs, found: _Found, nearly: _Found, needs: Estimates, heads: tuple[int, int] | None = None
) -> None:
    """Adds to `found`, for each device memory, the first gang that holds the model and the first one that nearly does. With `heads`
    no gang that does not divide them, if one that does nearly holds the model: engines reject the former.

    If a gang does not even nearly hold the model, smaller ones of its group do not either, so few are evaluated. `high` is
    computed only if `expected` fits.
    """
    left, doubtful = sorted(found), sorted(found)
    for group in gangs:
        if group and not _is_divided(group[0], heads):
            left = doubtful.copy()
        low = 0
        for last in _probes(len(group)):
            if left and needs.on(group[last].gpus).expected <= left[-1]:
                for gang in group[low : last + 1]:
                    need = needs.on(gang.gpus)
                    expected = need.expected
                    while doubtful and expected <= doubtful[-1]:
                        nearly[doubtful.pop()].setdefault(gang)
                    while left and expected <= left[-1] and need.high <= left[-1]:
                        found[left.pop()].setdefault(gang)
            if not left:
                return
            low = last + 1


@lru_cache(maxsize=256)
def _probes(count: int) -> Sequence[int]:
    """The order in which a number of gangs is probed first: the first, second, fourth … and the last."""
    return tuple(sorted({*(2**power - 1 for power in range(count.bit_length())), count - 1} - {-1}))


def _heads(demand: Demand, needs: Estimates) -> tuple[int, int] | None:
    """The heads that a model which is spread over several GPUs divides over them; None if they count for nothing."""
    return known_heads(demand, needs.on(SEVERAL.gpus).work) if demand.spreads(SEVERAL) else None


def _is_divided(gang: Gang, heads: tuple[int, int] | None) -> bool:
    """Whether the gang's GPUs on a node divide a model's heads, if its heads are divided at all."""
    return heads is None or divides(gang.gpus_per_node, heads)


@lru_cache(maxsize=1024)
def _ordered(nodes: int | None, sizes: NodeSizes, whole: bool, heads: tuple[int, int] | None) -> _Gangs:
    """The gangs that nodes form, in search order: the fewest GPUs first, then the fewest nodes. For tensor parallel models the
    gangs whose GPUs on a node divide the heads come first, because engines reject others unless layers are divided too.
    """
    gangs = _made(nodes, sizes, whole)
    if heads is not None and nodes is None and not whole:
        gangs = (*gangs, *_parts(sizes, heads))
    made = sorted(gangs, key=lambda gang: (gang.gpus, gang.nodes))
    if heads is None:
        return (made,)
    groups: dict[tuple[bool, bool], list[Gang]] = defaultdict(list)
    for gang in made:
        groups[not _is_divided(gang, heads), nodes is None and gang.nodes > 1].append(gang)
    return [group for _, group in sorted(groups.items())]


def _parts(sizes: NodeSizes, heads: tuple[int, int]) -> Iterator[Gang]:
    """The gangs of several nodes that use a part of each, with a number of GPUs on a node that divides the heads."""
    for size, count in sizes:
        parts = [gpus for gpus in _counts(size) if gpus < size and divides(gpus, heads)]
        yield from (Gang(nodes, gpus) for nodes in range(2, min(count, MOST_NODES) + 1) for gpus in parts)


@lru_cache(maxsize=1024)
def _made(nodes: int | None, sizes: NodeSizes, whole: bool) -> Sequence[Gang]:
    """The gangs that nodes of these sizes form: every count on one node, then whole nodes. A number of nodes that the job names
    is fixed, and pools that assign whole nodes form no partial ones.
    """
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
    """The usual way to divide the work over several GPUs: FSDP for training, tensor parallel for serving."""
    if work.method is Method.INFERENCE:
        return work.but(tensor_parallel=True)
    return work.but(sharding=Sharding.FSDP)
