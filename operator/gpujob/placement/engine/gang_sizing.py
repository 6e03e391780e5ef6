"""The number of GPUs that a model needs on each pool, for a job that sets none: the fewest that hold it.

On one node every number of GPUs up to that of the largest usable node counts; beyond it, whole nodes. Nodes that no pod of the pool
can use (a taint, a missing label or handler) count only if there are no others. If a pool's nodes differ, the smaller ones together
are an alternative to the larger one. Several GPUs hold a model only if the program shards it over them; if the job does not set
this, the decision assumes it and warns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import MOST_NODES, NodeSizes, Pool
from gpujob.placement.engine.gang_groups import GangGroup, first_that_holds, groups_in_search_order
from gpujob.placement.engine.sizing_scope import by_admission, most_gpus, pools_by_size
from gpujob.placement.filters.memory import known_heads
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import ModelDemand, estimates_of, workload_of
from gpujob.placement.scoring.pool_order import kept_with_facts
from gpujob.values.vocabulary import Method, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimate, Estimates
    from gpujob.memory.workload import Workload

SEVERAL: Final = Gang(1, 2)


def estimated(
    demand: Demand,
    fleet: Fleet,
    catalog: Catalog,
    *,
    tight: bool = False,
    choosing: bool = False,
    only: str | None = None,
) -> Demand:
    """The demand with the ids of its accelerator names, and the memory that its model needs on each GPU, for the gangs that it
    names or for those that hold the model.

    With `tight`, also those that hold it with a warning (MemTight, HeadsNotDivided) or on more nodes, if others hold it otherwise: the
    fewest GPUs on each number of nodes, on pools that some gang may run on. With `only`, no gangs for other pools; with `choosing`, nor
    for pools that are infeasible for each gang that holds it.
    """
    demand = _resolved(demand, fleet, catalog)
    if demand.model is None:
        return demand
    if not demand.sized_by_model or not fleet.pools:
        unlike = dict.fromkeys(demand.gangs)
        return demand.but(gangs=tuple(each for gang in unlike for each in _as_named(demand, gang, fleet, catalog)))
    needs = division(demand.model, demand, SEVERAL, catalog)
    if needs is None:
        return demand
    # A model that is spread takes its whole size on one GPU.
    pools: dict[Gang, list[str]] = {}
    limits = most_gpus(demand, fleet, catalog, only) if choosing else None
    by_size = pools_by_size(fleet, demand.nodes if demand.nodes_given else 1, None if choosing else only)
    scopes = [(by_size, tight)]
    if tight and not choosing:
        some, none = by_admission(by_size, demand, fleet, catalog)
        scopes = [(some, True), (none, False)]
    for (sizes, whole), named, more in ((*each, more) for of_scope, more in scopes for each in of_scope.items()):
        largest = sizes[0][0]
        memories = [each for each in named if limits is None or _may_hold(needs, each, limits.get(each, 0), largest)]
        for memory, gangs in (
            _alternatives(demand, sizes, whole, memories, needs, tight=more).items() if memories else ()
        ):
            for gang in gangs:
                pools.setdefault(gang, []).extend(
                    _but(fleet.joins, named[memory], gang) if fleet.joins else named[memory]
                )
    # The first that has room counts: engines serve from few nodes, a program that shards itself runs on any.
    served = _heads(demand, needs) is not None
    ordered = sorted(pools, key=lambda gang: (gang.nodes, gang.gpus) if served else (gang.gpus, gang.nodes))
    return demand.but(gangs=tuple(gang.sized(needs.on(gang.gpus), frozenset(pools[gang])) for gang in ordered))


def _may_hold(needs: Estimates, memory: float, most: float, largest: int) -> bool:
    """Whether at most so many GPUs may nearly hold the model; of more than a node has, whole nodes are tried. One may hold what
    two do not.
    """
    if most > MOST_NODES * largest:
        return True
    if most > largest:
        most = -(-most // largest) * largest
    return most > 0 and any(needs.on(int(gpus)).expected <= memory for gpus in (most, 1))


def _but(joins: Collection[str], names: Iterable[str], gang: Gang) -> Iterator[str]:
    """The pools without those that are for several nodes, if the gang is on one."""
    return (name for name in names if gang.nodes > 1 or name not in joins)


def _resolved(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with the ids of its accelerator names that are not ids themselves, and the vendor of each id. A device of the fleet
    that has no row in the catalog is of its family too.
    """
    shapes = (gang.accelerator for gang in demand.gangs if gang.accelerator is not None)
    words = sorted({*demand.accelerators_allowed, *demand.accelerators_denied, *shapes})
    if not words and not demand.makers:
        return demand
    unlisted = kept_with_facts(fleet, _unlisted, catalog, lambda: _unlisted(fleet, catalog))
    named = [(word, catalog.members(word, unlisted)) for word in words]
    meant = tuple((word, ids) for word, ids in named if ids and ids != {word})
    rows = (catalog.accelerator(each) or unlisted[each] for _, ids in named for each in ids)
    makers = {row.id: row.vendor for row in rows}
    return demand if (meant, makers) == (demand.meant, demand.makers) else demand.but(meant=meant, makers=makers)


