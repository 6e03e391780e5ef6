"""Writes or checks the chart's files: `python -m monitoring [--check] FOLDER`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
    wanted = files()
    held = {str(path.relative_to(asked.folder)): path for path in sorted(asked.folder.rglob("*")) if path.is_file()}
    stale = [name for name, text in wanted.items() if name not in held or held[name].read_text() != text]
    stale += [name for name in held if name not in wanted]
    if asked.check:
        for name in stale:
            print(f"{asked.folder / name} differs from monitoring/: run `make generate`", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        if name in wanted:
            (asked.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (asked.folder / name).write_text(wanted[name])
        else:
            held[name].unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
