"""Pods at which no scheduler looks give their GPUs back, and their job runs once the scheduler is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, eventually, start_component, stop_component
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

PATIENCE = "6"
"""Seconds in place of 900 and, where the scheduler refuses, of 300."""


@pytest.fixture
def impatient(operators: Operators, no_operator: None) -> Iterator[OperatorProcess]:
    """An operator that gives up soon; it ends with the test."""
    operator = operators("impatient").in_haste()
    operator.settings |= {"GPUJOB_UNBOUND_SECONDS": PATIENCE, "HASTY_CONTROL_PLANE_SILENT": PATIENCE}
    operator.start_without_waiting_for_the_lease()
    yield operator
    operator.stop()


@pytest.fixture
def no_scheduler(cluster: Cluster) -> Iterator[None]:
    """The scheduler is away until the test starts it, or ends."""
    stop_component(cluster.dir, "kube-scheduler")
    yield
    start_component(cluster.dir, "kube-scheduler")


def test_a_job_at_whose_pods_no_scheduler_looks_gives_its_gpus_back_and_runs_when_it_is_there(
    impatient: OperatorProcess, no_scheduler: None, cluster: Cluster, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("silent", gpusPerNode=8)
    eventually(lambda: team.status("silent").get("attempts"), 30, what="an attempt that was given up")
    status = team.status("silent")
    (entry,) = status["attempts"]
    assert (status["state"], entry["reason"], entry["blame"]) == ("Restarting", "ControlPlaneSilent", "Kubernetes")
    assert entry["message"].startswith(f"for {PATIENCE} seconds no scheduler has looked at pod silent-")
    assert "check kube-scheduler" in entry["message"]
    assert not {"excludedPools", "excludedNodes", "failures", "jobName"} & status.keys()
    eventually(lambda: team.pods(uid) == [], what="its pods gone")
    start_component(cluster.dir, "kube-scheduler")
    assert team.until("silent", "Running")["attempt"] == 2
