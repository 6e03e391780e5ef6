"""AMD devices from the labels of AMD's node labeller, else from the instance type.

Label forms: ROCm/k8s-device-plugin cmd/k8s-node-labeller (2026-08). `vram` is whole GiB for each Kubernetes device; there
is no label for the gfx architecture, so the device id and the catalog say it. One model a node; partitions (CPX, NPS4)
and nodes with two models are said to be unknown here: a partition is never taken for a whole device.
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.finding import Finding
from gpujob.fleet.cloud import machine_device, machine_maker
from gpujob.fleet.facts import GIB, DeviceFacts, by_instance_type, devices_of_machine, of_whole, readable
from gpujob.fleet.objects import Labels, Node
from gpujob.untrusted import whole_number
from gpujob.vocabulary import Reason, Vendor

WHOLE_GPU: Final = frozenset({"amd.com/gpu", "amd.com/spx_nps1"})
_VRAM: Final = re.compile(r"([0-9]{1,5})G")
PREFIXES: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an AMD resource of a node."""
    labels, offered = node.labels, max(node.capacity.get(resource, 0), node.devices.get(resource, 0))
    driver = readable(value(labels, "driver-version"))
    physical = count(labels) or devices_of_machine(labels, instance_type, catalog)
    problem = _partitioned(labels, resource) or _mixed(labels) or _too_many(resource, offered, physical)
    if problem:
        return DeviceFacts(Vendor.AMD, driver=driver, problem=problem)
    accelerator = _accelerator(labels, instance_type, catalog)
    return of_whole(Vendor.AMD, resource, accelerator, reported_memory(labels), driver)


def value(labels: Labels, kind: str) -> str | None:
    """A labeller's value in the plain form, the beta form, or the counting form of old labellers if it has one value."""
    plain = labels.get(PREFIXES[0] + kind) or labels.get(PREFIXES[1] + kind)
    values = () if plain else tuple(counted(labels, kind))
    return values[0] if len(values) == 1 else plain


def counted(labels: Labels, kind: str) -> dict[str, int]:
    """Values of a kind with their device counts (`<kind>.<value>=<count>`)."""
    found: dict[str, int] = {}
    for prefix in PREFIXES:
        start = f"{prefix}{kind}."
        for key, text in labels.items():
            number = whole_number(text)
            if key.startswith(start) and number:
                found[key[len(start) :]] = number
    return found


def reported_memory(labels: Labels) -> int | None:
    """Bytes of a device by the vram label, None where it is not said."""
    match = _VRAM.fullmatch(value(labels, "vram") or "")
    return int(match[1]) * GIB if match and int(match[1]) else None


def labelled(labels: Labels) -> bool:
    """Whether labels promise AMD devices, be they allocatable or not."""
    return any(key.startswith(PREFIXES) for key in labels) or machine_maker(labels) == "amd"


def count(labels: Labels) -> int | None:
    """Devices by label, None where it is not said."""
    totals = [sum(counted(labels, kind).values()) for kind in ("device-id", "vram", "family")]
    return max(totals) or None


def _accelerator(labels: Labels, instance_type: str, catalog: Catalog) -> Accelerator | None:
    vram = reported_memory(labels)
    gib, units = vram // GIB if vram else None, whole_number(value(labels, "cu-count"))
    device, product = value(labels, "device-id"), value(labels, "product-name")
    return (
        (catalog.by_device_id(device, gib, units) if device else None)
        or (catalog.by_product(product, gib) if product else None)
        or catalog.by_cloud_name(*machine_device(labels))
        or by_instance_type(catalog, instance_type, Vendor.AMD)
    )


def _partitioned(labels: Labels, resource: str) -> Finding | None:
    mode = value(labels, "compute-memory-partition") or labels.get("amd.com/compute-memory-partition") or "spx_nps1"
    if resource not in WHOLE_GPU or mode.lower() != "spx_nps1":
        sentence = "{} on this node is a partition ({}), which is not read yet; whole devices only"
        name = resource.partition("/")[2] if resource not in WHOLE_GPU else mode.lower()[:32]
        return Finding(Reason.DEVICE_UNKNOWN, sentence, (resource, name))
    return None


def _mixed(labels: Labels) -> Finding | None:
    for kind in ("device-id", "vram", "product-name", "cu-count"):
        plain = (labels.get(prefix + kind) for prefix in PREFIXES)
        values = {text.lower() for text in (*counted(labels, kind), *plain) if text}
        if len(values) > 1:
            sentence = "labels name several kinds of devices on one node ({}), which is not read yet"
            return Finding(Reason.MODELS_DIFFER, sentence, (", ".join(sorted(values)),))
    return None


def _too_many(resource: str, offered: int, physical: int | None) -> Finding | None:
    """More devices than the labeller or the cloud counts: the node was partitioned after it was labelled, or unseen."""
    if physical and offered > physical:
        sentence = "{} shows {} devices where labels or instance type say {}: partitions are not read yet"
        return Finding(Reason.DEVICE_UNKNOWN, sentence, (resource, offered, physical))
    return None
