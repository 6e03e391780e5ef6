"""Efficiencies: the fraction of its roofline that an accelerator achieves, fitted to all measured rows at once, with an error.

The logarithm of a row is the sum of its benchmark's level, its engine's deviation, the roofline at the row's own format, and the
accelerator's efficiency. The efficiency is the sum of the deviations of its architecture, the accelerator, its kind of work and
the format; the first two have a part for products and one for memory, which count by the fractions of time that these bound, so
an accelerator of another balance than those that were measured is known less well. All deviations have a prior of mean 0, so an
unmeasured accelerator equals its family. Generalised least squares in logarithms (Aitken 1936; with these priors equal to kriging)
give each efficiency and its standard error. Devices with the same figures are one chip and share all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpujob.catalog.devices.data_sheet_order import in_order
from gpujob.catalog.devices.efficiency import Efficiency, Key, bridge
from gpujob.catalog.devices.roofline import (
    REFERENCE,
    REFERENCE_ARCHITECTURE,
    is_narrow,
    reference_times,
    roofline,
    share_of,
    times,
)
from gpujob.catalog.entities import Accelerator, Throughput
from gpujob.values.finding import several
from gpujob.values.vocabulary import Evidence, RunFormat, WorkKind

LEVEL: Final = 3.0
ENGINE: Final = 0.12
ARCHITECTURE: Final = 0.20
ACCELERATOR: Final = 0.12
KIND: Final = 0.08
FORMAT: Final = 0.12
"""Standard deviations of the priors, in logarithms: of a benchmark's level (unknown), of an engine, of an architecture's
efficiency, of an accelerator's within it, of one kind of work, and of formats below 16 bits. Those of architecture and accelerator
are for work that products and memory bound in equal parts.
"""

MEMORY: Final = 0.75
"""The deviations of memory relative to those of products: devices achieve more equal fractions of their bandwidth than of their
TFLOPS.
"""

SHARE: Final = 0.2
"""Standard deviation of a benchmark's fraction of time that products bound, around that of its kind of work."""

NOISE: Final[Mapping[Evidence, float]] = {Evidence.AUDITED: 0.10, Evidence.MEASURED: 0.12, Evidence.CLAIMED: 0.25}
"""Standard deviation of a row, by the kind of its source."""

MIXED_FORMATS: Final = 3.0
"""Factor on the uncertainty of a row in FP4: the submitter chooses which layers have 4 bits, and these recipes differ by up to 1.6
times between rounds and between systems of the same silicon (B300 and GB300 in v5.1).
"""


class Subject(NamedTuple):
    """What a row or an efficiency is about: its key, the device's figures, and the part of its time that products bound."""

    key: Key
    chip: object
    """Equal for devices with the same figures."""
    bound: float
    leaning: float = 0.0
    """The derivative of the logarithm of the roofline by the fraction of time that products bound on the reference."""


@dataclass(frozen=True, slots=True)
class Run:
    """A row as input of the fit: its logarithm relative to the roofline, and its subject."""

    row: Throughput
    rest: float
    subject: Subject

    @property
    def key(self) -> Key:
        """The key of its efficiency."""
        return self.subject.key


def runs_of(rows: Iterable[Throughput], accelerators: Iterable[Accelerator]) -> list[Run]:
    """The rows whose accelerator has a roofline."""
    known = {each.id: each for each in accelerators}
    found = []
    for row in rows:
        accelerator = known.get(row.accelerator)
        share = share_of(row.sequences) if row.sequences else None
        subject = accelerator and _subject(accelerator, row.work, row.format, share)
        if accelerator and subject:
            bound = roofline(accelerator, row.work, row.format, share)
            found.append(Run(row, math.log(row.per_gpu / (bound or 1)), subject))
    return found


def subject_of(accelerator: Accelerator, kind: WorkKind, *, narrow: bool, streams: bool = False) -> Subject | None:
    """The subject of an accelerator's efficiency; None without the figures of a roofline."""
    run = next((each for each in (RunFormat.FP8, RunFormat.INT8) if narrow and is_narrow(accelerator, each)), None)
    return _subject(accelerator, kind, run, share_of(1) if streams else None)


def _subject(accelerator: Accelerator, kind: WorkKind, run: RunFormat | None, share: float | None) -> Subject | None:
    found = times(accelerator, kind, run, share)
    wholly, not_at_all = (times(accelerator, kind, run, fraction) for fraction in (1.0, 0.0))
    if not (found and wholly and not_at_all):
        return None
    key = Key(kind, is_narrow(accelerator, run), accelerator.architecture, accelerator.id, share == share_of(1))
    return Subject(key, chip_of(accelerator), found.bound, (not_at_all.memory - wholly.products) * found.roofline)


def reference_subject(kind: WorkKind, *, narrow: bool, streams: bool = False) -> Subject:
    """The subject of the reference's efficiency; a catalog needs no row of it."""
    found = reference_times(kind, RunFormat.FP8 if narrow else None, share_of(1) if streams else None)
    return Subject(Key(kind, narrow, REFERENCE_ARCHITECTURE, REFERENCE, streams), REFERENCE, found.bound)


def chip_of(accelerator: Accelerator) -> object:
    """Equal for variants of one chip that differ in memory size, host or name alone."""
    figures = (accelerator.bf16_tflops, accelerator.fp16_tflops, accelerator.fp8_tflops, accelerator.bandwidth_gb_s)
    return REFERENCE if accelerator.id == REFERENCE else (accelerator.architecture, *figures, accelerator.features)


