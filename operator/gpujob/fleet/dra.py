"""Device groups of nodes whose devices a DRA driver offers, so that no node lists a resource for them.

A ResourceSlice says in other words what the labellers say: it is put into their words and read by the same readers. A pod
asks for such devices by the resource name that a DeviceClass gives them; without one nothing can be rendered for them.
Attributes: NVIDIA dra-driver-nvidia-gpu v0.5 (2026-08), ROCm k8s-gpu-dra-driver v0.1 and v1.0 (2025-10, 2026).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpujob.catalog.records import Catalog
from gpujob.finding import Finding
from gpujob.fleet import amd, nvidia
from gpujob.fleet.amd_labels import PREFIXES
from gpujob.fleet.cloud import origin_of
from gpujob.fleet.devices import DeviceGroup
from gpujob.fleet.facts import GIB, MIB
from gpujob.fleet.objects import Labels, Node, vendor_of
from gpujob.fleet.slices import Inventory, SliceDevice
from gpujob.vocabulary import Reason, Vendor

DRIVERS: Final = {"gpu.nvidia.com": Vendor.NVIDIA, "gpu.amd.com": Vendor.AMD}
USABLE_TYPES: Final = {Vendor.NVIDIA: frozenset({"gpu", "mig"}), Vendor.AMD: frozenset({"amdgpu", "amdgpu-partition"})}
"""Types of devices for containers; those for virtual machines (vfio) are passed over."""

_PCI_DEVICE: Final = re.compile(r"0x[0-9a-fA-F]{4}")
"""Version 0.1 of AMD's driver gave a KFD id under the name under which 1.0 gives the PCI device id."""


def with_slices(
    node: Node, groups: tuple[DeviceGroup, ...], inventory: Inventory, pods: Mapping[str, int], catalog: Catalog
) -> tuple[DeviceGroup, ...]:
    """A node's groups with the devices that DRA drivers offer on it.

    `pods` holds the uids of live pods that ask for GPUs, with how many: what the claims of their extended resources hold
    is counted with the pods.
    """
    offered: dict[tuple[Vendor, Labels | str, str], list[SliceDevice]] = defaultdict(list)
    for device in inventory.devices.get(node.name, ()):
        vendor = DRIVERS.get(device.driver)
        if vendor and device.attributes.get("type") in USABLE_TYPES[vendor]:
            labels = _labels(vendor, device)
            offered[vendor, repr(sorted(labels.items())), _name(inventory, device)].append(device)
    by_vendor: dict[Vendor, list[DeviceGroup]] = defaultdict(list)
    for (vendor, _, resource), devices in sorted(
        offered.items(), key=lambda item: (item[0][0], item[0][2], str(item[0][1]))
    ):
        by_vendor[vendor].append(_group(node, vendor, resource, devices, inventory, pods, catalog))
    kept = [_beside_slices(group, by_vendor, inventory, pods) for group in groups]
    plugged = {group.facts.vendor for group in kept if group is not None and not _lacks_plugin(group)}
    new = [group for vendor, found in by_vendor.items() if vendor not in plugged for group in found]
    return (*(group for group in kept if group is not None), *_apart(new))


def _apart(groups: Sequence[DeviceGroup]) -> list[DeviceGroup]:
    """Groups of one resource name: which of its devices a pod gets, nobody can say, so they differ from a whole pool."""
    often: dict[str, int] = defaultdict(int)
    for group in groups:
        often[group.resource] += 1
    return [_ambiguous(group) if often[group.resource] > 1 else group for group in groups]


def _ambiguous(group: DeviceGroup) -> DeviceGroup:
    sentence = "node {} offers devices of several kinds as {}; give them DeviceClasses of different resource names"
    problem = Finding(Reason.MODELS_DIFFER, sentence, (group.node.name, group.resource))
    return replace(group, facts=replace(group.facts, problem=group.facts.problem or problem))


def _lacks_plugin(group: DeviceGroup) -> bool:
    return group.facts.problem is not None and group.facts.problem.reason is Reason.NO_DEVICE_PLUGIN


def _beside_slices(
    group: DeviceGroup, offered: Mapping[Vendor, list[DeviceGroup]], inventory: Inventory, pods: Mapping[str, int]
) -> DeviceGroup | None:
    """What a device plugin offers on a node with slices too: the same devices, of which claims may hold some."""
    same = offered.get(group.facts.vendor)
    if not same:
        return group
    if _lacks_plugin(group) or not (group.healthy or group.node.capacity.get(group.resource)):
        return None
    held = sum(other.held for other in same)
    sentence = "node {} offers its devices by a device plugin and by DRA; those in ResourceClaims are counted as taken"
    doubt = Finding(Reason.LABELS_CONTRADICT, sentence, (group.node.name,))
    return replace(group, held=held, facts=replace(group.facts, doubts=(*group.facts.doubts, doubt)))


