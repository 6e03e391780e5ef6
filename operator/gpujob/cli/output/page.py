"""Plans as one HTML page: the sentence, the candidates, and a picture of their cost and speed.

The page is self-contained: no script, no external resource, and every text of a manifest or a cluster escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpujob.cli.output import cells
from gpujob.cli.planning.planner import sentence_of, ways_out, why_not_sentences
from gpujob.cli.printing import plain
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.notes import notes
from gpujob.placement.scoring.candidate import Candidate, Decision, best_per_pool, speed_text
from gpujob.values.errors import BadInput
from gpujob.values.finding import listed
from gpujob.values.vocabulary import Outcome

if TYPE_CHECKING:
    from gpujob.cli.planning.planner import Plan
    from gpujob.values.finding import Finding

HEADERS: Final = (
    "Pool", "GPUs (nodes x each)", "$/h", "Outcome", "Why", "Accelerator", "Free/total", "Memory", "Speed", "$/work", "Image"
)  # fmt: skip

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1c2430; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #ccd3dd; } tr:nth-child(even) td { background: #f5f7fa; }
.Chosen { color: #0a7a3d; font-weight: 600; } .Busy { color: #9a6700; } .Misconfigured { color: #b42318; }
.Rejected { color: #667085; } svg { max-width: 100%; height: auto; } .note { color: #475467; }
"""

COLOURS: Final = {
    Outcome.CHOSEN: "#0a7a3d",
    Outcome.FITS: "#2f6fde",
    Outcome.BUSY: "#d99a00",
    Outcome.MISCONFIGURED: "#b42318",
    Outcome.REJECTED: "#98a2b3",
}

WIDTH, HEIGHT, LEFT, BELOW = 760, 340, 70, 50
"""Pixels of the picture, and of the margins that hold the axes."""

MARGIN: Final = 1.15
"""The extra width of a picture for the label of its last point."""


