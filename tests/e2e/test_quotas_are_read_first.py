"""A namespace's ResourceQuota is read before anything is created: no half gang, and a reason with numbers."""

from __future__ import annotations

import pytest

from tests.e2e.api_server import ApiServer
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def test_a_job_waits_for_its_quota_and_runs_when_it_is_raised(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    quotas = f"/api/v1/namespaces/{team.namespace}/resourcequotas"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}}
    api.create(quotas, quota | {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    team.submit("first", gpusPerNode=8)
    team.until("first", "Running")
    uid = team.submit("second", gpusPerNode=8)
    team.until("second", "Queued")
    placed = team.condition("second", "Placed")
    assert placed["reason"] == "QuotaExceeded"
    assert "ResourceQuota gpus: requests.nvidia.com/gpu needs 8, 0 left of 8" in placed["message"]
    assert team.jobs(uid) == []
    api.patch(quotas, "gpus", {"spec": {"hard": {"requests.nvidia.com/gpu": "16"}}})
    team.until("second", "Running")


def test_a_limit_range_refuses_before_anything_is_created_and_bounds_what_a_job_leaves_open(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    bounds = {"type": "Container", "max": {"cpu": "4", "nvidia.com/gpu": "2"}, "min": {"cpu": "2", "memory": "2Gi"}}
    limits = f"/api/v1/namespaces/{team.namespace}/limitranges"
    api.create(
        limits, {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [bounds]}}
    )
    uid = team.submit("large", gpusPerNode=4)
    team.until("large", "Impossible")
    said = team.condition("large", "Placed")["message"]
    assert "LimitRange small: at most 2 nvidia.com/gpu for each container, the job requests 4" in said
    assert "with spec.gpusPerNode 2 instead of 4 it would fit" in said
    assert team.jobs(uid) == []
    # The API server takes its pod, whose share of the node would be more.
    team.submit("fits", gpusPerNode=2)
    team.until("fits", "Running")
