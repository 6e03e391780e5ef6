"""Device groups of nodes whose devices a DRA driver offers, so that the node lists no resource for them.

A ResourceSlice is translated into the labellers' labels and read by the same readers. A pod requests such devices by the resource
name of their DeviceClass, or by a ResourceClaim if there is none or the name covers several kinds of one node. No pod can request
a device that no class covers. Attributes: NVIDIA dra-driver-nvidia-gpu v0.5 (2026-08), ROCm k8s-gpu-dra-driver v0.1 and v1.0
(2025-10, 2026).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.devices.card_views import is_taken_otherwise, takes_from, without_cut_cards
from gpujob.fleet.devices.group import DeviceGroup, beside_others
from gpujob.fleet.devices.shared_counters import Offered, on_common_cards
from gpujob.fleet.devices.slice_labels import labels_of, labels_of_others, mode_of, resource_of
from gpujob.fleet.dra.claim_request import DeviceRequest, request_for
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.dra.resource_slices import Key, SliceDevice
from gpujob.fleet.kubernetes.objects import Labels, Node, vendor_of
from gpujob.fleet.labels.cloud import origin_of
from gpujob.fleet.labels.facts import GIB, DeviceFacts, named
from gpujob.fleet.vendors import amd, nvidia
from gpujob.values.finding import Finding, counted
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

DRIVERS: Final = {"gpu.nvidia.com": Vendor.NVIDIA, "gpu.amd.com": Vendor.AMD}
USABLE_TYPES: Final = {Vendor.NVIDIA: frozenset({"gpu", "mig"}), Vendor.AMD: frozenset({"amdgpu", "amdgpu-partition"})}
"""Types of devices for containers; those for virtual machines (vfio) are skipped."""

FALLBACKS: Final = {"amdgpu": 80 * GIB, "amdgpu-partition": 20 * GIB}
"""The memory that AMD's driver v0.1 reports if it could not read it, by type (source: k8s-gpu-dra-driver v0.1.0, 2025-10)."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """Devices of one kind that a driver offers on a node, and how pods request them."""

    vendor: Vendor
    devices: tuple[SliceDevice, ...]
    resource: str
    """The resource name that a DeviceClass gives only to them among all kinds of the node; else empty."""
    request: DeviceRequest | None

    @property
    def first(self) -> SliceDevice:
        """The device that represents all."""
        return self.devices[0]

    @property
    def name(self) -> str:
        """The resource's name, else the driver with the kind of device."""
        kind = (self.first.type, self.first.attributes.get("profile") or mode_of(self.first))
        return self.resource or f"{self.first.driver}/{re.sub(r'[^A-Za-z0-9._-]+', '.', '-'.join(filter(None, kind)))}"


def with_slices(
    node: Node, groups: tuple[DeviceGroup, ...], inventory: Inventory, catalog: Catalog
) -> tuple[DeviceGroup, ...]:
    """A node's groups with the devices that DRA drivers offer on it."""
    offered = _offered(node, inventory, catalog)
    kept = [_beside_slices(group, offered) for group in groups]
    plugged = {group.facts.vendor for group in kept if group is not None and not group.lacks_plugin}
    new = [
        group
        for vendor, found in offered.items()
        if vendor not in plugged
        for group in on_common_cards(found, inventory)
    ]
    every = [*(group for group in kept if group is not None), *new]
    return tuple(beside_others(every)) if offered else tuple(every)


def taken_from(node: Node, resource: str, inventory: Inventory, catalog: Catalog) -> frozenset[Key]:
    """The devices of drivers whose allocation leaves a node less of a resource: its own, and other views of their cards."""
    offered = _offered(node, inventory, catalog)
    every = [each for found in offered.values() for each in found]
    vendor = vendor_of(resource) if resource in node.capacity or resource in node.devices else None
    same = _of_plugin(resource, offered.get(vendor, ())) if vendor is not None else []
    named = [each for each in every if each[0].resource == resource]
    own = [device for _, devices in (*same, *named) for device in devices]
    return frozenset(
        other.key for other in inventory.devices(node.name) if any(takes_from(other, device) for device in own)
    )


def _offered(node: Node, inventory: Inventory, catalog: Catalog) -> dict[Vendor, list[Offered]]:
    """What drivers offer on a node by vendor, as groups with unique names and in the driver's terms."""
    found: dict[Vendor, list[Offered]] = defaultdict(list)
    for offer in _offers(without_cut_cards(inventory.devices(node.name)), inventory):
        found[offer.vendor].append((_group(node, offer, inventory, catalog), offer.devices))
    return {
        vendor: list(zip(_apart([group for group, _ in pairs]), [devices for _, devices in pairs], strict=True))
        for vendor, pairs in found.items()
    }


