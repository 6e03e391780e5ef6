"""The attempts of a job as a table: where each ran, for how long, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rich.console import Console

from gpujob.cli.output.drawing import print_table
from gpujob.status.attempts.cost import dollars
from gpujob.status.attempts.waits import read_time
from gpujob.values.quantity import format_dollars

HEADERS: Final = ("ATTEMPT", "POOL", "ON", "FROM", "RAN", "COST", "ENDED", "WHY")

MOST_NODES: Final = 3
"""Nodes of an attempt that the table names."""


def print_attempts(console: Console, attempts: Sequence[Mapping[str, Any]], now: datetime | None) -> None:
    """The table, where an attempt has ended."""
    if any(entry.get("to") for entry in attempts):
        console.print()
        cells = list(_rows(attempts, now))
        print_table(console, HEADERS, cells, [""] * len(cells))
        console.print()


def _rows(attempts: Sequence[Mapping[str, Any]], now: datetime | None) -> Iterator[tuple[str, ...]]:
    """A row for each attempt."""
    for entry in attempts:
        nodes, money = entry.get("nodes"), dollars(entry.get("cost"))
        names = [str(node) for node in nodes] if isinstance(nodes, list) else []
        more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
        yield (
            str(entry["attempt"]),
            str(entry.get("pool") or ""),
            f"{', '.join(names[:MOST_NODES])}{more}",
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
