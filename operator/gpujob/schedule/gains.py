"""Whether a fleet gained anything since an earlier snapshot: a demand that had no room then has none now if it did not."""

from __future__ import annotations

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.filters.volumes import attachments
from gpujob.placement.request.demand import Demand


def gained(before: Fleet, now: Fleet, namespace: str) -> bool:
    """Whether a job of the namespace may have another verdict now: anything but free devices and resources differs, or some of
    them are more than before.

    Only pools are compared, and only where no quota counts the job; true if unknown.
    """
    if before is now or (before.pools is now.pools and before.quotas is now.quotas):
        return False
    # A job without requests asks for less where less is left, which a quota may then allow.
    if namespace in before.quotas or namespace in now.quotas or len(before.pools) != len(now.pools):
        return True
    return any(old is not new and _pool_gained(old, new) for old, new in zip(before.pools, now.pools, strict=True))


def remounted(demand: Demand, fleet: Fleet) -> bool:
    """Whether other pods mount the claims of a demand now than when it was decided."""
    return bool(demand.single) and demand.attached != attachments(demand.single, fleet, demand.namespace)


def _pool_gained(before: Pool, now: Pool) -> bool:
    # The cache of what follows from a pool's facts is one object while they are the same.
    if before.answers is not now.answers or before.ahead != now.ahead or len(before.nodes) != len(now.nodes):
        return True
    if before.growth is not now.growth and before.growth != now.growth:
        return True
    pairs = zip(before.nodes, now.nodes, strict=True)
    return any(old is not new and _node_gained(old, new) for old, new in pairs)


def _node_gained(before: PoolNode, now: PoolNode) -> bool:
    if now.free > before.free or now.beside > before.beside or not _within(now.left, before.left):
        return True
    if _grew(before.links, now.links):
        return True
    return any(getattr(before, name) != getattr(now, name) for name in SAME)


SAME = (
    "name", "total", "healthy", "allocatable", "share_base", "taints", "unready", "suspected", "coming", "domain",
    "image_mounts", "handlers", "labels", "unlabelled", "silicon"
)  # fmt: skip
"""What must be as it was: less of it can turn Waiting into Impossible, and other taints or labels can let a pod in."""


def _within(now: Resources, before: Resources) -> bool:
    """Whether no resource is more than before."""
    less = now.millicores <= before.millicores and now.memory <= before.memory and now.pods <= before.pods
    return less and not _grew(before.storage, now.storage)


def _grew(before: int | None, now: int | None) -> bool:
    """Whether a figure is more than before, or is known on one side only."""
    return now is not before if before is None or now is None else now > before
