"""How fast an accelerator is on a kind of work, compared with a B200: measured where somebody measured, else estimated.

Peak figures and price alone rank wrongly on public data, so what ran is asked first. An estimate scales the nearest
accelerator that was measured by a roofline, and always says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpujob.vocabulary import Evidence, Method, Precision, WorkKind

if TYPE_CHECKING:
    from gpujob.catalog.records import Accelerator

REFERENCE: Final = "B200"
"""The accelerator of speed 1: the only one that was audited in every kind of work."""

MILLION: Final = 10**6

COMPUTE_SHARE: Final[Mapping[WorkKind, float]] = {
    WorkKind.TRAINING: 0.8,
    WorkKind.FINE_TUNING: 0.8,
    WorkKind.INFERENCE: 0.5,
}
"""The part of a step's time that compute bounds, memory the rest. With these each measured accelerator, left out and
estimated from the others, is off by 6 % (training), 12 % (fine-tuning) and 13 % (inference) in the median; the worst is
the L40S in inference, twice too fast by the figure of an RTX PRO 6000 in FP4."""

SIBLING: Final[Mapping[WorkKind, WorkKind]] = {
    WorkKind.TRAINING: WorkKind.FINE_TUNING,
    WorkKind.FINE_TUNING: WorkKind.TRAINING,
}
"""Work whose relative speeds stand in for each other: both are forward and backward passes of dense matrices."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a job does with its GPUs; a job that says nothing trains in 16 bits."""

    kind: WorkKind = WorkKind.TRAINING
    precision: Precision = Precision.MIXED


TRAINING: Final = Work()
"""What a job does that says nothing of its model."""

KINDS: Final[Mapping[Method, WorkKind]] = {
    Method.FULL: WorkKind.TRAINING,
    Method.LORA: WorkKind.FINE_TUNING,
    Method.QLORA: WorkKind.FINE_TUNING,
    Method.INFERENCE: WorkKind.INFERENCE,
}


def work_of(method: Method, precision: Precision) -> Work:
    """The work of a job that names a method and a number format for its model."""
    return Work(KINDS[method], precision)


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one Kubernetes device of a model did on a benchmark; only figures of one benchmark compare."""

    benchmark: str
    work: WorkKind
    precision: Precision
    evidence: Evidence
    accelerator: str
    per_gpu: float
    unit: str
    source: str = ""
    checked_on: str = ""


@dataclass(frozen=True, slots=True)
class Speed:
    """A relative speed: millionths of a B200's on the same work, for one device, and where the figure comes from."""

    millionths: int
    estimate: bool
    source: str
    checked_on: str
    """The day of the measurement behind it."""
    measured: str = ""
    """What jobs of the same profile measured, in a few words; empty where none did."""


class Speeds:
    """Relative speeds by accelerator and work, from the rows of the catalog; each worked out once."""

    __slots__ = ("_accelerators", "_known", "_measured")

    def __init__(self, rows: Sequence[Throughput], accelerators: Iterable[Accelerator]) -> None:
        self._accelerators = {row.id: row for row in accelerators}
        self._measured = {kind: _placed([row for row in rows if row.work is kind]) for kind in WorkKind}
        self._known: dict[tuple[str, Work], Speed | None] = {}

    def of(self, accelerator: str, work: Work) -> Speed | None:
        """The speed of a model on this work; None where neither a measurement nor a roofline says anything."""
        key = (accelerator, work)
        if key not in self._known:
            self._known[key] = self._find(accelerator, work)
        return self._known[key]

    def _find(self, accelerator: str, work: Work) -> Speed | None:
        own = self._measured[work.kind].get(accelerator)
        if own is not None:
            return Speed(round(own.speed * MILLION), False, own.source, own.checked_on)
        sibling = self._measured.get(SIBLING.get(work.kind, work.kind), {}).get(accelerator)
        if sibling is not None:
            source = f"estimate: as in {sibling.source}"
            return Speed(round(sibling.speed * MILLION), True, source, sibling.checked_on)
        row = self._accelerators.get(accelerator)
        return None if row is None else self.estimated(row, work)

    def estimated(self, accelerator: Accelerator, work: Work) -> Speed | None:
        """The roofline's figure, scaled from the nearest measured model, whatever was measured of this one."""
        share = COMPUTE_SHARE[work.kind]
        anchors = [
            (row, measured)
            for name, measured in self._measured[work.kind].items()
            if name != accelerator.id and (row := self._accelerators.get(name)) is not None
        ]
        scaled = [
            (_distance(accelerator, row, work.precision), row.id, ratio, measured)
            for row, measured in anchors
            if (ratio := roofline(accelerator, row, work.precision, share)) is not None
        ]
        if not scaled:
            return None
        _, anchor, ratio, measured = min(scaled, key=lambda found: found[:2])
        source = f"estimate: {ratio:.2f} × {anchor} by dense TFLOPS and bandwidth; {anchor}: {measured.source}"
        return Speed(round(measured.speed * ratio * MILLION), True, source, measured.checked_on)


