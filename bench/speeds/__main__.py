"""Prints how far efficiencies are off where an accelerator is left out, whether one vendor's rows lean, and ratios before and now.

python -m bench.speeds
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

from bench.speeds.left_out import Fits, leaning, misses, spread, typical
from bench.speeds.pairs import Pair, pairs
from gpujob.catalog.files.load import load_catalog
from gpujob.values.vocabulary import WorkKind


def main() -> None:
    """The table and its sums."""
    fits = Fits(load_catalog())
    found = misses(fits)
    for each in sorted(found, key=lambda miss: (miss.run.key.kind, miss.run.key.narrow, -abs(miss.off))):
        key = each.run.key
        formats = "below 16 bits" if key.narrow else "16 bits"
        print(f"{key.kind:<11} {formats:<14} {key.accelerator:<13} off {each.off:+6.0%}  stated ±{each.told:4.0%}")
    for name, some in [
        *((f"{kind}", [each for each in found if each.run.key.kind is kind]) for kind in WorkKind),
        ("old parts", [each for each in found if each.is_old]),
        ("new parts", [each for each in found if not each.is_old]),
    ]:
        worst = max(some, key=lambda miss: abs(miss.off))
        print(
            f"{name}: {len(some)} left out, median {typical(some):.1%}, "
            f"worst {abs(worst.off):.0%} ({worst.run.key.accelerator}), {spread(some):.2f} of the stated errors"
        )
    mean, error = leaning(fits)
    print(f"AMD's rows beside NVIDIA's in the same benchmark: {mean:+.1%} ± {error:.1%}")
    print_pairs(pairs(fits))


MEASURES: dict[str, Callable[[Pair], float]] = {
    "the first version": lambda pair: pair.first_version,
    "the first version, the accelerator left out": lambda pair: pair.first_version_left_out,
    "now, the accelerator left out": lambda pair: pair.left_out,
    "now, the benchmark left out": lambda pair: pair.new_benchmark,
}


def print_pairs(found: list[Pair]) -> None:
    """How far ratios of public runs in 16 bits are off, by the same measure before and now."""
    for name, of in MEASURES.items():
        for age, some in [
            ("old parts", [pair for pair in found if pair.is_old]),
            ("new parts", [pair for pair in found if not pair.is_old]),
        ]:
            off = [abs(of(pair)) for pair in some]
            middle, worst = median(off), math.exp(max(off))
            print(f"{len(some)} pairs of {age} in 16 bits, {name}: median {middle:.1%}, worst {worst:.1f} times")


if __name__ == "__main__":
    main()
