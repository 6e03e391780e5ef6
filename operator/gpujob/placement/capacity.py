"""Which nodes of a pool have room for a job: best fit, the whole gang or nothing, never two pods of a gang on a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpujob.finding import Cores, Finding, Need, Size, counted, listed
from gpujob.fleet.objects import Resources
from gpujob.fleet.pools import Pool, PoolNode
from gpujob.placement.demand import Demand
from gpujob.quantity import GI, MI
from gpujob.vocabulary import Reason

SHARE: Final = (9, 10)
"""The part of a node's CPU and memory that GPU jobs share; the rest stays for daemons and later ones."""

DEFAULT_STORAGE: Final = 20 * GI
IMAGE_ROOM: Final = (5, 2)
"""Disk for an image, as a multiple of its size: the layers, the unpacked files and a margin (pull and unpack overlap)."""


@dataclass(frozen=True, slots=True)
class Room:
    """Where a job fits: the chosen nodes and what each pod gets, or why it never fits, or why not now."""

    nodes: tuple[PoolNode, ...] = ()
    needs: Resources = field(default_factory=Resources)
    never: tuple[Finding, ...] = ()
    busy: tuple[Finding, ...] = ()

    @property
    def coming(self) -> bool:
        """Whether nodes must be added first: then the pods go to any nodes of the pool."""
        return any(node.coming for node in self.nodes)


def find_room(demand: Demand, pool: Pool, image_size: int | None) -> Room:
    """The nodes for a demand: of those with room the ones that the job leaves fullest, ties by name; else why not."""
    if pool.problem is not None and not pool.nodes:
        return Room()
    chosen = _with_room(demand, pool, image_size)
    if len(chosen) == demand.nodes:
        return _room(demand, chosen)
    able = _able(demand, pool, image_size)
    if len(able) >= demand.nodes:
        return Room(busy=tuple(_why_busy(demand, able, len(chosen))))
    late = _did_not_come(demand, pool)
    if late:
        return Room(busy=(late,))
    never = tuple(_why_never(demand, pool, _with_coming(demand, pool), image_size))
    grown = _may_grow(demand, pool, never)
    return Room(busy=(grown,)) if grown else Room(never=never)


