"""Quotas of objects: a GPUJob that the API server would refuse is not planned as if it could be created; a Job counts once."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from cli_room import Command

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8"},
    },
    "status": {
        "allocatable": {"cpu": "96", "memory": "1000Gi", "ephemeral-storage": "900Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}  # fmt: skip
OF_GPUJOBS = "count/gpujobs.gpujob.dev"


def gpujob_of(name: str, namespace: str = "team", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    spec = {"command": ["python3", "t.py"], **spec}
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": spec}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})},
    }


def planned(gpujob: Command, tmp_path: Any, jobs: list[Any], *cluster: Any) -> list[Any]:
    """The plans of some jobs as JSON."""
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([NODE, *cluster]))
    answer = gpujob("plan", "-f", "-", "--cluster", path, "-o", "json", stdin=yaml.safe_dump_all(jobs))
    found = json.loads(answer.out)
    return found if isinstance(found, list) else [found]


def verdicts(plans: list[Any]) -> list[str]:
    return [plan["verdict"] for plan in plans]


@pytest.mark.parametrize(("hard", "used", "verdict"), [
    ("0", "0", "Impossible"), ("5", "5", "Waiting"), ("5", "7", "Waiting"), ("5", "4", "Placed"),
])  # fmt: skip
def test_a_quota_of_gpujobs_is_read(gpujob: Command, tmp_path: Any, hard: str, used: str, verdict: str) -> None:
    (plan,) = planned(gpujob, tmp_path, [gpujob_of("a")], quota({OF_GPUJOBS: hard}, {OF_GPUJOBS: used}))
    assert plan["verdict"] == verdict
    told = f"ResourceQuota q: {OF_GPUJOBS} needs 1, 0 left of {hard}, so the API server refuses the GPUJob"
    assert (told in plan["message"]) is (verdict != "Placed")


def test_a_gpujob_that_exists_was_counted(gpujob: Command, tmp_path: Any) -> None:
    full = quota({OF_GPUJOBS: "1"}, {OF_GPUJOBS: "1"})
    assert verdicts(planned(gpujob, tmp_path, [gpujob_of("a")], full, gpujob_of("a"))) == ["Placed"]
    assert verdicts(planned(gpujob, tmp_path, [gpujob_of("a")], full, gpujob_of("a", "other"))) == ["Waiting"]


def test_the_jobs_of_a_manifest_are_counted_in_its_order(gpujob: Command, tmp_path: Any) -> None:
    """A job that waits and a suspended one are objects too; a refused one is none. Another namespace has its own count."""
    jobs = [
        gpujob_of("suspended", suspend=True),
        gpujob_of("waits", gpusPerNode=8, nodes=2),
        gpujob_of("other", "other"),
        gpujob_of("third", priorityClassName="high"),
    ]
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    plans = planned(gpujob, tmp_path, jobs, high, quota({OF_GPUJOBS: "5"}, {OF_GPUJOBS: "3"}))
    assert [OF_GPUJOBS in plan["message"] for plan in plans] == [False, False, False, True]
    assert verdicts(plans)[3] == "Waiting"


@pytest.mark.parametrize("name", ["count/jobs.batch", "count/pods", "pods", OF_GPUJOBS])
def test_each_count_holds_for_all_jobs_of_a_manifest(gpujob: Command, tmp_path: Any, name: str) -> None:
    plans = planned(gpujob, tmp_path, [gpujob_of("a"), gpujob_of("b"), gpujob_of("c")], quota({name: "2"}))
    assert verdicts(plans) == ["Placed", "Placed", "Waiting"]
    assert f"ResourceQuota q: {name} needs 1, 0 left of 2" in plans[2]["message"]


def test_a_quota_whose_count_is_no_number_is_told(gpujob: Command, tmp_path: Any) -> None:
    (plan,) = planned(gpujob, tmp_path, [gpujob_of("a")], quota({OF_GPUJOBS: "many"}))
    assert f"ResourceQuota q: {OF_GPUJOBS} is many, which is not a quantity; fix the quota" in plan["message"]


def test_a_quota_with_scopes_counts_no_gpujobs(gpujob: Command, tmp_path: Any) -> None:
    of_pods = quota({OF_GPUJOBS: "0", "pods": "9"}, scopes=["NotBestEffort"])
    assert verdicts(planned(gpujob, tmp_path, [gpujob_of("a")], of_pods)) == ["Placed"]
