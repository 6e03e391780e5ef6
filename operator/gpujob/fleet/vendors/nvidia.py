"""NVIDIA devices from the labels of GPU Feature Discovery, GKE, Karpenter and instance types.

Label forms: NVIDIA/k8s-device-plugin docs/gpu-feature-discovery (2026-08). `gpu.memory` is MiB of the whole device, also
where it is shared; with MIG strategy `single` the labels of the whole device describe the slices, with `mixed` each
profile has a resource and a set of labels of its own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator, Architecture
from gpujob.fleet.kubernetes.objects import Labels, Node
from gpujob.fleet.labels.cloud import ACCELERATOR_LABELS, machine_device, machine_maker
from gpujob.fleet.labels.conflicts import Witness, heard, of_cloud, of_vendor
from gpujob.fleet.labels.device_fraction import WHOLE, Portion
from gpujob.fleet.labels.facts import GIB, MIB, DeviceFacts, identified, part_of_machine
from gpujob.fleet.vendors import nvidia_sharing
from gpujob.fleet.vendors.nvidia_driver import driver_of
from gpujob.fleet.vendors.nvidia_sharing import MIG_RESOURCE, SHARED_SUFFIX, label_prefix, with_sharing
from gpujob.values.finding import Finding
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

PLAIN: Final = nvidia_sharing.PLAIN
NFD_DEVICES: Final = tuple(f"feature.node.kubernetes.io/pci-{kind}10de.present" for kind in ("", "0300_", "0302_"))
"""Labels of Node Feature Discovery for PCI devices of NVIDIA that display or compute."""

UNSLICED: Final = "all-disabled"
"""The MIG layout of whole devices in GPU Operator's MIG manager (label nvidia.com/mig.config)."""

