"""What labels and catalog say about the devices behind one resource of one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.catalog.versions import release
from gpujob.finding import Finding, Size
from gpujob.fleet.objects import Labels
from gpujob.untrusted import whole_number
from gpujob.vocabulary import Reason, Vendor

MIB = 1024**2
GIB = 1024**3
TOLERANCE = 0.03
"""How far a driver's figure may be from the catalog's before the two are said to contradict each other."""

LEAST_OF_WHOLE: Final = (3, 4)
"""The share of a model's memory below which a device is a part of it: a partition, a slice, a fraction."""

MACHINE_COUNTS: Final = (
    "karpenter.k8s.aws/instance-gpu-count",
    "eks.amazonaws.com/instance-gpu-count",
    "karpenter.azure.com/sku-gpu-count",
    "cloud.google.com/gke-accelerator-count",
)
"""Labels with a machine's number of devices."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One kind of device: who made it, what it is, its usable bytes and driver; a problem where it is not known."""

    vendor: Vendor
    accelerator: Accelerator | None = None
    memory: int | None = None
    driver: str | None = None
    problem: Finding | None = None
    doubts: tuple[Finding, ...] = ()
    reported: int | None = None
    """Bytes of a device by the labels."""
    unnamed: bool = False
    """Whether an admin's word for the model mends the problem; it does not make a slice a whole device."""

    @property
    def name(self) -> str:
        """The accelerator's id, or `unknown`."""
        return self.accelerator.id if self.accelerator else "unknown"


def of_whole(
    vendor: Vendor, resource: str, accelerator: Accelerator | None, reported: int | None, driver: str | None
) -> DeviceFacts:
    """The facts of devices that no label calls sliced or shared: their size may still say so."""
    if accelerator is None:
        sentence = "no label or catalog row identifies the devices of {}; set spec.accelerator in a GPUPool for them"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (resource,))
        return DeviceFacts(vendor, driver=driver, problem=problem, reported=reported, unnamed=True)
    if accelerator.integrated:
        sentence = "{} shares its memory with the host; set spec.accelerator in a GPUPool to use it all the same"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (accelerator.id,))
        return DeviceFacts(vendor, driver=driver, problem=problem, reported=reported, unnamed=True)
    return named(DeviceFacts(vendor, driver=driver, reported=reported), accelerator)


def named(facts: DeviceFacts, accelerator: Accelerator) -> DeviceFacts:
    """The facts of a device whose model is known: the problem that it is no whole one, else its memory."""
    whole = accelerator.driver_bytes or accelerator.nominal_bytes
    if facts.reported and whole and facts.reported < whole * LEAST_OF_WHOLE[0] // LEAST_OF_WHOLE[1]:
        sentence = "labels report {} for each device where a whole {} has {}: parts of a device are not read yet"
        problem = Finding(Reason.DEVICE_UNKNOWN, sentence, (Size(facts.reported), accelerator.id, Size(whole)))
        return replace(facts, accelerator=None, memory=None, problem=problem, unnamed=False)
    memory, doubts = usable(accelerator, facts.reported)
    return replace(facts, accelerator=accelerator, memory=memory, problem=None, doubts=doubts, unnamed=False)


def devices_of_machine(labels: Labels, instance_type: str, catalog: Catalog) -> int | None:
    """How many whole devices the cloud says the machine has, None where it does not."""
    for key in MACHINE_COUNTS:
        number = whole_number(labels.get(key))
        if number:
            return number
    known = catalog.instance_types.get(instance_type)
    return known.devices if known else None


def usable(accelerator: Accelerator, reported: int | None) -> tuple[int | None, tuple[Finding, ...]]:
    """Usable bytes: what the framework sees by the catalog, never above what the driver reports; with the doubts.

    Where nothing was seen by a framework, the driver's figure less 1 %.
    """
    if reported is None:
        return accelerator.usable_bytes, ()
    doubts: tuple[Finding, ...] = ()
    expected = accelerator.driver_bytes or accelerator.nominal_bytes
    if expected and abs(reported - expected) > expected * TOLERANCE:
        sentence = "labels report {} for each device where the catalog has {} for {}; the smaller is used"
        doubts = (Finding(Reason.LABELS_CONTRADICT, sentence, (Size(reported), Size(expected), accelerator.id)),)
    if accelerator.torch_bytes:
        return min(accelerator.torch_bytes, reported), doubts
    return min(accelerator.driver_bytes or reported, reported) * 99 // 100, doubts


def readable(version: str | None) -> str | None:
    """A driver version as labels say it; None where it is absent or no version, since unknown is never too old."""
    return version if version and release(version) else None


def by_instance_type(catalog: Catalog, instance_type: str, vendor: Vendor) -> Accelerator | None:
    """The accelerator that a cloud's instance type has, if it is this vendor's."""
    known: Mapping[str, object] = catalog.instance_types
    if instance_type not in known:
        return None
    accelerator = catalog.accelerator(catalog.instance_types[instance_type].accelerator)
    return accelerator if accelerator and accelerator.vendor is vendor else None
