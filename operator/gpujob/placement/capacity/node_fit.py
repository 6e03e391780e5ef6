"""Which nodes of a pool have room for a job: best fit, the whole gang or nothing, at most one pod of a gang on a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.runtime_classes import lacks
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.reserve import as_if_first
from gpujob.placement.capacity.busy_nodes import has_nothing_else, queued_behind, why_busy
from gpujob.placement.capacity.node_filters import (
    disk_needed,
    lacks_label,
    largest_image,
    mounts_on_new,
    pod_request,
    rejections,
)
from gpujob.placement.capacity.pod_resources import needs_later, node_needs, smallest
from gpujob.placement.capacity.shortage import pool_too_small, volumes_to_make, why_never, why_never_some
from gpujob.placement.capacity.topology import domain_of, has_links, in_one_place, largest_place
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import FIXABLE_REASONS, Reason


class NodeFit(NamedTuple):
    """Where a job fits: the chosen nodes and the resources of each pod, or why it never fits, or why it does not fit now."""

    nodes: tuple[PoolNode, ...] = ()
    needs: Resources = Resources()
    never: tuple[Finding, ...] = ()
    busy: tuple[Finding, ...] = ()
    awaited: tuple[PoolNode, ...] = ()
    """The best nodes that a waiting job can get, in a pool with some nodes that have a sign of trouble or announced maintenance."""
    coming: bool = False
    """Whether an autoscaler must add nodes first; then the pods go to any nodes of the pool."""


def find_room(demand: Demand, pool: Pool, image_size: int | None) -> NodeFit:
    """The nodes for a demand: those that it leaves fullest, ties by name; else the reason."""
    if pool.problem is not None and not pool.nodes and not demand.awaited(pool.bare):
        return NodeFit()
    # A gang of more nodes than there are needs no check of each of them.
    enough = has_nodes(demand, pool)
    chosen = _with_room(demand, pool, image_size) if enough else []
    if len(chosen) == demand.nodes:
        rest = _rests(demand, pool)
        return NodeFit(busy=(rest,)) if rest else _room_on(chosen)
    able = _able(demand, pool, image_size) if enough else []
    if len(able) >= demand.nodes:
        # Free devices that no pod can use are reported beside those that the job waits for.
        why = _behind(demand, pool, image_size) if pool.ahead else why_busy(demand, pool, able, len(chosen))
        some = sum(not node.coming for node in able) < len(pool.nodes)
        able = [node for node in able if demand.attaches(node.name)] or able
        awaited = sorted(able, key=_trouble)[: demand.nodes] if pool.troubled else ()
        return NodeFit(busy=(*why, *(why_never_some(demand, pool, image_size) if some else ())), awaited=tuple(awaited))
    late = _did_not_come(demand, pool)
    if late:
        return NodeFit(busy=(late,))
    if not enough and _all_open_and_able(demand, pool, image_size):
        never: tuple[Finding, ...] = (pool_too_small(demand, pool),)
    else:
        never = tuple(why_never(demand, pool, with_coming(demand, pool), image_size))
    if all(finding.reason is Reason.POOL_TOO_SMALL for finding in never) and (new := _missing_come(demand, pool)):
        return NodeFit(busy=tuple(each.finding for each in new))
    grown = _may_grow(demand, pool, never)
    return NodeFit(busy=(grown,)) if grown else NodeFit(never=_once_made(demand, pool, never, image_size))


def _once_made(demand: Demand, pool: Pool, never: tuple[Finding, ...], image_size: int | None) -> tuple[Finding, ...]:
    """Why a pool never has room; where PersistentVolumes that are made on its nodes end that, it is that they lack."""
    lacking = next((finding for finding in never if finding.reason is Reason.ZONE_CONFLICT), None)
    if demand.once_made is None or lacking is None:
        return never
    mountable, tied = demand.once_made
    left = find_room(demand.but(mountable=mountable, tied=tied, once_made=None), pool, image_size).never
    fixable = all(finding.reason in FIXABLE_REASONS for finding in left)
    return (*left, volumes_to_make(demand, lacking)) if fixable else never


def room_without_growth(demand: Demand, pool: Pool, image_size: int | None, beyond: Finding) -> NodeFit:
    """Why a demand waits that no node may be added for, which is the last reason: what it waits for on the pool's nodes, if it fits
    there at all.
    """
    there = find_room(demand, replace(pool, growth=None), image_size) if pool.nodes else NodeFit()
    return NodeFit(busy=(*there.busy, beyond), awaited=there.awaited)


def room_now(demand: Demand, pool: Pool, image_size: int | None) -> NodeFit | None:
    """The result of `find_room` if the pool has room, without the reasons if it has none."""
    if not may_have_room(demand.gang, pool) or _rests(demand, pool):
        return None
    chosen = _with_room(demand, pool, image_size)
    return _room_on(chosen) if len(chosen) == demand.nodes else None


def _room_on(chosen: Sequence[tuple[PoolNode, Resources]]) -> NodeFit:
    if len(chosen) == 1:
        (node, needs), *_ = chosen
        return NodeFit((node,), needs, coming=node.coming)
    nodes = tuple(sorted([node for node, _ in chosen], key=attrgetter("name")))
    return NodeFit(nodes, smallest([needs for _, needs in chosen]), coming=any(node.coming for node in nodes))


def may_have_room(gang: Gang, pool: Pool) -> bool:
    """Whether enough devices for `room_now` are free or can be added. A cheap upper bound: it may return True without room."""
    growth = pool.growth
    added = growth.count + len(growth.started) if growth is not None else 0
    return pool.stock.has_free(gang.gpus_per_node, gang.nodes - added)


def has_nodes(demand: Demand, pool: Pool) -> bool:
    """Whether a pool has as many nodes as the gang, with those that can be added, whatever they are."""
    return len(pool.nodes) + len(_coming(demand, pool)) >= demand.nodes


def _behind(demand: Demand, pool: Pool, image_size: int | None) -> Iterator[Finding]:
    """What a gang waits for behind jobs of higher priority: these jobs, devices that pods use, or both."""
    first = as_if_first(pool)
    able, chosen = _able(demand, first, image_size), _with_room(demand, first, image_size)
    there = len(chosen) == demand.nodes
    if there or has_nothing_else(demand, pool, able):
        yield queued_behind(demand, pool)
    if not there:
        yield from why_busy(demand, first, able, len(chosen))


def needs_of(demand: Demand, pool: Pool, image_size: int | None, room: NodeFit) -> Resources:
    """The resources of each pod in a room; of one that is busy those that the pods will have."""
    return room.needs if room.nodes else needs_later(demand, _able(demand, pool, image_size))


def able_nodes(demand: Demand, pool: Pool) -> list[PoolNode]:
    """Nodes of the pool, including those that can be added, that can run a pod of this job when empty."""
    return [node for node in with_coming(demand, pool) if not rejections(demand, pool, node, None)]


def _with_room(demand: Demand, pool: Pool, image_size: int | None) -> list[tuple[PoolNode, Resources]]:
    """Nodes with room, best fit first, and the resources of a pod there: one node for each pod of the job, or all that there
    are.
    """
    able, wanted = all_able(demand, pool, image_size), demand.nodes
    together, linked = in_one_place(demand, pool), pool.fabric is None
    domains: dict[str, list[tuple[PoolNode, Resources]]] = defaultdict(list)
    excluded, within = {each.node for each in demand.excluded_nodes}, demand.attachable
    for node in pool.stock.with_free(demand.gpus_per_node):
        if node.name in excluded or (within is not None and node.name not in within):
            continue
        needs = node_needs(demand, node)
        if not node.left.covers(needs) or not (linked or has_links(demand, node)):
            continue
        if able or not rejections(demand, pool, node, image_size):
            chosen = domains[domain_of(node) if together else ""]
            chosen.append((node, needs))
            if len(chosen) == wanted:
                return chosen
    chosen = max(domains.values(), key=len, default=[])
    if together:
        # The topology domain of a new node is unknown, so the gang uses new nodes only.
        chosen = [] if pool.growth else chosen
    coming = _coming(demand, pool) if within is None else ()
    if coming and not rejections(demand, pool, coming[0], image_size):
        # New nodes are equal except for what the pods that wait for them leave.
        free = (node for node in sorted(coming, key=_fullest) if _has_room(demand, node))
        chosen += [(node, node_needs(demand, node)) for node in islice(free, wanted - len(chosen))]
    return chosen


def _able(demand: Demand, pool: Pool, image_size: int | None) -> list[PoolNode]:
    """The nodes that can run a pod of this job when empty."""
    nodes = with_coming(demand, pool)
    if in_one_place(demand, pool):
        return largest_place(demand, pool, [node for node in nodes if not rejections(demand, pool, node, image_size)])
    if _all_open_and_able(demand, pool, image_size):
        return list(nodes)
    return [node for node in nodes if not rejections(demand, pool, node, image_size)]


def _all_open_and_able(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether each node of a pool that does not grow can run a pod of this job when empty."""
    return pool.growth is None and pool.stock.open == len(pool.nodes) and all_able(demand, pool, image_size)


