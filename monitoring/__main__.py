"""Writes or checks the chart's files: `python -m monitoring [--check] FOLDER`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpujob.generated import settle
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
    """Writes the files, or with --check says which differ; 1 if any does."""
    parser = argparse.ArgumentParser(prog="python -m monitoring", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    wanted = {asked.folder / name: text.encode() for name, text in files().items()}
    strays = [path for path in sorted(asked.folder.rglob("*")) if path.is_file() and path not in wanted]
    return settle(wanted, "monitoring/", check=asked.check, strays=strays)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
