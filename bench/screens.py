"""Pictures of the dashboards for the docs: `python -m bench.screens PANELS FOLDER`.

PANELS is what tests/e2e/test_dashboards_show_a_run.py writes with GPUJOB_PANELS: the answers of a real Prometheus to every
panel's query in one run. Each dashboard is drawn from them as a page, in the places, titles and units of its JSON, and
Chromium takes the picture. It is not Grafana that draws: colours and axes are this file's.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

from monitoring.dashboards import DASHBOARDS

Json = dict[str, Any]
Points = list[tuple[float, float]]

COLUMN: Final = 52
"""Pixels of one of the grid's 24 columns."""
LINE: Final = 30
"""Pixels of one of the grid's rows."""
GAP: Final = 6
COLOURS: Final = (
    "#73bf69",
    "#5794f2",
    "#f2cc0c",
    "#ff9830",
    "#f2495c",
    "#b877d9",
    "#8ab8ff",
    "#96d98d",
    "#ffa6b0",
    "#ca95e5",
)

STYLE: Final = """
body { margin: 0; background: #111217; color: #ccccdc; font: 12px "DejaVu Sans", sans-serif; position: relative; }
h1 { font-size: 17px; font-weight: 500; margin: 0; position: absolute; left: 8px; top: 8px; }
.row { position: absolute; font-size: 14px; font-weight: 500; padding-top: 6px; left: 8px; }
.panel { position: absolute; background: #181b1f; border: 1px solid #2a2d33; border-radius: 2px; overflow: hidden; }
.panel h2 { font-size: 12px; font-weight: 500; margin: 6px 8px 2px; white-space: nowrap; }
.number { font-size: 28px; text-align: center; padding-top: 18px; color: #73bf69; }
.legend { position: absolute; bottom: 4px; left: 8px; right: 4px; font-size: 10px; white-space: nowrap; overflow: hidden; }
.legend b { display: inline-block; width: 10px; height: 3px; margin: 0 4px 3px 8px; }
table { border-collapse: collapse; margin: 4px 8px; width: calc(100% - 16px); font-size: 11px; }
th { text-align: left; color: #6e9fff; font-weight: 500; } td, th { border-bottom: 1px solid #2a2d33; padding: 4px 6px; }
text { fill: #9a9aa8; font-size: 9px; }
"""


def _scaled(value: float, steps: Sequence[tuple[float, str]], digits: int = 3) -> str:
    """A number in the largest unit that is not above it."""
    size, unit = next(((size, unit) for size, unit in steps if abs(value) >= size), steps[-1])
    return f"{value / size:.{digits}g}{unit}"


def _short(value: float) -> str:
    if abs(value) >= 1000:
        return f"{_scaled(value, ((1e12, ' T'), (1e9, ' B'), (1e6, ' M'), (1e3, ' K')))}"
    return f"{value:.3g}"


UNITS: Final[Mapping[str, Callable[[float], str]]] = {
    "short": _short,
    "none": _short,
    "percentunit": lambda value: f"{value * 100:.3g} %",
    "currencyUSD": lambda value: f"${value:,.2f}" if abs(value) >= 0.095 or not value else f"${value:.3g}",
    "bytes": lambda value: _scaled(
        value, ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B"))
    ),
    "watt": lambda value: f"{value:.4g} W",
    "joule": lambda value: f"{value:.3g} J",
    "celsius": lambda value: f"{value:.3g} °C",
    "s": lambda value: f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s",
    "ops": lambda value: f"{value:.3g}/s",
    "reqps": lambda value: f"{value:.3g}/s",
    "bool_yes_no": lambda value: "Yes" if value else "No",
}


def points(result: Json) -> Points:
    """The numbers of a series, without missing ones."""
    pairs = [(float(at), float(value)) for at, value in result["values"]]
    return [(at, value) for at, value in pairs if value == value and abs(value) != float("inf")]


