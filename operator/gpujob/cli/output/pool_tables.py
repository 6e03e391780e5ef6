"""The pools, and sections of the catalog, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from gpujob.cli.output import cells
from gpujob.cli.output.drawing import PLAN_WIDTH, UNLIMITED, print_table, print_text, printed
from gpujob.cli.output.reasons import print_read_more
from gpujob.cli.printing import plain
from gpujob.fleet.pools.naming import plain_names_in, short_names
from gpujob.placement.capacity.shortage import barred
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Reason

if TYPE_CHECKING:
    from gpujob.fleet.pools.fleet import Fleet
    from gpujob.fleet.pools.pool import Pool


def print_pools(fleet: Fleet, *, wide: bool, color: bool, docs_url: str = "") -> None:
    """The pools with their free GPUs, prices, problems and warnings; wide ones with where to read of the reasons."""
    headers = ["POOL", "VENDOR", "ACCELERATOR", "NODES", "FREE/TOTAL", "MEMORY", "DRIVER", "$/GPU-H"]
    names = short_names(fleet.whole_pools)
    rows = [_pool_row(pool, pool.name if wide else names[pool.name]) for pool in fleet.whole_pools]
    notes = [_notes(pool, fleet) for pool in fleet.whole_pools]
    if wide:
        headers += ["PRICE FROM", "INSTANCE TYPE", "REGION", "CAPACITY", "CPU", "NOTE"]
        further = [[*_origin(pool), "; ".join(said)] for pool, said in zip(fleet.whole_pools, notes, strict=True)]
        rows = [[*row, *more] for row, more in zip(rows, further, strict=True)]
    with printed(color) as console:
        print_table(console, headers, rows, width=UNLIMITED if wide else PLAN_WIDTH)
        if wide:
            print_read_more(
                console,
                (each.reason for pool in fleet.whole_pools for each in (*_faults(pool), *_warnings(pool))),
                docs_url,
            )
            return
        noted = [(names[pool.name], said) for pool, said in zip(fleet.whole_pools, notes, strict=True) if said]
        if noted:
            console.print()
        for name, said in noted:
            more = f" (and {counted(len(said) - 1, 'more note')}: -o wide)" if len(said) > 1 else ""
            print_text(console, Text.assemble((f"Note on {plain(name)}: ", "bold"), plain(said[0]) + more))


def print_sections(tables: Mapping[str, tuple[list[str], list[list[str]]]], *, color: bool) -> None:
    """Tables one after the other, each under its name where there are several."""
    with printed(color) as console:
        for number, (name, (headers, rows)) in enumerate(tables.items()):
            if number:
                console.print()
            if len(tables) > 1:
                print_text(console, Text(name, style="bold"))
            print_table(console, headers, rows)


def _pool_row(pool: Pool, name: str) -> list[str]:
    return [
        name,
        pool.vendor_text,
        pool.device,
        str(len(pool.nodes)),
        f"{pool.free}/{pool.total}",
        cells.size(pool.memory),
        pool.driver or cells.UNKNOWN,
        cells.money(pool.price.per_gpu_hour if pool.price else None),
    ]


def _origin(pool: Pool) -> list[str]:
    """The source of a pool's price, and its machines."""
    return [
        pool.price.source if pool.price else cells.UNKNOWN,
        pool.instance_type or cells.UNKNOWN,
        pool.region or cells.UNKNOWN,
        pool.capacity_type.value,
        pool.cpu_architecture,
    ]


def _notes(pool: Pool, fleet: Fleet) -> list[str]:
    """What keeps jobs off a pool, then what distinguishes it from pools of like names, its warnings, and its number of cards."""
    faults = [finding.message for finding in _faults(pool)]
    if pool.name in fleet.overlaps:
        older, node = fleet.overlaps[pool.name]
        faults.insert(0, f"node {node} belongs to the older GPUPool {older}; narrow spec.nodeSelector of one of them")
    notes = [finding.message for finding in _warnings(pool)]
    return [*faults, *_apart(pool, fleet), *notes, *filter(None, [cells.cards(pool)])]


def _faults(pool: Pool) -> list[Finding]:
    """The problem of a pool, a taint that keeps every job off it, and nodes that accept no jobs now for another reason."""
    problem = pool.problem.message if pool.problem else None
    return [
        *filter(None, [pool.problem, barred(pool)]),
        *(node.unready for node in pool.nodes if node.unready and node.unready.message != problem),
        *(node.suspected for node in pool.nodes if node.suspected and not node.unready),
    ]


def _warnings(pool: Pool) -> list[Finding]:
    """The warnings of a pool, then the maintenance that is announced for its nodes."""
    return [*pool.warnings, *(node.planned for node in pool.nodes if node.planned and not node.unready)]


def _apart(pool: Pool, fleet: Fleet) -> Iterator[str]:
    """In what a pool differs from those whose names differ from its own in the hash alone."""
    plain_names = plain_names_in(pool.name)
    alike = [each for each in fleet.whole_pools if plain_names and plain_names_in(each.name) == plain_names]
    if others := [each.name for each in alike if each.resource != pool.resource]:
        yield f"like {listed(others)}, but for the resource: {pool.resource}"
    for joined in (each for each in fleet.pools if each.joins and each.name in plain_names):
        others = [first for first, *_ in joined.joins if first != pool.name]
        differing = (warning.numbers[-1] for warning in joined.warnings if warning.reason is Reason.NODES_DIFFER)
        facts = next(differing, "what their nodes offer now")
        yield f"like {listed(others)}, but for {facts}"
