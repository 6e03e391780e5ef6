"""The speed of an accelerator on a kind of work: its roofline at the job's number format times its fitted efficiency.

Peak figures and prices alone rank wrongly on public data. Single runs do too, because most pairs of accelerator and work were
measured once, in another format, or never. So all rows together give an efficiency for each accelerator and kind of work, with an
error (`efficiency`), when the catalog is generated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.devices.efficiency import Efficiency, Key, bridge
from gpujob.catalog.devices.roofline import (
    FORMATS,
    REFERENCE,
    Times,
    has_roofline,
    is_narrow,
    peak,
    reference_is_narrow,
    reference_times,
    share_of,
    times,
)
from gpujob.catalog.entities import Accelerator
from gpujob.values.vocabulary import Method, Precision, RunFormat, WorkKind

MILLION: Final = 10**6


def two_digits(ratio: float) -> str:
    """A ratio in two significant digits: "0.30", "2.7", "16", "120"."""
    rounded = float(f"{ratio:.1e}")
    return f"{rounded:.0f}" if rounded >= 10 else f"{rounded:#.2g}"


@dataclass(frozen=True, slots=True)
class Work:
    """What a job does with its GPUs; a job without details trains in 16 bits."""

    kind: WorkKind = WorkKind.TRAINING
    precision: Precision = Precision.MIXED
    share: int | None = None
    """Per cent of the reference's time that dense products bound (`roofline.share_of`), in steps of 5; None if the job does not
    say how many sequences it serves at once.
    """


TRAINING: Final = Work()
"""The work of a job without a model."""

KINDS: Final[Mapping[Method, WorkKind]] = {
    Method.FULL: WorkKind.TRAINING,
    Method.LORA: WorkKind.FINE_TUNING,
    Method.QLORA: WorkKind.FINE_TUNING,
    Method.INFERENCE: WorkKind.INFERENCE,
}

_STEP: Final = 5
"""Per cent. Few different works let decisions share what they cache."""


def work_of(method: Method, precision: Precision, sequences: int | None) -> Work:
    """The work of a method; `sequences` are those that Inference serves at once."""
    kind = KINDS[method]
    if kind is not WorkKind.INFERENCE or sequences is None:
        return Work(kind, precision)
    return Work(kind, precision, _STEP * round(100 * share_of(sequences) / _STEP))


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
        share = None if work.share is None else max(work.share / 100, share_of(1))
        bound, most = times(row, work.kind, run, share), reference_times(work.kind, run, share)
        narrow = is_narrow(row, run)
        found = self._efficiency(row, work.kind, run, narrow=narrow)
        if bound is None or found is None:
            return None
        achieved, error = found.share, found.error
        if share is not None:
            streaming = self._efficiency(row, work.kind, run, narrow=narrow, streams=True)
            achieved, error = _between(streaming or found, found, _batched(row, bound, run))
        relative = bound.roofline / most.roofline
        figures = f"{peak(row, run):.4g} dense TFLOPS, {row.bandwidth_gb_s:.4g} GB/s"
        sentence = f"roofline {two_digits(relative)} of an {REFERENCE}'s: {figures}"
        sentence += "" if share is None else f", memory bounds {1 - bound.bound:.0%} of the time".replace("%", " %")
        source = f"efficiency {two_digits(achieved)} of an {REFERENCE}'s, ± {error:.0%}, from {found.source}".replace(
            "%", " %"
        )
        return Speed(
            max(1, round(relative * achieved * MILLION)),
            not found.runs,
            source,
            found.checked_on,
            error=round(error * 100),
            roofline=sentence,
        )

    def _efficiency(
        self, row: Accelerator, kind: WorkKind, run: RunFormat | None, *, narrow: bool, streams: bool = False
    ) -> Efficiency | None:
        """The accelerator's own, else its family's, else that of all; beside the reference's in the format that it has."""
        names = ((row.architecture, row.id), (row.architecture, ""), ("", ""))
        keys = (Key(kind, narrow, *name, streams) for name in names)
        found = next((self._efficiencies[key] for key in keys if key in self._efficiencies), None)
        if found is None or narrow or not reference_is_narrow(run):
            return found
        # Its 16 bits relative to the reference's 8.
        between = self._efficiencies[bridge(kind, streams=streams)]
        return replace(found, share=found.share / between.share, error=math.hypot(found.error, between.error))


def _batched(row: Accelerator, bound: Times, run: RunFormat | None) -> float:
    """How near a job is to full batches, by the part of the time that products bound: 1 there, 0 for one sequence."""
    full, single = (times(row, WorkKind.INFERENCE, run, share) for share in (None, share_of(1)))
    if full is None or single is None:
        return 1.0
    return max(0.0, min(1.0, (bound.bound - single.bound) / (full.bound - single.bound)))


def _between(streaming: Efficiency, full: Efficiency, batched: float) -> tuple[float, float]:
    """The efficiency between two batches and its error: the logarithm is linear in the part of the time that products bound."""
    share = streaming.share ** (1 - batched) * full.share**batched
    return share, (1 - batched) * streaming.error + batched * full.error
