"""The resources of each pod on a node: the job's requests, else the share of the node that belongs to its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy.limit_range import OF_CLAIMS, Limits
from gpujob.fleet.pools.node import PoolNode
from gpujob.placement.request.demand import Demand
from gpujob.values.quantity import GI, MI

SHARE: Final = (9, 10)
"""The fraction of a node's CPU and memory that GPU jobs share; the rest is for daemons."""

DEFAULT_STORAGE: Final = 20 * GI

ATTRIBUTES: Final = {"cpu": "millicores", "memory": "memory", "ephemeral-storage": "storage"}
"""The demand's field for each resource of a container."""


def node_needs(demand: Demand, node: PoolNode) -> Resources:
    """The resources of a pod on a node: the job's requests, else the share of the node that belongs to its GPUs.

    The share comes from what pods without GPUs leave. If other pods exceed their share, it shrinks to a quarter at least, so
    that free GPUs are not stranded for lack of memory.
    """
    cpu, memory, storage = demand.millicores, demand.memory, demand.storage
    if cpu and memory and storage is not None:
        return Resources(cpu, memory, storage, 1)
    gpus, free = demand.gpus_per_node, node.free
    total = node.total or node.healthy
    parts = (gpus, (total if total > gpus else gpus) + node.beside, free if free > gpus else gpus)
    base, left = node.share_base, node.left
    if not cpu:
        share = _share(base.millicores, left.millicores, parts)
        cpu = share // 1000 * 1000 or share or 1
    if not memory:
        share = _share(base.memory, left.memory, parts)
        memory = max(share // GI * GI or share // MI * MI or MI, demand.shared_memory or 0)
    if storage is None and base.storage is not None and left.storage is not None:
        storage = min(DEFAULT_STORAGE, _share(base.storage, left.storage, parts) // MI * MI)
    needs = Resources(cpu, memory, storage, 1)
    return needs if demand.limits is None else _within_limits(demand, demand.limits, needs)


def needs_later(demand: Demand, able: Iterable[PoolNode]) -> Resources:
    """The resources of each pod of a gang that has no room now, on those of the able nodes that it would take once enough devices
    are free.
    """
    later = sorted((_once_free(node, demand.gpus_per_node) for node in able), key=_best_fit)
    return smallest([node_needs(demand, node) for node in later[: demand.nodes]]) if later else Resources()


def _once_free(node: PoolNode, gpus: int) -> PoolNode:
    """A node after pods that hold devices ended, so that this number is free; the others take as much for a device as now."""
    total = node.total or node.healthy
    taken, base, left = max(total - node.free, 0), node.share_base, node.left
    if not taken:
        return node
    stay = min(taken, max(total - gpus, 0))
    storage = None if base.storage is None else base.storage - (base.storage - (left.storage or 0)) * stay // taken
    freed = Resources(
        base.millicores - (base.millicores - left.millicores) * stay // taken,
        base.memory - (base.memory - left.memory) * stay // taken,
        storage,
        base.pods - (base.pods - left.pods) * stay // taken,
    )
    return replace(node, free=total - stay, left=freed)


def _best_fit(node: PoolNode) -> tuple[bool, int, int, str]:
    return node.coming, node.free, node.left.memory, node.name


def _within_limits(demand: Demand, limits: Limits, needs: Resources) -> Resources:
    """Clamps the node's share to the LimitRange bounds; requests of the job itself stay unchanged."""
    least, most, storage = limits.least, limits.most, needs.storage
    if demand.storage is None and storage is not None:
        storage = max(min(storage, most.storage or 0), least.storage or 0)
    return Resources(
        demand.millicores or max(min(needs.millicores, most.millicores), least.millicores),
        demand.memory or max(min(needs.memory, most.memory), least.memory),
        storage,
        1,
    )


def minimum_of(demand: Demand, resource: str, amount: int) -> str:
    """The clause of a sentence about an amount of each pod that a LimitRange's minimum raised; empty if none did."""
    attribute = ATTRIBUTES.get(resource, "")
    least: int = getattr(demand.limits and demand.limits.least, attribute, None) or 0
    own: int = getattr(demand, attribute, None) or (demand.shared_memory if attribute == "memory" else 0) or 0
    if demand.limits is None or not own < least == amount:
        return ""
    bounds = (each for each in demand.limits.bounds if (each.resource, each.least) == (resource, least))
    return next((f" (the minimum of LimitRange {each.name})" for each in bounds if each.kind != OF_CLAIMS), "")


def shared_memory(demand: Demand, needs: Resources) -> int:
    """Bytes of /dev/shm: the job's request, else a quarter of its memory, at least 1Gi (or all), at most 64Gi."""
    if demand.shared_memory is not None:
        return demand.shared_memory
    return min(max(needs.memory // 4, min(GI, needs.memory)), 64 * GI)


def _share(base: int, left: int, parts: tuple[int, int, int]) -> int:
    """The share of a number of GPUs, relative to the node's GPUs and to its free GPUs."""
    if base <= 0:
        return 0
    gpus, total, free = parts
    mine = base * gpus * SHARE[0] // (total * SHARE[1])
    now = left * gpus // free if left > 0 else 0
    return mine if mine <= now else max(now, mine // 4)


def smallest(needs: Sequence[Resources]) -> Resources:
    """All pods of a gang share one template, so the smallest of their shares counts."""
    if len(needs) == 1:
        return needs[0]
    storages = [each.storage for each in needs if each.storage is not None]
    return Resources(
        min(each.millicores for each in needs),
        min(each.memory for each in needs),
        min(storages) if len(storages) == len(needs) else None,
        1,
    )