def has_room(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether `find_room` finds nodes."""
    return len(_with_room(demand, pool, image_size)) == demand.nodes


def _room(demand: Demand, chosen: list[PoolNode]) -> Room:
    return Room(tuple(sorted(chosen, key=lambda node: node.name)), _smallest(node_needs(demand, n) for n in chosen))


def able_nodes(demand: Demand, pool: Pool) -> list[PoolNode]:
    """Nodes of the pool, those to be added included, that could take a pod of this job if they were empty."""
    return [node for node in _with_coming(demand, pool) if not _refusals(demand, pool, node, None)]


def _with_room(demand: Demand, pool: Pool, image_size: int | None) -> list[PoolNode]:
    """Nodes with room, best fit first: as many as the job has pods, all of them where they are fewer."""
    able = all_able(demand, pool, image_size)
    chosen: list[PoolNode] = []
    for node in pool.stock.with_free(demand.gpus_per_node):
        if node.left.covers(node_needs(demand, node)) and (able or not _refusals(demand, pool, node, image_size)):
            chosen.append(node)
            if len(chosen) == demand.nodes:
                return chosen
    coming = _coming(demand, pool)
    if coming and not _refusals(demand, pool, coming[0], image_size) and _has_room(demand, coming[0]):
        chosen += coming[: demand.nodes - len(chosen)]
    return chosen


def _able(demand: Demand, pool: Pool, image_size: int | None) -> list[PoolNode]:
    """The nodes that could take a pod of this job if they were empty."""
    nodes = _with_coming(demand, pool)
    if pool.growth is None and pool.stock.open == len(nodes) and all_able(demand, pool, image_size):
        return list(nodes)
    return [node for node in nodes if not _refusals(demand, pool, node, image_size)]


def all_able(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether each node of the pool could take a pod of this job if it were empty, but for its taints."""
    stock = pool.stock
    return (
        stock.least_devices >= demand.gpus_per_node
        and stock.least.covers(_asked(demand))
        and (image_size is None or stock.least_disk >= _disk_needed(demand, image_size))
    )


def telling_size(demand: Demand, pool: Pool, image_size: int | None) -> int | None:
    """The image's size where the disk of some node is too small for it, else None: of equal ones the room is equal."""
    if image_size is None:
        return None
    least = pool.stock.least_disk_of_all
    if pool.growth is not None and pool.growth.template.allocatable.storage is not None:
        least = min(least, pool.growth.template.allocatable.storage)
    return image_size if least < _disk_needed(demand, image_size) else None


def is_full(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether it is plain that a pool without room now can have it later: enough of its nodes can take such pods."""
    return pool.stock.open >= demand.nodes and all_able(demand, pool, image_size)


def is_too_small(demand: Demand, pool: Pool, image_size: int | None) -> bool:
    """Whether it is plain that a pool never has room: too few of its nodes can take such pods, and it does not grow."""
    if pool.growth is not None or pool.node_pool or not pool.nodes:
        return False
    if pool.stock.open < demand.nodes or pool.stock.most_devices < demand.gpus_per_node:
        return True
    return len(_able(demand, pool, image_size)) < demand.nodes


def _with_coming(demand: Demand, pool: Pool) -> tuple[PoolNode, ...]:
    """The pool's nodes and as many of those to be added as the job can use."""
    coming = _coming(demand, pool)
    return (*pool.nodes, *coming) if coming else pool.nodes


def _coming(demand: Demand, pool: Pool) -> tuple[PoolNode, ...]:
    """As many of the nodes to be added as the job can use."""
    if pool.growth is None or _did_not_come(demand, pool):
        return ()
    return (pool.growth.template,) * min(pool.growth.count, demand.nodes)


def _did_not_come(demand: Demand, pool: Pool) -> Finding | None:
    """An autoscaler that did not bring the pool's nodes in time is given a rest."""
    until = dict(demand.pools_away).get(pool.name)
    if until is None or pool.growth is None:
        return None
    return Finding(Reason.NODES_DID_NOT_COME, "nodes that were to be added did not come; tried again at {}", (until,))


def _may_grow(demand: Demand, pool: Pool, never: tuple[Finding, ...]) -> Finding | None:
    """More nodes of a kind that is there would do, and something that nobody told us about may add them."""
    enough = sum((node.total or node.healthy) >= demand.gpus_per_node for node in pool.nodes)
    if not pool.node_pool or not enough or any(finding.reason is not Reason.POOL_TOO_SMALL for finding in never):
        return None
    sentence = "needs {}, the pool has {}; {} may grow: {}"
    remedy = "add a GPUPool with spec.provision" if pool.discovered else "set spec.provision in its GPUPool"
    numbers = (f"{counted(demand.nodes, 'node')} with {counted(demand.gpus_per_node, 'GPU')} each", enough,
               pool.node_pool, remedy)  # fmt: skip
    return Finding(Reason.MAY_GROW, sentence, numbers)


def node_needs(demand: Demand, node: PoolNode) -> Resources:
    """What a pod gets on a node: what the job asks, else the share of the node that belongs to its GPUs.

    The share is cut from what pods without GPUs leave; where others took more than their share, it shrinks down to a
    quarter, so that free GPUs are not stranded for want of memory.
    """
    total = max(node.total or node.healthy, demand.gpus_per_node) + node.beside
    gpus, free = demand.gpus_per_node, max(node.free, demand.gpus_per_node)
    base, left = node.share_base, node.left
    cpu = _share(base.millicores, left.millicores, gpus, total, free)
    memory = _share(base.memory, left.memory, gpus, total, free)
    storage = demand.storage
    if storage is None and base.storage is not None and left.storage is not None:
        storage = min(DEFAULT_STORAGE, _floor(_share(base.storage, left.storage, gpus, total, free), MI))
    return Resources(
        millicores=demand.millicores or max(1, _floor(cpu, 1000) or cpu),
        memory=demand.memory or max(MI, _floor(memory, GI) or _floor(memory, MI), demand.shared_memory or 0),
        storage=storage,
        pods=1,
    )


def shared_memory(demand: Demand, needs: Resources) -> int:
    """Bytes of /dev/shm: what the job asks, else a quarter of its memory, at least 1Gi (or all), at most 64Gi."""
    if demand.shared_memory is not None:
        return demand.shared_memory
    return min(max(needs.memory // 4, min(GI, needs.memory)), 64 * GI)


def _share(base: int, left: int, gpus: int, total: int, free: int) -> int:
    mine = max(base, 0) * gpus * SHARE[0] // (total * SHARE[1])
    return max(min(mine, max(left, 0) * gpus // free), mine // 4)


def _floor(amount: int, unit: int) -> int:
    return amount // unit * unit


def _smallest(needs: Iterable[Resources]) -> Resources:
    """All pods of a gang share one template, so the smallest of their shares counts."""
    all_needs = list(needs)
    storages = [n.storage for n in all_needs if n.storage is not None]
    return Resources(
        min(n.millicores for n in all_needs),
        min(n.memory for n in all_needs),
        min(storages) if len(storages) == len(all_needs) else None,
        1,
    )


def _discouraged(node: PoolNode) -> int:
    return sum(taint.effect == "PreferNoSchedule" for taint in node.taints)


def _refusals(demand: Demand, pool: Pool, node: PoolNode, image_size: int | None) -> tuple[Reason, ...]:
    """Why the node can never take a pod of this job, however empty it is."""
    found = []
    if any(not pool.tolerates(taint) for taint in node.taints):
        found.append(Reason.TAINT_NOT_TOLERATED)
    if node.total is not None and node.total < demand.gpus_per_node:
        found.append(Reason.POOL_TOO_SMALL)
    if not node.allocatable.covers(_asked(demand)):
        found.append(Reason.NODE_TOO_SMALL)
    if _disk_short(demand, node, image_size):
        found.append(Reason.DISK_TOO_SMALL)
    return tuple(found)


def _asked(demand: Demand) -> Resources:
    # /dev/shm counts in the pod's memory.
    return Resources(demand.millicores or 0, demand.memory or demand.shared_memory or 0, demand.storage or 0, 0)


def _disk_needed(demand: Demand, image_size: int) -> int:
    return image_size * IMAGE_ROOM[0] // IMAGE_ROOM[1] + (demand.storage or DEFAULT_STORAGE)


def _disk_short(demand: Demand, node: PoolNode, image_size: int | None) -> bool:
    disk = node.allocatable.storage
    return image_size is not None and disk is not None and disk < _disk_needed(demand, image_size)


def _has_room(demand: Demand, node: PoolNode) -> bool:
    return node.unready is None and node.free >= demand.gpus_per_node and node.left.covers(node_needs(demand, node))


def _why_never(demand: Demand, pool: Pool, nodes: tuple[PoolNode, ...], image_size: int | None) -> Iterable[Finding]:
    reasons = [_refusals(demand, pool, node, image_size) for node in nodes]
    if sum(Reason.POOL_TOO_SMALL not in r for r in reasons) < demand.nodes:
        yield _pool_too_small(demand, nodes)
    tainted = [node for node, r in zip(nodes, reasons, strict=True) if Reason.TAINT_NOT_TOLERATED in r]
    if tainted:
        taint = next(t for t in tainted[0].taints if not pool.tolerates(t))
        sentence = "{} taint {}; tolerate it in a GPUPool (spec.tolerations) or remove it"
        yield Finding(Reason.TAINT_NOT_TOLERATED, sentence, (_have(len(tainted), len(nodes)), taint))
    if any(Reason.NODE_TOO_SMALL in r for r in reasons):
        yield from _nodes_too_small(demand, nodes)
    if any(Reason.DISK_TOO_SMALL in r for r in reasons) and image_size is not None:
        most = Size(max(node.allocatable.storage or 0 for node in nodes))
        sentence = "needs {} of disk for image and job, the largest node has {}"
        yield Finding(Reason.DISK_TOO_SMALL, sentence, (Size(_disk_needed(demand, image_size)), most))


def _have(some: int, every: int) -> str:
    """How many of a pool's nodes have something, at least one."""
    if every == 1:
        return "its node has"
    return f"all {every} nodes have" if some == every else f"{some} of {every} nodes {'has' if some == 1 else 'have'}"


def _pool_too_small(demand: Demand, nodes: tuple[PoolNode, ...]) -> Finding:
    gpus, total = demand.gpus_per_node, len(nodes)
    sizes = [gpus if node.total is None else node.total for node in nodes]
    largest = max(sizes, default=0)
    if largest < gpus:
        sentence = "needs {} on one node, the largest node has {}"
        more = f", and {demand.nodes} such nodes where the pool has {total}" if total < demand.nodes else ""
        return Finding(Reason.POOL_TOO_SMALL, sentence + more, (counted(gpus, "GPU"), largest))
    enough = sum(size >= gpus for size in sizes)
    sentence = "needs {} with {} each, {}"
    has = (
        f"the pool has {total}"
        if enough == total
        else f"{enough} of the pool's {counted(total, 'node')} have that many"
    )
    numbers = (counted(demand.nodes, "node"), counted(gpus, "GPU"), has)
    return Finding(Reason.POOL_TOO_SMALL, sentence, numbers)


def _nodes_too_small(demand: Demand, nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """Which of the things that a pod asks for too few nodes have; where each is on enough of them, all at once."""
    asked = _asked(demand)
    parts = [
        ("CPU", Cores, asked.millicores, [node.allocatable.millicores for node in nodes]),
        ("memory", Need, asked.memory, [node.allocatable.memory for node in nodes]),
        ("ephemeral-storage", Need, asked.storage or 0, [node.allocatable.storage or 0 for node in nodes]),
    ]
    short = False
    for name, show, amount, there in parts:
        enough, largest = sum(has >= amount for has in there), max(there, default=0)
        if not amount or enough >= demand.nodes:
            continue
        short = True
        if largest < amount:
            sentence = "needs {} {} on one node, the largest node has {}"
            has = Size(largest) if show is Need else show(largest)
            yield Finding(Reason.NODE_TOO_SMALL, sentence, (show(amount), name, has))
        else:
            sentence = "needs {} {} on each of {} nodes, {} of {} have that"
            yield Finding(Reason.NODE_TOO_SMALL, sentence, (show(amount), name, demand.nodes, enough, len(nodes)))
    if not short:
        whole = listed(f"{show(amount)} {name}" for name, show, amount, _ in parts if amount)
        both = sum(node.allocatable.covers(asked) for node in nodes)
        on = f"each of {demand.nodes} nodes" if demand.nodes > 1 else "one node"
        sentence = "needs {} on {}, {} of {} have that together"
        yield Finding(Reason.NODE_TOO_SMALL, sentence, (whole, on, both, counted(len(nodes), "node")))


def _why_busy(demand: Demand, able: list[PoolNode], with_room: int) -> Iterable[Finding]:
    ready = [node for node in able if node.unready is None]
    unready = [node.unready for node in able if node.unready is not None]
    gpus = demand.gpus_per_node
    free = sum(max(node.free, 0) for node in ready)
    largest = max((node.free for node in ready), default=0)
    on = f"on each of {demand.nodes} nodes" if demand.nodes > 1 else "on one node"
    if not ready:
        yield from _first_of_each_reason(unready)
        return
    crowded = next((n for n in ready if n.free >= gpus and not n.left.covers(node_needs(demand, n))), None)
    needed = counted(gpus, "free GPU")
    room = f"; room on {with_room} of {demand.nodes} nodes" if demand.nodes > 1 else ""
    if free >= gpus * demand.nodes and crowded is None:
        sentence = "needs {} {}: {} are free over {}, at most {} on one{}"
        over = counted(len(ready), "node")
        yield Finding(Reason.FRAGMENTED, sentence, (needed, on, free, over, max(largest, 0), room))
    elif crowded is not None:
        sentence = "GPUs are free on node {}, but {} CPU and {} memory are left there of {} and {} needed"
        left, needs = crowded.left, node_needs(demand, crowded)
        numbers = (crowded.name, Cores(max(left.millicores, 0)), Size(max(left.memory, 0)), Cores(needs.millicores),
                   Size(needs.memory))  # fmt: skip
        yield Finding(Reason.NOT_ENOUGH_FREE, sentence, numbers)
    else:
        total = sum(node.total or node.healthy for node in able)
        sentence = "needs {} {}, {} of {} are free{}"
        yield Finding(Reason.NOT_ENOUGH_FREE, sentence, (needed, on, free, total, room))
    yield from _first_of_each_reason(unready)


def _first_of_each_reason(findings: Iterable[Finding]) -> Iterable[Finding]:
    first: dict[Reason, Finding] = {}
    for finding in findings:
        first.setdefault(finding.reason, finding)
    return first.values()
