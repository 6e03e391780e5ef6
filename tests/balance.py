"""Shares files of tests out among processes by the seconds they took, so that all of them end at about the same time.

tests/seconds.json has the seconds of each file as whole numbers. `python -m tests.balance` writes it again from the reports of the
last `make test`. A file that it does not name counts as the mean of the others, so a new file needs nothing.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from statistics import mean
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
SECONDS = ROOT / "tests" / "seconds.json"
REPORTS = ROOT / ".pytest_cache" / "parts"
"""JUnit XML, a file for each part."""


def measured() -> dict[str, int]:
    """Seconds by file, as paths from the repository's root."""
    seconds: dict[str, int] = json.loads(SECONDS.read_text())
    return seconds


def shares(files: Iterable[str], count: int, seconds: Mapping[str, int]) -> list[list[str]]:
    """The files in `count` lists: the longest goes first, always to the list that has the fewest seconds so far."""
    files = sorted(files)
    usual = mean([seconds[file] for file in files if file in seconds] or [1])
    weights = {file: seconds.get(file, usual) for file in files}
    lists: list[list[str]] = [[] for _ in range(count)]
    for file in sorted(files, key=lambda file: -weights[file]):
        min(lists, key=lambda each: sum(weights[other] for other in each)).append(file)
    return lists


def read(reports: Sequence[Path]) -> dict[str, int]:
    """The seconds of each file of the repository's tests in reports, setup and teardown included, rounded up."""
    found: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            # A test that was interrupted has no class.
            found[case.get("classname", "").replace(".", "/") + ".py"] += float(case.attrib["time"])
    return {file: ceil(found[file]) for file in sorted(found) if file.startswith("tests/")}


def main() -> int:
    """Writes tests/seconds.json; 1 where there is no report."""
    found = read(sorted(REPORTS.glob("*.xml")))
    if not found:
        print(f"{REPORTS} has no report: run `make test` first", file=sys.stderr)
        return 1
    kept = {file: each for file, each in measured().items() if (ROOT / file).exists()}
    SECONDS.write_text(json.dumps(dict(sorted({**kept, **found}.items())), indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
