"""Limits of a job on a real API server: what reaches one frees its devices; and a deleted job leaves nothing, however it is deleted."""

from __future__ import annotations

import pytest

from tests.e2e.api_server import ApiServer
from tests.e2e.cluster import eventually
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
