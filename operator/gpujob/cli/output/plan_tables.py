"""The plan of a job as tables that are readable without colours and without a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from gpujob.cli.output import cells
from gpujob.cli.output.drawing import PLAN_WIDTH, print_table, print_text, printed
from gpujob.cli.output.offers import OUTCOME_STYLES, print_memory, print_offers
from gpujob.cli.output.reasons import of_decision, print_read_more
from gpujob.cli.planning.planner import sentence_of, ways_out, why_not_sentences
from gpujob.cli.printing import plain
from gpujob.fleet.pools.naming import in_short, short_names
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.behind import behind
from gpujob.placement.report.notes import notes
from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.placement.scoring.equal_pools import without_repeated
from gpujob.status.attempts.cost import dollars
from gpujob.status.attempts.waits import read_time
from gpujob.values.finding import Finding, listed, several
from gpujob.values.quantity import format_dollars
from gpujob.values.vocabulary import Outcome, Verdict

if TYPE_CHECKING:
    from gpujob.cli.planning.explainer import Explanation
    from gpujob.cli.planning.planner import Plan
    from gpujob.placement.scoring.candidate import Candidate, Decision


UNSEEN: Final = "the operator has not reconciled it; is it running? `kubectl get deployments -A | grep gpujob-operator`"

WITH_ROOM: Final = (Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY)
"""Outcomes of candidates with a usable image."""

VERDICT_STYLES: Final = {
    Verdict.PLACED: "bold green",
    Verdict.WAITING: "bold yellow",
    Verdict.MISCONFIGURED: "bold red",
    Verdict.IMPOSSIBLE: "bold red",
}


def print_plans(plans: Sequence[Plan], *, wide: bool, color: bool, docs_url: str = "") -> None:
    """The plans, one after the other; wide ones with where to read of their reasons."""
    with printed(color) as console:
        for number, plan in enumerate(plans):
            if number:
                console.print()
            _print_plan(console, plan, wide=wide)
            if wide:
                print_read_more(console, of_decision(plan.decision), docs_url)


def print_explanations(explanations: Sequence[Explanation], *, wide: bool, color: bool, docs_url: str = "") -> None:
    """The status of each job, its plan now, and where to read of the reasons of both."""
    with printed(color) as console:
        for number, each in enumerate(explanations):
            if number:
                console.print()
            same = _print_status(console, each)
            _print_plan(console, each.plan, wide=wide, again=same, asked=each.asked)
            print_read_more(console, [*each.reasons, *of_decision(each.plan.decision)], docs_url)


def _print_status(console: Console, each: Explanation) -> bool:
    """The message of the status, for a job of a cluster; whether the decision now is the same."""
    if each.leaving:
        print_text(
            console, Text.assemble(("Being deleted", "bold"), f"  {plain(each.plan.name)}: {plain(each.leaving)}")
        )
    if each.unseen:
        print_text(console, Text.assemble(("No status", "bold"), f"  {plain(each.plan.name)}: {UNSEEN}"))
    elif each.state:
        said = ": ".join(map(plain, filter(None, (each.plan.name, each.since or each.said))))
        print_text(console, Text.assemble((each.state, "bold"), f"  {said}"))
        if each.since:
            print_text(console, Text.assemble(("Placed before", "bold"), f"  {plain(each.said)}"))
    elif not each.leaving:
        return False
    print_attempts(console, each.attempts, each.at)
    decision = each.plan.decision
    same = each.said == summary.summary(decision)
    print_text(
        console, Text(f"Decided again, without its own pods{_despite(each)}{', with the same answer' if same else ':'}")
    )
    return same


def _despite(each: Explanation) -> str:
    """What the decision leaves out although it keeps the job from starting."""
    if each.leaving:
        return ", as if it were not being deleted"
    return f" and without {each.budget}, which still keeps it from starting" if each.budget else ""


def _print_plan(console: Console, plan: Plan, *, wide: bool, again: bool = False, asked: bool = False) -> None:
    """A plan; `again`: its sentence is above already. Pools that are `asked` about get all their reasons."""
    decision = plan.decision
    verdict = (decision.verdict.value, VERDICT_STYLES[decision.verdict])
    if not again:
        print_text(console, Text.assemble(verdict, f"  {plain(plan.name)}: {plain(sentence_of(decision))}"))
    general, names = summary.of_the_job(decision), short_names(plan.pools)
    if everywhere := summary.on_every_pool(decision):
        print_text(console, Text.assemble((f"{cells.EVERYWHERE} ", "bold"), plain(everywhere)))
    if wide:
        print_offers(console, decision, general)
    elif decision.candidates:
        console.print()
        _print_candidates(console, decision, general, names)
    if wide and any(gang.memory for gang in decision.demand.gangs):
        console.print()
        print_text(console, Text.assemble(("Recipe: ", "bold"), decision_json.recipe(decision)))
        print_memory(console, decision.demand.gangs)
    said = {} if wide else names
    endings = [*ways_out(plan, said), *_endings(decision, general, names, wide=wide)]
    if endings:
        console.print()
    for label, sentence in endings:
        print_text(console, Text.assemble((f"{label} ", "bold"), plain(in_short(sentence, said))))
    if plan.others:
        console.print()
    for name, sentence in why_not_sentences(plan, whole=asked):
        label = f"Why not {plain(said.get(name, name))}: "
        print_text(console, Text.assemble((label, "bold"), plain(in_short(sentence, said))))


def _endings(
    decision: Decision, general: frozenset[Finding], names: Mapping[str, str], *, wide: bool
) -> Iterator[tuple[str, str]]:
    """The lines below the table: the nearest fix; the chosen nodes, the images, and the warnings about the choice."""
    if decision.fix:
        yield "Nearest fix:", decision.fix.message
    if decision.choice:
        candidate, nodes = decision.choice.candidate, list(filter(None, decision.choice.nodes))
        if nodes:
            yield "Nodes:", listed(nodes)
        if cards := cells.cards(candidate.pool):
            yield "Cards:", f"pool {candidate.pool.name} has {cards}"
        if started := cells.started(candidate):
            yield "Price:", started
    if not wide:
        best = without_repeated(best_per_pool(decision))
        yield from _images(best, names)
        if memory := cells.memory_line(best):
            yield "Recipe:", decision_json.recipe(decision)
            yield "Memory:", memory
    warnings = decision.choice.candidate.warnings if decision.choice else ()
    first = () if decision.choice else decision.candidates[:1]
    everywhere = (warning for candidate in first for warning in candidate.warnings if warning in general)
    for warning in (*warnings, *everywhere):
        yield "Warning:", f"{warning.message} ({warning.reason})"
    for note in notes(decision):
        yield "Note:", note


def _images(candidates: Iterable[Candidate], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The images that pools with room or work for the job would run, one line each."""
    pools: dict[str, list[str]] = {}
    for candidate in candidates:
        if candidate.outcome in WITH_ROOM:
            pools.setdefault(cells.short(candidate.runtime.image), []).append(names[candidate.pool.name])
    for image, where in pools.items():
        yield "Image:", image if len(pools) == 1 else f"{image} on {listed(where)}"


