"""AMD devices from the labels of AMD's node labeller, else from the instance type.

Label forms: ROCm/k8s-device-plugin cmd/k8s-node-labeller (2026-08). `vram` is whole GiB for each Kubernetes device; there
is no label for the gfx architecture, so the device id and the catalog say it. Labels are made once, when the labeller
starts: the resource's name and its count are younger, and say of a partition what stale labels do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.finding import Finding, Size, listed
from gpujob.fleet.amd_labels import PREFIXES, AmdLabels
from gpujob.fleet.cloud import machine_maker
from gpujob.fleet.facts import (
    GIB,
    LEAST_OF_WHOLE,
    PARTS,
    DeviceFacts,
    devices_of_machine,
    identified,
    part_of_machine,
    readable,
)
from gpujob.fleet.objects import Labels, Node
from gpujob.fleet.portion import Portion
from gpujob.fleet.testimony import Witness, heard, of_cloud, of_vendor, undersized
from gpujob.untrusted import one_line, whole_number
from gpujob.vocabulary import DeviceKind, Reason, Vendor

PLAIN: Final = "amd.com/gpu"
NFD_DEVICE: Final = "feature.node.kubernetes.io/amd-gpu"
NFD_MODEL: Final = f"{NFD_DEVICE}-"
"""Before a model (amd-gpu-mi300x): labels of the rule that the GPU operator gives to Node Feature Discovery."""

MOST_OF_PROCESSOR_GRAPHICS: Final = 4 * GIB
"""Graphics inside a processor have no more memory of their own."""

MOST_CARDS: Final = 16
"""No machine has more cards of one kind; more devices are parts of cards."""

_MODE: Final = re.compile(r"(spx|dpx|tpx|qpx|cpx)_nps[1248]")
_PIECES: Final = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}
_PROCESSOR: Final = re.compile(r"ryzen|processor|athlon|epyc", re.IGNORECASE)


def read(node: Node, resource: str, instance_type: str, catalog: Catalog) -> DeviceFacts:
    """The facts of an AMD resource of a node."""
    labels = AmdLabels(node.labels)
    models, problem = _models(labels, catalog)
    witnesses = [] if models or problem else _witnesses(node, labels, instance_type, catalog)
    accelerator = _worst(models) or (witnesses[0].accelerator if witnesses else None)
    portion, doubts, wrong = _portion(node, labels, resource, instance_type, accelerator, catalog)
    reported = _reported(labels, resource, portion, accelerator)
    portion = part_of_machine(portion, reported, instance_type, catalog)
    doubts += _sizes_differ(labels) if resource == PLAIN else ()
    if accelerator is None and _in_processor(labels, reported):
        portion = Portion(DeviceKind.INTEGRATED)
    facts = DeviceFacts(
        Vendor.AMD,
        driver=readable(labels.value("driver-version")),
        problem=problem or wrong,
        doubts=doubts,
        reported=reported,
        models=tuple(row.id for row in models) if problem and len(models) > 1 else (),
        portion=portion,
    )
    if facts.problem:
        return facts
    found = identified(facts, resource, accelerator, "" if accelerator else _row(labels))
    found = undersized(found, portion, "amd.com/gpu.vram", even_too=False)
    return heard(found, witnesses) if witnesses else found


def _row(labels: AmdLabels) -> str:
    """The row that the catalog lacks: no label says the architecture."""
    # Imported on use: most clusters have no unknown device.
    from gpujob.fleet.missing_row import missing_row

    memory = min(labels.sizes(), default=None)
    return missing_row("gfx...", memory, products=labels.value("product-name"), deviceIds=labels.value("device-id"))


def labelled(labels: Labels) -> bool:
    """Whether labels promise AMD devices, be they allocatable or not."""
    if any(key.startswith(PREFIXES) or (key.startswith(NFD_DEVICE) and labels[key] == "true") for key in labels):
        return True
    return machine_maker(labels) == "amd"


def count(labels: Labels) -> int | None:
    """Devices by label, None where it is not said."""
    return AmdLabels(labels).count()


def cards(labels: Labels, accelerator: Accelerator | None) -> int | None:
    """Whole devices by label, None where it is not said."""
    return AmdLabels(labels).cards(accelerator)


# --- which models


def _models(labels: AmdLabels, catalog: Catalog) -> tuple[tuple[Accelerator, ...], Finding | None]:
    """Every model of a node that holds several, and the problem that a job could not be ready for each of them.

    Of a node with several models the labeller writes counts, and which memory belongs to which id is lost; the device
    plugin hands out any of them.
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
        sentence = "the node holds {} and its device plugin hands out either; give each model nodes of its own"
        return ordered, Finding(Reason.MODELS_DIFFER, sentence, (listed(models),))
    return ordered, None