_MIG_PRODUCT: Final = re.compile(r"-MIG-([0-9A-Za-z.+-]{1,40})$", re.ASCII)
_VIRTUAL: Final = re.compile(r"(?:GRID-|NVIDIA-)?(.+?)-(?:[1-7]-)?([0-9]{1,3}[ABCQ](?:ME)?)", re.ASCII)
"""The name of a virtual GPU: the board, for slices how many, GB and the licence (NVIDIA-A10-4Q, GRID-A100-1-5C)."""
_PROFILE: Final = re.compile(r"[1-9]g\.[0-9]{1,3}gb([.+-][a-z.+-]*)?", re.ASCII)


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an NVIDIA resource of a node."""
    labels = node.labels
    offered = max(node.capacity.get(resource, 0), node.devices.get(resource, 0))
    driver, of_driver = driver_of(labels)
    facts = DeviceFacts(Vendor.NVIDIA, driver=driver, reported=_memory(labels, resource))
    plain = resource.removesuffix(SHARED_SUFFIX)
    profile, problem = _profile(labels, plain)
    part = profile or (_virtual_profile(labels, catalog) if plain == PLAIN else "")
    portion = Portion(DeviceKind.PARTITION, part, None) if part else Portion()
    portion = part_of_machine(portion, facts.reported, instance_type, catalog)
    portion, warnings, unclear = with_sharing(portion, node, resource, offered, instance_type, catalog)
    if problem is None and plain != PLAIN and not profile and portion.kind is not DeviceKind.SHARED:
        # Only shared devices can have another name (device plugin's configuration, `rename`).
        problem = Finding(Reason.DEVICE_UNKNOWN, "resource {} is not known", (resource,))
    facts = replace(
        facts, portion=portion, warnings=of_driver + warnings, problem=problem or unclear, declarable=problem is None
    )
    if facts.problem:
        return facts
    witnesses = _witnesses(node, instance_type, catalog)
    if not witnesses:
        return identified(facts, resource, None, _row(labels))
    if portion == WHOLE and witnesses[0].own and _whole_by_name(labels, instance_type, catalog):
        facts = replace(facts, portion=replace(portion, stated=True))
    found = heard(identified(facts, resource, witnesses[0].accelerator), witnesses)
    wrong = _contradicted(witnesses[0].accelerator, labels) if witnesses[0].own else None
    return replace(found, problem=wrong, declarable=True) if wrong and found.problem is None else found


def _row(labels: Labels) -> str:
    """The missing row of the catalog."""
    # late import: most clusters have no unknown device
    from gpujob.fleet.labels.catalog_suggestion import missing_row

    names = {
        "products": labels.get("nvidia.com/gpu.product"),
        "gke": labels.get("cloud.google.com/gke-accelerator"),
        "cloudNames": machine_device(labels)[0],
    }
    return missing_row(_capability(labels) or "...", reported_memory(labels), **names)


def reported_memory(labels: Labels) -> int | None:
    """Bytes of a device as the driver reports them, None without the label (or with 0)."""
    mebibytes = whole_number(labels.get("nvidia.com/gpu.memory"))
    return mebibytes * MIB if mebibytes else None


def labelled(labels: Labels) -> bool:
    """Whether labels announce NVIDIA devices, allocatable or not."""
    if labels.get("nvidia.com/gpu.present") == "true" or "nvidia.com/gpu.product" in labels:
        return True
    if any(labels.get(key) == "true" for key in NFD_DEVICES) or any(labels.get(key) for key in ACCELERATOR_LABELS):
        return True
    return machine_maker(labels) == "nvidia"


def count(labels: Labels) -> int | None:
    """Physical devices by label, None if absent; slices if MIG uses the name of whole devices."""
    return nvidia_sharing.count(labels)


def cards(labels: Labels, accelerator: Accelerator | None) -> int | None:
    """Whole devices by label, None if absent: the count of a node with MIG leaves sliced ones out."""
    sliced = (
        any(key.startswith("nvidia.com/mig-") for key in labels) or labels.get("nvidia.com/mig.strategy") == "mixed"
    )
    return None if sliced or "-MIG-" in labels.get("nvidia.com/gpu.product", "") else count(labels)


# --- how a card is divided


def _profile(labels: Labels, plain: str) -> tuple[str, Finding | None]:
    """The MIG profile of the slices of a resource, empty for whole devices; the problem that it is invalid."""
    named = MIG_RESOURCE.fullmatch(plain)
    sliced = _MIG_PRODUCT.search(labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED"))
    gke = labels.get("cloud.google.com/gke-gpu-partition-size", "")
    word = named[1] if named else sliced[1] if sliced and plain == PLAIN else gke if plain == PLAIN else ""
    if not word or _PROFILE.fullmatch(word):
        return word, None
    sentence = "{} on this node is a MIG slice without a usable profile ({}); fix the MIG layout of the node"
    return "", Finding(Reason.DEVICE_UNKNOWN, sentence, (plain, word[:32]))


def _virtual_profile(labels: Labels, catalog: Catalog) -> str:
    """The profile of a virtual GPU (4Q) of an unknown board; for a known board the memory gives the fraction."""
    virtual = _VIRTUAL.fullmatch(_product(labels))
    return virtual[2] if virtual and _board(virtual[1], catalog) is None else ""


def _whole_by_name(labels: Labels, instance_type: str, catalog: Catalog) -> bool:
    """Whether GPU Feature Discovery names a whole device, whatever memory another label has.

    The names of slices and virtual GPUs show it. Clouds sell fractions by the machine, and a requested MIG layout can exist before
    its labels.
    """
    product, machine = _product(labels), catalog.machine(instance_type)
    part = _VIRTUAL.fullmatch(product) or labels.get("nvidia.com/vgpu.present") == "true"
    part = part or labels.get("nvidia.com/mig.config", UNSLICED) != UNSLICED
    return bool(product) and not part and (machine is None or machine.parts == 1)


def _board(name: str, catalog: Catalog) -> Accelerator | None:
    """The row of the board that a virtual GPU's name begins with."""
    return catalog.by_product(f"NVIDIA-{name}") or catalog.by_product(name)


