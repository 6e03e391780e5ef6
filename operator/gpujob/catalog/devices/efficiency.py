"""Efficiencies: the fraction of its roofline that an accelerator achieves, fitted to all measured rows at once, with an error.

The logarithm of a row is the sum of its benchmark's level, its engine's deviation, the roofline at the row's own format, and the
accelerator's efficiency. The efficiency is the sum of the deviations of its architecture, the accelerator, its kind of work and
the format. All deviations have a prior of mean 0, so an unmeasured accelerator equals its family. Generalised least squares in
logarithms (Aitken 1936; with these priors equal to kriging) give each efficiency and its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpujob.catalog.devices.roofline import REFERENCE, REFERENCE_ARCHITECTURE, is_narrow, roofline
from gpujob.values.vocabulary import Evidence, RunFormat, WorkKind

if TYPE_CHECKING:
    from gpujob.catalog.devices.benchmark_run import Throughput
    from gpujob.catalog.entities import Accelerator

LEVEL: Final = 3.0
ENGINE: Final = 0.12
ARCHITECTURE: Final = 0.20
ACCELERATOR: Final = 0.12
KIND: Final = 0.08
FORMAT: Final = 0.12
"""Standard deviations of the priors, in logarithms: of a benchmark's level (unknown), of an engine, of an architecture's
efficiency, of an accelerator's within it, of one kind of work, and of formats below 16 bits.
"""

NOISE: Final[Mapping[Evidence, float]] = {Evidence.AUDITED: 0.10, Evidence.MEASURED: 0.12, Evidence.CLAIMED: 0.25}
"""Standard deviation of a row, by the kind of its source."""

MIXED_FORMATS: Final = 3.0
"""Factor on the uncertainty of a row in FP4: the submitter chooses which layers have 4 bits, and these recipes differ by up to 1.6
times between rounds and between systems of the same silicon (B300 and GB300 in v5.1).
"""


class Key(NamedTuple):
    """The subject of an efficiency. Without an accelerator it is the family's; without an architecture that of all families."""

    kind: WorkKind
    narrow: bool
    """Formats below 16 bits."""
    architecture: str
    accelerator: str = ""


def bridge(kind: WorkKind) -> Key:
    """The key of the reference's efficiency below 16 bits, relative to that in 16."""
    return Key(kind, True, "", REFERENCE)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved fraction of the roofline, 1 for the reference's; its relative standard error; its basis."""

    share: float
    error: float
    runs: int = 0
    """Rows of the accelerator on this work in such formats; 0 if the figure is a prior's, or that of other work."""
    source: str = ""
    checked_on: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A row as input of the fit: its logarithm relative to the roofline, and its subject."""

    row: Throughput
    rest: float
    key: Key


def runs_of(rows: Iterable[Throughput], accelerators: Iterable[Accelerator]) -> list[Run]:
    """The rows whose accelerator has a roofline."""
    known = {each.id: each for each in accelerators}
    found = []
    for row in rows:
        accelerator = known.get(row.accelerator)
        bound = accelerator and roofline(accelerator, row.work, row.format)
        if accelerator and bound:
            key = Key(row.work, is_narrow(accelerator, row.format), accelerator.architecture, row.accelerator)
            found.append(Run(row, math.log(row.per_gpu / bound), key))
    return found


class Fit:
    """The least-squares fit to some runs, evaluated for one efficiency after the other."""

    __slots__ = ("_factor", "_runs", "_solved")

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._factor = _cholesky([[_covariance(one, other) for other in runs] for one in runs])
        self._solved = _forward(self._factor, [run.rest for run in runs])

    def efficiency(self, key: Key) -> Efficiency:
        """The efficiency of an accelerator or a family, relative to the reference's on the same work in such formats."""
        compared = Key(key.kind, key.narrow, REFERENCE_ARCHITECTURE, REFERENCE)
        if key == bridge(key.kind):
            key, compared = compared, compared._replace(narrow=False)
        elif key == compared:
            return self._with_runs(key, 1.0, 0.0)
        shared = [_shared(run.key, key) - _shared(run.key, compared) for run in self._runs]
        weights = _forward(self._factor, shared)
        mean = sum(one * other for one, other in zip(weights, self._solved, strict=True))
        before = _shared(key, key) + _shared(compared, compared) - 2 * _shared(key, compared)
        spread = max(0.0, before - sum(weight * weight for weight in weights))
        return self._with_runs(key, math.exp(mean), math.sqrt(spread))

    def _with_runs(self, key: Key, share: float, error: float) -> Efficiency:
        own = [run.row for run in self._runs if run.key == key]
        if own:
            rows, what = own, ""
        else:
            rows = [run.row for run in self._runs if key.accelerator and run.key.accelerator == key.accelerator]
            what = "" if rows else f"no run of {key.accelerator}, "
            rows = rows or [run.row for run in self._runs if run.key.architecture == key.architecture]
        day = max((row.checked_on for row in rows or [run.row for run in self._runs]), default="")
        return Efficiency(share, error, len(own), f"{what}{_sources_of(rows)}" if rows else f"{what}the prior", day)


