"""The plan and the pools as tables that are readable without colours and without a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from gpujob.cli.output import cells
from gpujob.cli.output.attempts import print_attempts
from gpujob.cli.output.drawing import PLAN_WIDTH, console_of, print_table, print_text
from gpujob.cli.planning import holders
from gpujob.cli.planning.planner import why_not_sentences
from gpujob.cli.printing import plain
from gpujob.fleet.pools.naming import short_names
from gpujob.placement.capacity.shortage import barred
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.notes import notes
from gpujob.values.finding import Dollars, Finding, counted, listed
from gpujob.values.vocabulary import Outcome, Reason, Verdict

if TYPE_CHECKING:
    from gpujob.cli.planning.explainer import Explanation
    from gpujob.cli.planning.planner import Plan
    from gpujob.fleet.pools.fleet import Fleet
    from gpujob.fleet.pools.pool import Pool
    from gpujob.placement.report.summary import Offer
    from gpujob.placement.request.gang import Gang
    from gpujob.placement.scoring.candidate import Candidate, Decision

UNSEEN: Final = "the operator has not reconciled it; is it running? `kubectl get deployments -A | grep gpujob-operator`"

ROOM_FOR_COMPONENTS: Final = 20
"""The width of the names of components."""
ROOM_FOR_SHAPE: Final = 36
"""The width of the memory of one gang beside them."""
WITH_ROOM: Final = (Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY)
"""Outcomes of candidates with a usable image."""

VERDICT_STYLES: Final = {
    Verdict.PLACED: "bold green",
    Verdict.WAITING: "bold yellow",
    Verdict.MISCONFIGURED: "bold red",
    Verdict.IMPOSSIBLE: "bold red",
}
OUTCOME_STYLES: Final = {
    Outcome.CHOSEN: "green",
    Outcome.FITS: "",
    Outcome.BUSY: "yellow",
    Outcome.MISCONFIGURED: "red",
    Outcome.REJECTED: "dim",
}


def print_plans(plans: Sequence[Plan], *, wide: bool, color: bool) -> None:
    """The plans, one after the other."""
    console = console_of(color)
    with console.capture() as shown:
        for number, plan in enumerate(plans):
            if number:
                console.print()
            _print_plan(console, plan, wide=wide)
    print(shown.get(), end="")


def print_explanations(explanations: Sequence[Explanation], *, wide: bool, color: bool) -> None:
    """The status of each job, and its plan now."""
    console = console_of(color)
    with console.capture() as shown:
        for number, each in enumerate(explanations):
            if number:
                console.print()
            same = _print_status(console, each)
            _print_plan(console, each.plan, wide=wide, again=same, asked=each.asked)
    print(shown.get(), end="")


def _print_status(console: Console, each: Explanation) -> bool:
    """The message of the status, for a job of a cluster; whether the decision now is the same."""
    if each.unseen:
        print_text(console, Text.assemble(("No status", "bold"), f"  {plain(each.plan.name)}: {UNSEEN}"))
    elif each.state:
        said = ": ".join(map(plain, filter(None, (each.plan.name, each.since or each.said))))
        print_text(console, Text.assemble((each.state, "bold"), f"  {said}"))
        if each.since:
            print_text(console, Text.assemble(("Placed before", "bold"), f"  {plain(each.said)}"))
    else:
        return False
    print_attempts(console, each.attempts, each.at)
    decision = each.plan.decision
    same = each.said == summary.summary(decision)
    print_text(console, Text(f"Decided again, without its own pods{', with the same answer' if same else ':'}"))
    return same


def print_pools(fleet: Fleet, *, wide: bool, color: bool) -> None:
    """The pools with their free GPUs, prices, problems and warnings."""
    headers = ["POOL", "VENDOR", "ACCELERATOR", "NODES", "FREE/TOTAL", "MEMORY", "DRIVER", "$/GPU-H", "PRICE FROM"]
    rows = [_pool_row(pool, fleet, wide=wide) for pool in fleet.pools]
    if wide:
        headers += ["INSTANCE TYPE", "REGION", "CAPACITY", "CPU"]
    console = console_of(color)
    with console.capture() as shown:
        print_table(console, [*headers, "NOTE"], rows, [""] * len(rows))
    print(shown.get(), end="")


def print_sections(tables: Mapping[str, tuple[list[str], list[list[str]]]], *, color: bool) -> None:
    """Tables one after the other, each under its name where there are several."""
    console = console_of(color)
    with console.capture() as shown:
        for number, (name, (headers, rows)) in enumerate(tables.items()):
            if number:
                console.print()
            if len(tables) > 1:
                print_text(console, Text(name, style="bold"))
            print_table(console, headers, rows, [""] * len(rows))
    print(shown.get(), end="")


def _print_plan(console: Console, plan: Plan, *, wide: bool, again: bool = False, asked: bool = False) -> None:
    """A plan; `again`: its sentence is above already. Pools that are `asked` about get all their reasons."""
    decision = plan.decision
    sentence = summary.summary(decision)
    if decision.fix:  # It has its own line below.
        sentence = sentence.removesuffix(f"; {decision.fix.message}")
    verdict = (decision.verdict.value, VERDICT_STYLES[decision.verdict])
    if not again:
        print_text(console, Text.assemble(verdict, f"  {plain(plan.name)}: {plain(sentence)}"))
    general, names = summary.of_the_job(decision), short_names(plan.pools)
    if wide:
        _print_offers(console, decision, general)
    elif decision.candidates:
        console.print()
        _print_candidates(console, decision, general, names)
    if wide and any(gang.memory for gang in decision.demand.gangs):
        console.print()
        print_text(console, Text.assemble(("Recipe: ", "bold"), decision_json.recipe(decision)))
        _print_memory(console, decision.demand.gangs)
    endings = [*_ways_out(plan, names, wide=wide), *_endings(decision, general, names, wide=wide)]
    if endings:
        console.print()
    for label, sentence in endings:
        print_text(console, Text.assemble((f"{label} ", "bold"), plain(sentence)))
    if plan.others:
        console.print()
    for name, sentence in why_not_sentences(plan, whole=asked):
        label = f"Why not {plain(name if wide else names[name])}: "
        print_text(console, Text.assemble((label, "bold"), plain(sentence)))


def _ways_out(plan: Plan, names: Mapping[str, str], *, wide: bool) -> Iterator[tuple[str, str]]:
    """Who holds what a Waiting job waits for, and the gangs with which it would start now."""
    if plan.now is not None:
        for sentence in holders.told(plan.holders, plan.now):
            yield "Held by:", sentence
    for start in plan.starts_now:
        price = f" at {Dollars(start.price_per_hour)} an hour" if start.price_per_hour is not None else ""
        yield "now:", start.told(start.pool if wide else names[start.pool]) + price


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
        best = summary.best_per_pool(decision)
        yield from _images(best, names)
        if memory := cells.memory_line([candidate.gang for candidate in best]):
            yield "Recipe:", decision_json.recipe(decision)
            yield "Memory:", memory
    doubts = decision.choice.candidate.doubts if decision.choice else ()
    everywhere = () if decision.choice else (doubt for doubt in _first_doubts(decision) if doubt in general)
    for doubt in (*doubts, *everywhere):
        yield "Warning:", f"{doubt.message} ({doubt.reason})"
    for note in notes(decision):
        yield "Note:", note


def _first_doubts(decision: Decision) -> tuple[Finding, ...]:
    return decision.candidates[0].doubts if decision.candidates else ()


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
    """The best candidate of each pool in 120 columns."""
    best = summary.best_per_pool(decision)
    rows = [
        [
            names[candidate.pool.name],
            *cells.main(candidate),
            cells.why(candidate, general) or summary.behind(candidate, decision),
        ]
        for candidate in best
    ]
    headers = ["POOL", cells.GANG, "$/H", "OUTCOME", "WHY"]
    print_table(console, headers, rows, [OUTCOME_STYLES[candidate.outcome] for candidate in best], PLAN_WIDTH)


def _print_offers(console: Console, decision: Decision, general: frozenset[Finding]) -> None:
    """All facts of each pool in each gang, and of the model's memory."""
    offers = summary.offers(decision)
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
    for finding in best.reasons:
        if finding not in general:
            yield "why", f"{finding.message} ({finding.reason})"
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


