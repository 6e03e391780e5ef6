"""What labels and catalog say about the devices behind one resource of one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpujob.catalog.records import Accelerator, Catalog
from gpujob.catalog.versions import release
from gpujob.finding import Finding, Size
from gpujob.vocabulary import Reason, Vendor

MIB = 1024**2
GIB = 1024**3
TOLERANCE = 0.03
"""How far a driver's figure may be from the catalog's before the two are said to contradict each other."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One kind of device: who made it, what it is, its usable bytes and driver; a problem where it is not known."""

    vendor: Vendor
    accelerator: Accelerator | None = None
    memory: int | None = None
    driver: str | None = None
    problem: Finding | None = None
    doubts: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """The accelerator's id, or `unknown`."""
        return self.accelerator.id if self.accelerator else "unknown"


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
