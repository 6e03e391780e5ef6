"""AMD devices from the labels of AMD's node labeller, else from the instance type.

Label forms: ROCm/k8s-device-plugin cmd/k8s-node-labeller (2026-08). `vram` is whole GiB for each Kubernetes device; there is no
label for the gfx architecture, so the device id and the catalog say it. `amd_partitions` reads the partitions of a card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.kubernetes.objects import Labels, Node
from gpujob.fleet.labels.cloud import machine_device, machine_maker
from gpujob.fleet.labels.conflicts import Witness, heard, of_cloud, of_vendor
from gpujob.fleet.labels.device_fraction import Portion
from gpujob.fleet.labels.facts import GIB, DeviceFacts, identified, part_of_machine, readable
from gpujob.fleet.vendors import amd_labels
from gpujob.fleet.vendors.amd_labels import PREFIXES, AmdLabels
from gpujob.fleet.vendors.amd_partitions import portion_of
from gpujob.values.finding import Finding, Size, listed
from gpujob.values.untrusted import one_line, whole_number
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

PLAIN: Final = amd_labels.PLAIN
NFD_DEVICE: Final = "feature.node.kubernetes.io/amd-gpu"
NFD_MODEL: Final = f"{NFD_DEVICE}-"
"""Prefix before a model (amd-gpu-mi300x): labels of the GPU operator's rule for Node Feature Discovery."""

MOST_OF_PROCESSOR_GRAPHICS: Final = 4 * GIB
"""Graphics inside a processor have at most this much memory of their own."""

