"""AMD devices from the labels of AMD's node labeller, else from the instance type.

Label forms: ROCm/k8s-device-plugin cmd/k8s-node-labeller (2026-08). `vram` is whole GiB for each Kubernetes device; there
is no label for the gfx architecture, so the device id and the catalog say it. One model a node; partitions (CPX, NPS4)
and nodes with two models are said to be unknown here: a partition is never taken for a whole device.
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.finding import Finding, Size
from gpujob.fleet.facts import GIB, DeviceFacts, by_instance_type, readable, usable
from gpujob.fleet.objects import Labels, Node
from gpujob.untrusted import whole_number
from gpujob.vocabulary import Reason, Vendor

WHOLE_GPU: Final = frozenset({"amd.com/gpu", "amd.com/spx_nps1"})
_VRAM: Final = re.compile(r"([0-9]{1,5})G")
PREFIXES: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an AMD resource of a node."""
    labels = node.labels
    driver = readable(value(labels, "driver-version"))
    accelerator = _accelerator(labels, instance_type, catalog)
    problem = _partitioned(labels, resource) or _mixed(labels)
    if problem is None and accelerator is None:
        sentence = "no label or catalog row identifies the devices of {}; set spec.accelerator in a GPUPool for them"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (resource,))
    if problem is None and accelerator is not None:
        problem = _smaller_than_whole(accelerator, reported_memory(labels))
    if problem is not None or accelerator is None:
        return DeviceFacts(Vendor.AMD, driver=driver, problem=problem)
    memory, doubts = usable(accelerator, reported_memory(labels))
    return DeviceFacts(Vendor.AMD, accelerator, memory, driver, doubts=doubts)


def value(labels: Labels, kind: str) -> str | None:
    """A labeller's value in the plain or the beta form."""
    return labels.get(PREFIXES[0] + kind) or labels.get(PREFIXES[1] + kind)


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
    return any(key.startswith(PREFIXES) for key in labels)


def count(labels: Labels) -> int | None:
    """Devices by label, None where it is not said."""
    totals = [sum(counted(labels, kind).values()) for kind in ("device-id", "vram", "family")]
    return max(totals) or None


def _accelerator(labels: Labels, instance_type: str, catalog: Catalog) -> Accelerator | None:
    vram = reported_memory(labels)
    gib, units = vram // GIB if vram else None, whole_number(value(labels, "cu-count"))
    device, product = value(labels, "device-id"), value(labels, "product-name")
    return (
        (catalog.by_device_id(device.lower().removeprefix("0x"), gib, units) if device else None)
        or (catalog.by_product(product) if product else None)
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
    for kind in ("device-id", "vram", "product-name"):
        values = counted(labels, kind)
        if len(values) > 1:
            sentence = "labels name several kinds of devices on one node ({}), which is not read yet"
            return Finding(Reason.MODELS_DIFFER, sentence, (", ".join(sorted(values)),))
    return None


def _smaller_than_whole(accelerator: Accelerator, reported: int | None) -> Finding | None:
    whole = accelerator.driver_bytes
    if reported and whole and reported < whole * 3 // 4:
        sentence = "labels report {} for each device where a whole {} has {}: partitions are not read yet"
        return Finding(Reason.DEVICE_UNKNOWN, sentence, (Size(reported), accelerator.id, Size(whole)))
    return None
