"""Pools of interchangeable devices with their free capacity and price: what placement decides on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Final

from gpujob.catalog.identity import nearest
from gpujob.catalog.records import Accelerator, Catalog
from gpujob.finding import Finding
from gpujob.fleet.ahead import Ahead, Taking
from gpujob.fleet.equipment import Equipment
from gpujob.fleet.fabric import Fabric
from gpujob.fleet.handlers import NOTHING, Classes, Handler, lacks
from gpujob.fleet.limit_range import LimitRanges
from gpujob.fleet.namespaces import Namespace
from gpujob.fleet.naming import without_type
from gpujob.fleet.objects import Resources, Selector, Taint
from gpujob.fleet.pool_node import Growth, PoolNode
from gpujob.fleet.portion import WHOLE, Portion, Share
from gpujob.fleet.pricing import PoolPrice
from gpujob.fleet.priorities import Priorities, class_of
from gpujob.fleet.quota import Claims, Quota, Quotas, counted_as, quotas_after, taken_by
from gpujob.fleet.quota_scopes import PodTraits
from gpujob.fleet.request import DeviceRequest
from gpujob.fleet.reserving import Pods, reserved, unnamed_reserved, with_ahead, without_ahead
from gpujob.fleet.stock import Stock
from gpujob.fleet.taints import TOLERATED_KEYS
from gpujob.fleet.volumes import NO_VOLUMES, Volumes
from gpujob.vocabulary import CapacityType, DeviceKind, Vendor

NodeSizes = tuple[tuple[int, int], ...]
"""The devices of nodes, the most first, each with the number of nodes that have at least so many."""

MOST_NODES: Final = 8
"""The largest gang that is tried unasked; larger ones are the user's to ask for."""


