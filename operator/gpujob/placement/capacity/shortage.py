"""Why a pool can never run a job, in exact numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources, Taint
from gpujob.fleet.kubernetes.runtime_classes import lacks
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.storage.volume_ties import SUCCESSORS
from gpujob.placement.capacity.node_filters import disk_needed, lacks_label, pod_request, rejections
from gpujob.placement.capacity.pod_resources import minimum_of
from gpujob.placement.capacity.topology import too_scattered
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Cores, Finding, Need, Size, counted, listed
from gpujob.values.vocabulary import Reason

OF_CLASS: Final = {Reason.RUNTIME_HANDLER_MISSING, Reason.RUNTIME_CLASS_EXCLUDES}
"""Why the RuntimeClass of the pool's pods excludes a node."""


def why_never(demand: Demand, pool: Pool, nodes: tuple[PoolNode, ...], image_size: int | None) -> Iterable[Finding]:
    """Why these nodes, including those that can be added, can never run the whole gang."""
    reasons = [rejections(demand, pool, node, image_size) for node in nodes]
    kept_out = tuple(kept_out_by_class(pool, nodes))
    yield from kept_out
    startable = [node for node, r in zip(nodes, reasons, strict=True) if not set(r) - OF_CLASS]
    scattered = tuple(too_scattered(demand, pool, startable))
    if kept_out and len(startable) >= demand.nodes and not scattered:
        # With the handler and the label there are enough nodes, so other shortages do not matter.
        return
    if sum(Reason.POOL_TOO_SMALL not in r for r in reasons) < demand.nodes:
        yield pool_too_small(demand, pool)
    yield from _tainted(pool, nodes)
    yield from scattered
    yield from _unable(demand, pool, nodes, reasons, image_size)


def why_never_some(demand: Demand, pool: Pool, image_size: int | None) -> Iterator[Finding]:
    """Why some nodes of a pool can never run a pod of the job, apart from their free devices; without nodes with too few GPUs."""
    reasons = [rejections(demand, pool, node, image_size) for node in pool.nodes]
    if any(reasons):
        yield from _tainted(pool, pool.nodes)
        yield from kept_out_by_class(pool, pool.nodes)
        yield from _unable(demand, pool, pool.nodes, reasons, image_size)


def _unable(
    demand: Demand, pool: Pool, nodes: tuple[PoolNode, ...], reasons: Sequence[Sequence[Reason]], image_size: int | None
) -> Iterator[Finding]:
    """What nodes lack beside GPUs, by the reasons of each."""
    if any(Reason.NODE_TOO_SMALL in r for r in reasons):
        yield from _nodes_too_small(demand, pool, nodes)
    if any(Reason.ZONE_CONFLICT in r for r in reasons):
        yield _not_mountable(demand, nodes, [Reason.ZONE_CONFLICT in r for r in reasons])
    yield from _not_selected(demand, pool, nodes)
    yield from _without_image_mounts(nodes, [Reason.IMAGE_VOLUME_UNSUPPORTED in r for r in reasons])
    if any(Reason.DISK_TOO_SMALL in r for r in reasons) and image_size is not None:
        enough, needs = sum(Reason.DISK_TOO_SMALL not in r for r in reasons), Need(disk_needed(demand, image_size))
        if enough:
            sentence = "needs {} of disk for image and job, {} of {} nodes have that"
            yield Finding(Reason.DISK_TOO_SMALL, sentence, (needs, enough, _all(nodes)))
        else:
            sentence = "needs {} of disk for image and job, the largest node has {}"
            yield Finding(
                Reason.DISK_TOO_SMALL, sentence, (needs, Size(max(node.allocatable.storage or 0 for node in nodes)))
            )


