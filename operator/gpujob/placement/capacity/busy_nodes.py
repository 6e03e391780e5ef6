"""Why nodes that can run a gang when they are empty do not run it now, in exact numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.pools.ahead import Ahead
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.pod_resources import node_needs
from gpujob.placement.capacity.shortage import whence
from gpujob.placement.capacity.topology import out_of_links
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Cores, Finding, Need, Size, counted, listed
from gpujob.values.vocabulary import Reason

_NAMED: Final = 2
"""The most unusable nodes that a sentence names with a reason."""


def why_busy(demand: Demand, pool: Pool, able: list[PoolNode], with_room: int) -> Iterable[Finding]:
    """Why nodes that can run the gang when empty do not run it now; `with_room` of them do."""
    if demand.attached:
        yield from (each.finding for each in demand.attached)
        able = [node for node in able if demand.attaches(node.name)]
    ready = [node for node in able if node.unready is None and not demand.excludes(node.name)]
    unready = [found for node in able if (found := _unready(demand, node))]
    gpus = demand.gpus_per_node
    free = sum(max(node.free, 0) for node in ready)
    largest = max((node.free for node in ready if not node.coming), default=0)
    on = f"on each of {demand.nodes} nodes" if demand.nodes > 1 else "on one node"
    if not ready:
        yield from _of_each_node(unready)
        return
    unlinked = out_of_links(demand, pool, ready)
    if unlinked is not None:
        yield unlinked
        return
    crowded = next((n for n in ready if n.free >= gpus and not n.left.covers(node_needs(demand, n))), None)
    needed = counted(gpus, "free GPU")
    has = "1 node has" if with_room == 1 else f"{with_room or 'no'} nodes have"
    room = f"; {has} room" if demand.nodes > 1 else ""
    # Like the output of `pools`: nodes that can be added follow the existing ones.
    there = [node for node in ready if not node.coming]
    free_there = sum(max(node.free, 0) for node in there)
    grown = _out_of_use(demand, pool, able) + _can_be_added(pool, able)
    if free >= gpus * demand.nodes and crowded is None:
        sentence = "needs {} {}: {} are free over {}, at most {} on one{}"
        over = counted(len(there), "node")
        yield Finding(Reason.FRAGMENTED, sentence, (needed, on, free_there, over, max(largest, 0), grown + room))
    elif crowded is not None:
        sentence = "GPUs are free on {}, which has too little left beside them: {}"
        lacking = listed(_too_little(demand, pool, crowded.left, node_needs(demand, crowded)))
        where = "a node to be added" if crowded.coming else f"node {crowded.name}"
        yield Finding(Reason.NOT_ENOUGH_FREE, sentence, (where, lacking))
    else:
        total = sum(node.total or node.healthy for node in able if not node.coming)
        sentence = "needs {} {}, {} of {} are free{}"
        yield Finding(Reason.NOT_ENOUGH_FREE, sentence, (needed, on, free_there, total, grown + room))
    yield from _first_of_each_reason(unready)


def _out_of_use(demand: Demand, pool: Pool, able: Iterable[PoolNode]) -> str:
    """The number of GPUs that no pod holds and none gets now, and why; empty if there is none."""
    count, why = 0, list[str]()
    for node in able:
        unready, missing = _unready(demand, node), max((node.total or 0) - node.healthy, 0)
        idle = missing + (max(node.free, 0) if unready else 0)
        if idle and not node.coming:
            count += idle
            why.append(unready.message if unready else _not_offered(pool, node))
    more = [counted(len(why) - _NAMED, "more node")] if len(why) > _NAMED else []
    return f", {count} cannot be used ({listed([*why[:_NAMED], *more])})" if count else ""


def _not_offered(pool: Pool, node: PoolNode) -> str:
    """Why a node offers fewer devices than it has."""
    messages = (
        each.message for each in pool.warnings if each.reason is Reason.DEVICE_TAINTED and node.name in each.numbers
    )
    return next(messages, f"node {node.name} offers {node.healthy} of {node.total}")


def _can_be_added(pool: Pool, able: Iterable[PoolNode]) -> str:
    """The number of nodes that can be added and what the pods that wait for them leave, if a job can use one; else empty."""
    one = next((node for node in able if node.coming), None)
    if one is None or pool.growth is None:
        return ""
    count, started = pool.growth.count, pool.growth.started
    fresh = f", {counted(count, 'node')} with {counted(one.healthy, 'GPU')} can be added" if count else ""
    if not started:
        return fresh
    most, have = max(node.free for node in started), "has" if len(started) == 1 else "have"
    held = f"{counted(len(started), 'node')} to be added for other jobs {have}"
    return f"{fresh}, {held} at most {most} of {counted(one.healthy, 'GPU')} free"


def _too_little(demand: Demand, pool: Pool, left: Resources, needs: Resources) -> Iterator[str]:
    """The resources that do not cover a pod's needs (see `Resources.covers`), each as `left of needed`."""
    of = partial(whence, demand, pool, needs)
    left, needs = left + pool.overhead, needs + pool.overhead
    parts = (
        ("CPU", Cores, Cores, left.millicores, needs.millicores),
        ("memory", Size, Need, left.memory, needs.memory),
        ("ephemeral-storage", Size, Need, left.storage or 0, needs.storage or 0),
        ("more pods", int, int, left.pods, needs.pods),
    )
    for name, has, asks, there, needed in parts:
        if there < needed:
            yield f"{has(max(there, 0))} {name} of {asks(needed)} needed{of(name)}"


