"""Whether several pods use an NVIDIA device at a time: from labels, the resource's name, or the counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.kubernetes.objects import Labels, Node
from gpujob.fleet.labels.device_fraction import Portion
from gpujob.fleet.labels.facts import MOST_CARDS, devices_of_machine
from gpujob.values.finding import Finding
from gpujob.values.untrusted import one_line, whole_number
from gpujob.values.vocabulary import DeviceKind, Reason

PLAIN: Final = "nvidia.com/gpu"
"""The resource of whole devices."""
SHARED_SUFFIX: Final = ".shared"
UNSHARED: Final = ("", "none")
_SIZED: Final = re.compile(r"nvidia\.com/mig-([1-9]g)\.([0-9]{1,3})gb([a-z.+-]{0,16})", re.ASCII)
ROUNDED_WITHIN: Final = 6
"""The largest difference of two drivers' names for one slice in percent, beyond 1 GB: 3g.20gb and 3g.21gb."""
MIG_RESOURCE: Final = re.compile(r"nvidia\.com/mig-([0-9a-z.+-]{1,40})", re.ASCII)


def count(labels: Labels) -> int | None:
    """Physical devices by label, None if absent; slices if MIG uses the name of whole devices."""
    return whole_number(labels.get("nvidia.com/gpu.count"))


def label_prefix(resource: str, labels: Labels) -> str:
    """The prefix of a resource's labels: each MIG profile of strategy mixed has its own.

    Drivers round a slice's memory differently, so labels of mig-3g.21gb describe the resource mig-3g.20gb if none has the
    resource's own name.
    """
    if not MIG_RESOURCE.fullmatch(resource):
        return PLAIN
    own = resource.removesuffix(SHARED_SUFFIX)
    if any(f"{own}.{what}" in labels for what in ("memory", "count", "product")):
        return own
    return min(_neighbours(own, labels), default=(0, own))[1]


def _neighbours(own: str, labels: Labels) -> Iterator[tuple[int, str]]:
    """Slices with the same compute parts that labels describe under another size, by the difference."""
    profile = _SIZED.fullmatch(own)
    for key in labels if profile else ():
        other = _SIZED.fullmatch(key.removesuffix(".memory")) if profile and key.endswith(".memory") else None
        if profile is None or other is None or (profile[1], profile[3]) != (other[1], other[3]):
            continue
        apart = abs(int(profile[2]) - int(other[2]))
        if 0 < apart <= max(1, int(profile[2]) * ROUNDED_WITHIN // 100):
            yield apart, key.removesuffix(".memory")


def with_sharing(
    portion: Portion, node: Node, resource: str, offered: int, instance_type: str, catalog: Catalog
) -> tuple[Portion, tuple[Finding, ...], Finding | None]:
    """The portion of a device that several pods use at a time: from labels, the annotation of a scheduler that splits cards, the
    resource's name, or the counts.
    """
    labels, split = node.labels, node.pods_per_card if resource == PLAIN else 0
    prefix = label_prefix(resource, labels)
    replicas = whole_number(labels.get(f"{prefix}.replicas"))
    clients = whole_number(labels.get("cloud.google.com/gke-max-shared-clients-per-gpu"))
    sharing = (
        split > 1
        or (bool(node.split_as) and resource == PLAIN and offered > 0)
        or resource.endswith(SHARED_SUFFIX)
        or labels.get(f"{prefix}.product", "").endswith("-SHARED")
        or (replicas or 0) > 1
        or labels.get(f"{prefix}.sharing-strategy", "none") not in UNSHARED
        or labels.get("cloud.google.com/gke-gpu-sharing-strategy", "none") not in UNSHARED
    )
    by_label = count(labels) if prefix == PLAIN and "cloud.google.com/gke-gpu-partition-size" not in labels else None
    unshared = replicas == 1 or labels.get(f"{prefix}.sharing-strategy") == "none"
    if portion.profile:
        physical = by_label or whole_number(labels.get(f"{prefix}.count"))
    else:
        machine = devices_of_machine(labels, instance_type, catalog)
        if not sharing and unshared and by_label and machine and machine < offered <= min(by_label, MOST_CARDS):
            sentence = "labels count {} devices of which none is shared, {} says {}: the former counts"
            source = f"instance type {one_line(instance_type[:63])}" if instance_type else "the cloud's label"
            return portion, (Finding(Reason.LABELS_CONTRADICT, sentence, (by_label, source, machine)),), None
        # The smaller of two figures: more devices than the machine has are not whole ones, whatever a stale label counts.
        physical = min(filter(None, (by_label, machine)), default=None)
    each = -(-offered // physical) if physical else None
    if sharing:
        # Too few replicas would count memory that another pod has.
        known = [number for number in (replicas, clients, split, each) if number and number > 1]
        return replace(portion, kind=DeviceKind.SHARED, replicas=max(known, default=None)), (), None
    if each is None and offered > MOST_CARDS and not portion.profile:
        sentence = "{} shows {} devices, more than any machine has, and no label explains it: taken as shared"
        warning = Finding(Reason.LABELS_CONTRADICT, sentence, (resource, offered))
        return replace(portion, kind=DeviceKind.SHARED, replicas=None), (warning,), None
    if each is None or each <= 1:
        return portion, (), None
    return _unexplained(portion, resource, offered, physical or 0, labelled=by_label == physical, unshared=unshared)


AS_WHOLE: Final = "labels count {} devices, {} shows {}: all are taken as whole, as the GPUPool says"


def _unexplained(
    portion: Portion, resource: str, offered: int, physical: int, *, labelled: bool, unshared: bool
) -> tuple[Portion, tuple[Finding, ...], Finding | None]:
    """A node with more devices than its labels count: it has several models and its labels show the last one, or its devices are
    shared or sliced.

    Labels that say "not shared" rule out time-slicing: GPU Feature Discovery counts the devices of one model.
    """
    replicas, rest = divmod(offered, physical)
    # No machine has so many cards: another plugin splits those that labels count as unshared (HAMi).
    split = labelled and not rest and offered > MOST_CARDS
    if not split and (not labelled or rest or unshared):
        sentence = (
            "{} shows {} devices where labels or instance type say {}: shared, sliced, or of several models; "
            "run GPU Feature Discovery, or name them in a GPUPool (spec.accelerator and spec.memoryPerGPU)"
        )
        if labelled and unshared:
            sentence = (
                "{} shows {} devices where labels count {} and say that none is shared: devices of several models, of "
                "which labels show one; give each model nodes of its own, or name the smallest in a GPUPool "
                "(spec.accelerator)"
            )
        if labelled and unshared and not rest:
            sentence = (
                "{} shows {} devices where labels count {} and say that none is shared: cards that another scheduler "
                "splits, or of several models; give each model nodes of its own, or name the smallest in a GPUPool "
                "(spec.accelerator) if no card is split"
            )
        problem = Finding(
            Reason.LABELS_CONTRADICT if labelled else Reason.DEVICE_UNKNOWN, sentence, (resource, offered, physical)
        )
        shared = replace(portion, kind=DeviceKind.SHARED, replicas=None, guessed=offered <= MOST_CARDS)
        # An admin who names the model says that the devices are whole; the counts still contradict it.
        more = (Finding(Reason.LABELS_CONTRADICT, AS_WHOLE, (physical, resource, offered)),) if labelled else ()
        return (portion if labelled else shared), more, problem
    sentence = "labels count {} devices, {} shows {}: taken as shared by {} pods each"
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (physical, resource, offered, replicas))
    return replace(portion, kind=DeviceKind.SHARED, replicas=replicas), (warning,), None