def legend(pattern: str, labels: Mapping[str, str]) -> str:
    """How a series is called."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), pattern).strip() or "value"


def stat(panel: Json, found: Mapping[str, list[Json]]) -> str:
    """The last number."""
    unit = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
    series = [points(each) for each in found.get("A", [])]
    return f'<div class="number">{escape(unit(series[0][-1][1]) if series and series[0] else "No data")}</div>'


def table(panel: Json, found: Mapping[str, list[Json]]) -> str:
    """One line for each combination of labels."""
    columns, lines = {}, {}
    for override in panel["fieldConfig"]["overrides"]:
        ref = override["matcher"]["options"].removeprefix("Value #")
        columns[ref] = {each["id"]: each["value"] for each in override["properties"]}
    index = panel["transformations"][1]["options"]["indexByName"]
    keys = [name for name in index if not name.startswith("Value #")]
    # Queries know different labels of the same thing: each line takes in what agrees with it.
    for ref in columns:
        for sample in found.get(ref, []):
            named = {key: value for key, value in sample["metric"].items() if key in keys}
            fitting = [line for line in lines if all(dict(line).get(key) == value for key, value in named.items())]
            for line in fitting or [tuple(named.items())]:
                lines.setdefault(line, {})[ref] = UNITS[columns[ref]["unit"]](float(sample["value"][1]))
    head = "".join(
        f"<th>{escape(text)}</th>" for text in [*keys, *(column["displayName"] for column in columns.values())]
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(text)}</td>" for text in _cells(dict(line), values, keys, list(columns)))
        + "</tr>"
        for line, values in sorted(lines.items())
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cells(line: Mapping[str, str], values: Mapping[str, str], keys: Sequence[str], refs: Sequence[str]) -> list[str]:
    return [*(line.get(key, "") for key in keys), *(values.get(ref, "") for ref in refs)]


def graph(panel: Json, found: Mapping[str, list[Json]], width: int, height: int) -> str:
    """Lines, or layers where the panel stacks, with a scale and a legend."""
    unit = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
    stacked = "stacking" in panel["fieldConfig"]["defaults"]["custom"]
    drawn = [
        (legend(target["legendFormat"], result["metric"]), points(result))
        for target in panel["targets"]
        for result in found.get(target["refId"], [])
    ]
    if stacked:
        drawn = _stacked(drawn)
    every = [point for _, series in drawn for point in series]
    if not every:
        return '<div class="number">No data</div>'
    first, last = min(at for at, _ in every), max(at for at, _ in every)
    scale = 2.0**30 if panel["fieldConfig"]["defaults"]["unit"] == "bytes" else 1.0
    step = scale * _step((max(value for _, value in every) - min(0.0, *(value for _, value in every))) / scale)
    low = step * math.floor(min(0.0, *(value for _, value in every)) / step)
    high = step * (math.floor(max(value for _, value in every) / step * 1.0001) + 1)
    left, right, top, bottom = 56, width - 12, 4, height - 62

    def place(at: float, value: float) -> str:
        x = left + (right - left) * (at - first) / ((last - first) or 1)
        return f"{x:.1f},{bottom - (bottom - top) * (value - low) / (high - low):.1f}"

    marks = []
    for number in range(round((high - low) / step) + 1):
        value = low + step * number
        y = float(place(first, value).split(",")[1])
        marks.append(f'<line x1="{left}" x2="{right}" y1="{y}" y2="{y}" stroke="#2a2d33"/>')
        marks.append(f'<text x="{left - 4}" y="{y + 3}" text-anchor="end">{escape(unit(value))}</text>')
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        at = first + (last - first) * share
        clock = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
        marks.append(
            f'<text x="{place(at, low).split(",")[0]}" y="{bottom + 13}" text-anchor="{anchor}">{clock}</text>'
        )
    lines = []
    for number, (_, series) in reversed(list(enumerate(drawn))):
        colour, path = COLOURS[number % len(COLOURS)], " ".join(place(*point) for point in series)
        if stacked and series:
            under = f"{place(series[-1][0], low)} {place(series[0][0], low)}"
            lines.append(f'<polygon points="{path} {under}" fill="{colour}" fill-opacity="0.35"/>')
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    names = "".join(
        f'<b style="background:{COLOURS[n % len(COLOURS)]}"></b>{escape(name)}' for n, (name, _) in enumerate(drawn)
    )
    svg = f'<svg width="{width}" height="{height - 44}">{"".join(marks)}{"".join(lines)}</svg>'
    return f'{svg}<div class="legend">{names}</div>'


def _step(span: float) -> float:
    """The distance of marks on a scale: 1, 2 or 5 times a power of ten, four to eight marks."""
    rough = (span or 4.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next((nice for nice in (5, 2) if rough >= nice * power), 1)


def _stacked(drawn: Sequence[tuple[str, Points]]) -> list[tuple[str, Points]]:
    """Each series on those before it."""
    ground: dict[float, float] = {}
    layers = []
    for name, series in drawn:
        ground |= {at: ground.get(at, 0.0) + value for at, value in series}
        layers.append((name, [(at, ground[at]) for at, _ in series]))
    return layers


def page(board: Json, answers: Sequence[Json]) -> tuple[str, int]:
    """A dashboard as HTML, and its height in pixels."""
    parts, lowest = [], 0
    for panel in board["panels"]:
        place = panel["gridPos"]
        width, height = place["w"] * COLUMN - GAP, place["h"] * LINE - GAP
        lowest = max(lowest, place["y"] + place["h"])
        where = f"left:{place['x'] * COLUMN + GAP}px;top:{40 + place['y'] * LINE}px;width:{width}px;height:{height}px"
        if panel["type"] == "row":
            parts.append(f'<div class="row" style="{where}">{escape(panel["title"])}</div>')
            continue
        found = {a["ref"]: a["result"] for a in answers if (a["panel"], a["kind"]) == (panel["title"], panel["type"])}
        draw = {"stat": stat, "table": table}.get(panel["type"])
        inside = draw(panel, found) if draw else graph(panel, found, width, height)
        parts.append(f'<div class="panel" style="{where}"><h2>{escape(panel["title"])}</h2>{inside}</div>')
    head = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><h1>{escape(board['title'])}</h1>"
    return head + "".join(parts), 40 + lowest * LINE + GAP


def picture(html: str, height: int, target: Path) -> None:
    """Chromium's view of a page as PNG."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("no Chromium on the PATH (Debian: apt-get install chromium fonts-dejavu-core)")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "page.html")
        source.write_text(html)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={name}/profile"]
        size = f"--window-size={24 * COLUMN + GAP},{height}"
        command = [browser, *flags, size, f"--screenshot={target.absolute()}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main(arguments: Sequence[str]) -> None:
    """One picture for each dashboard."""
    parser = argparse.ArgumentParser(prog="python -m bench.screens", description=__doc__)
    parser.add_argument("panels", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    answers = json.loads(asked.panels.read_text())
    asked.folder.mkdir(parents=True, exist_ok=True)
    for board in DASHBOARDS:
        own = [answer for answer in answers if answer["board"] == board["uid"]]
        html, height = page(board, own)
        picture(html, height, asked.folder / f"{board['uid']}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
