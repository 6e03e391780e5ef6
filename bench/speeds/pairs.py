"""Pairs of accelerators in public runs of 16 bits: how far off their ratio was by the first version of decision 5, and is now.

One measure for both versions: for two rows of one benchmark with the same engine, format and number of devices, the logarithm of
the ratio of the speeds less that of the rows' figures.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from bench.speeds.left_out import OLD, Fits, benchmark_of
from gpujob.catalog.devices.efficiency_fit import Fit, chip_of, reference_subject, subject_of
from gpujob.catalog.devices.roofline import roofline
from gpujob.catalog.entities import Throughput
from gpujob.values.vocabulary import Evidence, Precision, RunFormat

FIRST_VERSION: Final = Path(__file__).with_name("first_version.csv")
"""The speeds of the first version (commit 2fe4511) in B200s: as it used them, and as it estimated each accelerator from the others."""

PRECISIONS: Final = {RunFormat.FP16: Precision.MIXED, RunFormat.BF16: Precision.BF16}
"""The precision of a job by the format of a run of 16 bits."""


class Speeds(NamedTuple):
    """The logarithm of a speed by the first version: with all rows, and without those of the accelerator."""

    used: float
    left_out: float


@dataclass(frozen=True, slots=True)
class Pair:
    """The logarithms by which the ratio of two accelerators is off."""

    one: Throughput
    other: Throughput
    is_old: bool
    """Whether the first one's architecture is from before 2022."""
    first_version: float
    first_version_left_out: float
    """Of the speed that the first version estimated for the first accelerator from the others'."""
    left_out: float
    """Of the fit without the rows of the first accelerator."""
    new_benchmark: float
    """Of the fit without the rows of this benchmark."""


def pairs(fits: Fits) -> list[Pair]:
    """A pair for each two unlike chips of a public benchmark in 16 bits, in both orders."""
    before = first_version()
    return [_pair(fits, before, one, other) for one, other in _alike(fits)]


def first_version() -> dict[tuple[str, str, str], Speeds]:
    """The speeds of the first version by kind of work, accelerator and precision."""
    with FIRST_VERSION.open(encoding="utf-8", newline="") as file:
        return {
            (row["work"], row["accelerator"], row["precision"]): Speeds(
                math.log(float(row["speed"])), math.log(float(row["left_out"]))
            )
            for row in csv.DictReader(file)
        }


def _alike(fits: Fits) -> Iterator[tuple[Throughput, Throughput]]:
    def group_of(row: Throughput) -> tuple[str, ...]:
        return (*map(str, benchmark_of(row)), row.engine, str(row.format))

    rows = (run.row for run in fits.runs if run.row.format in PRECISIONS and not run.row.sequences)
    public = sorted((row for row in rows if row.evidence is not Evidence.CLAIMED), key=group_of)
    for _, group in groupby(public, group_of):
        members = [*group]
        for one in members:
            for other in members:
                if chip_of(fits.known[one.accelerator]) != chip_of(fits.known[other.accelerator]):
                    yield one, other


def _pair(fits: Fits, before: dict[tuple[str, str, str], Speeds], one: Throughput, other: Throughput) -> Pair:
    assert one.format is not None
    measured = math.log(one.per_gpu / other.per_gpu)
    kind, precision = str(one.work), str(PRECISIONS[one.format])
    first, second = before[kind, one.accelerator, precision], before[kind, other.accelerator, precision]

    def off(fit: Fit) -> float:
        return _log_speed(fits, fit, one) - _log_speed(fits, fit, other) - measured

    return Pair(
        one,
        other,
        is_old=fits.known[one.accelerator].architecture in OLD,
        first_version=first.used - second.used - measured,
        first_version_left_out=first.left_out - second.used - measured,
        left_out=off(fits.without(one.accelerator)),
        new_benchmark=off(fits.without_benchmark(one)),
    )


def _log_speed(fits: Fits, fit: Fit, row: Throughput) -> float:
    """The logarithm of the speed of a row's accelerator on its work in its format."""
    accelerator = fits.known[row.accelerator]
    subject, bound = subject_of(accelerator, row.work, narrow=False), roofline(accelerator, row.work, row.format)
    assert subject is not None
    assert bound is not None
    return math.log(fit.efficiency(subject, reference_subject(row.work, narrow=False)).share * bound)
