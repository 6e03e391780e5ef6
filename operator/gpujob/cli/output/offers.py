"""The -o wide part of a plan: every offer of a pool in a gang, and the memory of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from gpujob.cli.output import cells
from gpujob.cli.output.drawing import print_table, print_text
from gpujob.cli.printing import plain
from gpujob.placement.report.offers import offers as offers_in
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Outcome, Reason

if TYPE_CHECKING:
    from gpujob.placement.report.offers import Offer
    from gpujob.placement.request.gang import Gang
    from gpujob.placement.scoring.candidate import Candidate, Decision


ROOM_FOR_COMPONENTS: Final = 20
"""The width of the names of components."""
ROOM_FOR_SHAPE: Final = 36
"""The width of the memory of one gang beside them."""


OUTCOME_STYLES: Final = {
    Outcome.CHOSEN: "green",
    Outcome.FITS: "",
    Outcome.BUSY: "yellow",
    Outcome.MISCONFIGURED: "red",
    Outcome.REJECTED: "dim",
}


def print_offers(console: Console, decision: Decision, general: frozenset[Finding]) -> None:
    """All facts of each pool in each gang, and of the model's memory."""
    offers = offers_in(decision)
    if offers:
        headers = [
            "POOL",
            cells.GANG,
            "$/H",
            "OUTCOME",
            "ACCELERATOR",
            "FREE/TOTAL",
            "MEMORY",
            "SPEED",
            "$/WORK",
            "IMAGES",
        ]
        console.print()
        print_table(
            console, headers, [_offer_row(offer) for offer in offers], [OUTCOME_STYLES[o.best.outcome] for o in offers]
        )
    for offer in offers:
        console.print()
        _print_offer(console, offer, general)


def _offer_row(offer: Offer) -> list[str]:
    best = offer.best
    return [
        best.pool.name,
        *cells.main(best),
        *cells.devices(best.pool),
        cells.speed(best),
        cells.money(best.price_of_work),
        f"{len(offer.alike) + 1}/{offer.images}",
    ]


def _print_offer(console: Console, offer: Offer, general: frozenset[Finding]) -> None:
    """The `-o wide` rows of a pool in one gang: its best image, the others by their outcome, and all sources."""
    best, pool = offer.best, offer.best.pool
    title = (f"{plain(pool.name)} {best.gang.shape}", "bold")
    print_text(console, Text.assemble(title, f"  {best.outcome}"))
    for label, sentence in _details(offer, general):
        print_text(console, Text(f"  {label:<6} {plain(sentence)}"))


def _details(offer: Offer, general: frozenset[Finding]) -> Iterator[tuple[str, str]]:
    best, pool = offer.best, offer.best.pool
    yield "image", f"{best.runtime.image or cells.UNKNOWN} ({best.runtime.name})"
    if offer.alike:
        would = "would do too" if best.outcome in (Outcome.CHOSEN, Outcome.FITS) else "would fare alike"
        yield "or", f"{counted(len(offer.alike), 'more image')} {would}"
    yield from (("why", f"{finding.message} ({finding.reason})") for finding in best.reasons)
    for finding in best.doubts:
        if finding not in general:
            yield "warn", f"{finding.message} ({finding.reason})"
    if pool.price:
        yield "price", "; ".join(filter(None, [cells.started(best), pool.price.source]))
    if best.speed:
        yield from (("speed", line) for line in filter(None, (best.speed.roofline, best.speed.source)))
    yield from (("not", sentence) for sentence in _refused(offer))


def _refused(offer: Offer) -> Iterator[str]:
    """The images that rank lower, those of one reason in one line, with the numbers of the first."""
    by_reason: dict[Reason, list[tuple[Finding, Candidate]]] = {}
    for finding, images in offer.refused:
        by_reason.setdefault(finding.reason, []).extend((finding, image) for image in images)
    for reason, found in by_reason.items():
        alike = len({finding for finding, _ in found}) == 1
        message = found[0][0].message if alike else f"{found[0][1].runtime.name}: {found[0][0].message}"
        names = [candidate.runtime.name for _, candidate in (found if alike else found[1:])]
        yield f"{counted(len(found), 'image')} ({reason}): {message}{': ' if alike else '; alike '}{listed(names)}"


def print_memory(console: Console, gangs: Sequence[Gang]) -> None:
    """The model's memory on each GPU by component, low, expected and high: three columns for each gang, as many gangs beside one
    another as the terminal has room for.

    A component that is absent at the peak shows its size in another phase in brackets, so that none is missing.
    """
    needs = list(cells.needs(gangs).items())
    beside = max(1, (console.width - ROOM_FOR_COMPONENTS) // ROOM_FOR_SHAPE)
    for first in range(0, len(needs), beside):
        headers, rows, total = cells.memory(dict(needs[first : first + beside]))
        if first:
            console.print()
        print_table(console, headers, [*rows, total], [*[""] * len(rows), "bold"])
    if any(need.most[part] and not need.components[part] for _, need in needs for part in range(len(need.most))):
        print_text(console, Text(cells.IN_BRACKETS))
    print_text(console, Text(cells.RESERVE))
