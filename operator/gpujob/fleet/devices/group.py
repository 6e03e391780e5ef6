"""The device groups of a node: one for each GPU resource, so that one node may hold two vendors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.devices.shared_cards import Silicon
from gpujob.fleet.dra.claim_request import DeviceRequest
from gpujob.fleet.health.signals import Fact
from gpujob.fleet.kubernetes.objects import Node, vendor_of
from gpujob.fleet.labels import maintenance
from gpujob.fleet.labels.cloud import CAPACITY_KEYS, MACHINE_LABELS, Origin, from_taints, origin_of_labels
from gpujob.fleet.labels.facts import DeviceFacts, devices_of_machine
from gpujob.fleet.vendors import amd, nvidia
from gpujob.fleet.vendors.invalid_labels import unreadable
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

LabelItems = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, int], ...]

TELLING: Final = (
    *("nvidia.com/", "amd.com/", "beta.amd.com/", "feature.node.kubernetes.io/amd-gpu"),
    *("cloud.google.com/", "eks.amazonaws.com/", "k8s.amazonaws.com/", "karpenter.", "kubernetes.azure.com/"),
    *("node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    *("kubernetes.io/arch", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type"),
    *("kubernetes.io/os", "beta.kubernetes.io/os"),
    *("gpu.nvidia.com/", "accelerator", "feature.node.kubernetes.io/pci-"),
    *MACHINE_LABELS,
    *CAPACITY_KEYS,
)
"""Prefixes of labels about devices or the origin of a node. Readers of devices get no others."""

RESTARTED: Final = "nvidia.com/gfd.timestamp"
"""The time of GPU Feature Discovery's last write; it describes no device and differs between nodes."""

MOST_KINDS: Final = 1024
"""Kinds of nodes whose facts are cached; most clusters have a few."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices of one resource of one node.

    `total` is what the node can ever offer (None: unknown), `healthy` what it offers now (allocatable).
    """

    node: Node
    origin: Origin
    resource: str
    facts: DeviceFacts
    total: int | None
    healthy: int
    beside: int = 0
    """Usable devices of the node's other resources, which share its CPU and memory, converted to devices like these."""
    held: int = 0
    """Devices that ResourceClaims have, or for which their allocations leave no room."""
    lent: tuple[tuple[str, int], ...] = ()
    """Devices of claims that stand for a resource's name, by the pod's uid: counted with the pod while it exists."""
    request: DeviceRequest | None = None
    """How a ResourceClaim requests them, if a DRA driver offers them."""
    taint: str = ""
    """The taint of a DRA driver that keeps pods off some of the devices."""
    silicon: Silicon | None = None
    """The cards, if other resources of the node offer the same: a pod's devices of one resource are missing from the others."""

    @property
    def lacks_plugin(self) -> bool:
        """Whether only labels show the devices and no plugin offers them."""
        return self.facts.lacks_plugin

    @property
    def pending(self) -> bool:
        """Whether an agent is dividing the cards, so that only a usable node shows what devices it has."""
        return self.facts.problem is not None and self.facts.problem.reason is Reason.NOT_READY

    @property
    def plugged(self) -> bool:
        """Whether a device plugin offers them."""
        return self.resource in self.node.capacity or self.resource in self.node.devices

    @property
    def by_claim(self) -> bool:
        """Whether pods can request the devices only by a ResourceClaim, because no resource name means them."""
        return self.request is not None and vendor_of(self.resource) is None


def also_counted_as(group: DeviceGroup) -> tuple[str, ...]:
    """Further names under which quotas count devices that pods request by name: the scheduler creates claims for a DRA driver's
    devices, which count as those of their class (kubernetes pkg/quota/v1/evaluator/core/resource_claims.go, 1.34 to 1.36).
    """
    return () if group.request is None or group.by_claim or group.plugged else group.request.counted_as[:2]


def groups_of(node: Node, catalog: Catalog) -> tuple[DeviceGroup, ...]:
    """Every GPU resource of a node with its facts; devices that labels announce and no resource offers give an empty group."""
    items = _label_items(node)
    origin = _origin(items, node.provider, node.platform)
    if node.taints:
        origin = from_taints(origin, node)
    offered = sorted({**node.capacity, **node.devices})
    groups = [_group(node, items, origin, resource, catalog) for resource in offered if not _former(node, resource)]
    groups = [_with_silicon(group, groups, catalog) for group in groups]
    groups = beside_others(groups)
    vendors = {group.facts.vendor for group in groups}
    return (*groups, *_without_plugin(node, items, origin, catalog, vendors))


def _former(node: Node, resource: str) -> bool:
    """Whether the kubelet still lists a resource's former name at 0 because its devices are offered under another one."""
    if node.capacity.get(resource, 0) or node.devices.get(resource, 0):
        return False
    others = {**node.capacity, **node.devices}
    return any(others[other] and vendor_of(other) is vendor_of(resource) for other in others)


