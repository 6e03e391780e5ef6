"""A table shows every letter of its cells, whatever the width of the terminal or the pipe."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from rich.console import Console

from gpujob.cli.output.drawing import WRAPPED, print_table

WHY = "needs 8 free GPUs on each of 2 nodes, 15 of 16 are free; 1 node has room and what else there is to say about it"
LONG = "mi300x-standard-nd96isr-mi300x-v5-ondemand"
REMEDY = "upgrade the release with --set image.repository=YOUR-REGISTRY/gpujob-operator, which is the remedy to copy"
TABLES = {
    "plan": (
        ["POOL", "GPUS (nodes x each)", "$/H", "OUTCOME", "WHY"],
        [[LONG, "2x8", "96.00", "Busy", WHY], ["l4", "1x1", "1.00", "Rejected", WHY]],
    ),
    "short names": (
        ["POOL", "GPUS (nodes x each)", "$/H", "OUTCOME", "WHY"],
        [["mi300x", "2x8", "96.00", "Busy", WHY], ["l4", "1x1", "1.00", "Rejected", "it is cordoned"]],
    ),
    "pools": (
        ["POOL", "VENDOR", "ACCELERATOR", "NODES", "FREE/TOTAL", "MEMORY", "DRIVER", "$/GPU-H", "NOTE"],
        [[LONG, "AMD", "Instinct MI300X VF x8 partition CPX", "2", "1/16", "191Gi", "6.1", "6.0", WHY]],
    ),
    "doctor": (
        ["LEVEL", "CHECK", "ABOUT", "FINDING", "REMEDY"],
        [
            ["Error", "operator", "", "no operator is installed in namespace gpujob-system", REMEDY],
            ["Warning", "health-signals", LONG, "no agent reports faults of NVIDIA devices: no node has one", REMEDY],
        ],
    ),
    "none wraps": (["REASON", "MEANING"], [["NotEnoughFree", WHY]]),
}


def drawn(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(color_system=None, force_terminal=terminal, width=width if terminal else 100_000, file=out)
    print_table(console, headers, rows, width=width)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("name", TABLES)
def test_no_letter_is_cut_at_any_width(name: str, terminal: bool) -> None:
    headers, rows = TABLES[name]
    letters = Counter("".join("".join([*headers, *(cell for row in rows for cell in row)]).split()))
    cut = {
        width: letters - shown
        for width in range(40, 141)
        if (shown := Counter("".join(drawn(headers, rows, width, terminal=terminal).split()))) != letters
    }
    assert cut == {}


@pytest.mark.parametrize("name", ["plan", "short names", "doctor"])
def test_a_table_is_no_wider_than_it_may_be(name: str) -> None:
    headers, rows = TABLES[name]
    fixed = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    least = sum(min(WRAPPED.get(header, wide), wide) for header, wide in zip(headers, fixed, strict=True))
    least += 2 * (len(headers) - 1)
    for width in range(least, 141):
        assert max(map(len, drawn(headers, rows, width, terminal=False).splitlines())) <= width
