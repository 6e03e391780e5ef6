"""A child that the API server refuses, or whose name is taken, is one condition with the remedy, and is tried again."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import pytest

from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label
from tests.e2e.api_server import JOBS, PODS, AuditLog, Refused
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def test_an_object_that_has_the_childs_name_is_left_alone_and_said(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    (node,) = fleet(l4=1)
    # A uid cannot be known beforehand; a job that waits gives the time to take its child's name.
    team.submit("blocks", gpusPerNode=4)
    team.until("blocks", "Running")
    uid = team.submit("job", gpusPerNode=4, runs_for="0s")
    team.until("job", "Queued")
    pod = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never", "nodeName": node}
    name = child_name("job", uid, 1)
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "theirs"}},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    team.api.create(JOBS.format(team.namespace), theirs)
    before = eventually(lambda: settled(team, name), what="their Job in peace")
    team.delete("blocks")
    team.until("job", "Misconfigured", timeout=60)
    placed = team.condition("job", "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "NameConflict")
    assert placed["message"] == f"a Job {name} exists and is not this job's; delete or rename it"
    assert team.api.get(JOBS.format(team.namespace), name) == before
    team.api.delete(JOBS.format(team.namespace), name)
    team.until("job", "Succeeded", timeout=60)
    assert team.told("job").count("NameConflict") == 1


def settled(team: Team, name: str) -> Any:
    """The Job of that name once the Job controller has seen it."""
    job = team.api.get(JOBS.format(team.namespace), name)
    return job if job.get("status", {}).get("conditions") else None


def test_what_admission_refuses_is_said_once_and_tried_again_ever_later(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=1)
    # A policy that refuses pods, not Jobs: only the Job's events say so.
    refuse(team, "pods", {Label.JOB: "podless"})
    podless = team.submit("podless", gpusPerNode=4)
    name = team.until("podless", "Placed")["jobName"]
    asked = time.monotonic()

    refuse(team, "jobs")
    mark = audit.now()
    uid = team.submit("refused", resources={"cpu": "500m"}, runs_for="0s")
    team.until("refused", "Misconfigured")
    placed = team.condition("refused", "Placed")
    assert placed["reason"] == "ChildRefused"
    assert placed["message"].startswith("the API server refuses its child: ")
    assert "no Jobs today" in placed["message"]
    assert team.jobs(uid) == []
    eventually(lambda: audit.writes(mark, team.namespace, "refused")["jobs"] >= 3, 20, what="three tries")
    assert audit.writes(mark, team.namespace, "refused")["gpujobs/status"] == 1
    assert audit.writes(mark, team.namespace, "refused")["events"] == 1
    allow(team, "jobs")
    team.until("refused", "Succeeded", timeout=60)

    eventually(lambda: team.status("podless")["display"]["reason"] == "FailedCreate", 40, what="the reason")
    assert time.monotonic() - asked > 15
    assert team.state("podless") == "Placed"
    message, bound = team.condition("podless", "Running")["message"].split("; the job gives its GPUs back at ")
    policy = f"{team.namespace}-pods"
    assert message == (
        f"child Job {name} exists, 0 of 1 pods are there; the API server refuses the others: ValidatingAdmissionPolicy "
        f"'{policy}' with binding '{policy}' denied request: no Pods today; ask who runs that webhook or policy"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ if that stays so", bound)
    assert team.pods(podless) == []
    # They were read once or twice by now, and nothing watches them.
    assert 1 <= len(lists_of_events(audit, mark)) <= 2
    allow(team, "pods")
    team.until("podless", "Running", timeout=120)


def test_what_a_namespace_refuses_is_not_tried_on_every_pool(
    no_operator: None, operators: Operators, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    hasty = operators("hasty")
    hasty.settings["GPUJOB_UNBOUND_SECONDS"] = "20"
    hasty.start_without_waiting_for_the_lease()
    fleet(h100=1, mi210=1, l4=1)
    refuse(team, "pods", {Label.JOB: "podless"})
    mark = audit.now()
    uid = team.submit("podless", gpusPerNode=4)
    rested = eventually(lambda: both_rest(team), 90, what="two pools that rest for the same words")
    assert len({each["refusal"] for each in rested}) == 1
    eventually(lambda: team.jobs(uid) == [], 30, what="the children gone")
    why = "pools are tried again after GPUJOB_UNBOUND_SECONDS, 20 here; one refusal counts for all pools"
    remains(lambda: team.status("podless")["attempt"] == 2, 20, because=why, every=1)
    created = [e for e in audit.since(mark) if e["verb"] == "create" and e["objectRef"]["resource"] == "jobs"]
    assert len([e for e in created if e["objectRef"]["namespace"] == team.namespace]) == 2
    assert "the API server refuses" in team.condition("podless", "Placed")["message"]
    allow(team, "pods")
    team.until("podless", "Running", timeout=120)
    hasty.stop()
    assert hasty.errors() == []


def both_rest(team: Team) -> list[dict[str, str]] | None:
    """The excluded pools once each of them says until when no other is tried."""
    found: list[dict[str, str]] = team.status("podless").get("excludedPools", [])
    return found if len(found) == 2 and all("othersUntil" in each for each in found) else None


def lists_of_events(audit: AuditLog, mark: int) -> list[str]:
    """The URIs of the operator's reads of events since a mark; each is a list of the events of one Job."""
    events = [
        e for e in audit.since(mark) if e.get("objectRef", {}).get("resource") == "events" and e["verb"] != "create"
    ]
    assert {entry["verb"] for entry in events} == {"list"}
    assert all("regarding.uid" in entry["requestURI"] for entry in events)
    return [entry["requestURI"] for entry in events]


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"


def refuse(team: Team, kind: str, labels: Mapping[str, str] | None = None) -> None:
    """Makes an admission policy that refuses Jobs or pods with these labels in the team's namespace, and waits until it is in
    force."""
    group = "batch" if kind == "jobs" else ""
    name = f"{team.namespace}-{kind}"
    policy = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [kind]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}},
            "objectSelector": {"matchLabels": dict(labels or {})},
        },
        "validations": [{"expression": "false", "message": f"no {kind.capitalize()} today"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for path, what, spec in (
        (POLICIES, "ValidatingAdmissionPolicy", policy),
        (BINDINGS, "ValidatingAdmissionPolicyBinding", binding),
    ):
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": what, "metadata": {"name": name}}
        team.api.create(path, head | {"spec": spec})
    eventually(lambda: _refused(team, kind, labels or {}), 30, what="a policy in force", every=0.2)


def allow(team: Team, kind: str) -> None:
    """Takes the policy away."""
    for path in (BINDINGS, POLICIES):
        team.api.delete(path, f"{team.namespace}-{kind}")


def _refused(team: Team, kind: str, labels: Mapping[str, str]) -> bool:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    metadata = {"name": "probe", "labels": dict(labels)}
    tried = (
        (JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}})
        if kind == "jobs"
        else (PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    )
    try:
        team.api.try_out(tried[0].format(team.namespace), tried[1])
    except Refused as refusal:
        return f"no {kind.capitalize()} today" in str(refusal)
    return False
