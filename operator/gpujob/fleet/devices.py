"""The device groups of a node: one for each GPU resource, so that one node may hold two vendors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpujob.catalog.records import Catalog
from gpujob.finding import Finding
from gpujob.fleet import amd, nvidia
from gpujob.fleet.cloud import Origin, origin_of
from gpujob.fleet.facts import DeviceFacts
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


def groups_of(node: Node, catalog: Catalog) -> tuple[DeviceGroup, ...]:
    """Every GPU resource of a node with its facts; a labelled node without any resource yields one empty group."""
    origin = origin_of(node)
    offered = sorted({**node.capacity, **node.devices})
    groups = [_group(node, origin, resource, catalog) for resource in offered]
    return tuple(groups) or tuple(_without_plugin(node, origin, catalog))


def _group(node: Node, origin: Origin, resource: str, catalog: Catalog) -> DeviceGroup:
    vendor = vendor_of(resource)
    reader = nvidia if vendor is Vendor.NVIDIA else amd
    facts = reader.read(node, resource, origin.instance_type, catalog)
    healthy = node.devices.get(resource, 0)
    capacity = max(node.capacity.get(resource, 0), healthy)
    return DeviceGroup(node, origin, resource, facts, capacity or reader.count(node.labels), healthy)


def _without_plugin(node: Node, origin: Origin, catalog: Catalog) -> Iterator[DeviceGroup]:
    for reader, resource in ((nvidia, nvidia.WHOLE_GPU), (amd, "amd.com/gpu")):
        if reader.labelled(node.labels):
            known = reader.read(node, resource, origin.instance_type, catalog)
            sentence = "labels of node {} show {} devices but no device plugin offers {}; install or restart the plugin"
            problem = known.problem or Finding(Reason.NO_DEVICE_PLUGIN, sentence, (node.name, known.vendor, resource))
            facts = DeviceFacts(known.vendor, known.accelerator, known.memory, known.driver, problem, known.doubts)
            yield DeviceGroup(node, origin, resource, facts, reader.count(node.labels), 0)
