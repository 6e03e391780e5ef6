"""What a changed node means for the pools that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool


def with_nodes(pool: Pool, changed: Mapping[str, tuple[PoolNode, ...]]) -> Pool:
    """The pool with the new figures of those nodes that it has; itself if it has none of them."""
    found: dict[int, PoolNode] = {}
    for name in changed.keys() & pool.positions.keys():
        found.update(zip(pool.positions[name], changed[name], strict=True))
    return pool.with_nodes(found) if found else pool


def differ_in_state(before: Sequence[DeviceGroup], after: Sequence[DeviceGroup]) -> bool:
    """Whether a node differs only in its state: readiness, health, cordon, deletion, allocations of claims."""
    if len(before) != len(after) or not before:
        return False
    old, new = before[0].node, after[0].node
    if replace(new, ready=old.ready, cordoned=old.cordoned, leaving=old.leaving, conditions=old.conditions) != old:
        return False
    return all(
        replace(one, node=old, held=other.held, lent=other.lent) == other
        for one, other in zip(after, before, strict=True)
    )


def overlaps_of(lost: Mapping[str, Mapping[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """The pools that lost a node to an older one, each with the first node by name; `lost` are those of each node."""
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(lost):
        for loser, winner in lost[name].items():
            found.setdefault(loser, winner)
    return found


def complete(*pools: Pool) -> None:
    """Computes what is read of all nodes of pools, so that no decision has to."""
    for pool in pools:
        _ = pool.stock, pool.size
