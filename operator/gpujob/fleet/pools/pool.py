"""A pool of interchangeable devices: memory in bytes, free devices by node, price in micro-dollars an hour."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from gpujob.catalog.entities import Accelerator
from gpujob.fleet.dra.claim_request import DeviceRequest
from gpujob.fleet.gpupools.selection import Fabric
from gpujob.fleet.kubernetes.objects import Resources, Selector, Taint
from gpujob.fleet.kubernetes.runtime_classes import NOTHING, Handler, lacks
from gpujob.fleet.kubernetes.taints import TOLERATED_KEYS
from gpujob.fleet.labels.cloud import is_of_spot
from gpujob.fleet.labels.device_fraction import WHOLE, Portion, Share
from gpujob.fleet.policy.resource_quota import Claims, counted_as, objects_of, taken_by_pods
from gpujob.fleet.pools.ahead import Ahead
from gpujob.fleet.pools.equipment import Equipment
from gpujob.fleet.pools.free_nodes import Stock
from gpujob.fleet.pools.node import Growth, PoolNode
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import CapacityType, DeviceKind, Reason, Vendor

NodeSizes = tuple[tuple[int, int], ...]
"""The devices of nodes, the most first, each with the number of nodes that have at least as many."""

MOST_NODES: Final = 8
"""The largest gang that is tried without a request; the user must request larger ones."""

_GUESSED: Final = (DeviceKind.WHOLE, DeviceKind.INTEGRATED)
"""Device kinds that follow from the name alone; fractions and shared devices follow from resources and counts."""


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
    node_prices: tuple[int, ...] = ()
    """What a device of each node costs, micro-dollars an hour, the most expensive first, if that differs; `price` is the first."""
    also: tuple[str, ...] = ()
    """Aliases of a discovered pool (see `naming`)."""
    portion: Portion = WHOLE
    """How a whole device is divided."""
    share: Share | None = (1, 1)
    """The fraction of a whole device; None if unknown."""
    problem: Finding | None = None
    models: tuple[str, ...] = ()
    """Ids of the mixed models, if the problem is that a pod may get any of them."""
    warnings: tuple[Finding, ...] = ()
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    """Taints that the admin's GPUPool tolerates: key, value (None: any), effect (None: any)."""
    supplemental_groups: tuple[int, ...] = ()
    runtime_class: str | None = None
    handler: Handler | None = None
    """What its pods' RuntimeClass requires of their nodes; None if they have no class or it is unknown."""
    env: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    selector: Selector = ()
    """How a pod selects future nodes of an admin's pool."""
    bare: tuple[str, ...] = ()
    """Nodes that an admin's pool selects and that show no devices yet, by name: those of a new node come late."""
    growth: Growth | None = None
    adds_unread: bool = False
    """Whether an unreadable GPUPool allows nodes to be added."""
    request: DeviceRequest | None = None
    """How a ResourceClaim requests its devices; None if pods request them by the name of the resource."""
    also_counted_as: tuple[str, ...] = ()
    """Further names under which quotas count devices that pods request by the resource's name: for a DRA driver's devices."""
    host_devices: bool = False
    """Whether pods get the host's device files: privileged, all GPUs of a node, one such pod a node."""
    fabric: Fabric | None = None
    """The network privileges of a gang's pods, from the GPUPool."""
    namespaces: tuple[tuple[str, str], ...] = ()
    """Labels of the namespaces whose jobs can use the pool; empty: all."""
    node_pool: str = ""
    """The node pool of a cloud or of Karpenter that may grow although no GPUPool has `provision` for it."""
    vendor_assumed: bool = False
    """Whether neither a node nor the GPUPool names the vendor of the devices, or its nodes have devices of several vendors; `vendor` is
    then no fact.
    """
    ahead: tuple[Ahead, ...] = ()
    """Jobs of higher priority that go first here, in their order."""
    part_of: str = ""
    """The admin's pool whose better nodes it has (see `assembly.admin_parts`); empty for a whole pool."""
    beside: tuple[str, ...] = ()
    """The other nodes of that pool, without those that Karpenter adds."""
    joins: tuple[tuple[str, ...], ...] = ()
    """The name and the aliases of each discovered pool whose nodes it has (see `assembly.joined_pools`); empty for others."""
    capacity_nodes: tuple[tuple[CapacityType, str], ...] = ()
    """Where its nodes differ in capacity type: each type, the worst first, with its first node by name. A job must accept each."""

    @property
    def family(self) -> str:
        """The name of the GPUPool: its own, or that of the pool that it is a part of."""
        return self.part_of or self.name

    @property
    def vendor_text(self) -> str:
        """The vendor's name, or `unknown`."""
        return "unknown" if self.vendor_assumed else self.vendor.value

    @cached_property
    def accelerator_id(self) -> str:
        """The accelerator's id, those of a mixture, or `unknown`."""
        return self.accelerator.id if self.accelerator else ", ".join(self.models) or "unknown"

    @property
    def kind(self) -> DeviceKind:
        """The kind of its devices: whole, partitions, shared or integrated."""
        return self.portion.kind

    @property
    def pending(self) -> bool:
        """Whether its devices are known only once its nodes can be used (see `DeviceGroup.pending`)."""
        return self.problem is not None and self.problem.reason is Reason.NOT_READY

    @cached_property
    def device(self) -> str:
        """The accelerator and its partition for messages: MI300X cpx_nps4."""
        return f"{self.accelerator_id} {self.portion}".strip()

    @property
    def kind_is_guessed(self) -> bool:
        """Whether the kind of its devices is unknown until its problem is fixed, or until its nodes can be used."""
        if self.pending:
            return True
        guessed = self.kind in _GUESSED or self.portion.guessed
        return guessed and self.problem is not None and self.accelerator is None

    @property
    def ungrouped(self) -> bool:
        """Whether its devices on one node form no group: NCCL treats slices of one card as one device."""
        return self.kind is DeviceKind.PARTITION and self.vendor is Vendor.NVIDIA and not self.kind_is_guessed

    @property
    def host_architecture(self) -> str:
        """The CPU architecture of its hosts: the device's if the host comes with it, else that of the labels."""
        return (self.accelerator and self.accelerator.host_architecture) or self.cpu_architecture

    @cached_property
    def all_capacity_types(self) -> tuple[CapacityType, ...]:
        """The capacity types that a job must accept, the worst first."""
        return tuple(kind for kind, _ in self.capacity_nodes) or (self.capacity_type,)

    @cached_property
    def equipment(self) -> Equipment:
        """The facts that images are checked against."""
        return Equipment(self.vendor, self.accelerator, self.driver, self.host_architecture, self.problem is None)

    @cached_property
    def counted_as(self) -> str:
        """The name of its devices in quotas."""
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

    def price_of(self, nodes: int, gpus: int) -> int | None:
        """Micro-dollars an hour for so many devices of each of so many existing nodes, the most expensive; None without a price."""
        if self.price is None:
            return None
        highest = self.node_prices[:nodes]
        return gpus * (sum(highest) + self.price.per_gpu_hour * (nodes - len(highest)))

    @property
    def least_price(self) -> int | None:
        """The least that a device of a gang may cost on average, micro-dollars an hour: of one that takes all nodes."""
        if self.node_prices:
            return sum(self.node_prices) // len(self.node_prices)
        return self.price.per_gpu_hour if self.price else None

    def is_called(self, word: str) -> bool:
        """Whether a name in placement.pools means this pool."""
        return word == self.name or word in self.also or any(word in names for names in self.joins)

    def is_among(self, words: Collection[str]) -> bool:
        """Whether names in placement.pools.allow let jobs use all of its nodes."""
        if not self.joins:
            return any(map(self.is_called, words))
        return self.name in words or all(not names.isdisjoint(words) for names in map(frozenset, self.joins))

    @cached_property
    def largest(self) -> int:
        """The devices of its largest node, existing or future; 0 if there is none."""
        return max((node.total or node.healthy for node, _ in self._counted()), default=0)

    @cached_property
    def size(self) -> tuple[str, NodeSizes, bool, int | None]:
        """Its name, the sizes of its usable nodes up to MOST_NODES, whether they are assigned whole, and the bytes of a device."""
        return self.name, self.node_sizes(MOST_NODES), self.host_devices, self.memory

    def node_sizes(self, most: int) -> NodeSizes:
        """The devices of the nodes that can run its pods, existing or future, counted up to `most`; of all nodes if none can. A gang
        takes one device of a node whose devices form no group.
        """
        counts: Counter[int] = Counter()
        for usable in (True, False):
            for node, number in self._counted():
                if not usable or self._is_usable(node):
                    counts[1 if self.ungrouped else node.total or node.healthy or (1 if node.total == 0 else 0)] += (
                        number
                    )
            if counts:
                break
        if unknown := counts.pop(0, 0):
            # A node with an unknown number of devices counts as one like the largest, alone as one of one GPU.
            counts[max(counts, default=1)] += unknown
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
        """Whether a node can run the pool's pods in some state, whatever their requests."""
        if node.unlabelled or lacks(node.handlers, self.handler):
            return False
        return all(map(self.tolerates, node.taints)) if node.taints else True

    @cached_property
    def stock(self) -> Stock:
        """Its nodes in the order in which capacity reads them."""
        return Stock(self.nodes, self.tolerates)

    @cached_property
    def maintenance(self) -> frozenset[int]:
        """When announced maintenance of its nodes begins, in seconds since 1970."""
        return frozenset(node.planned_at for node in self.nodes if node.planned_at is not None)

    @cached_property
    def troubled(self) -> bool:
        """Whether one of its nodes has a sign of trouble or announced maintenance."""
        return any(node.suspected is not None or node.planned is not None for node in self.nodes)

    @cached_property
    def positions(self) -> Mapping[str, Sequence[int]]:
        """The index of a name in `nodes`; two indexes if the pool has two resources of one node."""
        found: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            found[node.name].append(index)
        return dict(found)

    @cached_property
    def answers(self) -> dict[object, tuple[Any, Any]]:
        """Cache of results that placement computes from the pool's facts alone, whatever its nodes' state, each with its other
        inputs.
        """
        return {}

    def with_nodes(self, changed: Mapping[int, PoolNode]) -> Pool:
        """The pool after free devices or readiness changed on some nodes, by index; its other facts are kept."""
        nodes, resized = list(self.nodes), False
        for index, node in changed.items():
            before, nodes[index] = nodes[index], node
            resized |= _sized(before) != _sized(node)
        pool = copy(self)
        kept = pool.__dict__
        for name in ("free", "stock", "as_if_first", *(_OF_SIZES if resized else ())):
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
        """The quota usage of a number of pods on it, each with its devices and its containers' needs."""
        fabric = dict(self.fabric.resources) if self.fabric and pods > 1 else {}
        of_pods = taken_by_pods(self.all_counted_as, gpus, needs + self.overhead, pods, claims, fabric)
        return of_pods | objects_of(pods, by_claim=self.request is not None)

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod for this pool can tolerate the taint: a well-known key, Spot's, or one of the GPUPool."""
        if taint.effect == "PreferNoSchedule" or taint.key in TOLERATED_KEYS or is_of_spot(taint):
            return True
        by_class = self.handler.brings.tolerated if self.handler else ()
        return any(
            key in ("", taint.key) and value in (None, taint.value) and effect in (None, taint.effect)
            for key, value, effect in (*self.tolerated, *by_class)
        )

    @property
    def overhead(self) -> Resources:
        """The overhead of each of its pods on a node, by its RuntimeClass."""
        return self.handler.brings.overhead if self.handler else NOTHING


_OF_SIZES: Final = ("total", "largest", "size", "maintenance", "troubled")


def _sized(node: PoolNode) -> tuple[object, ...]:
    """The facts of a node that determine the sizes of its pool, its trouble, and when its maintenance begins."""
    trouble = (node.suspected is None, node.planned is None, node.planned_at)
    return (node.total, node.healthy, node.taints, node.handlers, node.unlabelled, *trouble)
