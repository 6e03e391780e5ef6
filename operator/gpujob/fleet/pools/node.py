"""A node of a pool: its devices, what is free, and why no pod can start there now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpujob.fleet.devices.shared_cards import Silicon
from gpujob.fleet.kubernetes.image_volumes import UNREPORTED, ImageMounts
from gpujob.fleet.kubernetes.objects import Labels, Resources, Taint
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node of a pool: its total, healthy and free devices, and its other free resources."""

    name: str
    total: int | None
    healthy: int
    free: int
    allocatable: Resources
    share_base: Resources
    """Allocatable less the requests of pods without GPUs of this resource: the basis of the GPUs' shares."""
    left: Resources
    taints: tuple[Taint, ...] = ()
    unready: Finding | None = None
    suspected: Finding | None = None
    """Why it ranks after all other nodes although pods can start there."""
    planned: Finding | None = None
    """The maintenance that is announced for it."""
    planned_at: int | None = None
    """When it begins, in seconds since 1970; None if that is unknown."""
    beside: int = 0
    """Usable devices of the node's other resources, converted to this one."""
    coming: bool = False
    """Whether an autoscaler would have to add the node first."""
    links: int | None = None
    """The number of pods of a gang for which the fabric's devices are free; None if the fabric has none."""
    domain: str = ""
    """Its topology domain in the pool's fabric; empty without the label."""
    image_mounts: ImageMounts = UNREPORTED
    """Whether it can mount an OCI image as a volume."""
    handlers: frozenset[str] | None = None
    """Names of the handlers that RuntimeClasses can request; None if unknown."""
    labels: Labels = field(default_factory=dict, compare=False, repr=False)
    """The node's labels; none where they are not known."""
    unlabelled: str = ""
    """The label that the RuntimeClass of the pool's pods requires and the node lacks."""
    silicon: Silicon | None = None
    """The cards, if other resources of the node offer the same."""

    def unnumbered(self, why: Finding | None = None) -> PoolNode:
        """The node of a pool of known devices while its own are not known: how many of them it will have is unknown."""
        now = self.unready
        if why is not None and now is not None and now.reason is Reason.NO_ALLOCATABLE:
            why = replace(why, reason=now.reason)  # It explains why the node offers nothing.
        elif now is not None:
            why = now
        return replace(self, total=None, healthy=0, free=0, unready=why)

    @property
    def started_for_one(self) -> bool:
        """Whether the node is a future one that no other pod waits for; then a job pays for all of it."""
        return self.coming and self.free == self.healthy


@dataclass(frozen=True, slots=True)
class Growth:
    """What an autoscaler can add to a pool: nodes like this one, and their largest number."""

    template: PoolNode
    count: int
    """Nodes that no pod waits for."""
    started: tuple[PoolNode, ...] = ()
    """Future nodes that pods wait for, with what these leave free."""
    price: int = 0
    """Micro-dollars an hour that a device of a new node may cost, if that is more than those of the pool cost."""
    warning: Finding | None = None
    """The warning that a new node may lack what the nodes of the pool have."""

    @property
    def addable(self) -> int:
        """All nodes that can still be added, including those that pods wait for."""
        return self.count + len(self.started)
