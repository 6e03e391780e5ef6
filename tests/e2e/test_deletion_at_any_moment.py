"""A job that is deleted while the operator is off, or with its whole namespace, leaves nothing and blocks nothing."""

from __future__ import annotations

import pytest

from tests.e2e.api_server import NAMESPACES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team, new_team

pytestmark = pytest.mark.e2e


def left(team: Team, uid: str) -> bool:
    """Whether anything of a job is there."""
    return bool(team.pods(uid) or team.jobs(uid) or team.services(uid))


@pytest.mark.parametrize("cascade", ["Background", "Foreground", "Orphan"])
def test_a_job_that_is_deleted_while_the_operator_is_off_leaves_nothing(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, cascade: str
) -> None:
    fleet(h100=2)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running", timeout=60)
    operator.stop()
    try:
        api.delete(team.path, "gang", cascade)
        eventually(lambda: api.find(team.path, "gang") is None, 60, what="the job deleted")
        if cascade != "Orphan":
            eventually(lambda: not left(team, uid), 60, what="nothing of the job, without an operator")
    finally:
        operator.start().until_leading()
    eventually(lambda: not left(team, uid), 60, what="nothing of the job")
    # Its devices are free.
    team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running", timeout=60)


def test_a_namespace_that_goes_takes_its_jobs_along_and_stops_no_other(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    with new_team(api, f"{team.namespace}-goes") as other:
        other.submit("gang", nodes=2, gpusPerNode=8)
        other.until("gang", "Running", timeout=60)
        # It would start once the gang is gone, in a namespace that takes no new object any more.
        other.submit("waits", nodes=2, gpusPerNode=8)
        other.until("waits", "Queued", timeout=60)
        api.delete(NAMESPACES, other.namespace)
        eventually(lambda: api.find(NAMESPACES, other.namespace) is None, 90, what="the namespace deleted")
    team.submit("after", nodes=2, gpusPerNode=8)
    team.until("after", "Running", timeout=60)
