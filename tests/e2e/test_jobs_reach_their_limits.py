"""Limits of a job on a real API server: what reaches one frees its devices; and a deleted job leaves nothing, however it is deleted."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import time
from datetime import datetime
from decimal import Decimal

import pytest

from tests.e2e.api_server import GPUPOOLS, ApiServer, AuditLog
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def until_nothing_is_left(team: Team, uid: str, timeout: float = 30) -> None:
    eventually(
        lambda: not team.pods(uid) and not team.jobs(uid) and not team.services(uid), timeout, what=f"nothing of {uid}"
    )


def test_at_its_deadline_a_job_fails_and_frees_its_devices(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=8, activeDeadlineSeconds=4)
    status = team.until("job", "Failed")
    failed = team.condition("job", "Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert failed["message"].startswith("the job has run for 4 seconds, all attempts together")
    assert status["attempts"][0]["reason"] == "DeadlineExceeded"
    until_nothing_is_left(team, uid)
    team.submit("next", gpusPerNode=8)
    team.until("next", "Running")
    assert team.state("job") == "Failed"


def test_at_its_budget_a_job_is_suspended_and_goes_on_when_that_is_raised(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=8, placement={"budget": "0.03"})
    team.until("job", "Suspended")
    suspended = team.condition("job", "Suspended")
    assert suspended["reason"] == "BudgetExceeded"
    assert "all attempts together, and placement.budget is $0.03; raise it and the job goes on" in suspended["message"]
    until_nothing_is_left(team, uid)
    team.change("job", placement={"budget": "900.00"})
    second = team.until("job", "Running")
    assert second["attempt"] == 2
    # A limit may change while the job runs.
    team.change("job", activeDeadlineSeconds=1)
    team.until("job", "Failed")


def test_a_job_that_has_ended_is_deleted_after_its_ttl(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=1)
    uid = team.submit("job", runs_for="1s", gpusPerNode=8, ttlSecondsAfterFinished=2)
    eventually(lambda: team.api.find(team.path, "job") is None, 40, what="the job deleted")
    until_nothing_is_left(team, uid)


@pytest.mark.parametrize("cascade", ["Background", "Foreground", "Orphan"])
def test_a_deleted_job_leaves_nothing(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, cascade: str
) -> None:
    fleet(h100=2)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    api.delete(team.path, "gang", cascade)
    eventually(lambda: team.api.find(team.path, "gang") is None, what="the job deleted")
    # Under its name another one is created at once: it never meets what is left of the first.
    other = team.submit("gang", nodes=2, gpusPerNode=8)
    until_nothing_is_left(team, uid, timeout=60)
    team.until("gang", "Running", timeout=60)
    assert {job["metadata"]["ownerReferences"][0]["uid"] for job in team.jobs()} == {other}


def test_what_a_suspended_job_has_spent_is_said_and_its_program_gets_its_grace(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=1)
    began = audit.now()
    uid = team.submit("job", gpusPerNode=8, terminationGracePeriodSeconds=77, placement={"budget": "0.03"})
    team.until("job", "Running")
    (pod,) = team.pods(uid)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 77
    status = team.until("job", "Suspended")
    (attempt,) = status["attempts"]
    spent = status["cost"]["accrued"]
    assert (attempt["reason"], attempt["cost"]) == ("BudgetExceeded", spent)
    assert Decimal("0.03") <= Decimal(spent) < Decimal("0.06")
    said = f"the job has cost ${Decimal(spent):.2f}, all attempts together, and placement.budget is $0.03; raise it and the job goes on"
    assert team.condition("job", "Suspended")["message"] == said
    assert [reason for reason in team.told("job") if reason == "BudgetExceeded"] == ["BudgetExceeded"]
    until_nothing_is_left(team, uid)
    # The garbage collector ends the pod with the grace of its spec: the operator deletes no pod, and so shortens none.
    assert "pods" not in audit.writes(began, team.namespace)
    # A budget below what was spent resumes nothing.
    team.change("job", placement={"budget": spent})
    with pytest.raises(TimeoutError):
        team.until("job", "Running", timeout=5)


def test_a_price_that_changes_while_a_job_runs_is_said_and_not_applied_backwards(
    hasty: OperatorProcess, cluster: Cluster, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    (node,) = fleet(h100=1)
    named = {"matchLabels": {"kubernetes.io/hostname": node}}
    pool = {
        "nodeSelector": named,
        "price": {"perGPUHour": "90.00"},
        "accelerator": "H100-SXM",
        "resourceName": "nvidia.com/gpu",
    }
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "priced"}, "spec": pool}
    api.create(GPUPOOLS, body)
    try:
        team.submit("job", gpusPerNode=8, profile="llm", placement={"pools": {"allow": ["priced"]}})
        assert team.until("job", "Running")["placement"]["pricePerHour"] == "720.00"
        api.patch(GPUPOOLS, "priced", {"spec": {"price": {"perGPUHour": "9000.00"}}})

        def repriced() -> str:
            # Any change of the job makes the operator look again; else it does every five minutes.
            api.patch(team.path, "job", {"metadata": {"annotations": {"looked": str(time.monotonic())}}})
            return str(team.status("job")["placement"].get("currentPricePerHour", ""))

        eventually(lambda: repriced() == "72000.00", 30, what="the price of now", every=1.0)
        assert team.status("job")["placement"]["pricePerHour"] == "720.00"
        assert team.condition("job", "Running")["message"].endswith(
            "pool priced costs $72000.00 an hour now, this attempt goes on at $720.00"
        )
        team.change("job", suspend=True)
        eventually(lambda: team.status("job").get("attempts"), 30, what="the end of the attempt")
        (first,) = team.status("job")["attempts"]
        seconds = (datetime.fromisoformat(first["to"]) - datetime.fromisoformat(first["from"])).total_seconds()
        assert Decimal(first["cost"]) == Decimal(720) * Decimal(seconds) / 3600
        team.change("job", suspend=False)
        second = team.until("job", "Running", timeout=60)["placement"]
        assert (second["pricePerHour"], second.get("currentPricePerHour")) == ("72000.00", None)
        team.change("job", suspend=True)
        eventually(lambda: len(team.status("job").get("attempts", [])) == 2, 30, what="the end of the second attempt")
        costs = [Decimal(each["cost"]) for each in team.status("job")["attempts"]]
        by = gpujob(
            cluster, "cost", "--by", "namespace,profile,pool", "--since", "30d", "-o", "csv", "-n", team.namespace
        )
        (row,) = csv.DictReader(io.StringIO(by))
        assert (row["namespace"], row["profile"], row["pool"], row["jobs"]) == (team.namespace, "llm", "priced", "1")
        assert (Decimal(row["cost"]), row["unpricedGPUHours"]) == (sum(costs), "0.00")
        elsewhere = gpujob(cluster, "cost", "--by", "pool", "--since", "1m", "-o", "csv", "-n", "default")
        assert elsewhere.splitlines() == ["pool,jobs,gpuHours,cost,unpricedGPUHours"]
    finally:
        team.clear()
        api.delete(GPUPOOLS, "priced")


def gpujob(cluster: Cluster, *arguments: str) -> str:
    command = [sys.executable, "-m", "gpujob.cli.main", *arguments]
    done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