def _rows(word: str, labels: AmdLabels, catalog: Catalog, *, is_id: bool) -> Iterator[Accelerator]:
    """The rows that a device id or product may mean, with any of the node's memories and compute units."""
    sizes: list[int | None] = [size // GIB for size in labels.sizes()] or [None]
    units = [whole_number(text) for text in labels.values("cu-count")] or [None]
    for size in sizes:
        for cu_count in units:
            row = catalog.by_device_id(word, size, cu_count) if is_id else catalog.by_product(word, size)
            if row:
                yield row


def _worst(models: tuple[Accelerator, ...]) -> Accelerator | None:
    """Of several models the one with the least memory; unknown memory is the least."""
    return min(models, key=lambda row: (row.usable_bytes or 0, row.bf16_tflops or 0, row.id), default=None)


def _witnesses(node: Node, labels: AmdLabels, instance_type: str, catalog: Catalog) -> list[Witness]:
    """Everything that says what the devices of a node of one model are: the labeller, the cloud, feature discovery."""
    sizes = labels.sizes()
    gib = max(sizes) // GIB if sizes else None
    units = max((whole_number(text) or 0 for text in labels.values("cu-count")), default=0) or None
    device, product = labels.value("device-id"), labels.value("product-name")
    by_id = catalog.by_device_id(device, gib, units) if device else None
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
    """Whether an unknown device is the graphics part of a processor, which nobody trains on."""
    named = any(_PROCESSOR.search(name) for name in labels.values("product-name"))
    return named and reported is not None and reported <= MOST_OF_PROCESSOR_GRAPHICS


# --- what was made of a card

_Found = tuple[Portion, tuple[Finding, ...], Finding | None]


def _portion(
    node: Node, labels: AmdLabels, resource: str, instance_type: str, accelerator: Accelerator | None, catalog: Catalog
) -> _Found:
    """What each device is: by its resource's name, the partition label, the numbers; with doubts and a problem."""
    offered = max(node.capacity.get(resource, 0), node.devices.get(resource, 0))
    by_name = None if resource == PLAIN else resource.partition("/")[2].lower()
    by_label = labels.mode()
    mode = by_name or by_label
    doubts = [] if len(labels.values("device-id")) < 2 else [_several(labels)]
    if mode is None:
        portion, problem = _by_number(labels, resource, offered, instance_type, accelerator, catalog)
        if portion.pieces != 1:
            doubts += [_stale(labels, resource, offered), _by_size(labels, resource, offered, accelerator)]
        return portion, tuple(filter(None, doubts)), problem
    if not _MODE.fullmatch(mode):
        return (
            Portion(DeviceKind.PARTITION, mode[:32], None),
            (),
            Finding(
                Reason.DEVICE_UNKNOWN, "{} on this node is a partition of an unknown mode ({})", (resource, mode[:32])
            ),
        )
    pieces = _pieces(mode, accelerator)
    if by_name and by_label and by_name != by_label:
        sentence = "resource {} and label {} contradict each other; the smaller memory is used"
        doubts.append(Finding(Reason.LABELS_CONTRADICT, sentence, (resource, by_label[:32])))
    if by_label and not by_name and pieces and pieces > 1 and 0 < offered <= pieces:
        sentence = (
            "labels say {}, so {} devices of each card, and the device plugin offers {} in all: it may count cards"
        )
        doubts.append(Finding(Reason.LABELS_CONTRADICT, sentence, (mode, pieces, offered)))
    whole = mode.startswith("spx") and not (by_label or "").startswith(("dpx", "tpx", "qpx", "cpx"))
    if whole:
        return _whole(labels, resource, offered, instance_type, accelerator, catalog, tuple(filter(None, doubts)))
    if mode.startswith("spx") and by_label:
        # The labels still tell of partitions: until they are renewed, the smaller of the two.
        mode, pieces = by_label, _pieces(by_label, accelerator)
    return Portion(DeviceKind.PARTITION, mode, pieces), tuple(filter(None, doubts)), None


def _whole(
    labels: AmdLabels,
    resource: str,
    offered: int,
    instance_type: str,
    accelerator: Accelerator | None,
    catalog: Catalog,
    doubts: tuple[Finding, ...],
) -> _Found:
    """Devices that a label or name calls whole; the plugin may offer more than that leaves room for."""
    if resource != PLAIN:
        return Portion(stated=True), doubts, None
    portion, problem = _by_number(labels, resource, offered, instance_type, accelerator, catalog)
    if portion.pieces == 1:
        return Portion(stated=True), doubts, problem
    more = (_stale(labels, resource, offered), _by_size(labels, resource, offered, accelerator))
    return portion, (*doubts, *filter(None, more)), problem


def _by_number(
    labels: AmdLabels,
    resource: str,
    offered: int,
    instance_type: str,
    accelerator: Accelerator | None,
    catalog: Catalog,
) -> tuple[Portion, Finding | None]:
    """More devices than the labels or the cloud count are partitions: made after the labels, or never labelled.

    So are devices with a part of the card's compute units, and more of them than any machine has cards.
    """
    machine = devices_of_machine(labels.labels, instance_type, catalog)
    sized = machine if machine and not labels.count() else labels.count()
    if not sized or offered <= sized:
        parts = _parts(labels, offered, accelerator)
        return (Portion(DeviceKind.PARTITION, "", parts) if parts > 1 else Portion()), None
    pieces, rest = divmod(offered, sized)
    if rest or pieces not in PARTS:
        sentence = "{} shows {} devices where labels or instance type say {}; restart AMD's node labeller"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (resource, offered, sized))
        return Portion(DeviceKind.PARTITION, "", None), problem
    return Portion(DeviceKind.PARTITION, "", pieces), None