def _unlisted(fleet: Fleet, catalog: Catalog) -> Mapping[str, Accelerator]:
    devices = (pool.accelerator for pool in fleet.pools if pool.accelerator is not None)
    return {each.id: each for each in devices if catalog.accelerator(each.id) is None}


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


def fewer(demand: Demand, gang: Gang, pool: Pool, catalog: Catalog, most: float = inf) -> Sequence[Sequence[Gang]]:
    """The largest gang that a pool's nodes can form with fewer GPUs than this one and at most `most`, one GPU if there is none:
    of those that divide the model's heads, and of the others.
    """
    _, sizes, whole, _ = pool.size
    nodes = demand.gang.nodes if demand.nodes_given else None
    needs = division(demand.model, demand, SEVERAL, catalog) if demand.model is not None else None
    groups = groups_in_search_order(nodes, sizes, whole, _heads(demand, needs) if needs is not None else None)
    smaller = [(group.divided, group.largest(min(gang.gpus - 1, most))) for group in groups]
    apart = ([each for divided, each in smaller if each is not None and divided is same] for same in (True, False))
    found = tuple((max(alike, key=lambda each: (each.gpus, -each.nodes)),) for alike in apart if alike)
    return found or ((Gang(nodes or 1, 1),),)


def largest_gangs(demand: Demand, pool: Pool, catalog: Catalog) -> Sequence[Sequence[Gang]]:
    """The largest gang of each group that a pool's usable nodes form for a model that says no number of GPUs, those that divide
    the model's heads apart from those that do not: if one of them does not hold the model, no other of its group does.
    """
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_given else None
    needs = division(model, demand, SEVERAL, catalog) if model is not None else None
    if model is None or needs is None or (model.sharding_given and model.sharding is Sharding.NONE):
        return ((Gang(nodes or 1, 1),),)
    _, sizes, whole, _ = pool.size
    if nodes is not None and nodes > MOST_NODES:
        sizes = pool.node_sizes(nodes)
    largest = [
        (group.divided, group.largest()) for group in groups_in_search_order(nodes, sizes, whole, _heads(demand, needs))
    ]
    apart = ([gang for divided, gang in largest if gang is not None and divided is same] for same in (True, False))
    return tuple(filter(None, apart))


def is_open_ended(demand: Demand) -> bool:
    """Whether neither GPUs nor nodes are said, so that gangs of up to MOST_NODES nodes are tried for a model."""
    model = demand.model
    if model is None or not demand.sized_by_model or demand.nodes_given:
        return False
    return not (model.sharding_given and model.sharding is Sharding.NONE)


def _as_named(demand: Demand, gang: Gang, fleet: Fleet, catalog: Catalog) -> Iterator[Gang]:
    """A gang that the job names, with the memory of its model; for training that says nothing of sharding one gang for the pools
    whose GPUs each hold the whole model, and one that is sharded for the others.
    """
    model = demand.model
    work = workload_of(model, catalog) if model is not None else None
    if model is None or work is None:
        yield gang
        return
    if model.sharding_given or gang.gpus == 1 or model.method is Method.INFERENCE:
        yield gang.sized(estimates_of(_spread(work) if demand.spreads(gang) else work).on(gang.gpus))
        return
    whole, shared = estimates_of(work).on(gang.gpus), partial(estimates_of(_spread(work)).on, gang.gpus)
    pools: dict[bool, list[str]] = {False: [], True: []}
    for of_memory in pools_by_size(fleet, 1).values():
        for memory, names in of_memory.items():
            pools[_is_sharded(whole, shared, memory)] += names
    for sharded, names in pools.items():
        if names or not (sharded or pools[True]):
            only = frozenset(names) if pools[not sharded] else None
            yield gang.sized(shared() if sharded else whole, only, sharded=sharded)


def _is_sharded(whole: Estimate, shared: Callable[[], Estimate], memory: float) -> bool:
    """Whether a model must be sharded on devices of so many bytes: where they do not hold it whole, or only with a warning."""
    if whole.expected > memory:
        return True
    return whole.high > memory and shared().high <= memory