def _unready(demand: Demand, node: PoolNode) -> Finding | None:
    """Why no pod of the job can start on a node now, apart from its free devices; None if one can."""
    if node.unready is None:
        excluded = demand.excludes(node.name)
        return excluded.finding if excluded else None
    arriving = demand.arrives(node.name) if node.unready.reason is Reason.NO_ALLOCATABLE else None
    return node.unready if arriving is None else arriving.finding


def _of_each_node(findings: Sequence[Finding]) -> Iterable[Finding]:
    """Why each of a gang's nodes cannot be used now, by reason; of many nodes the first ones of each reason and how many more."""
    alike: dict[Reason, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(finding.reason, []).append(finding)
    for reason, found in alike.items():
        most = len(found) if len(found) <= _NAMED + 1 else _NAMED
        yield from found[:most]
        if len(found) > most:
            yield Finding(reason, "{} cannot be used either", (counted(len(found) - most, "more node"),))


def _first_of_each_reason(findings: Iterable[Finding]) -> Iterable[Finding]:
    first: dict[Reason, Finding] = {}
    for finding in findings:
        first.setdefault(finding.reason, finding)
    return first.values()


def has_nothing_else(demand: Demand, pool: Pool, able: Iterable[PoolNode]) -> bool:
    """Whether the nodes that jobs of higher priority do not wait for are too few for the gang."""
    awaited = {name for each in pool.ahead if each.waits for name, _ in each.taking.on}
    return bool(awaited) and sum(node.name not in awaited for node in able) < demand.nodes


def queued_behind(demand: Demand, pool: Pool) -> Finding:
    """Which jobs go first on a pool: the next job if it is in the same namespace, else only that one of another namespace does."""
    mine = [each for each in pool.ahead if each.namespace == demand.namespace]
    first = (mine or pool.ahead)[0]
    others = len(pool.ahead) - 1
    # Names of other namespaces stay private.
    who = f"job {first.job}" if mine else "a job of another namespace"
    and_others = f" and {others} more" if others else ""
    on = f"on each of {first.nodes} nodes" if first.nodes > 1 else "on one node"
    gpus = counted(first.gpus, "GPU")
    if not first.waits:
        sentence = "queued behind {} of priority {}{}, which takes {} {} now"
        return Finding(Reason.QUEUED_BEHIND, sentence, (who, first.priority, and_others, gpus, on))
    sentence = "queued behind {} of priority {}{}, which waits for {} {}; {} reserved for it"
    return Finding(Reason.QUEUED_BEHIND, sentence, (who, first.priority, and_others, gpus, on, _held(first)))


def _held(ahead: Ahead) -> str:
    held = sum(gpus for _, gpus in ahead.taking.on)
    return f"{counted(held, 'free GPU')} {'is' if held == 1 else 'are'}" if held else "none is free to be"
