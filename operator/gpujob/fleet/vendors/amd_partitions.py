"""How an AMD card is divided: whole devices or partitions, from the resource's name, the labels and the counts.

The labeller writes labels only at its start. The resource's name and count are newer, and show a partition even with stale labels.
"""

from __future__ import annotations

import re
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.labels.device_fraction import Portion
from gpujob.fleet.labels.facts import LEAST_OF_WHOLE, MOST_CARDS, PARTS, devices_of_machine
from gpujob.fleet.vendors.amd_labels import PLAIN, AmdLabels
from gpujob.values.finding import Finding, listed
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import DeviceKind, Reason

_MODE: Final = re.compile(r"(spx|dpx|tpx|qpx|cpx)_nps[1248]")
_PIECES: Final = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}

_Found = tuple[Portion, tuple[Finding, ...], Finding | None]


def portion_of(
    node: Node, labels: AmdLabels, resource: str, instance_type: str, accelerator: Accelerator | None, catalog: Catalog
) -> _Found:
    """The kind of each device: by its resource's name, the partition label, the counts; with warnings and a problem."""
    offered = max(node.capacity.get(resource, 0), node.devices.get(resource, 0))
    by_name = None if resource == PLAIN else resource.partition("/")[2].lower()
    by_label = labels.mode()
    mode = by_name or by_label
    warnings = [] if len(labels.values("device-id")) < 2 else [_several(labels)]
    if mode is None:
        portion, problem = _by_number(labels, resource, offered, instance_type, accelerator, catalog)
        if portion.pieces != 1:
            warnings += [_stale(labels, resource, offered), _by_size(labels, resource, offered, accelerator)]
        return portion, tuple(filter(None, warnings)), problem
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
        warnings.append(Finding(Reason.LABELS_CONTRADICT, sentence, (resource, by_label[:32])))
    if by_label and not by_name and pieces and pieces > 1 and 0 < offered <= pieces:
        sentence = (
            "labels say {}, so {} devices of each card, and the device plugin offers {} in all: it may count cards"
        )
        warnings.append(Finding(Reason.LABELS_CONTRADICT, sentence, (mode, pieces, offered)))
    if by_label and not by_name and pieces and not mode.startswith("spx"):
        more = _outnumbered(labels, offered, pieces, instance_type, accelerator, catalog)
        if more:
            sentence = (
                "labels say {} and {} shows {} devices, more than that leaves room for; restart AMD's node labeller"
            )
            warnings.append(Finding(Reason.LABELS_CONTRADICT, sentence, (mode, resource, offered)))
            return Portion(DeviceKind.PARTITION, "", more), tuple(filter(None, warnings)), None
    whole = mode.startswith("spx") and not (by_label or "").startswith(("dpx", "tpx", "qpx", "cpx"))
    if whole:
        return _whole(labels, resource, offered, instance_type, accelerator, catalog, tuple(filter(None, warnings)))
    if mode.startswith("spx") and by_label:
        # The labels still describe partitions; until they are renewed, the smaller of the two.
        mode, pieces = by_label, _pieces(by_label, accelerator)
    return Portion(DeviceKind.PARTITION, mode, pieces), tuple(filter(None, warnings)), None


def _whole(
    labels: AmdLabels,
    resource: str,
    offered: int,
    instance_type: str,
    accelerator: Accelerator | None,
    catalog: Catalog,
    warnings: tuple[Finding, ...],
) -> _Found:
    """Devices that a label or name calls whole; the plugin may offer more than that allows."""
    if resource != PLAIN:
        return Portion(stated=True), warnings, None
    portion, problem = _by_number(labels, resource, offered, instance_type, accelerator, catalog)
    if portion.pieces == 1:
        return Portion(stated=True), warnings, problem
    more = (_stale(labels, resource, offered), _by_size(labels, resource, offered, accelerator))
    return portion, (*warnings, *filter(None, more)), problem


