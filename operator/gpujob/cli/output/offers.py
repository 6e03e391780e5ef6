"""The -o wide part of a plan: every offer of a pool in a gang, and the memory of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from gpujob.cli.output import cells
from gpujob.cli.output.drawing import print_table, print_text
from gpujob.cli.printing import plain
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Outcome, Reason

if TYPE_CHECKING:
    from gpujob.placement.request.gang import Gang


@dataclass(frozen=True, slots=True)
class Offer:
    """One pool with one gang: its best candidate, and the outcome of its other images."""

    best: Candidate
    alike: tuple[Candidate, ...]
    """Images equal to the best one."""
    refused: tuple[tuple[Finding, tuple[Candidate, ...]], ...]
    """Images that rank lower, by the first reason that the best one does not have, and its numbers."""

    @property
    def images(self) -> int:
        """All images that were tried."""
        return 1 + len(self.alike) + sum(len(images) for _, images in self.refused)


def offers(decision: Decision) -> tuple[Offer, ...]:
    """The candidates by pool and gang, in ranked order: a summary of hundreds."""
    found: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in decision.candidates:
        found.setdefault((candidate.pool.name, candidate.gang.shape), []).append(candidate)
    return tuple(_offer(best, others) for best, *others in found.values())


def _offer(best: Candidate, others: Sequence[Candidate]) -> Offer:
    """The offer of a pool; an image is equal if it has no reason that the best one lacks."""
    shared = {finding.reason for finding in best.reasons}
    alike, refused = [], dict[Finding, list[Candidate]]()
    for each in others:
        own = next((finding for finding in each.reasons if finding.reason not in shared), None)
        if own is None:
            alike.append(each)
        else:
            refused.setdefault(own, []).append(each)
    return Offer(best, tuple(alike), tuple((own, tuple(images)) for own, images in refused.items()))


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
    found = offers(decision)
    if found:
        headers = [
            "POOL", cells.GANG, "$/H", "OUTCOME", "ACCELERATOR", "FREE/TOTAL", "MEMORY", "SPEED", "$/WORK",
            "IMAGES",
        ]  # fmt: skip
        console.print()
        print_table(console, headers, list(map(_offer_row, found)), [OUTCOME_STYLES[o.best.outcome] for o in found])
    for offer in found:
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
    for finding in best.warnings:
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
