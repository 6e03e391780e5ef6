"""What `doctor` found, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from gpujob import __version__
from gpujob.cli.doctor.finding import Found, Level
from gpujob.cli.output.drawing import PLAN_WIDTH, UNLIMITED, print_table, printed
from gpujob.values.finding import counted

HEADERS: Final = ("LEVEL", "CHECK", "ABOUT", "FINDING", "REMEDY")
STYLES: Final = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.UNKNOWN: "dim", Level.OK: "green"}


def print_findings(found: Sequence[Found], *, wide: bool, color: bool) -> None:
    """A table of the findings, the worst first; what is well is counted, and shown where it is `wide`."""
    shown = [each for level in Level for each in found if each.level is level and (wide or level is not Level.OK)]
    if shown:
        rows = [[each.level.value, each.check, each.about, each.message, each.remedy] for each in shown]
        with printed(color) as console:
            print_table(
                console, HEADERS, rows, [STYLES[each.level] for each in shown], UNLIMITED if wide else PLAN_WIDTH
            )
    print(summary(found))


def summary(found: Sequence[Found]) -> str:
    """How many findings there are of each level."""
    counts = Counter(each.level for each in found)
    errors, warnings = counted(counts[Level.ERROR], "error"), counted(counts[Level.WARNING], "warning")
    return f"{errors}, {warnings}, {counts[Level.UNKNOWN]} unknown, {counts[Level.OK]} in order"


def document(found: Sequence[Found]) -> dict[str, Any]:
    """The findings as the JSON of `doctor -o json`."""
    counts = Counter(each.level for each in found)
    return {
        "version": __version__,
        "summary": {level.value: counts[level] for level in Level},
        "findings": [
            {
                "check": each.check,
                "level": each.level.value,
                "about": each.about or None,
                "message": each.message,
                "remedy": each.remedy or None,
            }
            for each in found
        ],
    }