@dataclass(frozen=True)
class Pool:
    """Interchangeable devices; facts are the worst of its nodes (least memory, oldest driver)."""

    name: str
    discovered: bool
    vendor: Vendor
    resource: str
    accelerator: Accelerator | None
    memory: int | None
    driver: str | None
    cpu_architecture: str
    instance_type: str
    region: str
    capacity_type: CapacityType
    price: PoolPrice | None
    nodes: tuple[PoolNode, ...]
    also: tuple[str, ...] = ()
    """Other names that mean this pool, of a discovered one (see `naming`)."""
    portion: Portion = WHOLE
    """What was made of a whole device."""
    share: Share | None = (1, 1)
    """The part of a whole device that one is; None where nobody says."""
    problem: Finding | None = None
    models: tuple[str, ...] = ()
    """Ids of the models that are mixed, where the problem is that nobody can say which of them a pod gets."""
    doubts: tuple[Finding, ...] = ()
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    """Taints that the admin's GPUPool tolerates: key, value (None: any), effect (None: any)."""
    supplemental_groups: tuple[int, ...] = ()
    runtime_class: str | None = None
    handler: Handler | None = None
    """What its pods' RuntimeClass asks of their nodes; None where they have no class or nothing is known of it."""
    env: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    selector: Selector = ()
    """How a pod finds the nodes of an admin's pool that are not there yet."""
    growth: Growth | None = None
    request: DeviceRequest | None = None
    """How a ResourceClaim asks for its devices; None where pods ask by the name of the resource."""
    also_counted_as: tuple[str, ...] = ()
    """Further names under which quotas count devices that pods ask for by the resource's name: where a DRA driver offers them."""
    host_devices: bool = False
    """Whether pods get the host's device files: privileged, all GPUs of a node, one such pod a node."""
    fabric: Fabric | None = None
    """What pods of a gang need of the network between nodes, by the admin's word."""
    namespaces: tuple[tuple[str, str], ...] = ()
    """Labels of the namespaces whose jobs may use the pool; none: all may."""
    node_pool: str = ""
    """The cloud's or Karpenter's node pool that may grow although no GPUPool says so."""
    ahead: tuple[Ahead, ...] = ()
    """Jobs of higher priority that go first here, the first of them first."""

    @cached_property
    def accelerator_id(self) -> str:
        """The accelerator's id, those of a mixture, or `unknown`."""
        return self.accelerator.id if self.accelerator else ", ".join(self.models) or "unknown"

    @property
    def kind(self) -> DeviceKind:
        """What its devices are: whole, parts, shared or integrated."""
        return self.portion.kind

    @cached_property
    def device(self) -> str:
        """The accelerator and what was made of it, for people: MI300X cpx_nps4."""
        return f"{self.accelerator_id} {self.portion}".strip()

    @property
    def host_architecture(self) -> str:
        """The CPU architecture of its hosts: the device's where it comes with its host, else what labels say."""
        return (self.accelerator and self.accelerator.host_architecture) or self.cpu_architecture

    @cached_property
    def equipment(self) -> Equipment:
        """What images are held against."""
        return Equipment(self.vendor, self.accelerator, self.driver, self.host_architecture, self.problem is None)

    @cached_property
    def counted_as(self) -> str:
        """What quotas call its devices."""
        return counted_as(self.resource, self.request.device_class if self.request else None)

    @cached_property
    def all_counted_as(self) -> tuple[str, ...]:
        """Every name under which quotas count its devices: claims count as the resource of their DeviceClass too."""
        return self.request.counted_as if self.request else (self.counted_as, *self.also_counted_as)

    @cached_property
    def free(self) -> int:
        """Free devices on nodes that are ready."""
        return sum(max(0, node.free) for node in self.nodes if node.unready is None)

    @cached_property
    def total(self) -> int:
        """All devices of the nodes."""
        return sum(node.total or node.healthy for node in self.nodes)

    def is_called(self, word: str) -> bool:
        """Whether a word of placement.pools means this pool."""
        return word == self.name or word in self.also

    @cached_property
    def largest(self) -> int:
        """The devices of its largest node, be it there or to be added; 0 where there is none."""
        return max((node.total or node.healthy for node, _ in self._counted()), default=0)

    @cached_property
    def size(self) -> tuple[str, NodeSizes, bool, int | None]:
        """Its name, the sizes of its usable nodes up to MOST_NODES, whether they are given out whole, and the bytes of a device."""
        return self.name, self.node_sizes(MOST_NODES), self.host_devices, self.memory

    def node_sizes(self, most: int) -> NodeSizes:
        """The devices of the nodes that can take its pods, be they there or to be added, counted up to `most`; of all nodes
        where none can."""
        counts: Counter[int] = Counter()
        for usable in (True, False):
            for node, number in self._counted():
                if not usable or self._is_usable(node):
                    # A node whose devices are all gone, and of which nobody says what it had, counts as one of one GPU.
                    counts[node.total or node.healthy or 1] += number
            if counts:
                break
        found, sofar = [], 0
        for size in sorted(counts, reverse=True):
            sofar += counts[size]
            found.append((size, min(sofar, most)))
            if sofar >= most:
                break
        return tuple(found) or ((1, 0),)

    def _counted(self) -> Iterator[tuple[PoolNode, int]]:
        """Its nodes, and those that can be added, with their number."""
        yield from ((node, 1) for node in self.nodes)
        if self.growth is not None and self.growth.addable:
            yield self.growth.template, self.growth.addable

    def _is_usable(self, node: PoolNode) -> bool:
        """Whether a node can take the pool's pods in some state, whatever they ask for."""
        if node.unlabelled or lacks(node.handlers, self.handler):
            return False
        return all(map(self.tolerates, node.taints)) if node.taints else True

    @cached_property
    def stock(self) -> Stock:
        """Its nodes in the order in which capacity asks for them."""
        return Stock(self.nodes, self.tolerates)

    @cached_property
    def as_if_first(self) -> Pool:
        """The pool with what jobs of higher priority took in this round, or have held for them, given back."""
        return without_ahead(self) if self.ahead else self

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Where in `nodes` a name is found; twice where the pool has two resources of one node."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            found[node.name].append(index)
        return dict(found)

    @cached_property
    def answers(self) -> dict[object, tuple[object, object]]:
        """Room for what placement worked out from the pool's facts alone, whatever its nodes are doing; first of each
        what else it was worked out from."""
        return {}

    def with_nodes(self, changed: Mapping[int, PoolNode]) -> Pool:
        """The pool after what is free or ready changed on some nodes, by index; what else is known of it is kept."""
        nodes, resized = list(self.nodes), False
        for index, node in changed.items():
            before, nodes[index] = nodes[index], node
            resized |= _sized(before) != _sized(node)
        pool = copy(self)
        kept = pool.__dict__
        for name in ("free", "stock", "as_if_first", *(("total", "largest", "size") if resized else ())):
            kept.pop(name, None)
        kept["nodes"] = tuple(nodes)
        kept["answers"] = self.answers
        if "stock" in self.__dict__:
            moves = ((index, self.nodes[index], node) for index, node in changed.items())
            stock = self.stock.moved(moves, self.tolerates)
            if stock is not None:
                kept["stock"] = stock
        return pool

    def taken(self, gpus: int, needs: Resources, pods: int, claims: Claims) -> dict[str, int]:
        """What quotas count for so many pods on it, each with so many devices and what its containers need."""
        fabric = dict(self.fabric.resources) if self.fabric and pods > 1 else {}
        return taken_by(self.all_counted_as, gpus, needs + self.overhead, pods, claims, fabric)

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod for this pool may tolerate the taint: a well-known key, or the admin's word."""
        if taint.effect == "PreferNoSchedule" or taint.key in TOLERATED_KEYS:
            return True
        by_class = self.handler.brings.tolerated if self.handler else ()
        return any(
            key in ("", taint.key) and value in (None, taint.value) and effect in (None, taint.effect)
            for key, value, effect in (*self.tolerated, *by_class)
        )

    @property
    def overhead(self) -> Resources:
        """What each of its pods takes of a node beside its containers, by its RuntimeClass."""
        return self.handler.brings.overhead if self.handler else NOTHING


