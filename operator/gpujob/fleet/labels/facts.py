"""The facts that labels and catalog give about the devices of one resource of one node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.machine_names import devices_in_machine_name
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.images.versions import release
from gpujob.fleet.kubernetes.objects import Labels
from gpujob.fleet.labels.cloud import MACHINE_COUNTS
from gpujob.fleet.labels.device_fraction import (
    WHOLE,
    Portion,
    Share,
    completed,
    plain_profile,
    share_of,
    slice_bound,
    slice_estimate,
)
from gpujob.values.finding import Finding, Size
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import DeviceKind, Reason, Vendor

MIB = 1024**2
GIB = 1024**3
TOLERANCE = 0.03
"""The largest difference between a driver's figure and the catalog's that is no contradiction."""

LEAST_OF_WHOLE: Final = (3, 4)
"""The fraction of a model's memory below which a device is a partition, a slice or another fraction."""

MOST_CARDS: Final = 16
"""No machine has more cards of one kind; more devices are fractions of cards, or shared."""

PARTS: Final = (2, 3, 4, 6, 8)
"""The numbers of equal parts into which devices are divided."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One kind of device: its vendor, model, usable bytes and driver; a problem if it is unknown."""

    vendor: Vendor
    accelerator: Accelerator | None = None
    memory: int | None = None
    driver: str | None = None
    problem: Finding | None = None
    warnings: tuple[Finding, ...] = ()
    sizing: tuple[Finding, ...] = ()
    """The warnings about the model's memory; another model has others."""
    reported: int | None = None
    """Bytes of a device by the labels; of the whole or sliced one if it is shared."""
    unnamed: bool = False
    """Whether an admin's accelerator fixes the problem; it does not make a slice a whole device."""
    models: tuple[str, ...] = ()
    """Ids of the mixed models, if the problem is that a pod may get any of them."""
    declarable: bool = False
    """Whether an admin's accelerator fixes the problem although labels name one."""
    portion: Portion = WHOLE
    share: Share | None = (1, 1)
    """The fraction of a whole device; None if unknown."""

    @property
    def name(self) -> str:
        """The accelerator's id, or `unknown`."""
        return self.accelerator.id if self.accelerator else "unknown"

    @property
    def lacks_plugin(self) -> bool:
        """Whether only labels show the devices: no plugin offers them, or none is expected in the node's state."""
        return self.problem is not None and self.problem.reason in (Reason.NO_DEVICE_PLUGIN, Reason.NOT_READY)

    @property
    def text(self) -> str:
        """The accelerator's id and its partition: MI300X cpx_nps4."""
        return f"{self.name} {self.portion}".strip()


def identified(facts: DeviceFacts, resource: str, accelerator: Accelerator | None, row: str = "") -> DeviceFacts:
    """The facts after the model lookup: with sizes, or the problem that it is unknown.

    `row` is the missing row of the catalog, as far as labels describe it.
    """
    if accelerator is None:
        sentence = "no label or catalog row identifies the devices of {}; set spec.accelerator in a GPUPool for them"
        sentence += ", or add to the catalog's accelerators: {}" if row else ""
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (resource, row))
        # The device has no more memory than a label says, whatever its model.
        return replace(facts, problem=problem, unnamed=True, share=None, memory=facts.reported)
    return named(facts, accelerator)


def named(facts: DeviceFacts, accelerator: Accelerator) -> DeviceFacts:
    """The facts of devices of a known model: their fraction, their memory, and the warnings."""
    portion = _by_size(completed(facts.portion, accelerator), facts.reported, accelerator)
    memory, warnings = usable(accelerator, portion, facts.reported)
    return replace(
        facts,
        accelerator=accelerator,
        memory=memory,
        problem=None,
        warnings=(*(warning for warning in facts.warnings if warning not in facts.sizing), *warnings),
        sizing=warnings,
        unnamed=False,
        declarable=False,
        models=(),
        portion=portion,
        share=share_of(portion, accelerator, facts.reported),
    )


def declared(facts: DeviceFacts, resource: str, accelerator: Accelerator | None) -> DeviceFacts:
    """The facts with an admin's accelerator in place of the labels'; None: the admin names none.

    The admin names the model. Whether a resource is a slice, a partition or shared does not change.
    """
    if accelerator is None:
        return facts
    if accelerator.vendor is not facts.vendor:
        sentence = "spec.accelerator {} is made by {}, its nodes offer {}"
        problem = Finding(Reason.LABELS_CONTRADICT, sentence, (accelerator.id, accelerator.vendor, resource))
        return replace(facts, accelerator=None, memory=None, problem=problem, unnamed=False)
    if facts.problem is not None and not (facts.unnamed or facts.declarable):
        return facts if facts.models else replace(facts, accelerator=accelerator)
    return named(facts, accelerator)


def _by_size(portion: Portion, reported: int | None, accelerator: Accelerator) -> Portion:
    """The fraction by model and size of a device, if no label says that it is whole or a fraction."""
    if portion.kind is not DeviceKind.WHOLE:
        return portion
    if accelerator.integrated:
        return replace(portion, kind=DeviceKind.INTEGRATED)
    whole = accelerator.card_bytes
    if accelerator.whole_bytes and not reported and not portion.stated:
        return replace(portion, kind=DeviceKind.PARTITION, pieces=None)
    if portion.stated or not reported or not whole or _is_of_whole(reported, accelerator):
        return portion
    pieces = equal_parts(reported, whole)
    if pieces is None and accelerator.vendor is Vendor.AMD and not accelerator.whole_bytes:
        # No partition has such a size: the labels contradict each other, and the smaller figure counts.
        return portion
    return replace(portion, kind=DeviceKind.PARTITION, pieces=pieces)


