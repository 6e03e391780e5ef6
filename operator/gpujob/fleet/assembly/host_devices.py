"""Devices that an admin's pool assigns by the host's device files, without a device plugin.

The GPUPool describes them (spec.accelerator, spec.gpusPerNode), with labels if there are some. If a plugin offers them too, pods
request all of them, so that no other pod gets any.
"""

from __future__ import annotations

from dataclasses import replace

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Node
from gpujob.fleet.labels.cloud import origin_of
from gpujob.fleet.labels.facts import devices_of_machine
from gpujob.fleet.vendors import amd, nvidia
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason, Vendor


def hosted_groups(
    node: Node, groups: tuple[DeviceGroup, ...], admin: AdminPool, catalog: Catalog
) -> tuple[DeviceGroup, ...]:
    """A node's groups with the devices of the pool, if no resource offers them."""
    row = catalog.device(admin.accelerator or "")
    if row is None or any(group.facts.vendor is row.vendor and (group.plugged or group.request) for group in groups):
        return groups
    others = tuple(group for group in groups if group.facts.vendor is not row.vendor)
    return (*others, _group(node, row.vendor, admin, catalog))


def _group(node: Node, vendor: Vendor, admin: AdminPool, catalog: Catalog) -> DeviceGroup:
    origin, reader = origin_of(node), nvidia if vendor is Vendor.NVIDIA else amd
    facts = reader.read(node, vendor.resource, origin.instance_type, catalog)
    count = (
        admin.gpus_per_node
        or reader.count(node.labels)
        or devices_of_machine(node.labels, origin.instance_type, catalog)
    )
    if not count:
        sentence = "the number of GPUs of node {} is unknown; set spec.gpusPerNode in GPUPool {}"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (node.name, admin.name))
        facts = replace(facts, problem=problem, unnamed=False, declarable=False)
    return DeviceGroup(node, origin, HOST_DEVICES, facts, count, count or 0)
