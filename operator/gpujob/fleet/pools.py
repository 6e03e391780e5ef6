"""Pools of interchangeable devices with their free capacity and price: what placement decides on.

An admin's GPUPool claims nodes; the devices of the others are grouped by what makes them interchangeable. Free devices
are allocatable minus the requests of pods that are not terminal, and minus what was promised to pods not yet bound.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.catalog.versions import release
from gpujob.finding import Finding, nearest
from gpujob.fleet import nvidia, pricing
from gpujob.fleet.claims import AdminPool, Claims
from gpujob.fleet.devices import DeviceGroup, groups_of
from gpujob.fleet.facts import DeviceFacts, named
from gpujob.fleet.objects import Node, Pod, Resources, Taint
from gpujob.fleet.pricing import PoolPrice
from gpujob.vocabulary import CapacityType, Reason, Vendor

TOLERATED_KEYS: Final = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority", "sku"}
)
"""Taint keys that mean "only for GPU jobs" or "spot": tolerated where they are found on the chosen pool."""

PASSING_KEYS: Final = frozenset(
    {
        "amd-gpu-unhealthy",
        "amd-dcm",
        "karpenter.sh/disrupted",
        "karpenter.sh/unregistered",
        "cloud.google.com/impending-node-termination",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
    }
)
"""Taint keys that come and go with the node's state: the node is not ready while one is there, and never tolerated."""


def is_passing(taint: Taint) -> bool:
    """Whether a taint tells a state of the node that will pass."""
    prefixes = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
    return taint.key in PASSING_KEYS or taint.key.startswith(prefixes)


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
    beside: int = 0
    """Usable devices of the node's other resources."""


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
    problem: Finding | None = None
    doubts: tuple[Finding, ...] = ()
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    """Taints that the admin's GPUPool tolerates: key, value (None: any), effect (None: any)."""
    supplemental_groups: tuple[int, ...] = ()
    runtime_class: str | None = None
    env: tuple[Mapping[str, object], ...] = field(default=(), hash=False)

    @property
    def accelerator_id(self) -> str:
        """The accelerator's id, or `unknown`."""
        return self.accelerator.id if self.accelerator else "unknown"

    @cached_property
    def free(self) -> int:
        """Free devices on nodes that are ready."""
        return sum(max(0, node.free) for node in self.nodes if node.unready is None)

    @cached_property
    def total(self) -> int:
        """All devices of the nodes."""
        return sum(node.total or node.healthy for node in self.nodes)

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod for this pool may tolerate the taint: a well-known key, or the admin's word."""
        if taint.effect == "PreferNoSchedule" or taint.key in TOLERATED_KEYS:
            return True
        return any(
            key == taint.key and value in (None, taint.value) and effect in (None, taint.effect)
            for key, value, effect in self.tolerated
        )


@dataclass(frozen=True)
class Fleet:
    """All pools, and the RuntimeClasses that exist."""

    pools: tuple[Pool, ...] = ()
    runtime_classes: frozenset[str] = frozenset()
    overlaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Admin pools that lost nodes to an older one: name -> (older pool, node)."""

    def pool(self, name: str) -> Pool | None:
        """The pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)

    def reserve(self, chosen: Pool, gpus: int, needs: Resources, nodes: Sequence[str]) -> Fleet:
        """The fleet after one pod with `gpus` devices of a pool and `needs` was promised to each of `nodes`."""
        if not all(nodes):
            unnamed = _unnamed_reserved(chosen, gpus, len(nodes))
            return replace(self, pools=tuple(unnamed if pool.name == chosen.name else pool for pool in self.pools))
        taken = frozenset(nodes)
        return replace(self, pools=tuple(_reserved(pool, chosen.resource, gpus, needs, taken) for pool in self.pools))


@dataclass(frozen=True, slots=True)
class Promise:
    """One pod that will come: where to, and what it takes. Counted until a bound pod of the same attempt is there."""

    job_uid: str
    node: str
    resource: str
    gpus: int
    needs: Resources
    attempt: int = 0
    namespace: str = ""
    """Where the pod will be; empty: not compared."""

    def kept_by(self, pod: Pod) -> bool:
        """Whether a bound pod is the promised one: labels are anybody's, so namespace and devices must fit as well."""
        at_home = self.namespace in ("", pod.namespace)
        return at_home and pod.devices.get(self.resource, 0) >= self.gpus