def _sized(node: PoolNode) -> tuple[object, ...]:
    """What of a node the sizes of its pool follow from."""
    return (node.total, node.healthy, node.taints, node.handlers, node.unlabelled)


@dataclass(frozen=True)
class Fleet:
    """All pools, and what the cluster has besides."""

    pools: tuple[Pool, ...] = ()
    runtime_classes: Classes = field(default_factory=dict)
    """The RuntimeClasses that exist."""
    overlaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Admin pools that lost nodes to an older one: name -> (older pool, node)."""
    quotas: Quotas = field(default_factory=dict)
    """What namespaces may still take; a namespace without quotas is not there."""
    limits: LimitRanges = field(default_factory=dict)
    """What LimitRanges say of pods; a namespace without them is not there."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    """All namespaces, by name."""
    volumes: Volumes = NO_VOLUMES
    """Where PersistentVolumeClaims can be mounted."""
    priorities: Priorities = field(default_factory=dict)
    """The PriorityClasses; none where nothing is known of them."""
    answers: dict[object, tuple[object, object]] = field(default_factory=dict, compare=False, repr=False)
    """Room for what placement worked out from the facts of all pools, first of each what it was worked out from; a fleet
    and those that follow it share it."""

    @cached_property
    def facts(self) -> tuple[object, ...]:
        """What stands for the facts of each pool: the same objects while they are the same."""
        return tuple(map(attrgetter("answers"), self.pools))

    @cached_property
    def asks_namespaces(self) -> bool:
        """Whether it matters to some pool in which namespace a job is."""
        return any(pool.namespaces or pool.host_devices or pool.fabric for pool in self.pools)

    def pool(self, name: str) -> Pool | None:
        """The pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)

    def nearest_accelerator(self, word: str, catalog: Catalog) -> str | None:
        """The accelerator that an unknown name most likely means: one of the fleet that it begins, else one of the catalog."""
        begun = (pool.accelerator_id for pool in self.pools if pool.accelerator_id.lower().startswith(word.lower()))
        return min(begun, default=None) or catalog.nearest_accelerator(word)

    def nearest_pool(self, word: str) -> str | None:
        """The pool that an unknown name most likely means; the capacity type at the end of names says little."""
        heads = {without_type(pool.name): pool.name for pool in reversed(self.pools)}
        near = nearest(without_type(word), heads)
        return heads[near] if near is not None else None

    def pod_traits(self, priority_class: str | None, pool: Pool) -> PodTraits:
        """What quotas ask of a pod with this PriorityClass on a pool; pods with the host's devices avoid each other in all
        namespaces."""
        return PodTraits(class_of(priority_class, self.priorities), pool.host_devices)

    def quotas_for(self, namespace: str, priority_class: str | None, pool: Pool) -> tuple[Quota, ...]:
        """The quotas that count such a pod."""
        traits = self.pod_traits(priority_class, pool)
        return tuple(quota for quota in self.quotas.get(namespace, ()) if quota.counts(traits))

    def reserve(
        self,
        chosen: Pool,
        gpus: int,
        needs: Resources,
        nodes: Sequence[str],
        namespace: str = "",
        priority_class: str | None = None,
        claims: Claims = (),
    ) -> Fleet:
        """The fleet after one pod with `gpus` devices of a pool and `needs` was promised to each of `nodes`."""
        if namespace in self.quotas:
            taken = chosen.taken(gpus, needs, len(nodes), claims)
            traits = self.pod_traits(priority_class, chosen)
            rest = replace(self, quotas=quotas_after(self.quotas, namespace, taken, traits))
            return rest.reserve(chosen, gpus, needs, nodes)
        if not all(nodes):
            pods = Pods(len(nodes), gpus, needs + chosen.overhead, len(nodes))
            return replace(self, pools=tuple(
                unnamed_reserved(pool, pods) if pool.name == chosen.name else pool for pool in self.pools
            ))  # fmt: skip
        taking = Taking(
            chosen.resource, tuple((name, gpus) for name in nodes), needs + chosen.overhead, linked=len(nodes) > 1
        )
        return replace(self, pools=tuple(reserved(pool, taking) for pool in self.pools))

    def led_by(self, ahead: Sequence[Ahead]) -> Fleet:
        """The fleet as jobs of lower priority see it: with what goes first, and without the devices held for those that
        wait."""
        if not ahead:
            return self
        on = defaultdict(list)
        for each in ahead:
            for name, _ in each.taking.on:
                on[name].append(each)
        return replace(self, pools=tuple(_led_by(pool, on) for pool in self.pools))


def _led_by(pool: Pool, on: Mapping[str, Sequence[Ahead]]) -> Pool:
    """A pool with those jobs that go first on one of its nodes."""
    there = {id(each): each for name in on if name in pool.places for each in on[name]}
    return with_ahead(pool, tuple(there.values())) if there else pool