def _not_mountable(demand: Demand, nodes: Sequence[PoolNode], refused: Sequence[bool]) -> Finding:
    new = any(node.coming for node, kept_off in zip(nodes, refused, strict=True) if kept_off)
    every = sum(not node.coming for node in nodes) if new else len(nodes)
    left = sum(not kept_off for kept_off in refused)
    sentence = "PersistentVolumeClaim {} can be mounted on {}{}; {}"
    where = f"{left or 'none'} of its {every} nodes" if every else "no node that can be added"
    also = ", and on none that can be added" if new and every else ""
    absent = [] if left else _zones_without_label(demand, nodes)
    remedy = f"its nodes lack the label {listed(absent)}" if absent else "use a volume of the pool's zone"
    return Finding(Reason.ZONE_CONFLICT, sentence, (listed(demand.ties, 4), where, also, remedy))


def volumes_to_make(demand: Demand, lacking: Finding) -> Finding:
    """What ends a lack of mountable nodes if that is PersistentVolumes alone: those of other nodes are no reason against more."""
    remedy = "create such a PersistentVolume on " + ("nodes" if demand.nodes > 1 else "a node") + " of the pool"
    return Finding(Reason.VOLUME_MISSING, lacking.sentence, (*lacking.numbers[:-1], remedy))


def _zones_without_label(demand: Demand, nodes: Sequence[PoolNode]) -> list[str]:
    """The labels of a zone or region that the job's volumes require and none of the nodes has, under its old name neither."""
    required = {
        key
        for tie in demand.tied
        for key in (*(name for name, _ in tie.zones), *(each.key for term in tie.terms for each in term))
    }
    names = [
        (key, *(old for old, new in SUCCESSORS.items() if new == key)) for key in SUCCESSORS.values() if key in required
    ]
    known = [node.labels for node in nodes if node.labels and not node.coming]
    return [key for key, *older in names if known and not any({key, *older} & labels.keys() for labels in known)]


