"""Whether a fleet gained anything since an earlier snapshot: a demand that had no room then has none now if it did not."""

from __future__ import annotations

from typing import NamedTuple

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_fit import may_have_room
from gpujob.placement.filters.volumes import attachments
from gpujob.placement.request.demand import Demand


class Gains(NamedTuple):
    """What a later snapshot has and an earlier one had not. A demand keeps its refusal where none of it helps."""

    everything: bool
    """Whether a fact differs that any verdict may depend on."""
    free: tuple[Pool, ...]
    """The pools with more free devices or resources, or with other jobs ahead, as they are now; their facts are as before."""

    def help_waiting(self, demand: Demand) -> bool:
        """Whether a demand that waited may have another verdict now."""
        if self.everything or not self.free:
            return self.everything
        if demand.sized_by_model or demand.wait_seconds:
            return True
        return any(pool.ahead or may_have_room(gang, pool) for pool in self.free for gang in demand.gangs)


def gains(before: Fleet, now: Fleet, namespace: str) -> Gains:
    """Only pools are compared, and only where no quota counts the job: a job without requests asks for less where less is left,
    which a quota may then allow."""
    if before is now or (before.pools is now.pools and before.quotas is now.quotas):
        return Gains(everything=False, free=())
    if namespace in before.quotas or namespace in now.quotas or len(before.pools) != len(now.pools):
        return Gains(everything=True, free=())
    pairs = [(old, new) for old, new in zip(before.pools, now.pools, strict=True) if old is not new]
    if any(_differs(old, new) for old, new in pairs):
        return Gains(everything=True, free=())
    return Gains(everything=False, free=tuple(new for old, new in pairs if _has_more(old, new)))


def remounted(demand: Demand, before: Fleet, now: Fleet) -> bool:
    """Whether other pods mount the claims of a demand now than when it was decided, or other PersistentVolumes are left for them."""
    if (demand.claims or demand.new_claims) and before.volumes.taken != now.volumes.taken:
        return True
    return bool(demand.single) and demand.attached != attachments(demand.single, now, demand.namespace)


def _differs(before: Pool, now: Pool) -> bool:
    """Whether something else than what is free differs between two versions of a pool."""
    # The cache of what follows from a pool's facts is one object while they are the same.
    if before.answers is not now.answers or len(before.nodes) != len(now.nodes):
        return True
    if before.growth is not now.growth and before.growth != now.growth:
        return True
    pairs = zip(before.nodes, now.nodes, strict=True)
    return any(old is not new and any(getattr(old, name) != getattr(new, name) for name in SAME) for old, new in pairs)


def _has_more(before: Pool, now: Pool) -> bool:
    """Whether a node has more free than before, or other jobs go first."""
    if before.ahead != now.ahead:
        return True
    pairs = zip(before.nodes, now.nodes, strict=True)
    return any(old is not new and _node_has_more(old, new) for old, new in pairs)


def _node_has_more(before: PoolNode, now: PoolNode) -> bool:
    if now.free > before.free or now.beside > before.beside or not _within(now.left, before.left):
        return True
    return _grew(before.links, now.links)


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