def read_fleet(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    catalog: Catalog,
    admin_pools: Sequence[AdminPool] = (),
    runtime_classes: Iterable[str] = (),
    promises: Iterable[Promise] = (),
    known: Mapping[str, tuple[DeviceGroup, ...]] | None = None,
) -> Fleet:
    """The fleet as nodes, pods, admins and promises make it; pools in the order of their names.

    `known` may hold the device groups of nodes already read (by node name), since labels change rarely.
    """
    usage = _Usage(pods, promises)
    claims = Claims(admin_pools)
    claimed: dict[str, list[DeviceGroup]] = defaultdict(list)
    discovered: dict[tuple[object, ...], list[DeviceGroup]] = defaultdict(list)
    # In the order of their names, since of equal things the first is shown.
    for node in sorted(nodes, key=lambda node: node.name):
        groups = known[node.name] if known and node.name in known else groups_of(node, catalog)
        for group in groups:
            admin = claims.claim(node, group.resource)
            if admin is None:
                discovered[_identity(group)].append(group)
            else:
                claimed[admin.name].append(group)
    pools = [_admin_pool(pool, claimed.get(pool.name, []), catalog, usage) for pool in admin_pools]
    names = _names(discovered, {pool.name for pool in admin_pools})
    pools += [_pool(names[key], groups, catalog, usage) for key, groups in discovered.items()]
    ordered = tuple(sorted(pools, key=lambda pool: pool.name))
    return Fleet(ordered, frozenset(runtime_classes), claims.overlaps)


