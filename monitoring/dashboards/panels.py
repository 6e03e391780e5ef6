"""Panels, variables and dashboards of Grafana as plain values, laid out row by row.

Written for Grafana 10 and newer (schema version 39). The data source is a variable, every panel says what it shows, and
rates use $__rate_interval, as grafana/dashboard-linter asks; tests/prometheus/test_dashboards.py holds its rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
"""Columns of Grafana's grid."""
ALL_VALUES: Final = ".+"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it, from left to right."""

    title: str
    panels: Sequence[Json]


def stat(title: str, description: str, expr: str, unit: str, width: int = 4, **defaults: Any) -> Json:
    """One number, with its course behind it."""
    options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area", "colorMode": "value"}
    panel = _panel("stat", title, description, [Query(expr)], unit, (width, 4), options)
    panel["fieldConfig"]["defaults"] |= defaults
    return panel


def graph(
    title: str, description: str, queries: Sequence[Query], unit: str, width: int = 8, stacked: bool = False
) -> Json:
    """Lines over time."""
    options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    panel = _panel("timeseries", title, description, queries, unit, (width, 8), options)
    stacking = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if stacked else {"fillOpacity": 5}
    panel["fieldConfig"]["defaults"]["custom"] = stacking
    return panel


@dataclass(frozen=True, slots=True)
class Column:
    """A number in a table."""

    title: str
    expr: str
    unit: str


def table(
    title: str, description: str, keys: Sequence[str], columns: Sequence[Column], width: int = 24, height: int = 8
) -> Json:
    """One line for each combination of labels, with several numbers; `keys` are the labels shown."""
    panel = _panel(
        "table", title, description, [Query(column.expr) for column in columns], "short", (width, height), {}
    )
    letters = [target["refId"] for target in panel["targets"]]
    for target in panel["targets"]:
        target |= {"format": "table", "instant": True, "range": False}
    panel["fieldConfig"]["overrides"] = [
        {"matcher": {"id": "byName", "options": f"Value #{letter}"}, "properties": _named(column)}
        for letter, column in zip(letters, columns, strict=True)
    ]
    order = {name: index for index, name in enumerate([*keys, *(f"Value #{letter}" for letter in letters)])}
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "indexByName": order}},
    ]
    return panel


def _named(column: Column) -> list[Json]:
    return [{"id": "displayName", "value": column.title}, {"id": "unit", "value": column.unit}]


def _panel(
    kind: str, title: str, description: str, queries: Sequence[Query], unit: str, size: tuple[int, int], options: Json
) -> Json:
    targets = [
        {"refId": chr(ord("A") + n), "datasource": DATASOURCE, "expr": query.expr, "legendFormat": query.legend}
        for n, query in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": size[0], "h": size[1]},
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": options,
    }


def variable(name: str, label: str, query: str) -> Json:
    """A choice among the values of a label; all of them when nothing is chosen."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ALL_VALUES,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard(uid: str, title: str, description: str, variables: Sequence[Json], rows: Sequence[Row]) -> Json:
    """A dashboard; `uid` is also its file's name."""
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1}
    others = {
        "type": "dashboards",
        "title": "GPUJob",
        "tags": ["gpujob"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["gpujob"],
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "links": [others],
        "templating": {"list": [source, *variables]},
        "panels": _laid_out(rows),
    }


def _laid_out(rows: Sequence[Row]) -> list[Json]:
    """Panels with their places; those that do not fit beside their neighbours begin a new line."""
    placed: list[Json] = []
    top = 0
    for row in rows:
        placed.append({"type": "row", "title": row.title, "collapsed": False, "panels": [], **_place(0, top, WIDTH, 1)})
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
            if left + width > WIDTH:
                top, left, tallest = top + tallest, 0, 0
            placed.append(panel | _place(left, top, width, height))
            left, tallest = left + width, max(tallest, height)
        top += tallest
    return [{"id": number, **panel} for number, panel in enumerate(placed, start=1)]


def _place(left: int, top: int, width: int, height: int) -> Json:
    return {"gridPos": {"x": left, "y": top, "w": width, "h": height}}


def as_json(board: Json) -> str:
    """As Grafana imports it."""
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"
