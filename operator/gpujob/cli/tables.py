"""What people see: the plan and the pools as tables that read as well without colours and without a terminal.

On a terminal long cells wrap; into a pipe or a file every row is one line and nothing is cut.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpujob.cli.explaining import sentences
from gpujob.cli.printing import plain
from gpujob.finding import Dollars, Finding, Size, listed
from gpujob.placement import explain
from gpujob.vocabulary import Outcome, Verdict

if TYPE_CHECKING:
    from gpujob.cli.explaining import Explanation
    from gpujob.cli.planning import Plan
    from gpujob.fleet.pools import Fleet, Pool
    from gpujob.placement.decision import Candidate, Decision
    from gpujob.placement.demand import Gang

UNLIMITED: Final = 100_000
ROOM_FOR_IMAGES: Final = 160
"""Columns of a terminal from which on the table of a plan names images; below, only the chosen one is named."""

UNKNOWN: Final = "-"
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
NUMBERS: Final = frozenset(
    {
        "FREE/TOTAL",
        "NODES",
        "MEMORY",
        "$/H",
        "$/GPU-H",
        "SPEED",
        "$/WORK",
        "GB/S",
        "BF16",
        "FP16",
        "FP8",
        "WATTS",
        "PARAMETERS",
        "LAYERS",
        "HIDDEN",
        "HEADS",
        "KV HEADS",
        "FFN",
        "VOCABULARY",
        "EXPERTS",
        "PER GPU",
    }
)
WRAPPED: Final = {
    "POOL": 20,
    "IMAGE": 30,
    "WHY": 28,
    "DOUBTS": 28,
    "PRICE FROM": 24,
    "SPEED FROM": 28,
    "NOTE": 28,
    "SOURCE": 28,
    "FEATURES": 24,
    "DESCRIPTION": 28,
}
"""Columns that wrap on a terminal, and what they get at least: a terminal narrower than all that wraps the lines."""


def print_plans(plans: Sequence[Plan], *, wide: bool, color: bool) -> None:
    """The plans, one after the other."""
    console = _console(color)
    with console.capture() as shown:
        for number, plan in enumerate(plans):
            if number:
                console.print()
            _print_plan(console, plan, wide=wide)
    print(shown.get(), end="")


def print_explanations(explanations: Sequence[Explanation], *, wide: bool, color: bool) -> None:
    """What each status says, the decision as it would be made now, and why not the other pools."""
    console = _console(color)
    with console.capture() as shown:
        for number, each in enumerate(explanations):
            if number:
                console.print()
            if each.state:
                _print(console, Text.assemble((each.state, "bold"), f"  {plain(each.plan.name)}: {plain(each.said)}"))
                _print(console, Text("Decided again, without its own pods:"))
            _print_plan(console, each.plan, wide=wide)
            if each.others:
                console.print()
            for label, sentence in sentences(each):
                _print(console, Text.assemble((f"{plain(label)} ", "bold"), plain(sentence)))
    print(shown.get(), end="")


def print_pools(fleet: Fleet, *, wide: bool, color: bool) -> None:
    """The pools with their free GPUs, prices, and what is wrong or doubtful."""
    headers = ["POOL", "VENDOR", "ACCELERATOR", "NODES", "FREE/TOTAL", "MEMORY", "DRIVER", "$/GPU-H", "PRICE FROM"]
    rows = [_pool_row(pool, fleet, wide=wide) for pool in fleet.pools]
    if wide:
        headers += ["INSTANCE TYPE", "REGION", "CAPACITY", "CPU"]
    console = _console(color)
    with console.capture() as shown:
        _print_table(console, [*headers, "NOTE"], rows, [""] * len(rows))
    print(shown.get(), end="")


def print_sections(tables: Mapping[str, tuple[list[str], list[list[str]]]], *, color: bool) -> None:
    """Tables one after the other, each under its name where there are several."""
    console = _console(color)
    with console.capture() as shown:
        for number, (name, (headers, rows)) in enumerate(tables.items()):
            if number:
                console.print()
            if len(tables) > 1:
                _print(console, Text(name, style="bold"))
            _print_table(console, headers, rows, [""] * len(rows))
    print(shown.get(), end="")


def _print_plan(console: Console, plan: Plan, *, wide: bool) -> None:
    decision = plan.decision
    sentence = explain.summary(decision)
    if decision.fix:  # It has its own line below.
        sentence = sentence.removesuffix(f"; {decision.fix.message}")
    verdict = (decision.verdict.value, VERDICT_STYLES[decision.verdict])
    _print(console, Text.assemble(verdict, f"  {plain(plan.name)}: {plain(sentence)}"))
    candidates = decision.candidates if wide else explain.best_per_pool(decision)
    images = wide or not console.is_terminal or console.width >= ROOM_FOR_IMAGES
    if candidates:
        console.print()
        _print_candidates(console, decision, candidates, wide=wide, images=images)
    if any(gang.memory for gang in decision.demand.gangs):
        console.print()
        _print_memory(console, decision.demand.gangs)
    endings = list(_endings(decision, image=not images))
    if endings:
        console.print()
    for label, sentence in endings:
        _print(console, Text.assemble((label, "bold"), plain(sentence)))


def _endings(decision: Decision, *, image: bool) -> Iterable[tuple[str, str]]:
    """What follows the table: the nearest fix; the chosen nodes, and what is doubtful about the choice."""
    if decision.fix:
        yield "Nearest fix: ", decision.fix.message
    if decision.choice:
        candidate, nodes = decision.choice.candidate, list(filter(None, decision.choice.nodes))
        if nodes:
            yield "Nodes: ", listed(nodes)
        if image:
            yield "Image: ", candidate.runtime.image
        for doubt in candidate.doubts:
            yield "Doubt: ", f"{doubt.message} ({doubt.reason})"


def _print_candidates(
    console: Console, decision: Decision, candidates: Sequence[Candidate], *, wide: bool, images: bool
) -> None:
    headers = ["POOL", "ACCELERATOR", "GPUS", "FREE/TOTAL", "MEMORY", "$/H", "IMAGE", "OUTCOME", "WHY"]
    if wide:
        headers[6:7] = ["RUNTIME", "IMAGE"]
        headers[headers.index("RUNTIME") : headers.index("RUNTIME")] = ["SPEED", "$/WORK"]
        headers += ["DOUBTS", "PRICE FROM", "SPEED FROM"]
    # What is wrong with the job itself stands above the table, not in each of its rows.
    general = frozenset(decision.problems)
    rows = [_candidate_row(candidate, general, wide=wide) for candidate in candidates]
    if not images:
        dropped = headers.index("IMAGE")
        for row in (headers, *rows):
            del row[dropped]
    _print_table(console, headers, rows, [OUTCOME_STYLES[candidate.outcome] for candidate in candidates])


def _print_memory(console: Console, gangs: Sequence[Gang]) -> None:
    """What the model takes on each GPU, by component; then the low and the high end: a column for each shape."""
    needs = {gang.shape: gang.memory for gang in gangs if gang.memory is not None}
    parts = zip(*(need.components.named() for need in needs.values()), strict=True)
    rows = [[part[0][0], *(_size(amount) for _, amount in part)] for part in parts if any(n for _, n in part)]
    ends = [[end, *(_size(getattr(need, end)) for need in needs.values())] for end in ("low", "expected", "high")]
    styles = [""] * len(rows) + ["bold"] * len(ends)
    _print_table(console, ["MEMORY OF EACH GPU", *needs], [*rows, *ends], styles)


def _candidate_row(candidate: Candidate, general: frozenset[Finding], *, wide: bool) -> list[str]:
    pool = candidate.pool
    reasons = [finding for finding in candidate.reasons if finding not in general]
    row = [
        pool.name,
        pool.device,
        candidate.gang.shape,
        f"{pool.free}/{pool.total}",
        _size(pool.memory),
        _money(candidate.price_per_hour),
    ]
    if not wide:
        return [*row, _short(candidate.runtime.image), _outcome(candidate), _sentences(reasons[:1])]
    price, speed = pool.price.source if pool.price else UNKNOWN, candidate.speed.source if candidate.speed else UNKNOWN
    runtime, image = candidate.runtime.name, candidate.runtime.image or UNKNOWN
    row += [_speed(candidate), _money(candidate.price_of_work)]
    return [*row, runtime, image, _outcome(candidate), _sentences(reasons), _sentences(candidate.doubts), price, speed]


def _pool_row(pool: Pool, fleet: Fleet, *, wide: bool) -> list[str]:
    row = [
        pool.name,
        pool.vendor.value,
        pool.device,
        str(len(pool.nodes)),
        f"{pool.free}/{pool.total}",
        _size(pool.memory),
        pool.driver or UNKNOWN,
        _money(pool.price.per_gpu_hour if pool.price else None),
        pool.price.source if pool.price else UNKNOWN,
    ]
    if wide:
        row += [pool.instance_type or UNKNOWN, pool.region or UNKNOWN, pool.capacity_type.value, pool.cpu_architecture]
    notes = _notes(pool, fleet)
    return [*row, "; ".join(notes if wide else notes[:1])]


def _notes(pool: Pool, fleet: Fleet) -> list[str]:
    """What is wrong with a pool, then what is doubtful, then nodes that take no jobs now."""
    findings = [*filter(None, [pool.problem]), *pool.doubts, *(node.unready for node in pool.nodes if node.unready)]
    notes = [finding.message for finding in findings]
    if pool.name in fleet.overlaps:
        older, node = fleet.overlaps[pool.name]
        notes.insert(0, f"node {node} belongs to the older GPUPool {older}; narrow spec.nodeSelector of one of them")
    return notes


def _outcome(candidate: Candidate) -> str:
    return f"✔ {candidate.outcome}" if candidate.outcome is Outcome.CHOSEN else candidate.outcome.value


def _sentences(findings: Iterable[Finding]) -> str:
    return "; ".join(finding.message for finding in findings)


def _size(amount: int | None) -> str:
    return UNKNOWN if amount is None else str(Size(amount))


def _money(micro: int | None) -> str:
    return UNKNOWN if micro is None else str(Dollars(micro)).removeprefix("$")


def _speed(candidate: Candidate) -> str:
    """How fast the whole job is in B200s; ~ where it is an estimate."""
    if candidate.speed is None:
        return UNKNOWN
    return ("~" if candidate.speed.estimate else "") + explain.speed_text(candidate.speed_of_job or 0)


def _short(image: str) -> str:
    """An image without its registry and digest: `rocm/pytorch:…`; the whole of it is in `-o wide`."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        image = rest
    return image.partition("@")[0] or UNKNOWN


def _console(color: bool) -> Console:
    """Standard output: colours only on a terminal whose user wants them, no limit of width elsewhere."""
    if not sys.stdout.isatty():
        return Console(color_system=None, force_terminal=False, width=UNLIMITED)
    colors = color and os.environ.get("TERM") != "dumb"
    return Console(color_system="auto" if colors else None, force_terminal=True)


def _print(console: Console, text: Text) -> None:
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def _print_table(
    console: Console, headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]
) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(
            header,
            justify="right" if header in NUMBERS else "left",
            no_wrap=header not in WRAPPED,
            overflow="fold",
            min_width=min(WRAPPED.get(header, 0), max(len(row[number]) for row in rows)) if rows else None,
        )
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*(Text(plain(cell)) for cell in row), style=style)
    _print_lines(console, table)


def _print_lines(console: Console, table: Table) -> None:
    """Prints a table at the width that it needs, without the blanks that fill its last column."""
    needed = console.measure(table, options=console.options.update(width=UNLIMITED)).minimum
    options = console.options.update(width=max(console.width, needed))
    for line in console.render_lines(table, options, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