_PROCESSOR: Final = re.compile(r"ryzen|processor|athlon|epyc", re.IGNORECASE)


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an AMD resource of a node."""
    labels = AmdLabels(node.labels)
    models, problem = _models(labels, catalog)
    witnesses = [] if models or problem else _witnesses(node, labels, instance_type, catalog)
    accelerator = _worst(models) or (witnesses[0].accelerator if witnesses else None)
    portion, warnings, wrong = portion_of(node, labels, resource, instance_type, accelerator, catalog)
    reported = _reported(labels, resource, portion, accelerator)
    if accelerator and reported and _is_of_card(reported, portion, accelerator, catalog):
        warnings += (_of_card(reported, portion, accelerator),)
        reported = None
    portion = part_of_machine(portion, reported, instance_type, catalog)
    warnings += _sizes_differ(labels) if resource == PLAIN else ()
    if accelerator is None and _in_processor(labels, reported):
        portion = Portion(DeviceKind.INTEGRATED)
    facts = DeviceFacts(
        Vendor.AMD,
        driver=readable(labels.value("driver-version")),
        problem=problem or wrong,
        warnings=warnings,
        reported=reported,
        models=tuple(row.id for row in models) if problem and len(models) > 1 else (),
        portion=portion,
    )
    if facts.problem:
        return facts
    found = identified(facts, resource, accelerator, "" if accelerator else _row(labels))
    found = heard(found, witnesses) if witnesses else found
    # The size of an unidentified device does not show a fraction either.
    return replace(found, portion=portion) if found.problem else found


def _row(labels: AmdLabels) -> str:
    """The missing row of the catalog: no label has the architecture."""
    # late import: most clusters have no unknown device
    from gpujob.fleet.labels.catalog_suggestion import missing_row

    memory = min(labels.sizes(), default=None)
    names = {
        "products": labels.value("product-name"),
        "deviceIds": labels.value("device-id"),
        "cloudNames": machine_device(labels.labels)[0],
    }
    return missing_row("gfx...", memory, **names)


def labelled(labels: Labels) -> bool:
    """Whether labels announce AMD devices, allocatable or not."""
    if any(key.startswith(PREFIXES) or (key.startswith(NFD_DEVICE) and labels[key] == "true") for key in labels):
        return True
    return machine_maker(labels) == "amd"


def count(labels: Labels) -> int | None:
    """Devices by label, None if absent."""
    return AmdLabels(labels).count()


def cards(labels: Labels, accelerator: Accelerator | None) -> int | None:
    """Whole devices by label, None if absent."""
    return AmdLabels(labels).cards(accelerator)


# --- which models


def _models(labels: AmdLabels, catalog: Catalog) -> tuple[tuple[Accelerator, ...], Finding | None]:
    """Every model of a node that holds several, and the problem that a job cannot be ready for each of them.

    For a node with several models the labeller writes counts, which do not relate memory to ids; the device plugin assigns any of
    them.
    """
    ids, products = labels.values("device-id"), labels.values("product-name")
    named = ids if len(ids) > 1 else products if len(products) > 1 and not ids else ()
    if not named:
        return (), None
    rows = {word: tuple(_rows(word, labels, catalog, is_id=named is ids)) for word in named}
    unknown = [word for word, found in rows.items() if not found]
    models = {row.id: row for found in rows.values() for row in found}
    ordered = tuple(models[key] for key in sorted(models))
    if unknown:
        sentence = "labels name several models on one node, of which {} is in no catalog row"
        return ordered, Finding(Reason.MODELS_DIFFER, sentence, (listed(unknown),))
    if len({row.architecture for row in ordered}) > 1:
        sentence = "the node holds {} and its device plugin assigns either; give each model nodes of its own"
        return ordered, Finding(Reason.MODELS_DIFFER, sentence, (listed(models),))
    return ordered, None


def _rows(word: str, labels: AmdLabels, catalog: Catalog, *, is_id: bool) -> Iterator[Accelerator]:
    """The rows that a device id or product can mean, with any of the node's memories and compute units."""
    sizes: list[int | None] = [size // GIB for size in labels.sizes()] or [None]
    units = [whole_number(text) for text in labels.values("cu-count")] or [None]
    for size in sizes:
        for cu_count in units:
            row = catalog.by_device_id(word, size, cu_count) if is_id else catalog.by_product(word, size)
            if row:
                yield row


def _worst(models: tuple[Accelerator, ...]) -> Accelerator | None:
    """Of several models the one with the least memory; unknown memory counts as the least."""
    return min(models, key=lambda row: (row.usable_bytes or 0, row.bf16_tflops or 0, row.id), default=None)


def _witnesses(node: Node, labels: AmdLabels, instance_type: str, catalog: Catalog) -> list[Witness]:
    """All sources about the devices of a node of one model: the labeller, the cloud, feature discovery."""
    sizes = labels.sizes()
    gib = max(sizes) // GIB if sizes else None
    units = max((whole_number(text) or 0 for text in labels.values("cu-count")), default=0) or None
    device, product = labels.value("device-id"), labels.value("product-name")
    by_id = catalog.by_device_id(device, gib, units, product or "") if device else None
    by_product = catalog.by_product(product, gib) if product else None
    found = [
        *([Witness("amd.com/gpu.device-id", by_id, own=True)] if by_id else []),
        *([Witness("amd.com/gpu.product-name", by_product, own=True)] if by_product else []),
        *of_cloud(labels.labels, instance_type, catalog),
    ]
    for key in sorted(key for key in labels.labels if key.startswith(NFD_MODEL) and labels.labels[key] == "true"):
        model = catalog.by_cloud_name(key.removeprefix(NFD_MODEL))
        found += [Witness(one_line(key[:128]), model)] if model else []
    return of_vendor(found, Vendor.AMD, node)


def _in_processor(labels: AmdLabels, reported: int | None) -> bool:
    """Whether an unknown device is the graphics part of a processor, which is not used for training."""
    named = any(_PROCESSOR.search(name) for name in labels.values("product-name"))
    return named and reported is not None and reported <= MOST_OF_PROCESSOR_GRAPHICS


def _sizes_differ(labels: AmdLabels) -> tuple[Finding, ...]:
    """The warning that one model's labels have several sizes of memory."""
    sizes = sorted(labels.sizes())
    if len(sizes) < 2 or len(labels.values("device-id")) > 1:
        return ()
    sentence = "labels say {} and {} of memory for one device; the smaller is used; restart AMD's node labeller"
    return (Finding(Reason.LABELS_CONTRADICT, sentence, (Size(sizes[0]), Size(sizes[-1]))),)


def _reported(labels: AmdLabels, resource: str, portion: Portion, accelerator: Accelerator | None) -> int | None:
    """Bytes of a device by the vram label; the smallest of several figures, because a larger one may be wrong.

    A node that offers whole cards and partitions under different names has a figure for each; then the closest one to the device's
    nominal size.
    """
    sizes = labels.sizes()
    whole = accelerator and accelerator.card_bytes
    if resource == PLAIN or len(sizes) < 2 or not whole or not portion.pieces or len(labels.values("device-id")) > 1:
        return min(sizes, default=None)
    expected = whole // portion.pieces
    return min(sizes, key=lambda size: (abs(size - expected), size))


def _is_of_card(reported: int, portion: Portion, accelerator: Accelerator, catalog: Catalog) -> bool:
    """Whether a partition's label is that of its card, whose memory the catalog lacks: no card of the architecture has so large parts.

    A card has at least as many parts as areas of memory (NPS4: 4), in CPX mode two or more.
    """
    if portion.kind is not DeviceKind.PARTITION or accelerator.card_bytes:
        return False
    alike = (row.card_bytes or 0 for row in catalog.accelerators if row.architecture == accelerator.architecture)
    areas = whole_number(portion.profile.partition("_nps")[2]) or 1
    return reported * max(portion.pieces or 2, areas) >= max(alike)


def _of_card(reported: int, portion: Portion, accelerator: Accelerator) -> Finding:
    sentence = "labels report {} for each {} of {}, which is that of a card; restart AMD's node labeller, or set spec.memoryPerGPU"
    return Finding(Reason.LABELS_CONTRADICT, sentence, (Size(reported), portion or "part", accelerator.id))
