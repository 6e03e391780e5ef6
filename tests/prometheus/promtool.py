"""Runs rules over series by `promtool test rules`, and scrapes as Prometheus labels them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.prometheus.programs import program

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "charts" / "gpujob-operator" / "files" / "monitoring"
RULES = FILES / "rules.yaml"
SAMPLES = Path(__file__).parent / "samples"

Series = dict[str, str]
"""Values by series, in promtool's notation: `up{job="a"}` -> `1x10`."""


def selector(name: str, labels: Mapping[str, str]) -> str:
    """A series as it is written."""
    inside = ", ".join(f'{key}="{value}"' for key, value in sorted(labels.items()) if value)
    return f"{name}{{{inside}}}"


def scraped(text: str, target: Mapping[str, str], honor_labels: bool, times: int = 60) -> Series:
    """A page as Prometheus stores it: labels that collide with the target's are kept, or get the prefix exported_."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            own = {key: value for key, value in sample.labels.items() if value}
            if honor_labels:
                labels = {**target, **own}
            else:
                moved = {f"exported_{key}" if key in target else key: value for key, value in own.items()}
                labels = {**moved, **target}
            # Exporters write names of counters without _total, which the parser adds.
            name = sample.name if f"\n{sample.name}{{" in text else sample.name.removesuffix("_total")
            found[selector(name, labels)] = f"{sample.value:.12g}x{times}"
    return found


@dataclass
class Trial:
    """Series, and what shall come of them at some minute."""

    series: Series = field(default_factory=dict)
    name: str = ""
    queries: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def gives(self, expr: str, samples: Sequence[tuple[str, float]], minute: int = 10) -> Trial:
        """An expression has exactly these samples."""
        wanted = [{"labels": labels, "value": value} for labels, value in samples]
        self.queries.append({"expr": expr, "eval_time": f"{minute}m", "exp_samples": wanted})
        return self

    def fires(self, alert: str, *, at: int, **wanted: dict[str, str]) -> Trial:
        """An alert fires with labels and annotations."""
        one = {"exp_labels": wanted["labels"], "exp_annotations": wanted["annotations"]}
        self.alerts.append({"alertname": alert, "eval_time": f"{at}m", "exp_alerts": [one]})
        return self

    def is_silent(self, alert: str, *, at: int) -> Trial:
        """An alert does not fire."""
        self.alerts.append({"alertname": alert, "eval_time": f"{at}m", "exp_alerts": []})
        return self

    def run(self, folder: Path) -> None:
        """Fails with what promtool says."""
        run(folder, [self])

    def as_test(self) -> dict[str, Any]:
        """As in a file of tests."""
        assert self.queries or self.alerts, "nothing is asked"
        return {
            "name": self.name,
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in self.series.items()],
            "promql_expr_test": self.queries,
            "alert_rule_test": self.alerts,
        }


def run(folder: Path, trials: Sequence[Trial]) -> None:
    """All trials in one run of promtool, each on a fresh store; fails with what it says."""
    path = folder / "test.yaml"
    tests = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [trial.as_test() for trial in trials]}
    path.write_text(yaml.safe_dump(tests))
    command = [program("promtool"), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
