"""The chart grants what the operator calls, and no more: read from the API server's log of the whole run, so it comes last."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpujob.values.names import child_name
from tests.e2e.api_server import JOBS, NODES, SERVICES, ApiServer, AuditLog
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.dra_drivers import A100, NVIDIA, TEMPLATES, WHOLE, Drivers, device
from tests.e2e.operator_process import NAMESPACE, OperatorProcess, operator_kubeconfig
from tests.e2e.reporter import Reporter, reach
from tests.e2e.team import Team

# It reads the log of all calls, so they have to be made.
pytestmark = [pytest.mark.e2e, pytest.mark.last(1)]

OF_OPERATOR = "the-operator-writes-children-only.gpujob-operator.gpujob.dev"
OF_PODS = "pods-of-children-are-confined.gpujob-operator.gpujob.dev"
OF_METRICS = {
    ("create", "authentication.k8s.io", "tokenreviews"), ("create", "authorization.k8s.io", "subjectaccessreviews"),
}  # fmt: skip
"""What metrics.authentication of the chart grants besides, as it does in test_metrics_need_a_token."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Right = tuple[str, str, str]


def rights(rules: Iterable[dict[str, Any]]) -> set[Right]:
    """The (verb, group, resource) of rules."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def calls(audit: AuditLog) -> set[Right]:
    """The (verb, group, resource) of all requests so far."""
    found: set[Right] = set()
    for entry in audit.since():
        target = entry.get("objectRef", {})
        if "resource" in target:
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            key = (entry["verb"], target.get("apiGroup", ""), resource)
            found.add(key)
            if (entry["verb"], entry["responseStatus"]["code"]) == ("patch", 201):
                # A server-side apply of what is not there yet is authorized as a create too.
                found.add(("create", *key[1:]))
    return found


DISCOVERY = re.compile(r"/version|/api(/v1)?|/apis(/[^/]+(/[^/]+)?)?|/openapi/v3/apis/gpujob[.]dev/v1alpha1")
"""Paths that say which groups and kinds there are, and their schemas: everyone may read them, and kopf does at its start."""


def test_what_the_chart_grants_is_what_the_operator_calls(
    hasty: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    make_the_rare_calls(hasty, api, fleet, team)
    if ("patch", "gpujob.dev", "gpujobprofiles") not in calls(audit):
        teach_a_profile(fleet, team)
    role = api.get(f"{RBAC}/clusterroles", "gpujob-operator")["rules"]
    own = api.get(f"{RBAC}/namespaces/{NAMESPACE}/roles", "gpujob-operator")["rules"]
    granted = rights(role) | rights(own)
    # The runner's ConfigMap goes a while after the last child that mounts it.
    with contextlib.suppress(TimeoutError):
        eventually(lambda: granted <= calls(audit), 90, what="all rights used", every=0.5)
    made = calls(audit)
    assert (granted - made, made - granted - OF_METRICS) == (set(), set()), "never used, not granted"
    assert audit.forbidden() == []
    assert denied_by_own_policies(audit) == []
    others = {entry["requestURI"].partition("?")[0] for entry in audit.since() if "objectRef" not in entry}
    assert [path for path in others if not DISCOVERY.fullmatch(path)] == []


def test_a_refusal_by_the_charts_policies_is_seen_in_the_log(
    api: ApiServer, audit: AuditLog, team: Team, tmp_path: Path
) -> None:
    stolen = operator_kubeconfig(api, tmp_path / "kubeconfig")
    done = api.kubectl("create", "job", "stolen", "--image=none", f"-n{team.namespace}", f"--kubeconfig={stolen}")
    assert OF_OPERATOR in done.stderr or OF_PODS in done.stderr
    assert len(denied_by_own_policies(audit)) == 1


def denied_by_own_policies(audit: AuditLog) -> list[str]:
    """What the chart's admission policies on the operator's account refused of its calls, in all tests so far."""
    said = (str(entry["responseStatus"].get("message", "")) for entry in audit.since())
    return [each for each in said if OF_OPERATOR in each or OF_PODS in each]


def make_the_rare_calls(operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team) -> None:
    """What needs the rarer rights, so that this test can run alone: taken names, a suspended gang, nodes that go."""
    nodes = fleet(h100=2)
    team.submit("nobodys", serviceAccountName="nobody")
    team.until("nobodys", "Placed")
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


def teach_a_profile(fleet: Fleet, team: Team) -> None:
    """A job that measures for long enough to be worth remembering."""
    fleet(l4=1)
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
