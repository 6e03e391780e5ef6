"""The dashboards keep the 17 rules of grafana/dashboard-linter (as of June 2026), each a test under the rule's own name.

Where a rule does not apply, EXCLUDED says to what and why, as the linter's own `.lint` files do; an exclusion that is no
longer needed fails too.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.__main__ import files
from tests.prometheus.boards import BOARDS, Target, panels, sent, targets, variables
from tests.prometheus.programs import program
from tests.prometheus.promtool import FILES, ROOT, RULES

Json = dict[str, Any]

OF_JOBS = "its series are of GPUJobs and pools, of any operator; `job` is the name of a GPUJob here"
ONE_TELLS = "the active operator exports all jobs, so no panel chooses by instance"
EXCLUDED: dict[tuple[str, str], str] = {
    ("template-job-rule", "gpujob-fleet"): OF_JOBS,
    ("template-job-rule", "gpujob-vendors"): OF_JOBS,
    ("target-job-rule", "gpujob-fleet"): OF_JOBS,
    ("target-job-rule", "gpujob-vendors"): OF_JOBS,
    ("template-instance-rule", "gpujob-fleet"): ONE_TELLS,
    ("template-instance-rule", "gpujob-job"): ONE_TELLS,
    ("template-instance-rule", "gpujob-vendors"): ONE_TELLS,
    ("target-instance-rule", "gpujob-fleet"): ONE_TELLS,
    ("target-instance-rule", "gpujob-job"): ONE_TELLS,
    ("target-instance-rule", "gpujob-vendors"): ONE_TELLS,
    ("target-counter-agg-rule", "gpujob-job/Cost so far"): "what a job has cost is the counter itself, not its growth",
}

UNITS = {
    "none", "short", "percent", "percentunit", "currencyUSD", "bytes", "watt", "joule", "celsius", "s", "reqps", "ops",
    "bool_yes_no",
}  # fmt: skip
"""Those of Grafana's units that are used; a new one is looked up in its list of value formats first."""

TARGETS = list(targets())
WORDS = {"or", "and", "unless", "offset", "bool"}


def broken(rule: str, where: str) -> bool:
    """Whether an exclusion allows what a rule forbids."""
    return (rule, where) in EXCLUDED


def hold(rule: str, where: str, kept: bool, what: str) -> None:
    """A rule is kept, or excluded; an exclusion of what is kept is stale."""
    if broken(rule, where):
        assert not kept, f"{where} keeps {rule}: drop the exclusion"
    else:
        assert kept, f"{where} breaks {rule}: {what}"


def selectors(expr: str) -> list[tuple[str, str]]:
    """Names of series in an expression, each with its matchers."""
    bare = re.sub(r"\b(?:by|on|group_left|group_right|without|ignoring) *\([^)]*\)|\[[^\]]*\]", " ", expr)
    found = re.finditer(r"\b([a-zA-Z_:][\w:]*)\b(\{[^}]*\})?(?! *\()", bare)
    return [(match[1], match[2] or "") for match in found if match[1] not in WORDS]


def test_names_of_series_are_found_in_expressions() -> None:
    expr = 'max by (a_b) (x_total{c="$d"} + sum(rate(y:z_q[5m])) or vector(0)) * on (n_s) group_left (k_l) p_q'
    assert selectors(expr) == [("x_total", '{c="$d"}'), ("y:z_q", ""), ("p_q", "")]