def _by_number(
    labels: AmdLabels,
    resource: str,
    offered: int,
    instance_type: str,
    accelerator: Accelerator | None,
    catalog: Catalog,
) -> tuple[Portion, Finding | None]:
    """More devices than the labels or the cloud count are partitions: created after the labels, or never labelled.

    So are devices with a part of the card's compute units, and more of them than any machine has cards.
    """
    machine = devices_of_machine(labels.labels, instance_type, catalog)
    sized = machine if machine and not labels.count() else labels.count()
    if not sized and accelerator is None and offered > MOST_CARDS and not labels.sizes():
        # The model, possibly from an admin, gives their number for each card.
        return Portion(DeviceKind.PARTITION, "cpx", None), None
    if not sized or offered <= sized:
        parts = _parts(labels, offered, accelerator)
        return (Portion(DeviceKind.PARTITION, "", parts) if parts > 1 else Portion()), None
    pieces, rest = divmod(offered, sized)
    if rest or pieces not in PARTS:
        sentence = "{} shows {} devices where labels or instance type say {}; restart AMD's node labeller"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (resource, offered, sized))
        return Portion(DeviceKind.PARTITION, "", None), problem
    return Portion(DeviceKind.PARTITION, "", pieces), None


def _outnumbered(
    labels: AmdLabels, offered: int, pieces: int, instance_type: str, accelerator: Accelerator | None, catalog: Catalog
) -> int | None:
    """The number of devices of each card if more are offered than the labelled mode creates; None if it explains them."""
    machine, counted = devices_of_machine(labels.labels, instance_type, catalog), labels.count()
    cards = machine or (counted // pieces if counted else MOST_CARDS)
    if offered <= cards * pieces:
        return None
    known = (machine or counted) and cards and offered % cards == 0 and offered // cards in PARTS
    most = accelerator.partitions if accelerator else None
    return offered // cards if known else most or max(PARTS)


def _parts(labels: AmdLabels, offered: int, accelerator: Accelerator | None) -> int:
    """The number of parts of the cards, by a device's own figures; 1 if nothing shows parts."""
    if accelerator is None:
        return 1
    units = min((whole_number(text) or 0 for text in labels.values("cu-count")), default=0)
    whole = accelerator.compute_units
    if units and whole and units < whole and whole // units in PARTS:
        return whole // units
    # A memory label is more exact than the largest number of partitions, unless it is that of whole cards.
    whole_bytes, sizes = accelerator.card_bytes or 0, labels.sizes()
    cut = not sizes or min(sizes) * LEAST_OF_WHOLE[1] >= whole_bytes * LEAST_OF_WHOLE[0]
    return (accelerator.partitions or 1) if offered > MOST_CARDS and cut else 1


def _by_size(labels: AmdLabels, resource: str, offered: int, accelerator: Accelerator | None) -> Finding | None:
    """The warning that partitions follow from the devices alone, without a label."""
    parts = _parts(labels, offered, accelerator)
    if accelerator is None or parts < 2:
        return None
    sentence = "{} devices of {} on one node, or their compute units, are parts of a card: taken as 1/{} of {} each"
    return Finding(Reason.LABELS_CONTRADICT, sentence, (offered, resource, parts, accelerator.id))


def _stale(labels: AmdLabels, resource: str, offered: int) -> Finding | None:
    """The warning that labels are older than the partitions; without labels there is no contradiction."""
    labelled = labels.count()
    if not labelled or labelled >= offered:
        return None
    sentence = "labels count {} devices and {} shows {}: partitions newer than the labels; restart AMD's node labeller"
    return Finding(Reason.LABELS_CONTRADICT, sentence, (labelled, resource, offered))


def _several(labels: AmdLabels) -> Finding | None:
    ids = labels.values("device-id")
    sentence = "the node holds several models (device ids {}) and a pod gets any of them; the smallest one counts"
    return Finding(Reason.MODELS_DIFFER, sentence, (listed(ids),)) if len(ids) > 1 else None


def _pieces(mode: str, accelerator: Accelerator | None) -> int | None:
    """Devices of a card; in CPX mode one for each compute die."""
    return _PIECES.get(mode[:3]) or (accelerator.partitions if accelerator else None)
