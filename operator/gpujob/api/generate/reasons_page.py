"""The page of all reasons, made from their meanings.

python -m gpujob.api.generate.reasons_page [--check] docs/reasons.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from gpujob.values.generated import generate
from gpujob.values.meanings import SECTIONS
from gpujob.values.vocabulary import Reason

HEAD: Final = """# Reasons

Each condition, event and line of `plan` and `explain` has a reason, one word, and a sentence with the numbers and names of its case.
The word is the same everywhere. This page is made from `operator/gpujob/values/meanings.py` by `make generate`.
"""


def meanings(rows: str) -> Iterator[tuple[Reason, str, str]]:
    """(reason, what it means, what to do) of each row of a section; ValueError for a row that is none."""
    lines = rows.strip().splitlines()
    for row, remedy in zip(lines[::2], lines[1::2], strict=True):
        reason, means = row.split(": ", 1)
        yield Reason(reason), means, remedy.strip()


def page() -> str:
    """docs/reasons.md."""
    parts = [HEAD]
    for title, rows, where in SECTIONS:
        parts.append(f"\n## {title}\n\nShown by {where}.\n\n| reason | what it means | what to do |\n|---|---|---|\n")
        parts += [f"| `{reason}` | {means} | {remedy} |\n" for reason, means, remedy in meanings(rows)]
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Writes or checks the page; the exit code."""
    return generate(arguments, "gpujob/values/meanings.py", lambda path: {path: page().encode()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
