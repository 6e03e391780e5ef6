"""Writes or checks the chart's files: `python -m monitoring [--check] FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from gpujob.values.generated import generate
from monitoring.dashboards import DASHBOARDS
from monitoring.dashboards.panels import as_json
from monitoring.rules import GROUPS
from monitoring.rules.rule import as_yaml

RULES = "rules.yaml"


def files() -> dict[str, str]:
    """What is generated, by path below the folder."""
    dashboards = {f"dashboards/{board['uid']}.json": as_json(board) for board in DASHBOARDS}
    return {RULES: as_yaml(GROUPS), **dashboards}


def main(arguments: list[str]) -> int:
    """Writes or checks the files of a folder, in which no others may be; the exit code."""

    def wanted(folder: Path) -> dict[Path, bytes]:
        return {folder / name: text.encode() for name, text in files().items()}

    def strays(folder: Path, known: Mapping[Path, bytes]) -> list[Path]:
        return [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in known]

    return generate(arguments, "monitoring/", wanted, strays)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
