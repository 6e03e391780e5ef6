"""A node of a pool: what it has, what of it is free, and why no pod can start there now."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpujob.fleet.devices.shared_cards import Silicon
from gpujob.fleet.kubernetes.image_volumes import UNTOLD, ImageMounts
from gpujob.fleet.kubernetes.objects import Labels, Resources, Taint
from gpujob.values.finding import Finding


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node of a pool: devices that it has, that are healthy and that are free, and its other free resources."""

    name: str
    total: int | None
    healthy: int
    free: int
    allocatable: Resources
    share_base: Resources
    """Allocatable less what pods without GPUs of this resource take: what the GPUs' shares are cut from."""
    left: Resources
    taints: tuple[Taint, ...] = ()
    unready: Finding | None = None
    suspected: Finding | None = None
    """Why it is used after all other nodes, though pods can start there."""
    beside: int = 0
    """Usable devices of the node's other resources, as so many of this one."""
    coming: bool = False
    """Whether an autoscaler would have to add the node first."""
    links: int | None = None
    """For how many pods of a gang the devices of the pool's fabric are free; None where the fabric has none."""
    domain: str = ""
    """Its place in the pool's fabric; empty where no label says it."""
    image_mounts: ImageMounts = UNTOLD
    """Whether it can mount an OCI image as a volume."""
    handlers: frozenset[str] | None = None
    """Names of the handlers that RuntimeClasses can ask for; None where nobody says."""
    labels: Labels = field(default_factory=dict, compare=False, repr=False)
    """The node's labels; none where they are not known."""
    unlabelled: str = ""
    """The label that the RuntimeClass of the pool's pods asks for and the node does not have."""
    silicon: Silicon | None = None
    """Where other resources of the node offer the same cards."""

    @property
    def started_for_one(self) -> bool:
        """Whether the node is to be added and no other pod waits for it: then a job pays for all of it."""
        return self.coming and self.free == self.healthy


@dataclass(frozen=True, slots=True)
class Growth:
    """What an autoscaler can add to a pool: nodes like this one, at most so many."""

    template: PoolNode
    count: int
    """Nodes that no pod waits for."""
    started: tuple[PoolNode, ...] = ()
    """Nodes to be added that pods wait for, with what these leave free."""

    @property
    def addable(self) -> int:
        """All nodes that can still be added, whatever waits for them."""
        return self.count + len(self.started)
