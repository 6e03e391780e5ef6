"""Several labels about one device: which of them counts, and the warning if they contradict each other.

The vendor's labeller, which reads the device, takes precedence over the cloud's labels of the machine. If labels of one labeller
name different architectures, the right image is unknown, so the node must be fixed; the same holds for two labels of the cloud
without a labeller. Everything else is a warning, and the smaller memory figure counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.kubernetes.objects import Labels, Node, vendor_of
from gpujob.fleet.labels.cloud import ACCELERATOR_LABELS, machine_device
from gpujob.fleet.labels.facts import DeviceFacts
from gpujob.values.finding import Finding, listed
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor


@dataclass(frozen=True, slots=True)
class Witness:
    """The device that one label or instance type names; `own` if the vendor's labeller read it from the device."""

    source: str
    accelerator: Accelerator
    own: bool = False
    may_be: frozenset[str] = frozenset()
    """Ids that a name without a variant means too."""
    vague: bool = False
    """Whether the smallest of them stands for a name that leaves the size open."""


def of_cloud(labels: Labels, instance_type: str, catalog: Catalog) -> Iterator[Witness]:
    """The cloud's facts about a machine's devices, the most exact first."""
    for key in ACCELERATOR_LABELS:
        word = labels.get(key, "")
        found = (catalog.by_gke(word) or catalog.by_cloud_name(word)) if word else None
        if found:
            yield Witness(key, found)
    machine = catalog.by_instance_type(instance_type) if instance_type else None
    if machine:
        yield Witness(f"instance type {one_line(instance_type[:63])}", machine)
    name, mebibytes, source = machine_device(labels)
    if not name:
        return
    ids = catalog.may_be(name)
    found = catalog.by_cloud_name(name, mebibytes)
    if found:
        yield Witness(source, found, may_be=ids)
        return
    rows = [row for row in map(catalog.accelerator, sorted(ids)) if row]
    if len({row.architecture for row in rows}) == 1 and all(row.nominal_bytes for row in rows):
        # The name leaves the size open and no other label gives it: the smallest one overestimates nothing.
        yield Witness(source, min(rows, key=lambda row: (row.nominal_bytes or 0, row.id)), may_be=ids, vague=True)


def of_vendor(found: Sequence[Witness], vendor: Vendor, node: Node) -> list[Witness]:
    """The labels of one vendor; then those of the other, if the node offers no devices that they could describe."""
    mine = [witness for witness in found if witness.accelerator.vendor is vendor]
    alone = all(vendor_of(resource) is vendor for resource in {**node.capacity, **node.devices})
    return mine + [witness for witness in found if witness not in mine] if mine and alone else mine


def clash(one: Witness, other: Witness) -> bool:
    """Whether two cannot both be right: another architecture or memory, and no name that means either."""
    first, second = one.accelerator, other.accelerator
    if first.id == second.id or first.id in other.may_be or second.id in one.may_be:
        return False
    sizes = {size for size in (first.nominal_bytes, second.nominal_bytes) if size}
    return first.architecture != second.architecture or len(sizes) > 1


def heard(facts: DeviceFacts, witnesses: Sequence[Witness]) -> DeviceFacts:
    """The facts of the first label, with the contradictions of the others."""
    first = witnesses[0]
    if first.vague:
        sentence = "{} may say any of {}: taken as the smallest of them, {}"
        warning = Finding(
            Reason.MEM_UNKNOWN, sentence, (first.source, listed(sorted(first.may_be)), first.accelerator.id)
        )
        facts = replace(facts, warnings=(*facts.warnings, warning))
    against = [other for other in witnesses[1:] if clash(first, other)]
    for other in against:
        facts = _weighed(facts, first, other)
    return facts


def _weighed(facts: DeviceFacts, first: Witness, other: Witness) -> DeviceFacts:
    words = (first.source, first.accelerator.id, other.source, other.accelerator.id)
    if first.own == other.own and first.accelerator.architecture != other.accelerator.architecture:
        sentence = (
            "{} says {} and {} says {}: the labels contradict each other; fix them, or name it in a GPUPool "
            "(spec.accelerator)"
        )
        problem = facts.problem or Finding(Reason.LABELS_CONTRADICT, sentence, words)
        models = tuple(sorted({first.accelerator.id, other.accelerator.id, *facts.models}))
        return replace(facts, problem=problem, declarable=True, accelerator=None, memory=None, models=models)
    sentence = "{} says {} and {} says {}: the former counts, and of memory the smaller figure"
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, words)
    return replace(facts, warnings=(*facts.warnings, warning), memory=_smaller(facts, other.accelerator))


def _smaller(facts: DeviceFacts, other: Accelerator) -> int | None:
    """For a whole device at most what the other model has; a fraction has its own size."""
    if facts.portion.kind is not DeviceKind.WHOLE or facts.memory is None or other.usable_bytes is None:
        return facts.memory
    return min(facts.memory, other.usable_bytes)