def _group(
    node: Node,
    vendor: Vendor,
    resource: str,
    devices: Sequence[SliceDevice],
    inventory: Inventory,
    pods: Mapping[str, int],
    catalog: Catalog,
) -> DeviceGroup:
    labels, origin = _labels(vendor, devices[0]), origin_of(node)
    reader = nvidia if vendor is Vendor.NVIDIA else amd
    read_as = _resource_of(vendor, devices[0])
    count = len(devices)
    told = replace(node, labels={**_others(node.labels, vendor), **labels}, devices={read_as: count}, capacity={})
    facts = reader.read(told, read_as, origin.instance_type, catalog)
    if not resource:
        facts = replace(facts, problem=_unnamed(vendor, devices[0], inventory), unnamed=False)
    healthy, free = [device for device in devices if device.healthy], _free(devices, inventory)
    with_pods = sum(inventory.held.get(device.key) in pods for device in healthy if device.key in inventory.held)
    return DeviceGroup(
        node, origin, resource or f"{devices[0].driver}/{devices[0].attributes.get('type')}", facts, count, len(healthy),
        held=max(0, len(healthy) - free - with_pods),
    )  # fmt: skip


def _free(devices: Sequence[SliceDevice], inventory: Inventory) -> int:
    """How many of the devices can be allocated together, beside what claims hold of them and of their cards."""
    left = dict(inventory.limits)
    for on_node in {device.node for device in devices}:
        for device in inventory.devices.get(on_node, ()):
            if device.key in inventory.held:
                _take(device, left)
    count = 0
    for device in devices:
        if device.healthy and device.key not in inventory.held and _fits(device, left):
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


def _name(inventory: Inventory, device: SliceDevice) -> str:
    """The resource name by which pods ask for a device; empty where no class gives it one of its vendor's."""
    names = (one.resource for one in inventory.classes if one.covers(device))
    return next((name for name in names if vendor_of(name) is DRIVERS.get(device.driver)), "")


def _unnamed(vendor: Vendor, device: SliceDevice, inventory: Inventory) -> Finding:
    if not inventory.any_class:
        sentence = (
            "driver {} offers its devices by DRA, and no DeviceClass is known; add deviceclasses to the description"
        )
        return Finding(Reason.NO_RESOURCE_NAME, sentence, (device.driver,))
    wanted = _resource_of(vendor, device) if device.attributes.get("type") in ("gpu", "amdgpu") else None
    remedy = f" {wanted}" if wanted else ""
    sentence = "driver {} offers {} devices by DRA, and no DeviceClass gives them a spec.extendedResourceName{}"
    return Finding(Reason.NO_RESOURCE_NAME, sentence, (device.driver, device.attributes.get("type"), remedy))


# --- a slice's words as labels


def _resource_of(vendor: Vendor, device: SliceDevice) -> str:
    """The resource under which a device plugin would offer the device."""
    profile = device.attributes.get("profile", "")
    if vendor is Vendor.NVIDIA and device.attributes.get("type") == "mig":
        return f"nvidia.com/mig-{profile}"
    return nvidia.PLAIN if vendor is Vendor.NVIDIA else amd.PLAIN


def _labels(vendor: Vendor, device: SliceDevice) -> Labels:
    found = _nvidia_labels(device) if vendor is Vendor.NVIDIA else _amd_labels(device)
    return {key: value for key, value in found.items() if value}


def _nvidia_labels(device: SliceDevice) -> dict[str, str]:
    said, memory = device.attributes, device.memory
    major, _, rest = said.get("cudaComputeCapability", "").partition(".")
    kind = f"mig-{said.get('profile', '')}" if said.get("type") == "mig" else "gpu"
    return {
        "nvidia.com/gpu.product": re.sub(r"[\s_]+", "-", said.get("productName", "").strip()),
        f"nvidia.com/{kind}.memory": str(memory // MIB) if memory else "",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": rest.partition(".")[0],
        "nvidia.com/cuda.driver-version.full": said.get("driverVersion", ""),
    }


def _amd_labels(device: SliceDevice) -> dict[str, str]:
    said, memory = device.attributes, device.memory
    mode = said.get("partitionProfile") or "_".join(
        filter(None, (said.get("computePartition"), said.get("memoryPartition")))
    )
    whole = "spx_nps1" if said.get("type") == "amdgpu" else ""
    pci = said.get("deviceID", "")
    return {
        "amd.com/gpu.device-id": pci[2:].lower() if _PCI_DEVICE.fullmatch(pci) else "",
        "amd.com/gpu.product-name": re.sub(r"\s+", "_", said.get("productName", "").strip()),
        "amd.com/gpu.vram": f"{(2 * memory + GIB) // (2 * GIB)}G" if memory else "",
        "amd.com/gpu.driver-version": said.get("driverVersionFull") or said.get("driverVersion", ""),
        "amd.com/gpu.compute-memory-partition": mode.lower() or whole,
    }


def _others(labels: Labels, vendor: Vendor) -> Labels:
    """A node's labels without those that a labeller wrote of the same devices: slices are younger and exact."""
    starts = ("nvidia.com/",) if vendor is Vendor.NVIDIA else (*PREFIXES, "amd.com/")
    return {key: value for key, value in labels.items() if not key.startswith(starts)}