def all_able(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether each node of the pool can run a pod of this job when empty, taints aside."""
    stock = pool.stock
    return (
        demand.mountable is None
        and demand.selection is None
        and not demand.image_volumes
        and not lacks(stock.handlers, pool.handler)
        and stock.selected
        and stock.least_devices >= demand.gpus_per_node
        and stock.least.covers(pod_request(demand))
        and (image_size is None or stock.least_disk >= disk_needed(demand, image_size))
    )


def uniform_size(demand: Demand, pool: Pool) -> int:
    """The largest image size in bytes for which each node has disk; the room is equal for all images up to it."""
    least = pool.stock.least_disk_of_all
    if pool.growth is not None and pool.growth.template.allocatable.storage is not None:
        least = min(least, pool.growth.template.allocatable.storage)
    return largest_image(demand, least)


def relevant_size(image_size: int | None, uniform: int) -> int | None:
    """The image's size if the room depends on it, else None; `uniform` is the pool's `uniform_size`."""
    return None if image_size is None or image_size <= uniform else image_size


def is_full(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether a pool without room now can certainly have room later: enough of its nodes can run such pods."""
    enough = pool.stock.open >= demand.nodes and not in_one_place(demand, pool)
    return enough and all_able(demand, pool, image_size) and not _rests(demand, pool)


def is_too_small(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether a pool certainly never has room: too few of its nodes can run such pods, and it does not grow.

    False if nodes lack a handler, a label or a PersistentVolume, because an admin can fix that.
    """
    if pool.growth is not None or pool.node_pool or not pool.nodes or pool.pending or _missing_come(demand, pool):
        return False
    if pool.stock.open < demand.nodes or pool.stock.most_devices < demand.gpus_per_node:
        return True
    kept_out = lacks(pool.stock.handlers, pool.handler) or not pool.stock.selected or demand.once_made is not None
    if not kept_out and _all_open_and_able(demand, pool, image_size) and not in_one_place(demand, pool):
        return False
    return not kept_out and len(_able(demand, pool, image_size)) < demand.nodes


def with_coming(demand: Demand, pool: Pool) -> tuple[PoolNode, ...]:
    """The pool's nodes and as many of those that can be added as the job can use."""
    coming = _coming(demand, pool)
    return (*pool.nodes, *coming) if coming else pool.nodes


def _coming(demand: Demand, pool: Pool) -> tuple[PoolNode, ...]:
    """As many of the nodes that can be added as the job can use."""
    if pool.growth is None or _did_not_come(demand, pool):
        return ()
    return (*pool.growth.started, *(pool.growth.template,) * min(pool.growth.count, demand.nodes))


def _did_not_come(demand: Demand, pool: Pool) -> Finding | None:
    """The autoscaler did not bring the pool's nodes in time, so the pool is not tried until a deadline."""
    until = dict(demand.pools_away).get(pool.family)
    if until is None or pool.growth is None:
        return None
    return Finding(Reason.NODES_DID_NOT_COME, "nodes that were to be added did not come; tried again at {}", (until,))


def _missing_come(demand: Demand, pool: Pool) -> list[Arriving]:
    """New nodes that show no devices yet, if the pool may have enough nodes with them."""
    new = demand.awaited(pool.bare)
    enough = sum((node.total or node.healthy) >= demand.gpus_per_node for node in pool.nodes)
    return new if enough + len(new) >= demand.nodes else []


def _rests(demand: Demand, pool: Pool) -> Finding | None:
    """The pool's nodes did not accept the job's pods, so the pool is not tried until a deadline and other jobs use its GPUs."""
    rest = next((rest for rest in demand.pools_resting if rest[0] == pool.family), None)
    if rest is not None:
        _, until, why = rest
        return Finding(
            Reason.UNSCHEDULABLE, "its nodes did not take the job's pods ({}); tried again at {}", (why, until)
        )
    if demand.refused_everywhere is None:
        return None
    until, why = demand.refused_everywhere
    sentence = "the API server refuses the job's pods whatever the pool ({}); tried again at {}"
    return Finding(Reason.UNSCHEDULABLE, sentence, (why, until))


_OF_GROWTH: Final = {Reason.POOL_TOO_SMALL, Reason.ZONE_CONFLICT, Reason.NODES_NOT_SELECTED}
"""Why a pool never has room, of reasons that more of its nodes end."""


def _may_grow(demand: Demand, pool: Pool, never: tuple[Finding, ...]) -> Finding | None:
    """More nodes of an existing kind would make room, and an autoscaler that is not configured here may add them."""
    # The nodes to come are like those that the namespace selects.
    selected = (node for node in pool.nodes if not lacks_label(demand, pool, node))
    large = [node for node in selected if (node.total or node.healthy) >= demand.gpus_per_node]
    what = "add a GPUPool with spec.provision" if pool.discovered else "set spec.provision in its GPUPool"
    remedy = f"an admin can {what}"
    if not pool.node_pool or not large or any(finding.reason not in _OF_GROWTH for finding in never):
        return None
    if any(finding.reason is Reason.ZONE_CONFLICT for finding in never):
        # Node pools span zones, and Karpenter reads the zone of a volume.
        fitting = sum(demand.mountable is None or node.name in demand.mountable for node in large)
        sentence = "needs {} that can mount PersistentVolumeClaim {}, the pool has {}; {} may grow there: {}"
        more = counted(max(1, demand.nodes - fitting), "more node")
        have = (fitting or "none", pool.node_pool, remedy)
        return (
            Finding(Reason.MAY_GROW, sentence, (more, listed(demand.ties, 4), *have))
            if mounts_on_new(demand, pool)
            else None
        )
    enough = len(large)
    sentence = "needs {} ({} with {} each, the pool has {}); {} may grow: {}"
    numbers = (counted(max(1, demand.nodes - enough), "more node"), demand.nodes, counted(demand.gpus_per_node, "GPU"), enough,
               pool.node_pool, remedy)  # fmt: skip
    return Finding(Reason.MAY_GROW, sentence, numbers)


def _has_room(demand: Demand, node: PoolNode) -> bool:
    """Whether a node that can be added has room beside the pods that wait for it."""
    return node.free >= demand.gpus_per_node and has_links(demand, node) and node.left.covers(node_needs(demand, node))


def _trouble(node: PoolNode) -> tuple[bool, bool]:
    return node.suspected is not None, node.planned is not None


def _fullest(node: PoolNode) -> tuple[int, int]:
    return node.free, node.left.memory
