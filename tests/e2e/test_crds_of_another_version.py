"""CRDs that lack what the operator writes: it does not act on a job until they are upgraded, and says why."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from tests.e2e.api_server import CRDS, LEASE, ApiServer
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team
from tests.unit.cluster.test_it_starts_as_installed import free_port

pytestmark = pytest.mark.e2e

NAME = "gpujobs.gpujob.dev"


@pytest.fixture
def upgrade(api: ApiServer, no_operator: None) -> Iterator[Callable[[], None]]:
    """The CRD of GPUJobs as if an earlier version had no status.attempts; the call brings that of this version."""
    crd = api.get(CRDS, NAME)
    older = deepcopy(crd)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["attempts"]
    api.replace(CRDS, NAME, older)

    def whole() -> None:
        api.replace(CRDS, NAME, {**api.get(CRDS, NAME), "spec": crd["spec"]})

    yield whole
    whole()


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
        assert said.splitlines()[0] == (
            "the CRD gpujobs.gpujob.dev lacks status.attempts, which this version writes, so it does not act: "
            "upgrade the chart with crds.enabled=true, or apply this version's crds/ with kubectl"
        )
        team.submit("waits", gpusPerNode=1)
        remains(
            lambda: (team.status("waits"), team.jobs(), api.find(LEASE)) == ({}, [], None), 6,
            because="an operator that acts takes the Lease and writes a status within 5 s",
        )  # fmt: skip
        upgrade()
        team.until("waits", "Placed", "Starting", "Running", timeout=60)
        assert readiness(port)[0] == 200
    finally:
        process.stop()
