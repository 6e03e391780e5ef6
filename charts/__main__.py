"""Writes or checks a chart's values.schema.json and README.md: `python -m charts [--check] CHART`."""

from __future__ import annotations

import sys
from pathlib import Path

from charts.readme import with_table
from charts.schema import values_schema
from charts.values import read_values
from gpujob.values.generated import generate


def files(chart: Path) -> dict[Path, bytes]:
    """What is made from a chart's values.yaml."""
    values = read_values((chart / "values.yaml").read_text())
    readme = chart / "README.md"
    return {
        chart / "values.schema.json": values_schema(values).encode(),
        readme: with_table(readme.read_text(), values).encode(),
    }


def main(arguments: list[str]) -> int:
    """Writes or checks the files; the exit code."""
    return generate(arguments, "values.yaml", files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
