"""The chart grants what the operator calls, and no more: read from the API server's log; the rare calls are made here."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label
from tests.e2e.api_server import JOBS, NODES, SERVICES, ApiServer, AuditLog
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.dra_drivers import A100, NVIDIA, TEMPLATES, WHOLE, Drivers, device
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.reporter import Reporter, reach
from tests.e2e.rights import (
    OF_OPERATOR,
    OF_PODS,
    assert_granted,
    calls,
    denied_by_own_policies,
    granted,
    refusals,
)
from tests.e2e.team import Team
from tests.e2e.test_what_is_refused_is_said import allow, refuse

pytestmark = pytest.mark.e2e


def test_what_the_chart_grants_is_what_the_operator_calls(
    hasty: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    make_the_rare_calls(hasty, api, fleet, team)
    if ("patch", "gpujob.dev", "gpujobprofiles") not in calls(audit):
        teach_a_profile(team)
    # The runner's ConfigMap goes a while after the last child that mounts it.
    with contextlib.suppress(TimeoutError):
        eventually(lambda: granted(api) <= calls(audit), 90, what="all rights used", every=0.5)
    allow(team, "pods")
    assert granted(api) - calls(audit) == set(), "never used"
    assert_granted(api, audit)


def test_a_refusal_by_the_charts_policies_is_seen_in_the_log(
    api: ApiServer, audit: AuditLog, team: Team, tmp_path: Path
) -> None:
    stolen = operator_kubeconfig(api, tmp_path / "kubeconfig")
    mark = audit.now()
    done = api.kubectl("create", "job", "stolen", "--image=none", f"-n{team.namespace}", f"--kubeconfig={stolen}")
    assert OF_OPERATOR in done.stderr or OF_PODS in done.stderr
    assert len(refusals(audit.since(mark))) == 1
    # Of whom the refusal is known: kubectl has the token, and is no operator.
    assert denied_by_own_policies(audit, mark) == []


def make_the_rare_calls(operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team) -> None:
    """What needs the rarer rights, so that this test can run alone: taken names, a suspended gang, nodes that go."""
    nodes = fleet(h100=2)
    fleet(l4=1)
    refuse(team, "pods", {Label.JOB: "podless"})
    team.submit("podless", placement={"accelerators": {"allow": ["L4"]}})
    team.until("podless", "Placed")
    take_the_name_of_a_claim_template(api, team)
    team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    uids = {name: team.submit(name, nodes=2, gpusPerNode=4) for name in ("job-taken", "service-taken")}
    team.until_all(uids, "Queued")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True, "template": template}}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}
    for kind, path, body in (("job", JOBS, job), ("service", SERVICES, service)):
        metadata = {"name": child_name(f"{kind}-taken", uids[f"{kind}-taken"], 1)}
        api.create(path.format(team.namespace), {**body, "metadata": metadata})
    budget = {"metadata": {"annotations": {"gpujob.dev/monthly-budget": "100000"}}}
    api.patch("/api/v1/namespaces", team.namespace, budget)
    team.submit("short", runs_for="1s", ttlSecondsAfterFinished=0)
    team.change("gang", suspend=True)
    team.until_all(uids, "Misconfigured")
    eventually(lambda: api.find(team.path, "short") is None, 60, what="the short job deleted, which a right is for")
    for name in nodes:
        api.delete(NODES, name)
    # A leader that ends gives the Lease back, and a new one shows at once what is gone.
    operator.stop()
    operator.start().until_leading()


def teach_a_profile(team: Team) -> None:
    """A job that measures for long enough to be worth remembering, on the node that is left."""
    reporter = Reporter()
    uid = team.submit("teaches", runs_for="25s", profile="taught", telemetry={"port": reporter.port})
    team.until("teaches", "Running")
    reach(team, uid)
    team.until("teaches", "Succeeded", timeout=90)
    reporter.close()
    team.clear()


def take_the_name_of_a_claim_template(api: ApiServer, team: Team) -> None:
    """A job whose pods would claim devices, and a template of that name that is not the job's."""
    drivers = Drivers(api, "rights")
    drivers.device_class(NVIDIA, WHOLE)
    uid = team.submit("claim-taken", placement={"accelerators": {"allow": ["A100-80GB"]}})
    team.until("claim-taken", "Impossible")
    requests = [{"name": "gpus", "exactly": {"deviceClassName": NVIDIA}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": child_name("claim-taken", uid, 1)},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    api.create(TEMPLATES.format(team.namespace), body)
    drivers.publish(drivers.node("claims"), NVIDIA, device("gpu-0", A100))
    team.until("claim-taken", "Misconfigured")
    assert team.condition("claim-taken", "Placed")["reason"] == "NameConflict"
    orphan_a_claim_template(api, team)
    drivers.clear()


def orphan_a_claim_template(api: ApiServer, team: Team) -> None:
    """A job whose pods claim devices, deleted so that the API server leaves its children."""
    team.submit("orphaned", placement={"accelerators": {"allow": ["A100-80GB"]}})
    team.until("orphaned", "Running")
    api.delete(team.path, "orphaned", "Orphan")
    eventually(lambda: len(api.items(TEMPLATES.format(team.namespace))) == 1, 60, what="its template deleted")
