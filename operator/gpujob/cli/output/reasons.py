"""Reasons with what they mean and what helps, and where to read more of those that an answer names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from gpujob.catalog.devices.identity import nearest
from gpujob.cli.output.drawing import print_table, print_text, printed
from gpujob.cli.printing import plain
from gpujob.placement.report.summary import of_awaited_nodes
from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.values.errors import BadInput
from gpujob.values.reasons import SECTIONS, Reason
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Outcome

if TYPE_CHECKING:
    from gpujob.placement.scoring.candidate import Decision

PAGE: Final = "docs/reasons/"
"""Where the site has the page of all reasons."""
HEADERS: Final = ["REASON", "WHAT IT MEANS", "WHAT TO DO"]
_WITHOUT: Final = frozenset({Outcome.CHOSEN, Outcome.FITS})
"""Outcomes of candidates whose reasons are no answer to why not."""


def chosen(words: Sequence[str]) -> list[Reason]:
    """The reasons of these words in the order of the page; all without any. BadInput names the nearest to an unknown word."""
    known = {str(reason).lower(): reason for reason in Reason}
    for word in words:
        if word.lower() not in known:
            meant = nearest(word, [str(reason) for reason in Reason])
            hint = f"did you mean {meant}?" if meant else "`kubectl gpujob reasons` lists them"
            raise BadInput(f"there is no reason '{one_line(word[:64])}'; {hint}")
    wanted = {known[word.lower()] for word in words}
    return [reason for reason in Reason if not wanted or reason in wanted]


def print_reasons(reasons: Iterable[Reason], *, color: bool) -> None:
    """The table of reasons."""
    rows = [[str(reason), reason.meaning, reason.remedy] for reason in reasons]
    with printed(color) as console:
        print_table(console, HEADERS, rows)


def document(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """The same as JSON: reason, meaning, remedy, and the section of the page that has it."""
    titles = {first: title for title, first, _ in SECTIONS}
    sections: dict[Reason, str] = {}
    for reason in Reason:
        sections[reason] = titles.get(reason, next(reversed(sections.values()), ""))
    return [
        {"reason": str(reason), "section": sections[reason], "meaning": reason.meaning, "remedy": reason.remedy}
        for reason in reasons
    ]


def of_decision(decision: Decision) -> Iterator[Reason]:
    """The reasons that the tables of a plan show: of each pool without room, and the warnings about the choice or about the nodes that
    the job waits for.
    """
    yield from (problem.reason for problem in decision.problems)
    for candidate in best_per_pool(decision):
        if candidate.outcome not in _WITHOUT:
            yield from (finding.reason for finding in candidate.reasons)
    if decision.choice:
        yield from (warning.reason for warning in decision.choice.candidate.warnings)
    yield from (warning.reason for warning in of_awaited_nodes(decision))


def read_more(found: Iterable[str], docs_url: str) -> list[tuple[str, str]]:
    """The lines that lead from an answer to its reasons: an address each where the site is served, else the command that
    shows them. A word of a status that is no reason is left out.
    """
    words = set(found)
    shown = [str(reason) for reason in Reason if reason in words]
    if not shown:
        return []
    if docs_url:
        return [("Read more:", f"{docs_url}/{PAGE}#{word}") for word in shown]
    return [("Read more:", f"kubectl gpujob reasons {' '.join(shown)}")]


def print_read_more(console: Console, found: Iterable[str], docs_url: str) -> None:
    """The lines of `read_more`, after a blank one."""
    lines = read_more(found, docs_url)
    if lines:
        console.print()
    for label, where in lines:
        print_text(console, Text.assemble((f"{label} ", "bold"), plain(where)))
