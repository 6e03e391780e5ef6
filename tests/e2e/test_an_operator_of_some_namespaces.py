"""The chart's watchNamespaces: jobs of these namespaces run with the rights of their Roles, others get a warning and are left alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.e2e.api_server import NAMESPACES, ApiServer, AuditLog
from tests.e2e.chart import set_values
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet, Leaders, Operators
from tests.e2e.operator_process import ACCOUNT, NAMESPACE, OperatorProcess
from tests.e2e.team import Team, new_team

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def teams(api: ApiServer) -> Iterator[tuple[Team, Team]]:
    """A namespace that is watched and one that is not, for all tests: a release of some namespaces costs ten seconds."""
    name = f"some-{os.getpid()}"
    with new_team(api, name) as watched, new_team(api, f"{name}-elsewhere") as other:
        yield watched, other


@pytest.fixture
def team(teams: tuple[Team, Team], fleet: Fleet) -> Iterator[Team]:
    """The watched one; emptied before the nodes go."""
    yield teams[0]
    teams[0].clear()


@pytest.fixture
def other(teams: tuple[Team, Team], fleet: Fleet) -> Iterator[Team]:
    """The one that is not watched."""
    yield teams[1]
    teams[1].clear()


@pytest.fixture(scope="module")
def limited(
    cluster: Cluster, leaders: Leaders, operators: Operators, teams: tuple[Team, Team]
) -> Iterator[OperatorProcess]:
    """The operator of the team's namespace and of one that has no jobs."""
    leaders.stop()
    watched = teams[0].namespace
    set_values(cluster, watchNamespaces=["gpujob-system", watched])
    process = operators("limited")
    process.settings["GPUJOB_WATCH_NAMESPACES"] = f"gpujob-system,{watched}"
    process.start_without_waiting_for_the_lease()
    try:
        yield process
    finally:
        process.stop()
        set_values(cluster, watchNamespaces=[])
    assert process.errors() == []


def test_it_runs_the_jobs_of_its_namespaces_with_rights_in_them_alone(
    limited: OperatorProcess, api: ApiServer, audit: AuditLog, fleet: Fleet, team: Team, other: Team
) -> None:
    mark = audit.now()
    fleet(h100=3)
    elsewhere = other.submit("elsewhere", gpusPerNode=8)
    uid = team.submit("gang", nodes=2, gpusPerNode=8, runs_for="2s", ttlSecondsAfterFinished=0)
    team.until("gang", "Running")
    (reached, *_) = team.pods(uid)
    assert reached["metadata"]["namespace"] == team.namespace
    eventually(lambda: not api.find(team.path, "gang"), 60, what="a job that has ended and is deleted")
    assert other.status("elsewhere") == {}
    assert other.pods(elsewhere) == []
    refused = [entry["requestURI"] for entry in audit.since(mark) if entry["responseStatus"]["code"] == 403]
    assert refused == []
    written = {
        entry["objectRef"]["namespace"]
        for entry in audit.since(mark)
        if entry["verb"] in ("create", "patch", "delete") and entry["objectRef"].get("namespace")
    }
    # The Lease and what was spent are in its own namespace, events of GPUPools in that of objects without one.
    assert written - {NAMESPACE, "default"} == {team.namespace}


def test_gpus_that_pods_of_other_namespaces_hold_are_taken(
    limited: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, other: Team
) -> None:
    (node,) = fleet(h100=1)
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    pod = {"containers": [{"name": "main", "image": "none", "resources": limits}], "nodeName": node}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "holds"}, "spec": pod}
    api.create(f"{NAMESPACES}/{other.namespace}/pods", body)
    team.submit("waits", gpusPerNode=8)
    team.until("waits", "Queued")
    api.delete(f"{NAMESPACES}/{other.namespace}/pods", "holds")
    team.until("waits", "Running")


def test_who_submits_elsewhere_is_told(limited: OperatorProcess, api: ApiServer, team: Team, other: Team) -> None:
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": "told"}, "spec": {}}

    def warned() -> str:
        done = api.kubectl("create", "--dry-run=server", f"-n{other.namespace}", "-f", "-", stdin=json.dumps(body))
        assert done.returncode == 0, done.stderr
        return done.stderr

    sentence = (
        f"the operator in namespace gpujob-system runs no GPUJobs of namespace {other.namespace}: use one of gpujob-system, "
        f"{team.namespace}, or ask the admin to add it to the chart's watchNamespaces"
    )
    eventually(lambda: sentence in " ".join(warned().split()), 30, what="a warning")
    done = api.kubectl("create", "--dry-run=server", f"-n{team.namespace}", "-f", "-", stdin=json.dumps(body))
    assert (done.returncode, done.stderr) == (0, "")


def test_its_token_writes_nothing_elsewhere(limited: OperatorProcess, api: ApiServer, team: Team, other: Team) -> None:
    for verb, resource in (
        ("create", "jobs.batch"), ("delete", "jobs.batch"), ("create", "services"), ("patch", "gpujobs.gpujob.dev"),
        ("list", "gpujobs.gpujob.dev"), ("delete", "gpujobs.gpujob.dev"), ("create", "resourceclaimtemplates.resource.k8s.io"),
    ):  # fmt: skip
        asked = ("auth", "can-i", verb, resource, f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
        status = [] if verb != "patch" else ["--subresource=status"]
        assert api.kubectl(*asked, f"-n{other.namespace}", *status).stdout.strip() == "no", (verb, resource)
        assert api.kubectl(*asked, f"-n{team.namespace}", *status).stdout.strip() == "yes", (verb, resource)