def _offers(devices: Sequence[SliceDevice], inventory: Inventory) -> list[_Offer]:
    """The devices by kind, in a fixed order."""
    kinds: dict[tuple[Vendor, str, str, bool, int], list[SliceDevice]] = defaultdict(list)
    for device in devices:
        vendor = DRIVERS.get(device.driver)
        if vendor and device.type in USABLE_TYPES[vendor]:
            name = _resource_name(inventory, device)
            said = repr(sorted(labels_of(vendor, device).items()))
            kinds[vendor, name, said, device.shared, device.part or 0].append(device)
    often: dict[str, int] = defaultdict(int)
    for _, name, *_ in kinds:
        often[name] += 1
    found = []
    for (vendor, name, *_), same in sorted(kinds.items()):
        request = request_for(same[0], inventory.classes, inventory.version(same[0]))
        # Which device of such a name a pod gets is undefined; a claim can choose.
        found.append(_Offer(vendor, tuple(same), name if often[name] == 1 else "", request))
    return found


def _of_plugin(resource: str, offered: Sequence[Offered]) -> Sequence[Offered]:
    """What drivers offer of a vendor's devices that a device plugin offers as a resource: by their kind, else any of them."""
    same = [each for each in offered if resource_of(each[0].facts.vendor, each[1][0]) == resource]
    return same or offered


def _apart(groups: Sequence[DeviceGroup]) -> list[DeviceGroup]:
    """Groups with unique names, because free devices are counted by name; the model distinguishes them."""
    often: dict[str, int] = defaultdict(int)
    for group in groups:
        often[group.resource] += 1
    return [
        replace(group, resource=f"{group.resource}-{_model(group, number)}") if often[group.resource] > 1 else group
        for number, group in enumerate(groups)
    ]


def _model(group: DeviceGroup, number: int) -> str:
    accelerator = group.facts.accelerator
    return re.sub(r"[^a-z0-9]+", "-", accelerator.id.lower()) if accelerator else f"unknown{number}"


def _beside_slices(group: DeviceGroup, offered: Mapping[Vendor, list[Offered]]) -> DeviceGroup | None:
    """The devices of a device plugin on a node that also has slices: they are the same devices, and claims may hold some of them."""
    views = _of_plugin(group.resource, offered.get(group.facts.vendor, ()))
    same = [other for other, _ in views]
    if not same:
        return group
    if group.lacks_plugin or not (group.healthy or group.node.capacity.get(group.resource)):
        return None
    held = sum(other.held + sum(count for _, count in other.lent) for other in same)
    sentence = "node {} offers its devices by a device plugin and by DRA; those in ResourceClaims are counted as taken"
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (group.node.name,))
    # Without a labeller the slices describe the devices.
    facts = same[0].facts if group.facts.unnamed and len(same) == 1 else group.facts
    facts = replace(facts, warnings=(*facts.warnings, warning, *_tainted_beside(group.node, views)))
    return replace(group, held=held, facts=facts, request=same[0].request if len(same) == 1 else None)


def _tainted_beside(node: Node, views: Sequence[Offered]) -> Iterator[Finding]:
    """The warning that a device plugin may give pods a device that is tainted for claims: it does not know of the taint."""
    tainted = [device.taint for _, devices in views for device in devices if device.taint]
    if tainted:
        sentence = (
            "{} of node {} {} the device taint {} (ResourceSlice or DeviceTaintRule), of which its device plugin does not know: "
            "a pod may get {}"
        )
        several = len(tainted) > 1
        numbers = (
            counted(len(tainted), "device"),
            node.name,
            "have" if several else "has",
            tainted[0],
            "one" if several else "it",
        )
        yield Finding(Reason.DEVICE_TAINTED, sentence, numbers)


def _group(node: Node, offer: _Offer, inventory: Inventory, catalog: Catalog) -> DeviceGroup:
    origin = origin_of(node)
    facts = _facts(node, offer, origin.instance_type, catalog)
    if not offer.resource and offer.request is None:
        facts = replace(facts, problem=_without_class(offer.first, inventory), unnamed=False)
    healthy = sum(device.healthy for device in offer.devices)
    facts, taint = replace(facts, warnings=(*facts.warnings, *_tainted(node, offer))), _taint(offer)
    lent = _lent(offer, inventory)
    return DeviceGroup(
        node, origin, offer.name, facts, len(offer.devices), healthy,
        held=healthy - _free(offer.devices, inventory, node.name) - sum(count for _, count in lent),
        lent=lent, request=offer.request, taint=taint,
    )  # fmt: skip