def _memory(labels: Labels, resource: str) -> int | None:
    """Bytes of a device or slice by the driver, else by the cloud if it sells a fraction of a device."""
    prefix = label_prefix(resource, labels)
    mebibytes = whole_number(labels.get(f"{prefix}.memory"))
    if not mebibytes and prefix == PLAIN:
        mebibytes = machine_device(labels)[1]
    return mebibytes * MIB if mebibytes else None


# --- which model


def _witnesses(node: Node, instance_type: str, catalog: Catalog) -> list[Witness]:
    """All sources about the devices, GPU Feature Discovery first; what only it describes comes last."""
    labels = node.labels
    product = _product(labels)
    own = _by_product(product, labels, catalog) or (_by_architecture(product, labels, catalog) if product else None)
    found = [Witness("nvidia.com/gpu.product", own, own=True)] if own else []
    found += of_cloud(labels, instance_type, catalog)
    if not found and (unnamed := _by_architecture("", labels, catalog)):
        found = [Witness("nvidia.com/gpu.compute", unnamed, own=True)]
    return of_vendor(found, Vendor.NVIDIA, node)


def _by_product(product: str, labels: Labels, catalog: Catalog) -> Accelerator | None:
    """The row of the product label: exact, or the board of a virtual GPU."""
    if not product:
        return None
    memory = None if "-MIG-" in product else reported_memory(labels)
    found = catalog.by_product(product, memory / GIB if memory else None)
    virtual = None if found else _VIRTUAL.fullmatch(product)
    return _board(virtual[1], catalog) if virtual else found


def _capability(labels: Labels) -> str | None:
    """The compute capability by GPU Feature Discovery: 9.0."""
    parts = [whole_number(labels.get(f"nvidia.com/gpu.compute.{part}")) for part in ("major", "minor")]
    return None if None in parts else ".".join(map(str, parts))


def _contradicted(accelerator: Accelerator, labels: Labels) -> Finding | None:
    """The problem that the labeller's product and compute capability contradict each other."""
    capability = _capability(labels)
    if capability is None or capability == accelerator.architecture:
        return None
    sentence = (
        "nvidia.com/gpu.product says {}, which has compute capability {}, and nvidia.com/gpu.compute says {}; "
        "restart GPU Feature Discovery, or name it in a GPUPool (spec.accelerator)"
    )
    return Finding(Reason.LABELS_CONTRADICT, sentence, (accelerator.id, accelerator.architecture, capability))


def _by_architecture(product: str, labels: Labels, catalog: Catalog) -> Accelerator | None:
    """A device that the catalog lacks, from GFD's labels: compute capability and memory are enough to decide.

    Features and the oldest driver are those of its compute capability in the catalog.
    """
    architecture, memory = _capability(labels), reported_memory(labels)
    if architecture is None or memory is None:
        return None
    major, _, minor = architecture.partition(".")
    driver_bytes = None if "-MIG-" in product or _VIRTUAL.fullmatch(product) else memory
    product = product.removeprefix("NVIDIA-")
    common = catalog.architectures.get(architecture) or _newer(architecture, int(major))
    return Accelerator(
        id=product[:63] or f"NVIDIA-sm{major}{minor}",
        name=product.replace("-", " ") or f"NVIDIA device of compute capability {architecture}",
        vendor=Vendor.NVIDIA,
        architecture=architecture,
        driver_bytes=driver_bytes,
        features=common.features,
        min_driver=common.min_driver,
        min_backend=common.min_backend,
        support="limited",
        source="labels of GPU Feature Discovery",
    )


def _newer(architecture: str, major: int) -> Architecture:
    """A capability without a row: since Ampere (8.0) every one has had BF16; the rest is unknown."""
    return Architecture(architecture, features=frozenset({"BF16"} if major >= 8 else ()))


def _product(labels: Labels) -> str:
    return labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED")