def _not_selected(demand: Demand, pool: Pool, nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """The nodes that the node selector of the job's namespace leaves out."""
    lacking = [(node, label) for node in nodes if (label := lacks_label(demand, pool, node))]
    if not lacking or demand.selection is None:
        return
    there = [(node, label) for node, label in lacking if not node.coming]
    (node, label), annotation = (there or lacking)[0], demand.selection.annotation
    sentence = "{} the label {}, which namespace {} requires by its annotation {}"
    lack = _have(len(there), len(pool.nodes), "lacks", "lack") if there else "nodes to be added lack"
    sentence += " (node {}); label it, or use another pool or namespace" if there else "; use another pool or namespace"
    numbers = (lack, label, demand.namespace, annotation, *((node.name,) if there else ()))
    yield Finding(Reason.NODES_NOT_SELECTED, sentence, numbers)


def _without_image_mounts(nodes: Sequence[PoolNode], refused: Sequence[bool]) -> Iterator[Finding]:
    unable = [node for node, unable in zip(nodes, refused, strict=True) if unable]
    if unable:
        sentence = (
            "{} cannot mount an image as a volume ({} has {}), which needs Kubernetes 1.31 and containerd 2.1 or "
            "CRI-O 1.31; upgrade it, or bring the files by a ConfigMap or a PersistentVolumeClaim"
        )
        every = len(nodes)
        some = (
            "its node"
            if every == 1
            else f"all {every} nodes"
            if len(unable) == every
            else f"{len(unable)} of {every} nodes"
        )
        numbers = (some, unable[0].name, unable[0].image_mounts.why)
        yield Finding(Reason.IMAGE_VOLUME_UNSUPPORTED, sentence, numbers)


def kept_out_by_class(pool: Pool, nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """The nodes that the RuntimeClass of the pool's pods excludes: they lack its handler or a label."""
    if pool.handler is None:
        return
    unlabelled = [node for node in nodes if node.unlabelled]
    if unlabelled:
        sentence = (
            "{} the label {}, which RuntimeClass {} requires (node {}); label it, or set spec.runtimeClassName in a "
            "GPUPool for such nodes"
        )
        lack = _have(len(unlabelled), len(nodes), "lacks", "lack")
        numbers = (lack, unlabelled[0].unlabelled, pool.handler.runtime_class, unlabelled[0].name)
        yield Finding(Reason.RUNTIME_CLASS_EXCLUDES, sentence, numbers)
    lacking = [node for node in nodes if lacks(node.handlers, pool.handler)]
    if not lacking:
        return
    sentence = (
        "{} no handler {}, which RuntimeClass {} requires (node {}); install it there, as the NVIDIA container toolkit "
        "does, or set spec.runtimeClassName in a GPUPool for such nodes"
    )
    numbers = (_have(len(lacking), len(nodes)), pool.handler.name, pool.handler.runtime_class, lacking[0].name)
    yield Finding(Reason.RUNTIME_HANDLER_MISSING, sentence, numbers)


def barred(pool: Pool) -> Finding | None:
    """The taint that excludes every job from a pool; None if a node has only taints that the pool tolerates."""
    nodes = (*pool.nodes, *((pool.growth.template,) if pool.growth and pool.growth.addable else ()))
    if not all(any(_not_tolerated(pool, node)) for node in nodes):
        return None
    return next(_tainted(pool, nodes), None)


def _tainted(pool: Pool, nodes: tuple[PoolNode, ...]) -> Iterator[Finding]:
    refused = [(node, taint) for node in nodes if (taint := next(_not_tolerated(pool, node), None))]
    there = [(node, taint) for node, taint in refused if not node.coming]
    if there:
        taint = there[0][1]
        # New nodes are taken to be like those that are there.
        alike = any(node.coming and other == taint for node, other in refused)
        rest = (
            ", remove it, or set spec.provision.taints to those of nodes to be added ([] if none)"
            if alike
            else " or remove it"
        )
        sentence = "{} taint {}; tolerate it in a GPUPool (spec.tolerations)" + rest
        yield Finding(Reason.TAINT_NOT_TOLERATED, sentence, (_have(len(there), len(pool.nodes)), taint))
    elif refused:
        sentence = "nodes to be added have taint {}; tolerate it in a GPUPool (spec.tolerations) or remove it"
        yield Finding(Reason.TAINT_NOT_TOLERATED, sentence, (refused[0][1],))


def _not_tolerated(pool: Pool, node: PoolNode) -> Iterator[Taint]:
    return (taint for taint in node.taints if not pool.tolerates(taint))


def _have(some: int, every: int, one: str = "has", more: str = "have") -> str:
    """The number of a pool's nodes, at least one, that share a property, with the verb for one and for more."""
    if every == 1:
        return f"its node {one}"
    return f"all {every} nodes {more}" if some == every else f"{some} of {every} nodes {one if some == 1 else more}"


def pool_too_small(demand: Demand, pool: Pool) -> Finding:
    """Too few nodes have that many GPUs, including those that can be added."""
    gpus, total = demand.gpus_per_node, len(pool.nodes)
    coming, each = (pool.growth.addable, pool.growth.template.total or 0) if pool.growth else (0, 0)
    sizes = [gpus if node.total is None else node.total for node in pool.nodes]
    largest = max([*sizes, each] if coming else sizes, default=gpus)
    needed = counted(gpus, "GPU")
    if largest < gpus:
        sentence = "needs {} on one node, " + ("the largest node has {}" if sizes else "a node to be added has {}")
        if total + coming < demand.nodes:
            sentence += f", and {demand.nodes} such nodes where the pool has {_so_many(total, coming, pool)}"
        return Finding(Reason.POOL_TOO_SMALL, sentence, (needed, largest))
    enough = sum(size >= gpus for size in sizes)
    more = coming if each >= gpus else 0
    if enough == total:
        has = f"the pool has {_so_many(total, more, pool)}"
    else:
        has = f"{enough} of the pool's {counted(total, 'node')} have that many" + _added(more, pool)
    new = len(demand.awaited(pool.bare))
    has += f" and {counted(new, 'new node')} without GPUs yet" if new else ""
    return Finding(Reason.POOL_TOO_SMALL, "needs {} with {} each, {}", (counted(demand.nodes, "node"), needed, has))


def _so_many(total: int, more: int, pool: Pool) -> str:
    return f"{counted(total, 'node') if total or not pool.growth else 'none'}{_added(more, pool)}"


def _added(more: int, pool: Pool) -> str:
    """The number of nodes that can be added to a pool if its GPUPool says that it grows."""
    return f" and {more} can be added (spec.provision.maxNodes of its GPUPool)" if pool.growth else ""


def _nodes_too_small(demand: Demand, pool: Pool, nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """The resource that too few nodes have; if each one alone is on enough nodes, those that some lack, all at once."""
    yield from _take_no_pods(nodes)
    asked, whole = pod_request(demand) + pool.overhead, [node.allocatable + pool.overhead for node in nodes]
    of = partial(whence, demand, pool, pod_request(demand))
    parts = [
        ("CPU", Cores, asked.millicores, [each.millicores for each in whole]),
        ("memory", Need, asked.memory, [each.memory for each in whole]),
        ("ephemeral-storage", Need, asked.storage or 0, [each.storage or 0 for each in whole]),
    ]
    short = False
    for name, show, amount, there in parts:
        enough, largest = sum(has >= amount for has in there), max(there, default=0)
        if not amount or enough >= demand.nodes:
            continue
        short = True
        if largest < amount:
            sentence = "needs {} {}{} on one node, the largest node has {}"
            has = Size(largest) if show is Need else show(largest)
            yield Finding(Reason.NODE_TOO_SMALL, sentence, (show(amount), name, of(name), has))
        else:
            sentence = "needs {} {}{} on each of {} nodes, {} of {} have that"
            numbers = (show(amount), name, of(name), demand.nodes, enough, _all(nodes))
            yield Finding(Reason.NODE_TOO_SMALL, sentence, numbers)
    lacking = [part for part in parts if part[2] and min(part[3]) < part[2]]
    if lacking and not short:
        every = listed(f"{show(amount)} {name}{of(name)}" for name, show, amount, _ in lacking)
        enough = sum(each.covers(asked) for each in whole)
        on = f"each of {demand.nodes} nodes" if demand.nodes > 1 else "one node"
        sentence = "needs {} on {}, {} of {} have that" + (" together" if len(lacking) > 1 else "")
        yield Finding(
            Reason.NODE_TOO_SMALL,
            sentence,
            (every, on, enough, f"{_all(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"),
        )


def _take_no_pods(nodes: Sequence[PoolNode]) -> Iterator[Finding]:
    """The nodes that are there whose kubelet takes no pods at all."""
    nodes = [node for node in nodes if not node.coming]
    found = [node for node in nodes if not node.allocatable.pods]
    if found:
        sentence = "{} 0 pods as allocatable (node {}); raise maxPods of its kubelet, or use another pool"
        yield Finding(Reason.NODE_TOO_SMALL, sentence, (_have(len(found), len(nodes)), found[0].name))


def whence(demand: Demand, pool: Pool, needs: Resources, name: str) -> str:
    """Clauses about a pod's needs: the LimitRange whose minimum they are, and the overhead of the pool's RuntimeClass."""
    amount = {"CPU": needs.millicores, "memory": needs.memory, "ephemeral-storage": needs.storage or 0}.get(name, 0)
    return minimum_of(demand, name.lower(), amount) + _of_class(pool, name)


def _of_class(pool: Pool, name: str) -> str:
    """The part that the RuntimeClass of the pool's pods adds as overhead, as a clause."""
    overhead = pool.overhead
    shown = {"CPU": Cores(overhead.millicores), "memory": Need(overhead.memory)}.get(name, Need(overhead.storage or 0))
    if pool.handler is None or not shown:
        return ""
    return f" ({shown} of it overhead of RuntimeClass {pool.handler.runtime_class})"


def _all(nodes: Sequence[PoolNode]) -> str:
    """The number of nodes, with those that can be added counted separately."""
    coming = sum(node.coming for node in nodes)
    return f"{len(nodes)} ({coming} of them to be added)" if coming else f"{len(nodes)}"
