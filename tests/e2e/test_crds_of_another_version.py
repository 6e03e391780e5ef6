"""CRDs that lack what the operator writes: it does not act on a job until they are upgraded, and says why."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime

import pytest

from tests.e2e.api_server import CRDS, GPUJOBS, LEASE, ApiServer, Refused
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team
from tests.ports import free_port

pytestmark = pytest.mark.e2e

NAME = "gpujobs.gpujob.dev"
REFUSED = (
    "the CRD gpujobs.gpujob.dev lacks status.attempts, which this version writes, so it does not act: "
    "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
)


@pytest.fixture
def upgrade(api: ApiServer, no_operator: None) -> Iterator[Callable[[], None]]:
    """The CRD of GPUJobs as if an earlier version had no status.attempts; the call brings that of this version."""
    crd = api.get(CRDS, NAME)
    older = deepcopy(crd)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["attempts"]
    api.replace(CRDS, NAME, older)
    until_served(api)

    def whole() -> None:
        api.replace(CRDS, NAME, {**api.get(CRDS, NAME), "spec": crd["spec"]})
        until_served(api)

    yield whole
    whole()


def until_served(api: ApiServer) -> None:
    """While its schema is replaced a kind answers 429 for a moment."""

    def answers() -> bool:
        try:
            api.items(GPUJOBS.format("default"))
        except Refused:
            return False
        return True

    eventually(answers, 30, what="GPUJobs served again")


def readiness(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_an_operator_does_not_act_on_fields_that_would_be_lost(
    api: ApiServer, operators: Operators, fleet: Fleet, team: Team, upgrade: Callable[[], None]
) -> None:
    fleet(h100=1)
    api.delete(*LEASE.rsplit("/", 1))
    process: OperatorProcess = operators("of-newer-fields")
    port = free_port()
    process.settings |= {"GPUJOB_HEALTH_PORT": str(port), "GPUJOB_LISTEN": "127.0.0.1"}
    process.start()
    try:
        code, said = eventually(
            lambda: found if "lacks" in (found := readiness(port))[1] else None, what="what is missing"
        )
        assert code == 503
        assert said.splitlines()[0] == REFUSED
        team.submit("waits", gpusPerNode=1)
        team.until("waits", "Misconfigured", timeout=30)
        placed = team.condition("waits", "Placed")
        assert (placed["status"], placed["reason"], placed["message"]) == ("False", "CRDsOutdated", REFUSED)
        told = api.get(team.path, "waits")["metadata"]["resourceVersion"]
        remains(
            lambda: (api.get(team.path, "waits")["metadata"]["resourceVersion"], team.jobs(), api.find(LEASE)) == (told, [], None),
            8, because="an operator that acts takes the Lease and makes a Job within 5 s, and this one says it once",
        )  # fmt: skip
        upgrade()
        team.until("waits", "Placed", "Starting", "Running", timeout=60)
        assert team.condition("waits", "Placed")["status"] == "True"
        assert readiness(port)[0] == 200
    finally:
        process.stop()


def test_while_an_earlier_operator_leads_jobs_are_that_one_s(
    api: ApiServer, operators: Operators, team: Team, upgrade: Callable[[], None]
) -> None:
    """Also a job that ran before is left as it is: what the CRD lacks of its status would be lost with a write."""
    leases, name = LEASE.rsplit("/", 1)
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "earlier_1", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    api.delete(leases, name)
    api.create(
        leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
    )
    process = operators("beside-an-earlier-one").start()
    try:
        team.submit("waits", gpusPerNode=1)
        team.submit("ran", gpusPerNode=1)
        status = {"state": "Restarting", "attempt": 1, "jobName": "ran-1"}
        api.patch(team.path, "ran", {"status": status}, "status")
        remains(lambda: team.status("waits") == {}, 10, because="another operator leads")
        api.patch(leases, name, {"spec": {"holderIdentity": ""}})
        team.until("waits", "Misconfigured", timeout=30)
        assert team.condition("waits", "Placed")["reason"] == "CRDsOutdated"
        assert team.status("ran") == status
    finally:
        process.stop()
        api.delete(leases, name)