class _Usage:
    """What pods and promises take of each node."""

    def __init__(self, pods: Iterable[Pod], promises: Iterable[Promise]) -> None:
        self.resources: dict[str, Resources] = defaultdict(Resources)
        self.devices: dict[tuple[str, str], int] = defaultdict(int)
        self.others: dict[tuple[str, str], Resources] = defaultdict(Resources)
        self.plain: dict[str, Resources] = defaultdict(Resources)
        arrived: dict[tuple[str, int, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.node and not pod.terminal:
                self._take(pod.node, pod.devices, pod.needs)
                if pod.job_uid:
                    arrived[pod.job_uid, pod.attempt, pod.node].append(pod)
        for promise in promises:
            pods_there = arrived.get((promise.job_uid, promise.attempt, promise.node), ())
            if not any(promise.kept_by(pod) for pod in pods_there):
                self._take(promise.node, {promise.resource: promise.gpus}, promise.needs)

    def _take(self, node: str, devices: Mapping[str, int], needs: Resources) -> None:
        self.resources[node] += needs
        if not any(devices.values()):
            self.plain[node] += needs
        for resource, count in devices.items():
            self.devices[node, resource] += count


def _identity(group: DeviceGroup) -> tuple[object, ...]:
    """What makes devices interchangeable; nodes that differ in one of these are different pools."""
    facts, origin = group.facts, group.origin
    taints = tuple(sorted(str(taint) for taint in group.node.taints if not is_passing(taint)))
    problem = "" if facts.problem is None else facts.problem.reason.value
    accelerator = facts.accelerator.id if facts.accelerator else ""
    instance = (origin.cloud, origin.instance_type, origin.region, origin.capacity_type, origin.cpu_architecture)
    return (facts.vendor, accelerator, group.resource, facts.memory or 0, facts.driver or "", problem, *instance, taints,
            group.node.price or "")  # fmt: skip


def _names(
    identities: Mapping[tuple[object, ...], list[DeviceGroup]], taken: set[str]
) -> dict[tuple[object, ...], str]:
    """A name for each discovered pool: accelerator-instancetype-capacity, with a short hash where that is not unique."""
    plain = {key: _plain_name(groups[0]) for key, groups in identities.items()}
    often: dict[str, int] = defaultdict(int)
    for name in plain.values():
        often[name] += 1
    return {
        key: name if often[name] == 1 and name not in taken else f"{name}-{_hash(key)}" for key, name in plain.items()
    }


def _plain_name(group: DeviceGroup) -> str:
    device = group.facts.accelerator.id if group.facts.accelerator else f"unknown-{group.facts.vendor}"
    parts = [device, group.origin.instance_type, group.origin.capacity_type]
    return "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)))[:200]


def _hash(identity: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(tuple(str(part) for part in identity)).encode()).hexdigest()[:6]


def _pool(name: str, groups: list[DeviceGroup], catalog: Catalog, usage: _Usage) -> Pool:
    """A discovered pool: all groups share one identity."""
    first = groups[0]
    price, doubts = pricing.of_nodes(groups, None, first.facts.accelerator, first.origin.capacity_type, catalog)
    return Pool(
        name=name,
        discovered=True,
        vendor=first.facts.vendor,
        resource=first.resource,
        accelerator=first.facts.accelerator,
        memory=first.facts.memory,
        driver=first.facts.driver,
        cpu_architecture=first.origin.cpu_architecture,
        instance_type=first.origin.instance_type,
        region=first.origin.region,
        capacity_type=first.origin.capacity_type,
        price=price,
        nodes=_pool_nodes(groups, usage),
        problem=first.facts.problem,
        doubts=_distinct(doubt for group in groups for doubt in group.facts.doubts) + doubts,
    )


def _admin_pool(admin: AdminPool, groups: list[DeviceGroup], catalog: Catalog, usage: _Usage) -> Pool:
    """A pool as an admin's GPUPool says; what it leaves open comes from its nodes, the worst of them counting."""
    facts, problem = _common_facts(admin, groups, catalog)
    origins = [group.origin for group in groups]
    capacity = admin.capacity_type or _capacity_type(groups)
    price, doubts = pricing.of_nodes(groups, admin.price, facts.accelerator, capacity, catalog)
    return Pool(
        name=admin.name,
        discovered=False,
        vendor=facts.vendor,
        resource=admin.resource or (groups[0].resource if groups else ""),
        accelerator=facts.accelerator,
        memory=facts.memory,
        driver=facts.driver,
        cpu_architecture=origins[0].cpu_architecture if origins else "amd64",
        instance_type=origins[0].instance_type if origins else "",
        region=origins[0].region if origins else "",
        capacity_type=capacity,
        price=price,
        nodes=_pool_nodes(groups, usage),
        problem=problem,
        doubts=facts.doubts + doubts,
        tolerated=admin.tolerated,
        supplemental_groups=admin.supplemental_groups,
        runtime_class=admin.runtime_class,
        env=admin.env,
    )


def _common_facts(admin: AdminPool, groups: list[DeviceGroup], catalog: Catalog) -> tuple[DeviceFacts, Finding | None]:
    """The facts that hold for every node of an admin's pool, or the problem that there are none."""
    row = catalog.accelerator(admin.accelerator) if admin.accelerator else None
    fallback = DeviceFacts(row.vendor if row else Vendor.NVIDIA, row, row.usable_bytes if row else None)
    if admin.accelerator and row is None:
        near = nearest(catalog.nearest_accelerator(admin.accelerator))
        sentence = "spec.accelerator {} is in no catalog row{}"
        return fallback, Finding(Reason.ACCELERATOR_UNKNOWN, sentence, (admin.accelerator, near))
    if not groups:
        return fallback, Finding(Reason.NO_POOL, "spec.nodeSelector of GPUPool {} matches no GPU node", (admin.name,))
    if len({group.resource for group in groups}) > 1:
        found = ", ".join(sorted({group.resource for group in groups}))
        return groups[0].facts, Finding(
            Reason.MODELS_DIFFER, "its nodes offer {}; set spec.resourceName to one", (found,)
        )
    all_facts = [_overridden(group, row) for group in groups]
    # A node whose plugin is down offers nothing; the others say what the pool is.
    facts = [f for f in all_facts if not _lacks_plugin(f)] or all_facts
    problem = next((f.problem for f in facts if f.problem and not _lacks_plugin(f)), None)
    names = sorted({f.name for f in facts})
    if problem is None and len(names) > 1:
        problem = Finding(Reason.MODELS_DIFFER, "its nodes hold {}; narrow spec.nodeSelector", (", ".join(names),))
    if problem is None and len({group.origin.cpu_architecture for group in groups}) > 1:
        problem = Finding(Reason.MODELS_DIFFER, "its nodes differ in kubernetes.io/arch; narrow spec.nodeSelector", ())
    if problem is None and all(f.problem for f in facts):
        problem = facts[0].problem
    memories = [f.memory for f in facts if f.memory is not None]
    drivers = [f.driver for f in facts if f.driver]
    doubts = _distinct(doubt for f in facts for doubt in f.doubts)
    if drivers and len(drivers) < len(facts):
        doubts += (Finding(Reason.DRIVER_UNKNOWN, "no label says the driver of some of its nodes"),)
    worst = replace(
        facts[0],
        memory=min(memories, default=None) if len(memories) == len(facts) else None,
        driver=min(drivers, key=release, default=None),
        problem=None,
        doubts=doubts,
    )
    return worst, problem


def _lacks_plugin(facts: DeviceFacts) -> bool:
    return facts.problem is not None and facts.problem.reason is Reason.NO_DEVICE_PLUGIN


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of several nodes, of equal sentences the first."""
    first: dict[tuple[Reason, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.reason, finding.sentence), finding)
    return tuple(first.values())


def _capacity_type(groups: Iterable[DeviceGroup]) -> CapacityType:
    """How nodes are paid for; Spot as soon as one of them can be taken away."""
    types = {group.origin.capacity_type for group in groups}
    if CapacityType.SPOT in types:
        return CapacityType.SPOT
    return CapacityType.RESERVED if types == {CapacityType.RESERVED} else CapacityType.ON_DEMAND


def _overridden(group: DeviceGroup, accelerator: Accelerator | None) -> DeviceFacts:
    """A group's facts with the admin's accelerator in place of what labels say.

    The admin names the model. That a resource is a slice, a partition or shared stays as it is.
    """
    facts = group.facts
    if accelerator is None:
        return facts
    if accelerator.vendor is not facts.vendor:
        sentence = "spec.accelerator {} is made by {}, its nodes offer {}"
        problem = Finding(Reason.LABELS_CONTRADICT, sentence, (accelerator.id, accelerator.vendor, group.resource))
        return replace(facts, accelerator=accelerator, memory=None, problem=problem)
    if facts.problem is not None and not facts.unnamed:
        return replace(facts, accelerator=accelerator)
    return named(facts, accelerator)


def _pool_nodes(groups: Iterable[DeviceGroup], usage: _Usage) -> tuple[PoolNode, ...]:
    return tuple(sorted((_pool_node(group, usage) for group in groups), key=lambda node: node.name))


def _pool_node(group: DeviceGroup, usage: _Usage) -> PoolNode:
    node = group.node
    return PoolNode(
        name=node.name,
        total=group.total,
        healthy=group.healthy,
        free=group.healthy - usage.devices.get((node.name, group.resource), 0),
        allocatable=node.allocatable,
        share_base=node.allocatable.minus(usage.plain.get(node.name, Resources())),
        left=node.allocatable.minus(usage.resources.get(node.name, Resources())),
        taints=tuple(taint for taint in node.taints if not is_passing(taint)),
        unready=_unready(group),
        beside=group.beside,
    )


def _unready(group: DeviceGroup) -> Finding | None:
    """Why no pod can start on the node now, None when one can."""
    node = group.node
    if node.leaving:
        return Finding(Reason.NOT_READY, "node {} is being deleted", (node.name,))
    if not node.ready:
        return Finding(Reason.NOT_READY, "node {} is not Ready", (node.name,))
    if node.cordoned:
        return Finding(Reason.CORDONED, "node {} is cordoned", (node.name,))
    passing = next((taint for taint in node.taints if is_passing(taint) and taint.effect != "PreferNoSchedule"), None)
    if passing:
        return Finding(Reason.NOT_READY, "node {} has taint {}", (node.name, passing))
    unsettled = nvidia.unsettled(node.labels) if group.facts.vendor is Vendor.NVIDIA else None
    if unsettled:
        return Finding(Reason.NOT_READY, "node {}: {}", (node.name, unsettled))
    if group.healthy == 0:
        of = f" of {group.total}" if group.total else ""
        return Finding(Reason.NO_ALLOCATABLE, "node {} shows 0{} devices as allocatable", (node.name, of))
    return None


def _unnamed_reserved(pool: Pool, gpus: int, count: int) -> Pool:
    """A published pool, whose nodes have no names, after devices of the fullest nodes with room were taken."""
    with_room = [index for index, node in enumerate(pool.nodes) if node.free >= gpus]
    taken = sorted(with_room, key=lambda index: pool.nodes[index].free)[:count]
    nodes = [replace(node, free=node.free - gpus) if i in taken else node for i, node in enumerate(pool.nodes)]
    return replace(pool, nodes=tuple(nodes))


def _reserved(pool: Pool, resource: str, gpus: int, needs: Resources, taken: frozenset[str]) -> Pool:
    if not any(node.name in taken for node in pool.nodes):
        return pool
    nodes = []
    for node in pool.nodes:
        if node.name in taken:
            free = node.free - gpus if pool.resource == resource else node.free
            node = replace(node, free=free, left=node.left.minus(needs))
        nodes.append(node)
    return replace(pool, nodes=tuple(nodes))