def _taint(offer: _Offer) -> str:
    """The first taint that keeps pods away from some of the devices."""
    return next((device.taint for device in offer.devices if device.taint), "")


def _tainted(node: Node, offer: _Offer) -> tuple[Finding, ...]:
    """The finding that some devices are not free because they are tainted."""
    tainted = sum(bool(device.taint) for device in offer.devices)
    if not 0 < tainted < len(offer.devices):
        return ()
    sentence = (
        "{} of {} devices of node {} {} the device taint {} (ResourceSlice or DeviceTaintRule) and no pod gets them"
    )
    numbers = (tainted, len(offer.devices), node.name, "has" if tainted == 1 else "have", _taint(offer))
    return (Finding(Reason.DEVICE_TAINTED, sentence, numbers),)


def _facts(node: Node, offer: _Offer, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of the devices, read from their slices as from labels."""
    vendor, device = offer.vendor, offer.first
    reader, resource = (nvidia if vendor is Vendor.NVIDIA else amd), resource_of(vendor, device)
    labels = labels_of(vendor, device)

    def read(labels: Labels) -> DeviceFacts:
        known = {**labels_of_others(node.labels, vendor), **labels}
        # Each device identifies itself, so their number proves nothing.
        described = replace(node, labels=known, devices={}, capacity={})
        facts: DeviceFacts = reader.read(described, resource, instance_type, catalog)
        return facts

    facts = _with_sharing(read(labels), device)
    if vendor is not Vendor.AMD or device.memory != FALLBACKS.get(device.type):
        return facts
    # The driver may have invented it: it counts only if the catalog's figure is larger, and never alone.
    without = read({key: value for key, value in labels.items() if not key.endswith(".vram")})
    return facts if without.memory is not None else replace(facts, memory=None)


def _with_sharing(facts: DeviceFacts, device: SliceDevice) -> DeviceFacts:
    """The facts of a device that several claims can share; the memory is that of a claim without a request, if it is known."""
    if not device.shared:
        return facts
    replicas = -(-device.memory // device.part) if device.memory and device.part else None
    shared = replace(facts, portion=replace(facts.portion, kind=DeviceKind.SHARED, replicas=replicas))
    return shared if facts.accelerator is None else named(shared, facts.accelerator)


def _lent(offer: _Offer, inventory: Inventory) -> tuple[tuple[str, int], ...]:
    """Devices of claims that stand for a resource's name, by pod; if pods use claims, all devices in use."""
    counts: dict[str, int] = defaultdict(int)
    for device in offer.devices if offer.resource else ():
        claims = list(inventory.holders(device))
        if device.healthy and claims and all(claim.extended and claim.pods for claim in claims):
            counts[claims[0].pods[0]] += 1
    return tuple(sorted(counts.items()))


def _free(devices: Sequence[SliceDevice], inventory: Inventory, node: str) -> int:
    """How many of the devices can be allocated together, beside what claims have of them and of their cards."""
    left: dict[tuple[str, str, str, str], int] = {}
    for driver, pool in {device.key[:2] for device in devices}:
        left |= {(driver, pool, *name): amount for name, amount in inventory.limits((driver, pool)).items()}
    held = [device for device in inventory.devices(node) if inventory.holders(device)]
    for device in held:
        _take(device, left)
    count = 0
    for device in devices:
        if device.healthy and device not in held and _fits(device, left) and not is_taken_otherwise(device, held):
            _take(device, left)
            count += 1
    return count


def _fits(device: SliceDevice, left: Mapping[tuple[str, str, str, str], int]) -> bool:
    driver, pool, _ = device.key
    return all(left.get((driver, pool, name, counter), 0) >= amount for name, counter, amount in device.counters)


def _take(device: SliceDevice, left: dict[tuple[str, str, str, str], int]) -> None:
    driver, pool, _ = device.key
    for name, counter, amount in device.counters:
        key = (driver, pool, name, counter)
        left[key] = left.get(key, 0) - amount


def _resource_name(inventory: Inventory, device: SliceDevice) -> str:
    """The resource name by which pods request a device; empty if no class gives it one of its vendor's."""
    names = (one.resource for one in inventory.classes if one.resource and one.covers(device))
    return next((name for name in names if vendor_of(name) is DRIVERS.get(device.driver)), "")


def _without_class(device: SliceDevice, inventory: Inventory) -> Finding:
    sentence = "driver {} offers {} devices by DRA, and {}; create one that selects device.driver == '{}'"
    if inventory.classes:
        why = "no DeviceClass is known to cover them"
    else:
        why = "no DeviceClass is known (a description needs deviceclasses too)"
    return Finding(Reason.NO_DEVICE_CLASS, sentence, (device.driver, device.type, why, device.driver))
