"""A node on which several jobs failed lately is used after all others, until that has decayed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, demand, node

from gpujob.fleet.health.node_failures import HALF_LIFE, NodeFailures
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.values.vocabulary import Reason

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def failed(on: Any, minutes_ago: float = 0.0, reason: Any = "NodeLost") -> dict[str, Any]:
    until = (NOW - timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"excludedNodes": [{"name": on, "until": until, "attempt": 1, "reason": reason}]}


def test_two_jobs_make_a_node_suspect_and_time_takes_that_back() -> None:
    failures = NodeFailures()
    assert failures.put("a", failed("n")) == {"n"}
    assert failures.suspicion("n", NOW) is None
    assert failures.put("b", failed("n", 10, "DeviceFault")) == {"n"}
    found = failures.suspicion("n", NOW)
    assert found is not None
    assert found.sentence == "2 jobs failed there lately (DeviceFault and NodeLost)"
    assert NOW < found.until < NOW + HALF_LIFE
    assert failures.suspicion("n", found.until - timedelta(seconds=1)) is not None
    assert failures.suspicion("n", found.until + timedelta(seconds=1)) is None


def test_one_job_alone_never_does_and_what_is_long_ago_counts_no_more() -> None:
    failures = NodeFailures()
    failures.put("a", failed("n"))
    failures.put("a", failed("n", -5))
    assert failures.suspicion("n", NOW) is None
    for number in range(9):
        failures.put(f"old-{number}", failed("m", 600))
    assert failures.suspicion("m", NOW) is None


def test_a_job_that_is_gone_or_failed_elsewhere_counts_no_more() -> None:
    failures = NodeFailures()
    failures.put("a", failed("n"))
    failures.put("b", failed("n"))
    assert failures.put("b", failed("m")) == {"n", "m"}
    assert failures.suspicion("n", NOW) is None
    assert failures.put("a", None) == {"n"}
    assert failures.put("a", None) == set()


@pytest.mark.parametrize(
    "status",
    [{}, {"excludedNodes": "x"}, {"excludedNodes": ["x", {}]}, failed(7), failed(""),
     {"excludedNodes": [{"name": "n", "until": "soon"}]}, {"excludedNodes": [{"name": "n", "until": {}}]}],
)  # fmt: skip
def test_what_says_no_node_and_no_time_is_nothing(status: dict[str, Any]) -> None:
    failures = NodeFailures()
    for uid in ("a", "b", "c"):
        assert failures.put(uid, status) == set()
    assert failures.suspicion("n", NOW) is None


def test_such_a_node_is_the_last_choice_and_the_plan_says_why() -> None:
    objects = read_cluster([node("a", H100), node("b", H100)])
    suspect = [replace(each, suspicion="2 jobs failed there lately (NodeLost)") if each.name == "a" else each
               for each in objects.nodes]  # fmt: skip
    fleet, known = fleet_of(replace(objects, nodes=tuple(suspect)), ANY_IMAGES)
    assert plan(decide(demand(gpusPerNode=8), fleet, known))["chosen"]["nodeNames"] == ["b"]
    both = decide(demand(nodes=2, gpusPerNode=8), fleet, known)
    assert both.choice is not None
    assert [
        (each.reason, each.message) for each in both.choice.candidate.warnings if each.reason is Reason.NODE_DOUBTED
    ] == [(Reason.NODE_DOUBTED, "node a: 2 jobs failed there lately (NodeLost); pods may fail or be slow there")]
