"""How tables are drawn: nothing is cut. Long cells wrap on a terminal, and in the tables of plan, pools, top and doctor; any other
table into a pipe or a file, and those of `-o wide`, have one line for each row.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpujob.cli.printing import plain

UNLIMITED: Final = 100_000
GAP: Final = 2
"""Blanks between columns."""
PLAN_WIDTH: Final = 120
"""Width of the tables of plan, pools, top and doctor into a pipe or a file; on a terminal its own width counts."""
NUMBERS: Final = frozenset({
    "FREE/TOTAL", "JOBS", "GPU-HOURS", "COST", "NODES", "MEMORY", "$/H", "$/GPU-H", "SPEED", "$/WORK",
    "GB/S", "BF16", "FP16", "FP8", "WATTS", "PARAMETERS", "LAYERS", "HIDDEN", "HEADS", "KV HEADS", "FFN",
    "VOCABULARY", "EXPERTS", "PER GPU", "PROGRESS",
})  # fmt: skip
WRAPPED: Final = {
    "POOL": 20, "ACCELERATOR": 16, "IMAGE": 30, "WHY": 28, "PRICE FROM": 24, "SPEED FROM": 28, "NOTE": 28,
    "SOURCE": 28, "FEATURES": 24, "DESCRIPTION": 28, "ABOUT": 16, "FINDING": 34, "REMEDY": 28,
}  # fmt: skip
"""Columns that wrap on a terminal, and their least width; a narrower terminal wraps the lines."""


def console_of(color: bool) -> Console:
    """Standard output: colours only on a terminal whose user wants them, no limit of width elsewhere."""
    if not sys.stdout.isatty():
        return Console(color_system=None, force_terminal=False, width=UNLIMITED)
    colors = color and os.environ.get("TERM") != "dumb"
    return Console(color_system="auto" if colors else None, force_terminal=True)


@contextmanager
def printed(color: bool) -> Iterator[Console]:
    """A console whose text is printed when the block has ended, so that one that fails prints nothing."""
    console = console_of(color)
    with console.capture() as shown:
        yield console
    print(shown.get(), end="")


def print_text(console: Console, text: Text) -> None:
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def print_table(
    console: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str] = (),
    width: int = UNLIMITED,
) -> None:
    """Prints a table; `width`: its width without a terminal. A table that needs more takes more."""
    available = console.width if console.is_terminal else width
    widths = _widths(headers, rows, available)
    _print_lines(console, table_of(headers, rows, styles, widths=widths), sum(widths) + GAP * (len(widths) - 1))


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], available: int) -> list[int]:
    """The width of each column: the widest of those that wrap shrink, within words if necessary, until all fit or have their least."""
    widths = [
        max(map(len, column)) for column in zip(headers, *([plain(cell) for cell in row] for row in rows), strict=True)
    ]
    least = [WRAPPED.get(header, UNLIMITED) for header in headers]
    excess = sum(widths) + GAP * (len(widths) - 1) - available
    while excess > 0 and (wide := [at for at, width in enumerate(widths) if width > least[at]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def table_of(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str] = (),
    caption: str = "",
    widths: Sequence[int] = (),
) -> Table:
    """A table; without `widths` the terminal's own width counts, and a narrow one wraps the lines."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="bold",
        caption=plain(caption) or None,
        caption_justify="left",
    )
    for number, header in enumerate(headers):
        table.add_column(
            header,
            justify="right" if header in NUMBERS else "left",
            no_wrap=header not in WRAPPED,
            overflow="fold",
            width=widths[number] if widths else None,
            min_width=min(WRAPPED.get(header, 0), max(len(row[number]) for row in rows)) if rows else None,
        )
    for row, style in zip(rows, styles or [""] * len(rows), strict=True):
        table.add_row(*(Text(plain(cell)) for cell in row), style=style)
    return table


def _print_lines(console: Console, table: Table, width: int) -> None:
    """Prints a table at a width, without the blanks after its last column."""
    options = console.options.update(width=width)
    for line in console.render_lines(table, options, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