def equal_parts(reported: int, whole: int) -> int | None:
    """The number of equal parts of this size in a card of `whole` bytes, None if it is no such part."""
    pieces = (2 * whole + reported) // (2 * reported)
    return pieces if pieces in PARTS and abs(pieces * reported - whole) <= whole * TOLERANCE else None


def part_of_machine(portion: Portion, reported: int | None, instance_type: str, catalog: Catalog) -> Portion:
    """The portion with the facts of the cloud's machine, if no label gives a fraction or a size."""
    machine = catalog.machine(instance_type)
    if machine is None or reported is not None or portion != WHOLE:
        return portion
    if machine.parts > 1:
        return Portion(DeviceKind.PARTITION, pieces=machine.parts)
    return replace(portion, stated=True)


def devices_of_machine(labels: Labels, instance_type: str, catalog: Catalog) -> int | None:
    """The number of whole devices of the cloud's machine, None if unknown."""
    for key in MACHINE_COUNTS:
        number = whole_number(labels.get(key))
        if number:
            return number
    known = catalog.machine(instance_type)
    return known.devices if known else devices_in_machine_name(instance_type)


def usable(accelerator: Accelerator, portion: Portion, reported: int | None) -> tuple[int | None, tuple[Finding, ...]]:
    """Usable bytes of one Kubernetes device, None if unknown, with the warnings.

    They are what a framework reports according to the catalog, in equal parts for a divided device, at most what the driver
    reports; the driver's figure less 1 % if no framework was measured. For a shared device it is the pod's even share, which
    nothing enforces.
    """
    memory, warnings = _of_piece(accelerator, portion, reported)
    if portion.kind is DeviceKind.INTEGRATED:
        sentence = "{} shares its memory with the host, whose programs take of it too"
        warnings = (*warnings, Finding(Reason.INTEGRATED_MEMORY, sentence, (accelerator.id,)))
    if portion.profile.endswith("_nps1") and portion.pieces and portion.pieces > 1:
        sentence = (
            "in mode {} the {} devices of a card have its memory in common: {} is an even share, which nothing guards"
        )
        numbers = (portion.profile, portion.pieces, "an equal part" if memory is None else Size(memory))
        warnings = (*warnings, Finding(Reason.SHARED_DEVICE, sentence, numbers))
    if portion.kind is not DeviceKind.SHARED:
        return memory, warnings
    each = None if memory is None or portion.replicas is None else memory // portion.replicas
    return each, (*warnings, _no_isolation(portion.replicas, each))


def _of_piece(
    accelerator: Accelerator, portion: Portion, reported: int | None
) -> tuple[int | None, tuple[Finding, ...]]:
    """Usable bytes of one piece that no other pod uses."""
    by_driver, by_framework = _by_catalog(accelerator, portion)
    if reported is None:
        estimate = None if by_driver else slice_estimate(portion.profile, accelerator)
        if estimate:
            sentence = "neither labels nor catalog have the memory of a {} slice of {}; {} is the least possible"
            warning = Finding(Reason.MEM_UNKNOWN, sentence, (portion.profile, accelerator.id, Size(estimate)))
            return estimate, (warning,)
        return by_framework or (by_driver and by_driver * 99 // 100), ()
    expected = by_driver or (
        accelerator.nominal_bytes and portion.pieces and accelerator.nominal_bytes // portion.pieces
    )
    most = expected or slice_bound(portion.profile, accelerator)
    what = f"{accelerator.id} {portion.profile}".strip()
    if most is None and portion.kind is DeviceKind.PARTITION and _is_of_whole(reported, accelerator):
        sentence = "labels report {} for each device, as for a whole one, and of {} the number of parts is unknown"
        return None, (Finding(Reason.MEM_UNKNOWN, sentence, (Size(reported), what)),)
    warnings: tuple[Finding, ...] = ()
    least, highest = expected or 0, most or 0
    if portion.pieces == 1:
        # Less with error correction on, if that uses the same memory; and some drivers report the vendor's size.
        least = min(least, accelerator.ecc_bytes or least)
        highest = max(highest, accelerator.nominal_bytes or 0)
    if most and not least * (1 - TOLERANCE) <= reported <= highest * (1 + TOLERANCE):
        sentence = "labels report {} for each device where the catalog has {} for {}; the smaller is used"
        warnings = (Finding(Reason.LABELS_CONTRADICT, sentence, (Size(reported), Size(most), what)),)
    if by_framework:
        return min(by_framework, reported), warnings
    return min(most or reported, reported) * 99 // 100, warnings


def _is_of_whole(reported: int, accelerator: Accelerator) -> bool:
    """Whether a size is that of a whole device instead of a fraction."""
    whole = accelerator.card_bytes
    return whole is not None and reported * LEAST_OF_WHOLE[1] >= whole * LEAST_OF_WHOLE[0]


def _by_catalog(accelerator: Accelerator, portion: Portion) -> tuple[int | None, int | None]:
    """Bytes of one piece by the driver and by a framework."""
    if not portion.pieces:
        return dict(accelerator.slices).get(plain_profile(portion.profile)), None
    driver, framework = accelerator.driver_bytes, accelerator.torch_bytes
    return driver and driver // portion.pieces, framework and framework // portion.pieces


def _no_isolation(replicas: int | None, each: int | None) -> Finding:
    if replicas is None or each is None:
        return Finding(Reason.SHARED_DEVICE, "each device is shared by several pods, with no isolation of memory")
    sentence = "each device is shared by {} pods, with no isolation of memory: {} is a pod's even share"
    return Finding(Reason.SHARED_DEVICE, sentence, (replicas, Size(each)))


def readable(version: str | None) -> str | None:
    """A driver version in labels; None if it is absent or invalid, because an unknown one is never too old."""
    return version if version and release(version) else None