def _print_candidates(
    console: Console, decision: Decision, general: frozenset[Finding], names: Mapping[str, str]
) -> None:
    """The best candidate of each pool in 120 columns, of parts of one GPUPool those that differ in their reasons."""
    best = without_repeated(best_per_pool(decision))
    general |= summary.unread_above(decision)
    rows = [
        [
            names[candidate.pool.name],
            *cells.main(candidate),
            cells.why(candidate, general, every=bool(decision.hopeless)) or behind(candidate, decision),
        ]
        for candidate in best
    ]
    headers = ["POOL", cells.GANG, "$/H", "OUTCOME", "WHY"]
    print_table(console, headers, rows, [OUTCOME_STYLES[candidate.outcome] for candidate in best], PLAN_WIDTH)


HEADERS: Final = ("ATTEMPT", "POOL", "ON", "FROM", "RAN", "COST", "ENDED", "WHY")

MOST_NODES: Final = 3
"""Nodes of an attempt that the table names."""


def print_attempts(console: Console, attempts: Sequence[Mapping[str, Any]], now: datetime | None) -> None:
    """The table, where an attempt has ended."""
    if any(entry.get("to") for entry in attempts):
        console.print()
        cells = list(_rows(attempts, now))
        print_table(console, HEADERS, cells)
        console.print()


def _rows(attempts: Sequence[Mapping[str, Any]], now: datetime | None) -> Iterator[tuple[str, ...]]:
    """A row for each attempt."""
    for entry in attempts:
        nodes, money = entry.get("nodes"), dollars(entry.get("cost"))
        names = [str(node) for node in nodes] if isinstance(nodes, list) else []
        yield (
            str(entry["attempt"]),
            str(entry.get("pool") or ""),
            several(names, MOST_NODES),
            str(entry.get("from") or ""),
            _ran(entry, now),
            f"${format_dollars(money)}" if money is not None else "",
            str(entry.get("reason") or ""),
            str(entry.get("message") or ""),
        )


def _ran(entry: Mapping[str, Any], now: datetime | None) -> str:
    """How long the attempt ran, to the second below an hour; empty where it never did."""
    begun = read_time(entry.get("from"))
    ended = read_time(entry.get("to")) or now
    if begun is None or ended is None:
        return ""
    lasted = max(timedelta(0), ended - begun)
    minutes, seconds = divmod(int(lasted.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