def write(plans: Sequence[Plan], file: str) -> None:
    """Writes the page of some plans; BadInput when the file cannot be written."""
    try:
        Path(file).write_text(page(plans), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--html {file}: it cannot be written ({error.strerror}); name another file") from error


def page(plans: Sequence[Plan]) -> str:
    """The page."""
    title = plain(", ".join(plan.name for plan in plans))
    body = "".join(part for plan in plans for part in _plan(plan))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _plan(plan: Plan) -> Iterator[str]:
    decision = plan.decision
    yield f"<h1>{_text(plan.name)}: {decision.verdict.value}</h1><p>{_text(sentence_of(decision))}</p>"
    if everywhere := summary.on_every_pool(decision):
        yield f"<p><b>{cells.EVERYWHERE}</b> {_text(everywhere)}</p>"
    for label, sentence in ways_out(plan, {}):
        yield f"<p><b>{label}</b> {_text(sentence)}</p>"
    if decision.fix:
        yield f"<p><b>Nearest fix:</b> {_text(decision.fix.message)}</p>"
    candidates = best_per_pool(decision)
    if not candidates:
        return
    yield picture(candidates)
    general, every = summary.of_the_job(decision), bool(decision.hopeless)
    of_pools = [(candidate.outcome.value, _row(candidate, general, every=every)) for candidate in candidates]
    yield from _table(HEADERS, of_pools)
    yield from _choice(decision)
    for note in notes(decision):
        yield f'<p class="note"><b>Note:</b> {_text(note)}</p>'
    for pool, why_not in why_not_sentences(plan):
        yield f'<p class="note"><b>Why not {_text(pool)}:</b> {_text(why_not)}</p>'
    if any(gang.memory for gang in decision.demand.gangs):
        yield f'<p class="note"><b>Recipe:</b> {_text(decision_json.recipe(decision))}</p>'
        headers, rows, total = cells.memory(cells.needs(decision.demand.gangs))
        yield from _table(headers, [("", row) for row in (*rows, total)])
        if any("(" in cell for row in rows for cell in row):
            yield f'<p class="note">{cells.IN_BRACKETS}</p>'
        yield f'<p class="note">{cells.RESERVE}</p>'


def _table(headers: Iterable[str], rows: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """A table; each row has a class and its cells."""
    yield "<table><thead><tr>" + "".join(f"<th>{_text(header)}</th>" for header in headers) + "</tr></thead><tbody>"
    for kind, row in rows:
        yield f'<tr class="{kind}">' + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"


def _row(candidate: Candidate, general: frozenset[Finding], *, every: bool) -> tuple[str, ...]:
    return (
        candidate.pool.name,
        *cells.main(candidate),
        cells.why(candidate, general, every=every),
        *cells.devices(candidate.pool),
        cells.speed(candidate),
        cells.money(candidate.price_of_work),
        cells.short(candidate.runtime.image),
    )


def _choice(decision: Decision) -> Iterator[str]:
    """The warnings about the choice, and the sources of its price and speed."""
    if decision.choice is None:
        return
    chosen = decision.choice.candidate
    yield f'<p class="note">Image {_text(chosen.runtime.image)}'
    if chosen.pool.price:
        yield f"; price: {_text(chosen.pool.price.source)}"
    if chosen.speed:
        yield f"; speed, in H100s: {_text(chosen.speed.source)}"
    yield "</p>"
    if chosen.warnings:
        yield (
            "<ul>"
            + "".join(f"<li>{_text(warning.message)} ({warning.reason})</li>" for warning in chosen.warnings)
            + "</ul>"
        )


def picture(candidates: Iterable[Candidate]) -> str:
    """A point for each pool with known price and speed: dollars an hour to the right, speed upwards, as SVG.

    A line from the corner joins equal prices of work with the best one; below it is worse value. Pools without a point are named.
    """
    candidates = list(candidates)
    points = [
        (c.price_per_hour / 1e6, c.speed_of_job / 1e6, c) for c in candidates if c.price_per_hour and c.speed_of_job
    ]
    if not points:
        return '<p class="note">No picture: no pool has both a known price and a known speed for this work.</p>'
    missing = [c.pool.name for c in candidates if not (c.price_per_hour and c.speed_of_job)]
    note = "The dashed line is the best value: what costs as little for the same work."
    if missing:
        note += f" Not shown, since price or speed is not known: {listed(missing)}."
    right = max(price for price, _, _ in points) * MARGIN
    top = max(speed for _, speed, _ in points) * MARGIN
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Price against speed of each pool">',
        f'<path d="M{LEFT} 10V{HEIGHT - BELOW}H{WIDTH - 10}" fill="none" stroke="#98a2b3"/>',
        *_axis(right, top),
        _best_value(points, right, top),
        *(_point(price, speed, candidate, right, top) for price, speed, candidate in points),
        "</svg>",
        f'<p class="note">{_text(note)}</p>',
    ]
    return "".join(parts)


def _axis(right: float, top: float) -> Iterator[str]:
    for price in round_steps(right):
        yield _words(_x(price, right), HEIGHT - BELOW + 18, f"{price:g}", "middle")
    for speed in round_steps(top):
        yield _words(LEFT - 8, _y(speed, top) + 4, f"{speed:g}", "end")
    yield _words((LEFT + WIDTH) / 2, HEIGHT - 10, "US dollars an hour for the whole job", "middle")
    yield _words(
        LEFT, HEIGHT / 2, "speed, in H100s", "middle", f' transform="rotate(-90 14 {HEIGHT / 2}) translate(-56 0)"'
    )


def round_steps(end: float) -> list[float]:
    """From 3 to 7 numbers above 0 and up to `end` in steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(end))
    step = next(power * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if end / (power * part) < 8)
    return [float(f"{step * number:.6g}") for number in range(1, int(end / step + 1e-9) + 1)]


def _words(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}"{more}>{_text(text)}</text>'


def _best_value(points: Sequence[tuple[float, float, Candidate]], right: float, top: float) -> str:
    """The line of the lowest price of work."""
    steepest = max(speed / price for price, speed, _ in points)
    x = min(right, top / steepest)
    return (
        f'<path d="M{_x(0, right):.1f} {_y(0, top):.1f}L{_x(x, right):.1f} {_y(x * steepest, top):.1f}" '
        'stroke="#0a7a3d" stroke-dasharray="4 4" fill="none"/>'
    )


def _point(price: float, speed: float, candidate: Candidate, right: float, top: float) -> str:
    x, y, colour = _x(price, right), _y(speed, top), COLOURS[candidate.outcome]
    before, anchor = (x - 9, "end") if x > WIDTH * 0.7 else (x + 9, "start")
    label = _text(f"{candidate.pool.name} {candidate.gang.shape}")
    of_reference = f"{speed_text(round(speed * 1e6))} H100s"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"><title>{label}: ${price:.2f} an hour, {of_reference}, '
        f"{candidate.outcome.value}</title></circle>"
        + _words(before, y + 4, f"{candidate.pool.name} {candidate.gang.shape}", anchor, f' fill="{colour}"')
    )


def _x(price: float, right: float) -> float:
    return LEFT + (WIDTH - LEFT - 10) * price / right


def _y(speed: float, top: float) -> float:
    return HEIGHT - BELOW - (HEIGHT - BELOW - 10) * speed / top


def _text(text: str) -> str:
    return escape(plain(text))
