"""Each policy of a cycle has a name and a reason, and docs/placement.md shows them in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import ANY_IMAGES, H100, Object, node, pod
from test_whose_turn_it_is import half_busy, high, on, waiting

from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.policies import GATES, NOTHING_HELPS, POLICIES, in_order, why_unreserved
from gpujob.schedule.queue import SchedulingCycle
from gpujob.values.vocabulary import Verdict

PAGE = (Path(__file__).parents[3] / "docs" / "placement.md").read_text()
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_page_shows_the_policies_and_the_gates_of_reservations() -> None:
    assert "".join(f"| {policy.name} | {policy.does} |\n" for policy in POLICIES) in PAGE
    assert "".join(f"- {reason}\n" for reason in (*(gate.reason for gate in GATES), NOTHING_HELPS)) in PAGE


def test_levels_are_by_priority_then_age_then_uid_and_the_last_is_marked() -> None:
    jobs = [waiting("c"), high("b"), waiting("a"), replace(high("d"), created="a"), waiting("e", "middle")]
    levels = in_order(jobs, on().priorities)
    assert [(level.priority, [job.uid for job in level.jobs], level.last) for level in levels] == [
        (100, ["d", "b"], False),
        (50, ["e"], False),
        (0, ["a", "c"], True),
    ]
    assert in_order([], on().priorities) == []


def unreserved(job: PendingJob, *objects: Object, now: datetime = NOW) -> str | None:
    """Why nothing is reserved for a job, beside one of a lower priority that waits too."""
    cycle = SchedulingCycle(ANY_IMAGES)
    list(cycle.run([job, waiting("lo", gpusPerNode=8)], on(*objects), now))
    return cycle.unreserved.get(job.uid)


BIG = high("hi", gpusPerNode=8)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (BIG, ""),
        (replace(BIG, reserves_until=NOW + timedelta(seconds=1)), ""),
        (replace(BIG, reserves_until=NOW), "it has waited for the whole holdSeconds"),
        (replace(BIG, reserves_until=NOW - timedelta(days=9)), "it has waited for the whole holdSeconds"),
        (replace(BIG, plan_only=True), "a suspended job starts nothing"),
        (high("hi", gpusPerNode=9), "no device that becomes free helps it"),
        (high("hi", gpuMemory="9T"), "no device that becomes free helps it"),
        (
            waiting("hi", "system-node-critical", gpusPerNode=8),
            "its PriorityClass belongs to Kubernetes and counts in kube-system only",
        ),
    ],
)
def test_the_first_gate_that_applies_is_the_reason(job: PendingJob, reason: str) -> None:
    system = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
              "metadata": {"name": "system-node-critical"}, "value": 2000001000}  # fmt: skip
    assert unreserved(job, *half_busy("n"), system) == reason


@pytest.mark.parametrize(
    ("spec", "objects"),
    [
        ({"nodes": 2, "gpusPerNode": 8}, (*half_busy("n"), node("m", H100, ready=False))),
        ({"nodes": 2, "gpusPerNode": 4}, (*half_busy("n"), node("m", H100, cordoned=True))),
        ({"nodes": 2, "gpusPerNode": 4}, half_busy("n", labels={"karpenter.sh/nodepool": "h100"})),
        ({"gpusPerNode": 6, "resources": {"cpu": 127}}, (*half_busy("n", 1), pod("d", "n", cpu="2"))),
    ],
    ids=["not ready", "cordoned", "new nodes", "CPU of other pods"],
)
def test_where_devices_alone_do_not_help_that_is_the_reason(spec: Object, objects: tuple[Object, ...]) -> None:
    assert unreserved(high("hi", **spec), *objects) == NOTHING_HELPS


def test_a_node_whose_devices_are_all_busy_is_reserved_as_they_become_free() -> None:
    assert unreserved(BIG, *half_busy("n", 8)) == ""


def test_where_a_quota_leaves_nothing_that_is_the_reason() -> None:
    first = high("h1", gpusPerNode=8)
    hard = {"requests.nvidia.com/gpu": "8"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"},
             "spec": {"hard": hard}, "status": {"hard": hard, "used": {}}}  # fmt: skip
    cycle = SchedulingCycle(ANY_IMAGES)
    jobs = [first, high("h2", gpusPerNode=8, nodes=1), waiting("lo", gpusPerNode=8)]
    list(cycle.run(jobs, on(*half_busy("n"), *half_busy("m"), quota), NOW))
    assert cycle.unreserved == {"h1": "", "h2": NOTHING_HELPS}


def test_nothing_is_recorded_of_a_job_that_has_a_place_and_of_the_lowest_level() -> None:
    assert unreserved(BIG, node("n", H100)) is None
    cycle = SchedulingCycle(ANY_IMAGES)
    list(cycle.run([waiting("a", gpusPerNode=8), waiting("b", gpusPerNode=8)], on(*half_busy("n")), NOW))
    assert cycle.unreserved == {}


def test_gates_apply_in_their_order() -> None:
    job = replace(BIG, plan_only=True, reserves_until=NOW)
    assert why_unreserved(job, Verdict.IMPOSSIBLE, NOW) == GATES[0].reason
    assert why_unreserved(replace(job, plan_only=False), Verdict.IMPOSSIBLE, NOW) == GATES[1].reason
    assert why_unreserved(replace(job, plan_only=False), Verdict.WAITING, NOW) == GATES[3].reason