def _print_memory(console: Console, gangs: Sequence[Gang]) -> None:
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


def _pool_row(pool: Pool, fleet: Fleet, *, wide: bool) -> list[str]:
    row = [
        pool.name,
        pool.vendor.value,
        pool.device,
        str(len(pool.nodes)),
        f"{pool.free}/{pool.total}",
        cells.size(pool.memory),
        pool.driver or cells.UNKNOWN,
        cells.money(pool.price.per_gpu_hour if pool.price else None),
        pool.price.source if pool.price else cells.UNKNOWN,
    ]
    if wide:
        row += [
            pool.instance_type or cells.UNKNOWN,
            pool.region or cells.UNKNOWN,
            pool.capacity_type.value,
            pool.cpu_architecture,
        ]
    notes = _notes(pool, fleet)
    return [*row, "; ".join(notes if wide else notes[:1])]


def _notes(pool: Pool, fleet: Fleet) -> list[str]:
    """The problem of a pool, then its warnings, then nodes that accept no jobs now, then its number of cards."""
    findings = [
        *filter(None, [pool.problem, barred(pool)]),
        *pool.doubts,
        *(node.unready for node in pool.nodes if node.unready),
        *(node.suspected for node in pool.nodes if node.suspected and not node.unready),
    ]
    notes = [finding.message for finding in findings]
    if pool.name in fleet.overlaps:
        older, node = fleet.overlaps[pool.name]
        notes.insert(0, f"node {node} belongs to the older GPUPool {older}; narrow spec.nodeSelector of one of them")
    return notes + list(filter(None, [cells.cards(pool)]))
