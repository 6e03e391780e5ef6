"""A rule of Prometheus as a value, and a file of them as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

RUNBOOKS: Final = "https://gpujob.dev/runbooks"
"""Where the pages of docs/runbooks are served; the chart's monitoring.prometheusRule.runbooks replaces it."""

HEAD: Final = "# Made by `make generate` from monitoring/rules; not to be edited.\n"


@dataclass(frozen=True, slots=True)
class Record:
    """A series that Prometheus computes at each evaluation."""

    record: str
    expr: str
    labels: dict[str, str] = field(default_factory=dict)

    def rule(self) -> dict[str, Any]:
        """As in a rules file."""
        labels = {"labels": self.labels} if self.labels else {}
        return {"record": self.record, "expr": self.expr, **labels}


@dataclass(frozen=True, slots=True)
class Alert:
    """A state that needs a person; `page` is its runbook's file name without the suffix."""

    alert: str
    expr: str
    lasts: str
    """How long the state holds before the alert fires, as Prometheus writes durations."""
    severity: str
    summary: str
    description: str
    page: str

    def rule(self) -> dict[str, Any]:
        """As in a rules file."""
        return {
            "alert": self.alert,
            "expr": self.expr,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOKS}/{self.page}.md",
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other."""

    name: str
    rules: Sequence[Record | Alert]


class _Folded(yaml.SafeDumper):
    """Long expressions as blocks, so that a diff shows the line that changed."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Folded.add_representer(str, _text)


def as_yaml(groups: Sequence[Group]) -> str:
    """A rules file that Prometheus loads as it is, and that is the spec of a PrometheusRule."""
    spec = {"groups": [{"name": group.name, "rules": [rule.rule() for rule in group.rules]} for group in groups]}
    return HEAD + yaml.dump(spec, Dumper=_Folded, sort_keys=False, width=200)