class Fit:
    """The least-squares fit to some runs, evaluated for one efficiency after the other."""

    __slots__ = ("_factor", "_runs", "_solved")

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._factor = _cholesky([[_covariance(one, other) for other in runs] for one in runs])
        self._solved = _forward(self._factor, [run.rest for run in runs])

    def efficiency(self, subject: Subject, reference: Subject) -> Efficiency:
        """The efficiency of an accelerator or a family, relative to the reference's."""
        if subject.key == reference.key:
            return self._with_runs(subject, 1.0, 0.0)
        shared = [_shared(run.subject, subject) - _shared(run.subject, reference) for run in self._runs]
        weights = _forward(self._factor, shared)
        mean = sum(one * other for one, other in zip(weights, self._solved, strict=True))
        before = _shared(subject, subject) + _shared(reference, reference) - 2 * _shared(subject, reference)
        spread = max(0.0, before - sum(weight * weight for weight in weights))
        return self._with_runs(subject, math.exp(mean), math.sqrt(spread))

    def _with_runs(self, subject: Subject, share: float, error: float) -> Efficiency:
        key, chip = subject.key, subject.chip
        alike = [run for run in self._runs if run.subject.chip == chip]
        work = (key.kind, key.narrow)
        own = [run.row for run in alike if (run.key.kind, run.key.narrow) == work]
        if own:
            rows, what = own, ""
        else:
            rows = [run.row for run in alike if key.accelerator]
            what = "" if rows else f"no run of {key.accelerator or 'it'}, "
            rows = rows or [run.row for run in self._runs if run.key.architecture == key.architecture]
        day = max((row.checked_on for row in rows or [run.row for run in self._runs]), default="")
        return Efficiency(share, error, len(own), f"{what}{_sources_of(rows)}" if rows else f"{what}the prior", day)


def efficiencies(rows: Iterable[Throughput], accelerators: Sequence[Accelerator]) -> dict[Key, Efficiency]:
    """The efficiency of every accelerator that has a roofline, and of every family, in the order of their data sheets."""
    fit, found = Fit(runs_of(rows, accelerators)), dict[Key, Efficiency]()
    for kind in WorkKind:
        for streams in (False, True) if kind is WorkKind.INFERENCE else (False,):
            found.update(_of_kind(fit, accelerators, kind, streams=streams))
    return in_order(found, accelerators)


def _of_kind(
    fit: Fit, accelerators: Sequence[Accelerator], kind: WorkKind, *, streams: bool
) -> Iterable[tuple[Key, Efficiency]]:
    wide, eight = (reference_subject(kind, narrow=narrow, streams=streams) for narrow in (False, True))
    yield bridge(kind, streams=streams), fit.efficiency(eight, wide)
    for reference in (wide, eight):
        narrow = reference.key.narrow
        for name in ("", *sorted({each.architecture for each in accelerators})):
            family = Subject(Key(kind, narrow, name, "", streams), None, reference.bound)
            yield family.key, fit.efficiency(family, reference)
        for each in accelerators:
            subject = subject_of(each, kind, narrow=narrow, streams=streams)
            if subject and (not narrow or is_narrow(each, RunFormat.FP8)):
                yield subject.key, fit.efficiency(subject, reference)


def _sources_of(rows: Sequence[Throughput]) -> str:
    """A summary of the runs: how many, of what, by whom."""
    names = list(dict.fromkeys(row.benchmark for row in rows))
    count = f"{len(rows)} run" + ("s" if len(rows) > 1 else "")
    who = rows[0].source.partition(",")[0]
    return f"{count} ({several(names, 2, '; ')}: {who})"


def _covariance(one: Run, other: Run) -> float:
    """The terms that two rows share, and a row's own noise."""
    first, second = one.row, other.row
    total = _shared(one.subject, other.subject)
    if (first.work, first.benchmark, first.devices) == (second.work, second.benchmark, second.devices):
        total += LEVEL**2 + (ENGINE**2 if first.engine == second.engine else 0.0)
        total += SHARE**2 * one.subject.leaning * other.subject.leaning
    if one is other:
        noise = NOISE[first.evidence] * (MIXED_FORMATS if first.format is RunFormat.FP4 else 1.0)
        total += noise**2
    return total


def _shared(first: Subject, second: Subject) -> float:
    """The prior covariance of two efficiencies."""
    one, other = first.key, second.key
    # Equal to 1 where products and memory bound equal parts of the time.
    parts = first.bound * second.bound + MEMORY**2 * (1 - first.bound) * (1 - second.bound)
    balance = 4 * parts / (1 + MEMORY**2)
    if one.architecture != other.architecture or not one.architecture:
        return (ARCHITECTURE**2 + ACCELERATOR**2) * balance if one == other else 0.0
    total = ARCHITECTURE**2 * balance + (FORMAT**2 if one.narrow and other.narrow else 0.0)
    if first.chip == second.chip:
        total += ACCELERATOR**2 * balance + (KIND**2 if one.kind is other.kind else 0.0)
    return total


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower factor of a positive definite matrix."""
    factor: list[list[float]] = []
    for row, values in enumerate(matrix):
        done: list[float] = []
        for column in range(row):
            other = factor[column]
            rest = values[column] - sum(map(_product, done, other))
            done.append(rest / other[column])
        done.append(math.sqrt(values[row] - sum(each * each for each in done)))
        factor.append(done)
    return factor


def _forward(factor: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """The solution of the lower triangular system."""
    found: list[float] = []
    for row, value in zip(factor, values, strict=True):
        found.append((value - sum(map(_product, found, row))) / row[-1])
    return found


def _product(one: float, other: float) -> float:
    return one * other
