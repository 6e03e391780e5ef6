"""Repairs that request less: memory of each GPU, resources of a pod, GPUs and nodes; always the most that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_filters import image_room
from gpujob.placement.capacity.node_fit import able_nodes, with_coming
from gpujob.placement.capacity.topology import in_one_place, largest_place
from gpujob.placement.filters.memory import divides, known_heads, same_number_that_fits
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, cut, proposed
from gpujob.values.quantity import GI, format_millicores, most_bytes, most_millicores, most_within, shortest_quantity


def less_memory(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """The most gpuMemory that the device has; for 80Gi on an "80 GB" card the intended 80G."""
    wanted, usable = demand.gpu_memory, candidate.pool.memory
    if wanted and usable and usable < wanted:
        same = same_number_that_fits(wanted, usable)
        fits = same or most_bytes(wanted, usable)
        changed = demand.but(gpu_memory=fits)
        before = demand.as_written("gpu_memory", shortest_quantity(wanted))
        share, after = 1 - fits / wanted, shortest_quantity(fits)
        if same:  # The same number in the other unit is what was meant.
            yield proposed(share, "spec.gpuMemory", before, after, changed)
        else:
            yield cut(costs.of_less(share), "spec.gpuMemory", before, after, changed)


def smaller_gang(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """As many nodes as have all that a pod needs, and as many GPUs as each of that many nodes has: of all nodes, of those with all else
    that a pod needs, and of these within the job's price limit.
    """
    pool, gang = candidate.pool, candidate.gang
    if demand.sized_by_model and not demand.nodes_given:
        return  # The job names no number, so only a smaller model helps.
    asked = demand.only(gang)
    able = able_nodes(asked, pool)
    enough = len(largest_place(asked, pool, able) if in_one_place(asked, pool) else able)
    if 0 < enough < gang.nodes:
        yield fewer_nodes(demand, candidate, enough)
    if demand.sized_by_model:
        return
    each = [_gpus_on_each(with_coming(asked, pool), gang), _gpus_on_each(_able_with_fewer(demand, candidate), gang)]
    if demand.max_price is not None and (of_one := pool.price_of(gang.nodes, 1)):
        each.append(min(each[1], most_within(demand.max_price) // of_one))
    for most in dict.fromkeys(each):
        if 0 < most < gang.gpus_per_node:
            yield fewer_gpus(demand, candidate, most)


def _able_with_fewer(demand: Demand, candidate: Candidate) -> Sequence[PoolNode]:
    """The nodes that can run a pod with fewer GPUs when they are empty."""
    asked = demand.only(replace(candidate.gang, gpus_per_node=1))
    able = able_nodes(asked, candidate.pool)
    return largest_place(asked, candidate.pool, able) if in_one_place(asked, candidate.pool) else able


def _gpus_on_each(nodes: Iterable[PoolNode], gang: Gang) -> int:
    """The GPUs that each of as many nodes as the gang has offers, of fewer nodes each of them."""
    counts = sorted((node.total or 0 for node in nodes), reverse=True)
    return counts[min(gang.nodes, len(counts)) - 1] if counts else 0


def one_node(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """One node, if several cannot mount a volume at once."""
    if candidate.gang.nodes > 1 and (demand.nodes_given or not demand.sized_by_model):
        yield fewer_nodes(demand, candidate, 1)


def whole_nodes(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """All GPUs of a node, if nodes are assigned whole."""
    gang, each = candidate.gang, candidate.pool.largest
    if each and each != gang.gpus_per_node and not demand.sized_by_model:
        changed = demand.changed(gang, replace(gang, gpus_per_node=each))
        distance = abs(each / gang.gpus_per_node - 1)
        yield proposed(distance, gang.field("gpusPerNode"), gang.gpus_per_node, each, changed)


def fewer_nodes(demand: Demand, candidate: Candidate, nodes: int) -> Proposal:
    """The proposal of fewer nodes; a number of GPUs that follows from the model is computed again."""
    gang = candidate.gang
    resized = demand.but(gangs=(Gang(nodes, 1),))
    changed = resized if demand.sized_by_model else demand.changed(gang, replace(gang, nodes=nodes))
    return cut(costs.of_less(1 - nodes / gang.nodes), gang.field("nodes"), gang.nodes, nodes, changed)


def fewer_gpus(demand: Demand, candidate: Candidate, most: int) -> Proposal:
    """The proposal of fewer GPUs for each node, the most of at most `most` that divide the model's heads; one always does."""
    gang = candidate.gang
    gpus = first_that_divides(demand, gang, range(most, 0, -1)) or most
    changed = demand.changed(gang, replace(gang, gpus_per_node=gpus))
    distance = costs.of_less(1 - gpus / gang.gpus_per_node)
    return cut(distance, gang.field("gpusPerNode"), gang.gpus_per_node, gpus, changed)