def _label_items(node: Node) -> LabelItems:
    """The labels about a node's devices and its origin; equal on the nodes of a pool."""
    # A list takes half the time of a generator, and this runs for every node.
    return tuple([item for item in node.labels.items() if item[0].startswith(TELLING) and item[0] != RESTARTED])


@lru_cache(maxsize=MOST_KINDS)  # 52 µs: 9,950 of 10,050 calls when 10,000 nodes are read, 0.5 of 9 s
def _origin(items: LabelItems, provider: str, platform: tuple[str, str]) -> Origin:
    return origin_of_labels(dict(items), provider, platform)


@lru_cache(maxsize=MOST_KINDS)  # 0.7 ms: 9,900 of 10,100 calls when 10,000 nodes are read, 7 of 16 s
def _facts(
    items: LabelItems,
    capacity: Amounts,
    devices: Amounts,
    pods_per_card: int,
    split_as: str,
    resource: str,
    instance_type: str,
    catalog: Catalog,
) -> tuple[DeviceFacts, int | None]:
    """The facts and number of a resource's devices by its labels, computed once for all nodes with the same labels."""
    node = Node(
        "",
        "",
        dict(items),
        devices=dict(devices),
        capacity=dict(capacity),
        pods_per_card=pods_per_card,
        split_as=split_as,
    )
    reader = nvidia if vendor_of(resource) is Vendor.NVIDIA else amd
    facts = reader.read(node, resource, instance_type, catalog)
    return _with_warnings(facts, unreadable(node.labels, facts, resource)), _labelled(facts, resource, node)


@lru_cache(maxsize=MOST_KINDS)  # 17 µs: 9,950 of 10,050 calls when 10,000 nodes are read, 0.2 of 9 s
def _vendors_by_labels(items: LabelItems) -> frozenset[Vendor]:
    """The vendors whose devices the labels announce, allocatable or not."""
    labels = dict(items)
    return frozenset(
        vendor for vendor, reader in ((Vendor.NVIDIA, nvidia), (Vendor.AMD, amd)) if reader.labelled(labels)
    )


def _with_warnings(facts: DeviceFacts, warnings: tuple[Finding, ...]) -> DeviceFacts:
    return replace(facts, warnings=(*facts.warnings, *warnings)) if warnings else facts


def _group(node: Node, items: LabelItems, origin: Origin, resource: str, catalog: Catalog) -> DeviceGroup:
    amounts = (tuple(node.capacity.items()), tuple(node.devices.items()))
    facts, labelled = _facts(
        items, *amounts, node.pods_per_card, node.split_as, resource, origin.instance_type, catalog
    )
    healthy = node.devices.get(resource, 0)
    capacity = max(node.capacity.get(resource, 0), healthy)
    if labelled and 0 < capacity < labelled and facts.problem is None:
        # For example two models, and the device plugin offers one of them.
        sentence = "labels count {} devices on node {}, the device plugin offers {}"
        warning = Finding(Reason.LABELS_CONTRADICT, sentence, (labelled, node.name, capacity))
        facts = replace(facts, warnings=(*facts.warnings, warning))
    facts = _in_change(_fewer_than_machine(facts, node, origin, capacity, catalog), node)
    if capacity == 0:
        away = _not_ready(node, facts.vendor) if facts.problem is not None else None
        facts = replace(facts, problem=away) if away is not None else facts
        if not labelled and resource in (nvidia.PLAIN, amd.PLAIN) and facts.portion.kind is DeviceKind.WHOLE:
            labelled = devices_of_machine(node.labels, origin.instance_type, catalog)
    # The kubelet lists a resource at 0 once its device plugin is gone; the number of devices that come back with it is unknown.
    return DeviceGroup(node, origin, resource, facts, capacity or labelled or None, healthy)


def _not_ready(node: Node, vendor: Vendor) -> Finding | None:
    """The state that keeps a node from offering the vendor's devices: what it lacks comes back with it, or is not expected."""
    away = maintenance.away(node, vendor)
    return away if away is not None and away.reason is Reason.NOT_READY else None


def _in_change(facts: DeviceFacts, node: Node) -> DeviceFacts:
    """The facts without those that an agent is changing; a node whose cards are being divided has unknown devices until then."""
    changing = maintenance.changing(node, facts.vendor)
    if not changing or facts.problem is not None:
        return facts
    if Fact.DRIVER in changing:
        facts = replace(facts, driver=None)
    if Fact.PARTS in changing:
        problem = Finding(Reason.NOT_READY, "node {}: {}", (node.name, changing[Fact.PARTS]))
        # It yields at most whole cards.
        most = facts.accelerator.usable_bytes if facts.accelerator else None
        facts = replace(facts, memory=most, problem=problem)
    return facts


