"""Each accelerator left out of the rows and estimated from the others, against what its own rows say."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.efficiency import Efficiency, Key
from gpujob.catalog.devices.efficiency_fit import Fit, Run, chip_of, reference_subject, runs_of, subject_of
from gpujob.catalog.devices.roofline import REFERENCE
from gpujob.catalog.entities import Accelerator, Throughput
from gpujob.values.vocabulary import Vendor, WorkKind

OLD: Final = frozenset({"7.0", "7.5", "8.0", "8.6", "gfx908", "gfx90a"})
"""Architectures before 2022: Volta, Turing, Ampere, CDNA and CDNA 2."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One efficiency: its logarithm from all rows less that from the other accelerators' rows, and the stated error."""

    run: Run
    off: float
    told: float

    @property
    def is_old(self) -> bool:
        """Whether its architecture is from before 2022."""
        return self.run.key.architecture in OLD


class Fits:
    """The fit to all rows of a catalog, and those without the rows of one chip or of one benchmark; each is made once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.known = {each.id: each for each in catalog.accelerators}
        self.runs = runs_of(catalog.throughputs, catalog.accelerators)
        self.whole = Fit(self.runs)
        self._without: dict[object, Fit] = {}

    def without(self, name: str) -> Fit:
        """The fit without the rows of an accelerator and of the variants of its chip."""
        chip = chip_of(self.known[name])
        return self._but(chip, (run for run in self.runs if run.subject.chip != chip))

    def without_benchmark(self, row: Throughput) -> Fit:
        """The fit without the rows that compare with this one."""
        return self._but(benchmark_of(row), (run for run in self.runs if benchmark_of(run.row) != benchmark_of(row)))

    def _but(self, what: object, runs: Iterable[Run]) -> Fit:
        if what not in self._without:
            self._without[what] = Fit([*runs])
        return self._without[what]


def benchmark_of(row: Throughput) -> tuple[WorkKind, str, int]:
    """Equal for rows that compare."""
    return row.work, row.benchmark, row.devices


def misses(fits: Fits) -> list[Miss]:
    """A miss for each accelerator and kind of work in formats of 16 bits or below them that has rows of its own."""
    found = list[Miss]()
    for name in sorted({run.key.accelerator for run in fits.runs} - {REFERENCE}):
        own = {run.key._replace(streams=False): run for run in fits.runs if run.key.accelerator == name}
        for key, run in own.items():
            guess, truth = (efficiency_of(fit, fits.known[name], key) for fit in (fits.without(name), fits.whole))
            found.append(Miss(run, math.log(guess.share / truth.share), guess.error))
    return found


def efficiency_of(fit: Fit, accelerator: Accelerator, key: Key) -> Efficiency:
    """The efficiency of an accelerator by a fit, on the kind of work and in the formats of a key."""
    subject = subject_of(accelerator, key.kind, narrow=key.narrow)
    assert subject is not None
    return fit.efficiency(subject, reference_subject(key.kind, narrow=key.narrow))


def typical(found: Sequence[Miss]) -> float:
    """The median of the misses."""
    return median(abs(each.off) for each in found)


def spread(found: Sequence[Miss]) -> float:
    """The root mean square of the misses in units of the stated errors; 1 if these are right."""
    return math.sqrt(sum((each.off / each.told) ** 2 for each in found) / len(found))


def leaning(fits: Fits) -> tuple[float, float]:
    """By how much the rows of AMD's parts are better than the fit says, compared with NVIDIA's in the same benchmark: the mean
    of the logarithms over the benchmarks that have both, and the error of that mean.
    """
    by_benchmark = defaultdict[object, list[Run]](list)
    for run in fits.runs:
        by_benchmark[benchmark_of(run.row)].append(run)
    found = list(_leanings(by_benchmark.values(), fits))
    mean = sum(found) / len(found)
    return mean, math.sqrt(sum((each - mean) ** 2 for each in found) / (len(found) - 1) / len(found))


def _leanings(groups: Iterable[Sequence[Run]], fits: Fits) -> Iterator[float]:
    for group in groups:
        beyond = defaultdict[Vendor, list[float]](list)
        for run in group:
            accelerator = fits.known[run.key.accelerator]
            efficiency = efficiency_of(fits.whole, accelerator, run.key)
            beyond[accelerator.vendor].append(run.rest - math.log(efficiency.share))
        if len(beyond) == 2:
            amd, nvidia = beyond[Vendor.AMD], beyond[Vendor.NVIDIA]
            yield sum(amd) / len(amd) - sum(nvidia) / len(nvidia)