def _parts(labels: AmdLabels, offered: int, accelerator: Accelerator | None) -> int:
    """Into how many parts the cards are cut by what a device shows of itself; 1 where nothing tells of parts."""
    if accelerator is None:
        return 1
    units = min((whole_number(text) or 0 for text in labels.values("cu-count")), default=0)
    whole = accelerator.compute_units
    if units and whole and units < whole and whole // units in PARTS:
        return whole // units
    # A memory label tells the size better than the most that a card can be cut into, unless it is that of whole cards.
    whole_bytes, sizes = accelerator.card_bytes or 0, labels.sizes()
    cut = not sizes or min(sizes) * LEAST_OF_WHOLE[1] >= whole_bytes * LEAST_OF_WHOLE[0]
    return (accelerator.partitions or 1) if offered > MOST_CARDS and cut else 1


def _by_size(labels: AmdLabels, resource: str, offered: int, accelerator: Accelerator | None) -> Finding | None:
    """The doubt that partitions are told from the devices alone, by no label."""
    parts = _parts(labels, offered, accelerator)
    if accelerator is None or parts < 2:
        return None
    sentence = "{} devices of {} on one node, or their compute units, are parts of a card: taken as 1/{} of {} each"
    return Finding(Reason.LABELS_CONTRADICT, sentence, (offered, resource, parts, accelerator.id))


def _stale(labels: AmdLabels, resource: str, offered: int) -> Finding | None:
    """The doubt that labels are older than the partitions; without labels there is nothing to contradict."""
    labelled = labels.count()
    if not labelled or labelled >= offered:
        return None
    sentence = "labels count {} devices and {} shows {}: partitions newer than the labels; restart AMD's node labeller"
    return Finding(Reason.LABELS_CONTRADICT, sentence, (labelled, resource, offered))


def _sizes_differ(labels: AmdLabels) -> tuple[Finding, ...]:
    """The doubt that one model's labels name several sizes of memory."""
    sizes = sorted(labels.sizes())
    if len(sizes) < 2 or len(labels.values("device-id")) > 1:
        return ()
    sentence = "labels say {} and {} of memory for one device; the smaller is used; restart AMD's node labeller"
    return (Finding(Reason.LABELS_CONTRADICT, sentence, (Size(sizes[0]), Size(sizes[-1]))),)


def _several(labels: AmdLabels) -> Finding | None:
    ids = labels.values("device-id")
    sentence = "the node holds several models (device ids {}) and a pod gets any of them; the smallest one counts"
    return Finding(Reason.MODELS_DIFFER, sentence, (listed(ids),)) if len(ids) > 1 else None


def _pieces(mode: str, accelerator: Accelerator | None) -> int | None:
    """Devices that a card becomes; CPX makes one of each compute die."""
    return _PIECES.get(mode[:3]) or (accelerator.partitions if accelerator else None)


def _reported(labels: AmdLabels, resource: str, portion: Portion, accelerator: Accelerator | None) -> int | None:
    """Bytes of a device by the vram label: of several figures the smallest, since the larger would be believed in vain.

    A node that offers whole cards and partitions by names of their own has a figure for each: then the nearest to what
    the device should have.
    """
    sizes = labels.sizes()
    whole = accelerator and accelerator.card_bytes
    if resource == PLAIN or len(sizes) < 2 or not whole or not portion.pieces or len(labels.values("device-id")) > 1:
        return min(sizes, default=None)
    expected = whole // portion.pieces
    return min(sizes, key=lambda size: (abs(size - expected), size))