def _fewer_than_machine(facts: DeviceFacts, node: Node, origin: Origin, capacity: int, catalog: Catalog) -> DeviceFacts:
    """The facts, with the warning that whole devices are missing: the cloud sells the machine with more of them."""
    machine = devices_of_machine(node.labels, origin.instance_type, catalog)
    if not machine or not 0 < capacity < machine or facts.portion.kind is not DeviceKind.WHOLE or facts.problem:
        return facts
    if sum(vendor_of(resource) is facts.vendor for resource in {**node.capacity, **node.devices}) > 1:
        return facts  # The others are offered as fractions, under their own names.
    sentence = "node {} offers {} devices, its machine has {} by the cloud's labels or its instance type"
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (node.name, capacity, machine))
    return replace(facts, warnings=(*facts.warnings, warning))


def _labelled(facts: DeviceFacts, resource: str, node: Node) -> int | None:
    """Devices of this very resource by label, None if labels count something else: all resources, or whole cards."""
    if facts.vendor is Vendor.AMD:
        others = any(other != resource and vendor_of(other) is Vendor.AMD for other in node.devices)
        return None if others else amd.count(node.labels)
    return nvidia.count(node.labels) if resource == nvidia.PLAIN else None


def _with_silicon(group: DeviceGroup, groups: Sequence[DeviceGroup], catalog: Catalog) -> DeviceGroup:
    """The group with its shared cards, if the vendor's resources offer more than the node has.

    This happens with two device plugins at once, or while one replaces another.
    """
    of_vendor = [other for other in groups if other.facts.vendor is group.facts.vendor and other.facts.share]
    if len(of_vendor) < 2 or not any(other is group for other in of_vendor):
        return group
    reader = nvidia if group.facts.vendor is Vendor.NVIDIA else amd
    machine = devices_of_machine(group.node.labels, group.origin.instance_type, catalog)
    physical = machine or reader.cards(group.node.labels, group.facts.accelerator)
    shares = tuple((other.resource, other.facts.share or (1, 1)) for other in of_vendor)
    silicon = Silicon(physical or 0, shares)
    offered = sum(silicon.cards(other.resource, other.total or 0) for other in of_vendor)
    if not physical or offered <= physical:
        return group
    sentence = (
        "the resources of node {} offer {} cards together and it has {}: what a pod takes of one is counted for all"
    )
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (group.node.name, offered, physical))
    return replace(group, silicon=silicon, facts=replace(group.facts, warnings=(*group.facts.warnings, warning)))


def beside_others(groups: Sequence[DeviceGroup]) -> list[DeviceGroup]:
    """The groups of one node, each with what its other devices are of devices like its own: all share the node's CPU and memory."""
    return [replace(group, beside=_beside(group, groups)) for group in groups] if len(groups) > 1 else list(groups)


def _beside(group: DeviceGroup, groups: Sequence[DeviceGroup]) -> int:
    """The node's other usable devices, converted to this group's: seven slices of one card count as one card, and cards that
    several resources offer count once.
    """
    mine = group.facts.share or (1, 1)
    counts: dict[object, int] = defaultdict(int)
    for other in groups:
        if other is group or other.facts.problem or (group.silicon and group.silicon.holds(other.resource)):
            continue
        numerator, denominator = other.facts.share or mine
        count = -(-(other.total or 0) * numerator * mine[1] // (denominator * mine[0]))
        cards = other.silicon.shares if other.silicon else other.resource
        counts[cards] = max(counts[cards], count)
    return sum(counts.values())


def _without_plugin(
    node: Node, items: LabelItems, origin: Origin, catalog: Catalog, offered: Set[Vendor]
) -> Iterator[DeviceGroup]:
    # A plugin would not help: no image of a GPUJob runs on another system.
    labelled = _vendors_by_labels(items) - offered if origin.runs_linux else frozenset()
    for reader, resource in ((nvidia, nvidia.PLAIN), (amd, amd.PLAIN)):
        if vendor_of(resource) in labelled:
            known = reader.read(node, resource, origin.instance_type, catalog)
            away = _not_ready(node, known.vendor)
            problem = _no_plugin(node, known.vendor, resource) if away is None else away if known.problem else None
            total = reader.count(node.labels) or devices_of_machine(node.labels, origin.instance_type, catalog)
            yield DeviceGroup(node, origin, resource, replace(known, problem=problem, unnamed=False), total, 0)


def _no_plugin(node: Node, vendor: Vendor, resource: str) -> Finding:
    """The problem that labels show devices and no device plugin offers them."""
    if node.split_as and vendor is Vendor.NVIDIA:
        sentence = (
            "labels of node {} show {} devices and it offers {} in place of {}: another scheduler splits its cards; give the node "
            "to {}'s device plugin, or leave it to that scheduler"
        )
        return Finding(Reason.NO_DEVICE_PLUGIN, sentence, (node.name, vendor, node.split_as, resource, vendor))
    sentence = "labels of node {} show {} devices but no device plugin offers {}; install or restart the plugin"
    return Finding(Reason.NO_DEVICE_PLUGIN, sentence, (node.name, vendor, resource))
