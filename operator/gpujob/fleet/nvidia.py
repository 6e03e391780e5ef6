"""NVIDIA devices from the labels of GPU Feature Discovery, GKE, Karpenter and instance types.

Label forms: NVIDIA/k8s-device-plugin docs/gpu-feature-discovery (2026-08). `gpu.memory` is MiB of the whole device.
MIG slices, time-slicing and MPS are said to be unknown here: a slice is never taken for a whole device.
"""

from __future__ import annotations

from functools import reduce
from itertools import takewhile
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.finding import Finding
from gpujob.fleet.cloud import machine_device, machine_maker
from gpujob.fleet.facts import GIB, MIB, DeviceFacts, by_instance_type, devices_of_machine, of_whole, readable
from gpujob.fleet.objects import Labels, Node
from gpujob.untrusted import whole_number
from gpujob.vocabulary import Reason, Vendor

WHOLE_GPU: Final = "nvidia.com/gpu"


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an NVIDIA resource of a node."""
    labels = node.labels
    driver = readable(_driver(labels))
    offered = max(node.capacity.get(resource, 0), node.devices.get(resource, 0))
    physical = count(labels) or devices_of_machine(labels, instance_type, catalog)
    problem = _not_whole(labels, resource, offered, physical)
    if problem:
        return DeviceFacts(Vendor.NVIDIA, driver=driver, problem=problem)
    accelerator = _accelerator(labels, instance_type, catalog)
    return of_whole(Vendor.NVIDIA, resource, accelerator, _memory(labels), driver)


def reported_memory(labels: Labels) -> int | None:
    """Bytes of a device as the driver reports them, None where no label says so (or says 0)."""
    mebibytes = whole_number(labels.get("nvidia.com/gpu.memory"))
    return mebibytes * MIB if mebibytes else None


def labelled(labels: Labels) -> bool:
    """Whether labels promise NVIDIA devices, be they allocatable or not."""
    if labels.get("nvidia.com/gpu.present") == "true" or "nvidia.com/gpu.product" in labels:
        return True
    return "cloud.google.com/gke-accelerator" in labels or machine_maker(labels) == "nvidia"


def count(labels: Labels) -> int | None:
    """Physical devices by label, None where it is not said."""
    return whole_number(labels.get("nvidia.com/gpu.count"))


def unsettled(labels: Labels) -> str | None:
    """What is being changed on the node right now, None when nothing is: MIG layout or driver."""
    mig = labels.get("nvidia.com/mig.config.state", "success")
    if mig != "success":
        return f"nvidia.com/mig.config.state is {mig[:32]}"
    upgrade = labels.get("nvidia.com/gpu-driver-upgrade-state", "upgrade-done")
    if upgrade not in ("upgrade-done", "upgrade-required", ""):
        return f"nvidia.com/gpu-driver-upgrade-state is {upgrade[:32]}"
    return None


def _memory(labels: Labels) -> int | None:
    """Bytes of a device by the driver, else by the cloud where this tells of a fraction of a device."""
    reported = reported_memory(labels)
    mebibytes = None if reported else machine_device(labels)[1]
    return mebibytes * MIB if mebibytes else reported


def _not_whole(labels: Labels, resource: str, offered: int, physical: int | None) -> Finding | None:
    product = labels.get("nvidia.com/gpu.product", "")
    replicas = whole_number(labels.get("nvidia.com/gpu.replicas")) or 1
    sharing = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    gke_sharing = labels.get("cloud.google.com/gke-gpu-sharing-strategy")
    if "mig-" in resource or "-MIG-" in product or labels.get("cloud.google.com/gke-gpu-partition-size"):
        sentence = "{} on this node is a MIG slice, which is not read yet; whole devices only"
        return Finding(Reason.DEVICE_UNKNOWN, sentence, (resource,))
    shared = resource.endswith(".shared") or product.endswith("-SHARED") or replicas > 1 or sharing != "none"
    if shared or gke_sharing or (physical and offered > physical):
        sentence = "{} on this node is shared by several pods (no memory isolation), which is not read yet"
        return Finding(Reason.DEVICE_UNKNOWN, sentence, (resource,))
    if resource != WHOLE_GPU:
        return Finding(Reason.DEVICE_UNKNOWN, "resource {} is not known", (resource,))
    return None


def _accelerator(labels: Labels, instance_type: str, catalog: Catalog) -> Accelerator | None:
    product, memory = labels.get("nvidia.com/gpu.product", ""), reported_memory(labels)
    found = catalog.by_product(product, memory / GIB if memory else None) if product else None
    if product and found is None:
        found = _by_architecture(product, labels, catalog)
    return (
        found
        or catalog.by_gke(labels.get("cloud.google.com/gke-accelerator", ""))
        or catalog.by_cloud_name(*machine_device(labels))
        or by_instance_type(catalog, instance_type, Vendor.NVIDIA)
        or _by_architecture(product, labels, catalog)
    )


def _by_architecture(product: str, labels: Labels, catalog: Catalog) -> Accelerator | None:
    """A device that the catalog lacks, from what GFD says itself: compute capability and memory are enough to decide.

    Features are those that every catalog device of this compute capability has.
    """
    major = whole_number(labels.get("nvidia.com/gpu.compute.major"))
    minor = whole_number(labels.get("nvidia.com/gpu.compute.minor"))
    memory = reported_memory(labels)
    if major is None or minor is None or memory is None:
        return None
    architecture = f"{major}.{minor}"
    kin = [a.features for a in catalog.accelerators if a.vendor is Vendor.NVIDIA and a.architecture == architecture]
    return Accelerator(
        id=product.removeprefix("NVIDIA-")[:63] or f"NVIDIA-sm{major}{minor}",
        name=product.replace("-", " ") or f"NVIDIA device of compute capability {architecture}",
        vendor=Vendor.NVIDIA,
        architecture=architecture,
        driver_bytes=memory,
        features=reduce(frozenset.intersection, kin) if kin else frozenset(),
        support="limited",
        source="labels of GPU Feature Discovery",
    )


def _driver(labels: Labels) -> str | None:
    full = readable(labels.get("nvidia.com/cuda.driver-version.full"))
    if full:
        return full
    for prefix, last in (("nvidia.com/cuda.driver-version", "revision"), ("nvidia.com/cuda.driver", "rev")):
        parts = [labels.get(f"{prefix}.{part}", "") for part in ("major", "minor", last)]
        numbers = list(takewhile(lambda part: whole_number(part) is not None, parts))
        if numbers:
            return ".".join(numbers)
    return None
