"""The device groups of a node: one for each GPU resource, so that one node may hold two vendors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpujob.catalog.records import Catalog
from gpujob.finding import Finding
from gpujob.fleet import amd, nvidia
from gpujob.fleet.cloud import Origin, origin_of
from gpujob.fleet.facts import DeviceFacts, devices_of_machine
from gpujob.fleet.objects import Node, vendor_of
from gpujob.vocabulary import Reason, Vendor


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices behind one resource of one node.

    `total` is what the node can ever offer (None: nobody says), `healthy` what it offers now (allocatable).
    """

    node: Node
    origin: Origin
    resource: str
    facts: DeviceFacts
    total: int | None
    healthy: int
    beside: int = 0
    """Usable devices of the node's other resources, which have a share in its CPU and memory too."""


def groups_of(node: Node, catalog: Catalog) -> tuple[DeviceGroup, ...]:
    """Every GPU resource of a node with its facts; devices that labels promise and no resource offers: an empty group."""
    origin = origin_of(node)
    offered = sorted({**node.capacity, **node.devices})
    groups = [_group(node, origin, resource, catalog) for resource in offered if not _former(node, resource)]
    vendors = {group.facts.vendor for group in groups}
    usable = sum(group.total or 0 for group in groups if group.facts.problem is None)
    groups = [replace(g, beside=usable - (0 if g.facts.problem else g.total or 0)) for g in groups]
    return (*groups, *(group for group in _without_plugin(node, origin, catalog) if group.facts.vendor not in vendors))


def _former(node: Node, resource: str) -> bool:
    """Whether the kubelet still lists a resource's former name at 0, since its devices are offered under another one."""
    if node.capacity.get(resource, 0) or node.devices.get(resource, 0):
        return False
    others = {**node.capacity, **node.devices}
    return any(others[other] and vendor_of(other) is vendor_of(resource) for other in others)


def _group(node: Node, origin: Origin, resource: str, catalog: Catalog) -> DeviceGroup:
    vendor = vendor_of(resource)
    reader = nvidia if vendor is Vendor.NVIDIA else amd
    facts = reader.read(node, resource, origin.instance_type, catalog)
    healthy, labelled = node.devices.get(resource, 0), reader.count(node.labels)
    capacity = max(node.capacity.get(resource, 0), healthy)
    if labelled and 0 < capacity < labelled and facts.problem is None:
        # For example two models of which the device plugin offers one.
        sentence = "labels count {} devices on node {}, the device plugin offers {}"
        doubt = Finding(Reason.LABELS_CONTRADICT, sentence, (labelled, node.name, capacity))
        facts = replace(facts, doubts=(*facts.doubts, doubt))
    return DeviceGroup(node, origin, resource, facts, capacity or labelled, healthy)


def _without_plugin(node: Node, origin: Origin, catalog: Catalog) -> Iterator[DeviceGroup]:
    for reader, resource in ((nvidia, nvidia.WHOLE_GPU), (amd, "amd.com/gpu")):
        if reader.labelled(node.labels):
            known = reader.read(node, resource, origin.instance_type, catalog)
            sentence = "labels of node {} show {} devices but no device plugin offers {}; install or restart the plugin"
            problem = Finding(Reason.NO_DEVICE_PLUGIN, sentence, (node.name, known.vendor, resource))
            total = reader.count(node.labels) or devices_of_machine(node.labels, origin.instance_type, catalog)
            yield DeviceGroup(node, origin, resource, replace(known, problem=problem, unnamed=False), total, 0)