@pytest.fixture(params=BOARDS)
def uid(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def board(uid: str) -> Json:
    return BOARDS[uid]


@pytest.fixture(params=TARGETS, ids=str)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


# --- The rules ---------------------------------------------------------------------------------------------------------


def test_template_datasource_rule(board: Json) -> None:
    (source,) = (one for one in board["templating"]["list"] if one["type"] == "datasource")
    assert (source["name"], source["label"], source["query"]) == ("datasource", "Data source", "prometheus")


@pytest.mark.parametrize("name", ["job", "instance"])
def test_template_job_rule_and_template_instance_rule(uid: str, board: Json, name: str) -> None:
    found = [one for one in variables(board) if one["name"] == name]
    kept = [
        (one["label"], one["multi"], one["allValue"], one["datasource"]["uid"])
        == (name.capitalize(), True, ".+", "${datasource}")
        for one in found
    ] == [True]
    hold(f"template-{name}-rule", uid, kept, "it needs a variable of this name")


def test_template_label_promql_rule(board: Json, tmp_path: Path) -> None:
    queries = [re.fullmatch(r"label_values\((.+), ([a-z_]+)\)", one["query"]) for one in variables(board)]
    assert queries
    assert all(queries), "a variable's values come from label_values(SERIES, LABEL)"
    check([sent(match[1], board) for match in queries if match], tmp_path)


def test_template_on_time_change_reload_rule(board: Json) -> None:
    assert {one["refresh"] for one in variables(board)} == {2}


def test_panel_datasource_rule(board: Json) -> None:
    sources = [panel["datasource"] for panel in panels(board)]
    sources += [target["datasource"] for panel in panels(board) for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)


def test_panel_title_description_rule(board: Json) -> None:
    for panel in panels(board):
        assert panel["title"], panel["id"]
        assert panel["description"].endswith("."), f"{panel['title']} has no sentence that says what it shows"


def test_panel_units_rule(board: Json) -> None:
    for panel in panels(board):
        config = panel["fieldConfig"]
        own = [p["value"] for each in config["overrides"] for p in each["properties"] if p["id"] == "unit"]
        assert {config["defaults"]["unit"], *own} <= UNITS, panel["title"]


def test_panel_no_targets_rule(board: Json) -> None:
    assert [panel["title"] for panel in panels(board) if not panel["targets"]] == []


def test_target_logql_rule_and_target_logql_auto_rule(board: Json) -> None:
    """There is nothing of Loki: both rules hold when every source is Prometheus."""
    assert {target["datasource"]["type"] for panel in panels(board) for target in panel["targets"]} == {"prometheus"}


def test_target_promql_rule(uid: str, board: Json, tmp_path: Path) -> None:
    check([sent(target.expr, board) for target in TARGETS if target.board == uid], tmp_path)


def test_target_rate_interval_rule(target: Target) -> None:
    ranges = re.findall(r"\b(i?rate|increase)\([^()]*?\[([^\]]+)\]", target.expr)
    assert {span for function, span in ranges if function != "increase"} <= {"$__rate_interval"}
    assert {span for function, span in ranges if function == "increase"} <= {"$__rate_interval", "$__range"}
    assert target.expr.count("[") == len(ranges), "a range outside of rate, irate and increase"


@pytest.mark.parametrize("name", ["job", "instance"])
def test_target_job_rule_and_target_instance_rule(uid: str, name: str) -> None:
    exprs = [target.expr for target in TARGETS if target.board == uid]
    kept = all(f'{name}=~"${name}"' in matchers for expr in exprs for _, matchers in selectors(expr))
    hold(f"target-{name}-rule", uid, kept, f"every series needs {name}=~'${name}'")


def test_target_counter_agg_rule(target: Target) -> None:
    counters = [name for name, _ in selectors(target.expr) if name.endswith("_total")]
    grown = re.findall(r"\b(?:rate|irate|increase)\(([a-z_:]+_total)(?:\{[^}]*\})?\[", target.expr)
    hold("target-counter-agg-rule", f"{target.board}/{target.panel}", len(grown) == len(counters), f"{counters} raw")


def test_uneditable_dashboard(board: Json) -> None:
    assert board["editable"] is False


def test_every_exclusion_is_of_a_rule_and_a_place_that_exist() -> None:
    places = set(BOARDS) | {f"{target.board}/{target.panel}" for target in TARGETS}
    assert {where for _, where in EXCLUDED} <= places


# --- Ours --------------------------------------------------------------------------------------------------------------


def test_the_charts_dashboards_are_those_that_are_generated() -> None:
    wanted = {name: text for name, text in files().items() if name.startswith("dashboards/")}
    held = {f"dashboards/{path.name}": path.read_text() for path in FILES.glob("dashboards/*.json")}
    assert held == wanted, "run `make generate`"
    assert all(board["uid"] == uid for uid, board in BOARDS.items())


def test_a_series_in_a_panel_is_one_that_is_told_or_recorded(target: Target) -> None:
    assert {name for name, _ in selectors(target.expr)} <= known()


def test_a_series_in_an_alert_or_a_record_of_jobs_is_one_that_is_told_or_recorded() -> None:
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(RULES.read_text())["groups"]}
    exprs = [rule["expr"] for name in ("gpujob-jobs", "gpujob-alerts") for rule in groups[name]]
    assert {name for expr in exprs for name, _ in selectors(expr)} - known() == set()


def test_panels_lie_side_by_side_and_never_on_each_other(board: Json) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


@functools.cache
def known() -> set[str]:
    """Names in the documents and of the recording rules."""
    told = {
        name
        for page in ("metrics.md", "telemetry.md")
        for name in re.findall(r"`((?:gpujob|process)_\w+)`", page_of(page))
    }
    histograms = {
        f"{name}{part}" for name in told if name.endswith("_seconds") for part in ("_bucket", "_sum", "_count")
    }
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return told | histograms | {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


def page_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_recorded_series_is_documented() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    page = page_of("monitoring.md")
    assert [r["record"] for g in groups for r in g["rules"] if "record" in r and f"`{r['record']}`" not in page] == []


def check(exprs: list[str], folder: Path) -> None:
    """Fails on what Prometheus does not parse: each expression as a rule of a file that promtool checks."""
    rules = [{"record": f"checked:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "checked", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", "--lint=none", str(path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(exprs)} rules found" in done.stdout
