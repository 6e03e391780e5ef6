"""The speed of an accelerator on a kind of work: its roofline at the job's number format times its fitted efficiency.

Peak figures and prices alone rank wrongly on public data. Single runs do too, because most pairs of accelerator and work were
measured once, in another format, or never. So all rows together give an efficiency for each accelerator and kind of work, with an
error (`efficiency`), when the catalog is generated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpujob.catalog.devices.efficiency import Efficiency, Key, bridge
from gpujob.catalog.devices.roofline import (
    FORMATS,
    REFERENCE,
    has_roofline,
    is_narrow,
    peak,
    reference_is_narrow,
    reference_roofline,
    roofline,
)
from gpujob.values.vocabulary import Method, Precision, WorkKind

if TYPE_CHECKING:
    from gpujob.catalog.entities import Accelerator

MILLION: Final = 10**6


@dataclass(frozen=True, slots=True)
class Work:
    """What a job does with its GPUs; a job without details trains in 16 bits."""

    kind: WorkKind = WorkKind.TRAINING
    precision: Precision = Precision.MIXED


TRAINING: Final = Work()
"""The work of a job without a model."""

KINDS: Final[Mapping[Method, WorkKind]] = {
    Method.FULL: WorkKind.TRAINING,
    Method.LORA: WorkKind.FINE_TUNING,
    Method.QLORA: WorkKind.FINE_TUNING,
    Method.INFERENCE: WorkKind.INFERENCE,
}


@dataclass(frozen=True, slots=True)
class Speed:
    """A relative speed: millionths of the reference's on the same work, for one device, and its source."""

    millionths: int
    estimate: bool
    source: str
    checked_on: str
    """The day of the newest measurement that it uses."""
    measured: str = ""
    """What jobs of the same profile measured, in a few words; empty if none did."""
    error: int = 0
    """Standard error in per cent of the figure."""
    roofline: str = ""
    """The data-sheet bound, in a few words; empty if the figure is measured."""


class Speeds:
    """Relative speeds by accelerator and work; each computed once."""

    __slots__ = ("_accelerators", "_efficiencies", "_known")

    def __init__(self, efficiencies: Mapping[Key, Efficiency], accelerators: Iterable[Accelerator]) -> None:
        """Among rows of one name the last one with the figures of a roofline counts."""
        self._accelerators = {row.id: row for row in accelerators if has_roofline(row)}
        self._efficiencies = efficiencies
        self._known: dict[tuple[str, Work], Speed | None] = {}

    def of(self, accelerator: str, work: Work) -> Speed | None:
        """The speed of a model on this work; None if a figure of its roofline is unknown, or nothing was measured."""
        key = (accelerator, work)
        if key not in self._known:
            row = self._accelerators.get(accelerator)
            self._known[key] = None if row is None else self._find(row, work)
        return self._known[key]

    def _find(self, row: Accelerator, work: Work) -> Speed | None:
        run = FORMATS.get(work.precision)
        bound, most = roofline(row, work.kind, run), reference_roofline(work.kind, run)
        narrow = is_narrow(row, run)
        found = self._efficiency(row, work.kind, narrow=narrow)
        if bound is None or found is None:
            return None
        share, error = found.share, found.error
        if not narrow and reference_is_narrow(run):
            # Its 16 bits relative to the reference's 8.
            between = self._efficiencies[bridge(work.kind)]
            share, error = share / between.share, math.hypot(error, between.error)
        relative = bound / most
        told = f"roofline {relative:.2g} of an {REFERENCE}'s: {peak(row, run):.4g} dense TFLOPS, {row.bandwidth_gb_s:.4g} GB/s"
        source = f"efficiency {share:.2g} of its, ± {error:.0%}, from {found.source}".replace("%", " %")
        return Speed(
            max(1, round(relative * share * MILLION)),
            not found.runs,
            source,
            found.checked_on,
            error=round(error * 100),
            roofline=told,
        )

    def _efficiency(self, row: Accelerator, kind: WorkKind, *, narrow: bool) -> Efficiency | None:
        """The accelerator's own, else its family's, else that of all."""
        keys = (Key(kind, narrow, row.architecture, row.id), Key(kind, narrow, row.architecture), Key(kind, narrow, ""))
        return next((self._efficiencies[key] for key in keys if key in self._efficiencies), None)