def peak(accelerator: Accelerator, precision: Precision) -> float | None:
    """Dense TFLOPS in a number format; None where no figure is known.

    FP8 is twice the 16-bit rate on every part that has it, and runs in 16 bits elsewhere. BF16 without BF16 units is
    emulated in FP32, at an eighth of the FP16 rate (T4: 8.1 of 65, V100: 15.7 of 125 TFLOPS; NVIDIA's datasheets).
    FP32 stands for TF32, half of the 16-bit rate where it is there, so that its ratios are those of 16 bits.
    """
    wide = accelerator.bf16_tflops or accelerator.fp16_tflops
    if wide is None:
        return None
    if precision is Precision.FP8 and accelerator.features & {"FP8OCP", "FP8FNUZ"}:
        return accelerator.fp8_tflops or 2 * wide
    return wide / 8 if precision is Precision.BF16 and "BF16" not in accelerator.features else wide


def roofline(one: Accelerator, other: Accelerator, precision: Precision, share: float) -> float | None:
    """How fast `one` is compared with `other` if `share` of the other's time is bound by compute, the rest by memory.

    1 / (share × peak ratio + (1 - share) × bandwidth ratio), an Amdahl-like form of the roofline model (Williams,
    Waterman, Patterson 2009). None when a figure of the two is not known.
    """
    peaks, bandwidths = (peak(one, precision), peak(other, precision)), (one.bandwidth_gb_s, other.bandwidth_gb_s)
    if not (peaks[0] and peaks[1] and bandwidths[0] and bandwidths[1]):
        return None
    return 1 / (share * peaks[1] / peaks[0] + (1 - share) * bandwidths[1] / bandwidths[0])


def _distance(accelerator: Accelerator, anchor: Accelerator, precision: Precision) -> tuple[bool, bool, float]:
    """How far a model is from another: the same architecture is nearest, then the vendor, then the closest peak."""
    one, other = peak(accelerator, precision) or 1, peak(anchor, precision) or 1
    return (
        accelerator.architecture != anchor.architecture,
        accelerator.vendor is not anchor.vendor,
        max(one / other, other / one),
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    """An accelerator on the scale of one kind of work, and the row that put it there."""

    speed: float
    source: str
    checked_on: str

    @classmethod
    def by(cls, row: Throughput, speed: float) -> _Placed:
        """An accelerator as one row places it."""
        source = f"{row.benchmark}, {row.precision} ({row.source}, {row.checked_on})"
        return cls(speed, source, row.checked_on)


def _placed(rows: Sequence[Throughput]) -> dict[str, _Placed]:
    """Every accelerator that the benchmarks of one kind of work lead to, with the reference at 1.

    Benchmark by benchmark, the best evidence first: a new accelerator's figure counts against those of the same
    benchmark that are placed already, the median of what they say.
    """
    order = list(Evidence)
    waiting = sorted(_groups(rows), key=lambda group: order.index(group[0].evidence))
    first = next((row for group in waiting for row in group if row.accelerator == REFERENCE), None)
    placed = {} if first is None else {REFERENCE: _Placed.by(first, 1.0)}
    while True:
        group = next((g for g in waiting if any(row.accelerator in placed for row in g)), None)
        if group is None:
            return placed
        waiting.remove(group)
        scale = _middle([placed[r.accelerator].speed / r.per_gpu for r in group if r.accelerator in placed])
        for row in group:
            placed.setdefault(row.accelerator, _Placed.by(row, row.per_gpu * scale))


def _middle(scales: Sequence[float]) -> float:
    """The median: the statistics module would take longer to load than all of this."""
    ordered = sorted(scales)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2


def _groups(rows: Iterable[Throughput]) -> list[list[Throughput]]:
    groups: dict[str, list[Throughput]] = {}
    for row in rows:
        groups.setdefault(row.benchmark, []).append(row)
    return list(groups.values())