def efficiencies(rows: Iterable[Throughput], accelerators: Sequence[Accelerator]) -> dict[Key, Efficiency]:
    """The efficiency of every accelerator that has a roofline, and of every family."""
    fit, found = Fit(runs_of(rows, accelerators)), dict[Key, Efficiency]()
    for kind in WorkKind:
        found[bridge(kind)] = fit.efficiency(bridge(kind))
        for narrow in (False, True):
            keys = [Key(kind, narrow, "")]
            keys += [Key(kind, narrow, name) for name in sorted({each.architecture for each in accelerators})]
            keys += [
                Key(kind, narrow, each.architecture, each.id)
                for each in accelerators
                if roofline(each, kind, None) and (not narrow or is_narrow(each, RunFormat.FP8))
            ]
            found.update((key, fit.efficiency(key)) for key in keys)
    return found


def dumped(found: Mapping[Key, Efficiency]) -> list[dict[str, object]]:
    """Efficiencies as the generated catalog stores them: rounded to significant digits."""
    return [
        {
            "work": key.kind.value,
            "narrow": key.narrow,
            "architecture": key.architecture,
            "accelerator": key.accelerator,
            "share": f"{each.share:.4g}",
            "error": f"{each.error:.3f}",
            "runs": each.runs,
            "source": each.source,
            "checkedOn": each.checked_on,
        }
        for key, each in found.items()
    ]


def loaded(raw: Iterable[Mapping[str, Any]]) -> dict[Key, Efficiency]:
    """The efficiencies that `dumped` wrote."""
    return {
        Key(WorkKind(each["work"]), each["narrow"], each["architecture"], each["accelerator"]): Efficiency(
            float(each["share"]), float(each["error"]), each["runs"], each["source"], each["checkedOn"]
        )
        for each in raw
    }


def _sources_of(rows: Sequence[Throughput]) -> str:
    """A summary of the runs: how many, of what, by whom."""
    names = list(dict.fromkeys(row.benchmark for row in rows))
    listed = "; ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    count = f"{len(rows)} run" + ("s" if len(rows) > 1 else "")
    who = rows[0].source.partition(",")[0]
    return f"{count} ({listed}: {who})"


def _covariance(one: Run, other: Run) -> float:
    """The terms that two rows share, and a row's own noise."""
    first, second = one.row, other.row
    total = _shared(one.key, other.key)
    if (first.work, first.benchmark, first.devices) == (second.work, second.benchmark, second.devices):
        total += LEVEL**2 + (ENGINE**2 if first.engine == second.engine else 0.0)
    if one is other:
        noise = NOISE[first.evidence] * (MIXED_FORMATS if first.format is RunFormat.FP4 else 1.0)
        total += noise**2
    return total


def _shared(one: Key, other: Key) -> float:
    """The prior covariance of two efficiencies."""
    if one.architecture != other.architecture or not one.architecture:
        return ARCHITECTURE**2 + ACCELERATOR**2 if one == other else 0.0
    total = ARCHITECTURE**2 + (FORMAT**2 if one.narrow and other.narrow else 0.0)
    if one.accelerator == other.accelerator:
        total += ACCELERATOR**2 + (KIND**2 if one.kind is other.kind else 0.0)
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