def _alternatives(
    demand: Demand, sizes: NodeSizes, whole: bool, memories: Collection[float], needs: Estimates, *, tight: bool
) -> Mapping[float, Sequence[Gang]]:
    """The gangs to try by device memory: the fewest GPUs that hold the model on all usable nodes, and on the nodes up to each
    smaller size.

    If none holds it: the fewest that nearly do, else the gang that would, however many nodes it has.
    """
    model, nodes = demand.model, demand.gang.nodes if demand.nodes_given else None
    if model is not None and model.sharding_given and model.sharding is Sharding.NONE:
        return dict.fromkeys(memories, (Gang(nodes or 1, 1),))
    heads = _heads(demand, needs)
    found: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    nearly: dict[float, dict[Gang, None]] = {memory: {} for memory in memories}
    for first in range(len(sizes)):
        gangs = groups_in_search_order(nodes, sizes[first:], whole, heads)
        _fewest(gangs, found, nearly, needs, heads if not tight else None, tight=tight)
    chosen: dict[float, Sequence[Gang]] = {
        memory: tuple(found[memory] | nearly[memory] if tight else found[memory] or nearly[memory])
        for memory in memories
    }
    if tight:
        for memory, every in chosen.items():
            others = _fewest_on_each(nodes, sizes, whole, memory, needs, heads) if every else ()
            chosen[memory] = tuple(dict.fromkeys((*every, *others)))
    beyond = [memory for memory, gangs in chosen.items() if not gangs]
    if beyond:
        endless = groups_in_search_order(nodes, ((sizes[0][0], max(MOST_NODES, nodes or 1)),), whole, heads)
        _fewest(endless, {memory: found[memory] for memory in beyond}, nearly, needs)
        last = max(filter(None, (group.largest() for group in endless)), key=attrgetter("gpus"))
        chosen |= {memory: next(((gang,) for gang in found[memory] | nearly[memory]), (last,)) for memory in beyond}
    return chosen


def _fewest_on_each(
    nodes: int | None,
    sizes: NodeSizes,
    whole: bool,
    memory: float,
    needs: Estimates,
    heads: tuple[int, int] | None,
) -> Iterator[Gang]:
    """For each number of nodes the gangs with the fewest GPUs on each that hold the model, and that nearly do; those that divide the
    heads apart. Free devices, a quota or a price may be enough for one of them alone.
    """
    for count in (nodes,) if nodes is not None else range(1, MOST_NODES + 1):
        usable = [size for size, there in sizes if there >= count]
        # A part of a node is a part of a larger one too.
        for size in usable if whole else usable[:1]:
            for group in groups_in_search_order(count, ((size, count),), whole, heads):
                found: _Found = {memory: {}}
                nearly: _Found = {memory: {}}
                _fewest((group,), found, nearly, needs, tight=True)
                yield from found[memory] | nearly[memory]


_Found = Mapping[float, dict[Gang, None]]
"""Gangs by the memory of a device, gangs that are found first in front."""


def _fewest(
    groups: Sequence[GangGroup],
    found: _Found,
    nearly: _Found,
    needs: Estimates,
    heads: tuple[int, int] | None = None,
    *,
    tight: bool = False,
) -> None:
    """Adds to `found`, for each device memory, the first gang that holds the model; and to `nearly` the first one that nearly does,
    with `tight` or if none of the group holds it. With `heads` no gang that does not divide them, if one that does nearly holds the
    model: engines reject the former.

    If a gang does not hold the model, smaller ones of its group do not either, so few are evaluated. `high` is computed only if
    `expected` fits.
    """

    def nearly_holds(gang: Gang) -> bool:
        return needs.on(gang.gpus).expected <= memory

    def holds(gang: Gang) -> bool:
        need = needs.on(gang.gpus)
        return need.expected <= memory and need.high <= memory

    left = sorted(found, reverse=True)
    uncertain = set(left)
    for group in groups:
        if heads is not None and not group.divided:
            left = [memory for memory in left if memory in uncertain]
        first = place = 0
        for memory in tuple(left):
            # What more memory does not hold, less does not either.
            place = first_that_holds(group, place, holds)
            if place < group.count:
                left.remove(memory)
                found[memory].setdefault(group.at(place))
            if memory in uncertain and (tight or place == group.count):
                first = first_that_holds(group, first, nearly_holds)
                if first == group.count:
                    break
                uncertain.remove(memory)
                nearly[memory].setdefault(group.at(first))
        if not left:
            return


def _heads(demand: Demand, needs: Estimates) -> tuple[int, int] | None:
    """The heads that a model divides over several GPUs, as the job says or as is assumed; None if they count for nothing."""
    return known_heads(demand, needs.work)


def _spread(work: Workload) -> Workload:
    """The usual way to divide the work over several GPUs: FSDP for training, tensor parallel for serving."""
    if work.method is Method.INFERENCE:
        return work.but(tensor_parallel=True)
    return work.but(sharding=Sharding.FSDP)
