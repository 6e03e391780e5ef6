"""What each pod of a job gets on a node: what the job asks, else the share of the node that belongs to its GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.fleet.objects import Resources
from gpujob.fleet.pool_node import PoolNode
from gpujob.placement.demand import Demand
from gpujob.quantity import GI, MI

SHARE: Final = (9, 10)
"""The part of a node's CPU and memory that GPU jobs share; the rest stays for daemons and later ones."""

DEFAULT_STORAGE: Final = 20 * GI


def node_needs(demand: Demand, node: PoolNode) -> Resources:
    """What a pod gets on a node: what the job asks, else the share of the node that belongs to its GPUs.

    The share is cut from what pods without GPUs leave; where others took more than their share, it shrinks down to a
    quarter, so that free GPUs are not stranded for want of memory.
    """
    gpus = demand.gpus_per_node
    total, free = max(node.total or node.healthy, gpus) + node.beside, max(node.free, gpus)
    base, left = node.share_base, node.left
    cpu, memory, storage = demand.millicores, demand.memory, demand.storage
    if not cpu:
        share = _share(base.millicores, left.millicores, gpus, total, free)
        cpu = max(1, _floor(share, 1000) or share)
    if not memory:
        share = _share(base.memory, left.memory, gpus, total, free)
        memory = max(MI, _floor(share, GI) or _floor(share, MI), demand.shared_memory or 0)
    if storage is None and base.storage is not None and left.storage is not None:
        storage = min(DEFAULT_STORAGE, _floor(_share(base.storage, left.storage, gpus, total, free), MI))
    return Resources(cpu, memory, storage, pods=1)


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
