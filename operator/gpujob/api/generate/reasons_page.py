"""The page of all reasons, made from their meanings.

python -m gpujob.api.generate.reasons_page [--check] docs/reasons.md
"""

from __future__ import annotations

import sys
from typing import Final

from gpujob.values.generated import generate
from gpujob.values.reasons import SECTIONS, Reason

HEAD: Final = """# Reasons

For readers of a status or a plan. Each condition, event and line of `plan` and `explain` has a reason, one word, and a sentence
with the numbers and names of its case.
The word is the same everywhere, and an anchor of this page: `reasons.md#MemTooSmall`; `kubectl gpujob reasons MemTooSmall` prints it.
`make generate` makes this page from `operator/gpujob/values/reasons.py`.
"""


def page() -> str:
    """docs/reasons.md."""
    parts, sections = [HEAD], {first: (title, where) for title, first, where in SECTIONS}
    for reason in Reason:
        if reason in sections:
            title, where = sections[reason]
            parts.append(
                f"\n## {title}\n\nShown by {where}.\n\n| reason | what it means | what to do |\n|---|---|---|\n"
            )
        parts.append(f'| <a id="{reason}"></a>`{reason}` | {reason.meaning} | {reason.remedy} |\n')
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Writes or checks the page; the exit code."""
    return generate(arguments, "gpujob/values/reasons.py", lambda path: {path: page().encode()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
