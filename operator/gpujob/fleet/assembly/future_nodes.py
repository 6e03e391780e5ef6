"""The nodes that an autoscaler can add to an admin's pool, described before any node exists.

The pool's selector names labels that each of them will have, and these are read like those of an existing node: a selector for MIG
slices, for shared devices or for a machine with a part of a device adds no whole ones, and neither does a resource with the name
of a fraction. The admin's accelerator takes precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.kubernetes.objects import Labels, Node, vendor_of
from gpujob.fleet.labels.cloud import Origin, origin_of_labels
from gpujob.fleet.labels.conflicts import Witness, clash, of_cloud
from gpujob.fleet.labels.device_fraction import WHOLE
from gpujob.fleet.labels.facts import DeviceFacts, declared, devices_of_machine
from gpujob.fleet.pools.autoscaling import unknown_of_new
from gpujob.fleet.vendors import amd, nvidia
from gpujob.values.finding import Finding, counted
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor


def with_machine(admin: AdminPool, there: Sequence[object], catalog: Catalog) -> AdminPool:
    """The pool with the number of GPUs of the selected machine, if there is no node and the admin gives no number."""
    if there or admin.provision is None or admin.provision.gpus_per_node:
        return admin
    demanded = _demanded(admin)
    gpus = devices_of_machine(demanded, origin_of_labels(demanded).instance_type, catalog)
    return replace(admin, provision=replace(admin.provision, gpus_per_node=gpus)) if gpus else admin


def within_machine(
    admin: AdminPool, there: Sequence[DeviceGroup], catalog: Catalog
) -> tuple[AdminPool, tuple[Finding, ...]]:
    """The pool with no more GPUs on a new node than the selected machine or an existing node has, and the warning about it.

    Nodes whose devices are cut or shared offer more than the machine has.
    """
    gpus = (admin.provision and admin.provision.gpus_per_node) or 0
    if admin.provision is None or not there or any(each.facts.portion.kind is not DeviceKind.WHOLE for each in there):
        return admin, ()
    demanded = _demanded(admin)
    instance_type = origin_of_labels(demanded).instance_type
    machine = devices_of_machine(demanded, instance_type, catalog)
    most = max(machine or 0, *(each.total or 0 for each in there))
    if machine is None or gpus <= most:
        return admin, ()
    sentence = "spec.provision.gpusPerNode is {}, {} has {}: new nodes count with {}"
    numbers = (gpus, _machine(instance_type), counted(machine, "GPU"), most)
    capped = replace(admin, provision=replace(admin.provision, gpus_per_node=most))
    return capped, (Finding(Reason.LABELS_CONTRADICT, sentence, numbers),)


def _machine(instance_type: str) -> str:
    return f"instance type {one_line(instance_type[:63])}" if instance_type else "the cloud's machine"


def vendor_named(admin: AdminPool, catalog: Catalog) -> Vendor | None:
    """The vendor of the devices by the GPUPool's resource, or by the labels that it selects; None if they leave it open."""
    if admin.resource and (said := vendor_of(admin.resource)):
        return said
    demanded = _demanded(admin)
    found = next(of_cloud(demanded, origin_of_labels(demanded).instance_type, catalog), None)
    if found is not None:
        return found.accelerator.vendor
    named = {
        each for term in admin.terms for each in Vendor if term[0].startswith(each.resource.partition("/")[0] + "/")
    }
    return named.pop() if len(named) == 1 else None


def facts_of_new(
    admin: AdminPool, row: Accelerator | None, vendor: Vendor, catalog: Catalog
) -> tuple[DeviceFacts, Finding | None]:
    """The facts of nodes that can be added, or the problem that they are unknown; `row` is the admin's accelerator."""
    demanded = _demanded(admin)
    origin = origin_of_labels(demanded)
    selected = next((each.accelerator for each in of_cloud(demanded, origin.instance_type, catalog)), None)
    model = row or selected
    resource = admin.resource or (model.vendor if model else vendor).resource
    if vendor_of(resource) is None:
        known = DeviceFacts(
            model.vendor if model else vendor, model, driver=admin.provision.driver if admin.provision else None
        )
        return known, Finding(Reason.DEVICE_UNKNOWN, "resource {} is not known", (resource,))
    read = _read(admin, demanded, resource, origin, catalog)
    if more := _more_than_machine(admin, read, demanded, origin.instance_type, catalog):
        return replace(read, portion=WHOLE, accelerator=model, problem=None), more
    found = declared(read, resource, row)
    driver = (admin.provision and admin.provision.driver) or found.driver
    found = replace(found, driver=driver, warnings=(*found.warnings, *_selected_others(demanded, origin, row, catalog)))
    problem = None if found.unnamed else found.problem
    return replace(found, problem=None), problem or unknown_of_new(admin, known=found.accelerator is not None)


def _more_than_machine(
    admin: AdminPool, read: DeviceFacts, demanded: Labels, instance_type: str, catalog: Catalog
) -> Finding | None:
    """The problem that a new node would have more GPUs than the selected machine, and no label says that they are shared or cut."""
    machine, gpus = (
        devices_of_machine(demanded, instance_type, catalog),
        (admin.provision and admin.provision.gpus_per_node) or 0,
    )
    if (
        machine is None
        or gpus <= machine
        or read.portion.kind is not DeviceKind.SHARED
        or read.portion.replicas is not None
    ):
        return None
    sentence = (
        "spec.provision.gpusPerNode is {}, {} has {}; set it to {}, or select the label that says how pods share them"
    )
    numbers = (gpus, _machine(instance_type), counted(machine, "GPU"), machine)
    return Finding(Reason.LABELS_CONTRADICT, sentence, numbers)


def origins_of_new(admin: AdminPool) -> list[Origin]:
    """The origin of nodes that can be added, from the labels that the pool's selector requires; None if none can be added."""
    if admin.provision is None:
        return []
    origin = origin_of_labels(_demanded(admin))
    return [replace(origin, cpu_architecture=admin.provision.cpu_architecture or origin.cpu_architecture)]


def _read(admin: AdminPool, demanded: Labels, resource: str, origin: Origin, catalog: Catalog) -> DeviceFacts:
    """The origin that a node with these labels and as many devices would have."""
    reader = nvidia if vendor_of(resource) is Vendor.NVIDIA else amd
    gpus = (admin.provision and admin.provision.gpus_per_node) or 0
    node = Node("", "", demanded, devices={resource: gpus}, capacity={resource: gpus})
    facts: DeviceFacts = reader.read(node, resource, origin.instance_type, catalog)
    return facts


def _demanded(admin: AdminPool) -> Labels:
    """Labels that every node of the pool will have, by its selector."""
    return {key: values[0] for key, operator, values in admin.terms if operator == "In" and len(values) == 1}


def _selected_others(
    demanded: Labels, origin: Origin, row: Accelerator | None, catalog: Catalog
) -> tuple[Finding, ...]:
    """The warnings that spec.nodeSelector requests other devices from a cloud than spec.accelerator names."""
    if row is None:
        return ()
    own = Witness("spec.accelerator", row)
    found = [each for each in of_cloud(demanded, origin.instance_type, catalog) if clash(own, each)]
    sentence = (
        "spec.accelerator is {}, spec.nodeSelector selects other nodes: {} says {}; the GPUPool's accelerator counts"
    )
    return tuple(
        Finding(Reason.LABELS_CONTRADICT, sentence, (row.id, each.source, each.accelerator.id)) for each in found
    )
