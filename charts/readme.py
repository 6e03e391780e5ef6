"""The table of values in the chart's README.md."""

from __future__ import annotations

import json
from typing import Any, Final

from charts.values import Value, leaves

BEGIN: Final = "<!-- The table is made from values.yaml by make generate. -->\n"
END: Final = "<!-- End of the table. -->\n"


class NoPlace(ValueError):
    """The README lacks the marks between which the table stands."""


def with_table(readme: str, values: tuple[Value, ...]) -> str:
    """The README with the table of these values between its marks; NoPlace where it has none."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"README.md lacks the line {(BEGIN if not begin else END).strip()!r}")
    return f"{before}{BEGIN}\n{table(values)}\n{END}{after}"


def table(values: tuple[Value, ...]) -> str:
    """One row for each value that is no group."""
    rows = [f"| `{each.path}` | {_code(each.default)} | {_cell(each.description)} |\n" for each in leaves(values)]
    return "".join(["| value | default | meaning |\n|---|---|---|\n", *rows])


def _code(default: Any) -> str:
    written = default if isinstance(default, str) and default else json.dumps(default, ensure_ascii=False)
    return f"`{_cell(written)}`"


def _cell(text: str) -> str:
    """Text within a table, where a bar would end the cell."""
    return text.replace("|", "\\|")