def first_that_divides(demand: Demand, gang: Gang, counts: Iterable[int]) -> int | None:
    """The first of some numbers of GPUs of a node over which a model's attention heads can be divided, any number of another
    model; None if there is none: tensor parallel engines reject it.
    """
    heads = known_heads(demand, gang.memory.work) if gang.memory is not None else None
    return next((count for count in counts if heads is None or divides(count, heads)), None)


def smaller_pods(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """For each resource of a pod: the most that enough nodes with all else have of it, and none."""
    for attribute in SIZES:
        asked: int | None = getattr(demand, attribute)
        if not asked:
            continue
        fits = SIZES[attribute].most(asked, _at_most(demand.only(candidate.gang), candidate.pool, attribute))
        if 0 < fits < asked and not (attribute == "memory" and (demand.shared_memory or 0) > fits):
            yield smaller(demand, attribute, fits)
        before, without = (
            demand.as_written(attribute, _shown(attribute, asked)),
            requesting(demand, **{attribute: None}),
        )
        yield cut(costs.AMOUNT_DROPPED, _field(attribute), before, None, without)


def smaller(demand: Demand, attribute: str, amount: int, distance: float | None = None) -> Proposal:
    """The proposal of less of one resource, or of a number if the job leaves it to the share."""
    asked: int | None = getattr(demand, attribute)
    before = demand.as_written(attribute, _shown(attribute, asked)) if asked else None
    # Any reduced amount is nearer than none.
    far = distance if distance is not None or not asked else min(1 - amount / asked, costs.LARGEST_LESS)
    after = _shown(attribute, amount)
    write = cut if asked and amount < asked else proposed
    return write(
        far or costs.AMOUNT_OF_A_SHARE, _field(attribute), before, after, requesting(demand, **{attribute: amount})
    )


def smaller_disk(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """As much ephemeral storage as the image leaves on enough nodes."""
    image = next((runtime for runtime in catalog.runtimes if runtime.name == candidate.runtime.name), None)
    if image is None or image.size_bytes is None:
        return
    rest = requesting(demand, storage=None).only(candidate.gang)
    disk = _on_each(rest, candidate.pool, "storage") - image_room(image.size_bytes)
    fits = most_bytes(demand.storage or GI, disk)
    if 0 < fits < (demand.storage or fits + 1):
        yield smaller(demand, "storage", fits)


def requesting(demand: Demand, **amounts: int | None) -> Demand:
    """The demand with other amounts of a pod's resources."""
    changes: dict[str, Any] = amounts
    return demand.but(**changes)


@dataclass(frozen=True, slots=True)
class Size:
    """One resource of a pod: the member of spec.resources, its notation, and the most up to an amount."""

    member: str
    show: Callable[[int], str]
    most: Callable[[int, int], int]
    unit: int
    """The unit of a number if the job has none."""


SIZES: Final[dict[str, Size]] = {
    "millicores": Size("cpu", format_millicores, most_millicores, 1000),
    "memory": Size("memory", shortest_quantity, most_bytes, GI),
    "storage": Size("ephemeralStorage", shortest_quantity, most_bytes, GI),
    "shared_memory": Size("sharedMemory", shortest_quantity, most_bytes, GI),
}
"""The resources of a pod, by the demand's attribute."""


def _field(attribute: str) -> str:
    return f"spec.resources.{SIZES[attribute].member}"


def _shown(attribute: str, amount: int) -> str:
    return SIZES[attribute].show(amount)


def _at_most(demand: Demand, pool: Pool, attribute: str) -> int:
    """What enough nodes with all else have of one resource; if none have all else, what enough nodes have."""
    # Shared memory counts as memory, so a shortage of memory is not found by the other resource alone.
    same = ("memory", "shared_memory") if attribute in ("memory", "shared_memory") else (attribute,)
    rest = requesting(demand, **dict.fromkeys(same))
    return _on_each(rest, pool, attribute) or _on_each(requesting(demand, **dict.fromkeys(SIZES)), pool, attribute)


def _on_each(demand: Demand, pool: Pool, attribute: str) -> int:
    """The most of one resource that each of enough nodes has, among the nodes with all else."""
    name = "memory" if attribute == "shared_memory" else attribute
    return _of_each(able_nodes(demand, pool), demand.nodes, name)


def _of_each(nodes: Sequence[PoolNode], count: int, name: str) -> int:
    """What that many of the nodes have of a resource, less the requests of pods without GPUs."""
    there = sorted((_lasting(node, name) for node in nodes), reverse=True)
    return there[count - 1] if len(there) >= count else 0


def _lasting(node: PoolNode, name: str) -> int:
    whole, rest = getattr(node.allocatable, name) or 0, getattr(node.share_base, name) or 0
    return min(whole, rest) if rest > 0 else whole
