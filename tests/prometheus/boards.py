"""The dashboards as they are in the chart, and their expressions as Grafana sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.prometheus.promtool import FILES

Json = dict[str, Any]

BOARDS: dict[str, Json] = {path.stem: json.loads(path.read_text()) for path in sorted(FILES.glob("dashboards/*.json"))}


@dataclass(frozen=True)
class Target:
    """One expression of a panel."""

    board: str
    panel: str
    kind: str
    ref: str
    expr: str

    def __str__(self) -> str:
        return f"{self.board}-{self.panel}-{self.ref}".replace(" ", "_")


def panels(board: Json) -> list[Json]:
    """Those with something to show."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets() -> Iterator[Target]:
    """Every expression of every panel."""
    for uid, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield Target(uid, panel["title"], panel["type"], target["refId"], target["expr"])


def variables(board: Json) -> list[Json]:
    """Variables whose values a query gives."""
    return [one for one in board["templating"]["list"] if one["type"] == "query"]


def sent(expr: str, board: Json, interval: str = "5m", span: str = "1h", **chosen: str) -> str:
    """An expression with its variables filled in: what is chosen, or all values."""
    for name, value in (("__rate_interval", interval), ("__range", span)):
        expr = expr.replace(f"${name}", value)
    for one in variables(board):
        expr = expr.replace(f"${one['name']}", chosen.get(one["name"]) or one["allValue"])
    assert "$" not in expr, f"a variable is left in {expr}"
    return expr
