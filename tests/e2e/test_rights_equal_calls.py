"""The chart grants what the operator calls, and no more: read from the API server's log of the whole run, so it comes last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from gpujob.render.names import child_name
from tests.e2e.api_server import JOBS, ApiServer, AuditLog
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import NAMESPACE, OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

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


def calls(audit: AuditLog) -> dict[Right, set[int]]:
    """The (verb, group, resource) of all requests so far, with the codes of their answers."""
    found: dict[Right, set[int]] = {}
    for entry in audit.since():
        target = entry.get("objectRef", {})
        if "resource" in target:
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            key = (entry["verb"], target.get("apiGroup", ""), resource)
            found.setdefault(key, set()).add(entry["responseStatus"]["code"])
    return found


def test_what_the_chart_grants_is_what_the_operator_calls(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    make_every_call(team, fleet)
    role = api.get(f"{RBAC}/clusterroles", "gpujob-operator")["rules"]
    own = api.get(f"{RBAC}/namespaces/{NAMESPACE}/roles", "gpujob-operator")["rules"]
    granted = rights(role) | rights(own)
    eventually(lambda: granted <= calls(audit).keys(), 40, what="the operator using all of its rights", every=0.5)
    made = calls(audit)
    assert made.keys() - granted == set()
    # A quota answers 403 too; every other one would be a right that is missing.
    assert {right for right, codes in made.items() if 403 in codes} <= {("create", "batch", "jobs")}
    assert {entry["requestURI"].partition("?")[0] for entry in audit.since() if "objectRef" not in entry} <= {
        "/api", "/apis", "/version",
    }  # fmt: skip


def make_every_call(team: Team, fleet: Fleet) -> None:
    """The few things that need the rarer rights: a taken name, a suspended gang."""
    fleet(h100=2)
    team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    uid = team.submit("taken", gpusPerNode=8)
    team.until("taken", "Queued")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    name = child_name("taken", uid, 1)
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    team.api.create(JOBS.format(team.namespace), {**theirs, "spec": {"suspend": True, "template": template}})
    team.change("gang", suspend=True)
    team.until("taken", "Misconfigured", timeout=60)
    gang = team.submit("again", nodes=2, gpusPerNode=8)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": child_name("again", gang, 1)}}
    assert service
    team.until("again", "Running")
