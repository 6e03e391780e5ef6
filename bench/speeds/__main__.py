"""Prints how far each accelerator's efficiency is off where it is left out of the rows, and whether one vendor's rows lean.

python -m bench.speeds
"""

from __future__ import annotations

from bench.speeds.left_out import leaning, misses, spread, typical
from gpujob.catalog.files.load import load_catalog
from gpujob.values.vocabulary import WorkKind


def main() -> None:
    """The table and its sums."""
    catalog = load_catalog()
    found = misses(catalog)
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
    mean, error = leaning(catalog)
    print(f"AMD's rows beside NVIDIA's in the same benchmark: {mean:+.1%} ± {error:.1%}")


if __name__ == "__main__":
    main()
