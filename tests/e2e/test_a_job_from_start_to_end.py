"""What one GPUJob costs the API server, what it says on its way, and how it ends."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.e2e.api_server import AuditLog, Object
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def test_a_job_costs_three_writes_and_two_events_and_a_wait_one_more(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(h100=1)
    mark = audit.now()
    team.submit("first", runs_for="3s", gpusPerNode=8)
    team.until("first", "Running")
    team.submit("second", runs_for="1s", gpusPerNode=8)
    team.until("second", "Queued")
    team.until_all(["first", "second"], "Succeeded")
    eventually(lambda: team.told("first")[1:] and team.told("second")[1:], what="two events of each")

    for name, states in (("first", 2), ("second", 3)):
        writes = audit.writes(mark, team.namespace, name)
        assert writes == {"jobs": 1, "gpujobs/status": states, "events": 2}, name
        assert team.told(name) == ["Placed", "Succeeded"]


def test_a_start_is_told_only_when_it_lasts(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    fleet(l4=1)
    mark = audit.now()
    uids = {
        "slow": team.submit("slow", starts_after="12s", runs_for="1s"),
        "quick": team.submit("quick", starts_after="3s", runs_for="1s"),
    }
    team.until("quick", "Placed")
    job = eventually(lambda: of_state(team, "slow", "Starting"), 30, what="slow Starting")
    starting, (pod,) = job["status"], team.pods(uids["slow"])
    # By the times of the cluster, in whole seconds, for this machine may be busy: five seconds after the pod was bound or later.
    said_at = max(at(each["time"]) for each in job["metadata"]["managedFields"] if each.get("subresource") == "status")
    assert said_at - bound_at(pod) >= timedelta(seconds=4)
    told = f"0 of 1 pods run; pod {pod['metadata']['name']} starts on node {pod['spec']['nodeName']}"
    assert [c["message"] for c in starting["conditions"] if c["type"] == "Running"] == [told]
    team.until_all(["slow", "quick"], "Succeeded")
    assert said_at < started_at(team.pods(uids["slow"])[0])
    assert audit.writes(mark, team.namespace, "slow")["gpujobs/status"] == 4
    # One more only where its pod, too, took five seconds.
    (pod,) = team.pods(uids["quick"])
    lasted = started_at(pod) - bound_at(pod) >= timedelta(seconds=4)
    assert audit.writes(mark, team.namespace, "quick")["gpujobs/status"] in ((3, 4) if lasted else (3,))


def of_state(team: Team, name: str, state: str) -> Object | None:
    """A job while it is in this state."""
    job = team.job(name)
    return job if job.get("status", {}).get("state") == state else None


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def bound_at(pod: Object) -> datetime:
    """When the scheduler bound a pod."""
    (found,) = (c["lastTransitionTime"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    return at(found)


def started_at(pod: Object) -> datetime:
    """When the program of a pod that has ended began."""
    (state,) = (c["state"]["terminated"] for c in pod["status"]["containerStatuses"])
    return at(state["startedAt"])


def test_a_failure_names_pod_node_and_exit_code_and_is_final(
    operator: OperatorProcess, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    (node,) = fleet(mi210=1)
    uid = team.submit("broken", runs_for="1s", exit_code=3)
    status = team.until("broken", "Failed")
    (pod,) = team.pods(uid)
    failed = team.condition("broken", "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "PodFailed")
    assert failed["message"] == f"pod {pod['metadata']['name']} on node {node} failed with exit code 3"
    assert status["completionTime"]
    assert status["startTime"]

    # What is final stays so, whatever becomes of the child. The event follows the status.
    eventually(lambda: len(team.told("broken")) == 2, what="the events of its placement and its failure")
    mark = audit.now()
    team.api.delete(f"/apis/batch/v1/namespaces/{team.namespace}/jobs", status["jobName"])
    eventually(lambda: not team.pods(uid), what="no pod")
    team.change("broken", suspend=True)
    operator.restart_after_kill()
    team.submit("another", runs_for="0s")
    team.until("another", "Succeeded")
    assert team.status("broken") == status
    assert audit.writes(mark, team.namespace, "broken") == {}


def test_kubectl_waits_for_a_job_and_shows_it_in_columns(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=2)
    team.submit("gang", runs_for="2s", nodes=2, gpusPerNode=8)
    waited = team.api.kubectl("wait", "--for=condition=Complete", "gpujob/gang", f"-n{team.namespace}", "--timeout=30s")
    assert (waited.returncode, waited.stdout) == (0, "gpujob.gpujob.dev/gang condition met\n")

    head, line = team.api.kubectl("get", "gj", f"-n{team.namespace}").stdout.splitlines()
    assert head.split() == ["NAME", "STATE", "POOL", "ACCEL", "PROGRESS", "TOK/S", "COST", "AS-OF", "AGE"]
    assert line.split()[:5] == ["gang", "Succeeded", "h100-sxm-p5-48xlarge-ondemand", "2x8", "H100-SXM"]
    wide = team.api.kubectl("get", "gpujob", "gang", f"-n{team.namespace}", "-owide").stdout.splitlines()
    assert wide[0].split()[9:] == ["IMAGE", "REASON", "$/H"]
    assert wide[1].split()[-2:] == ["Succeeded", team.status("gang")["placement"]["pricePerHour"]]
    described = team.api.kubectl("describe", "gpujob", "gang", f"-n{team.namespace}")
    assert "all 2 pods ended well" in described.stdout

    # A failure is no end of that wait, and one of this.
    team.submit("fails", runs_for="1s", exit_code=3)
    end = ("wait", "--for=jsonpath={.status.completionTime}", f"-n{team.namespace}", "--timeout=60s")
    for name in ("fails", "gang"):
        waited = team.api.kubectl(*end, f"gpujob/{name}")
        assert (waited.returncode, waited.stdout) == (0, f"gpujob.gpujob.dev/{name} condition met\n")
    assert team.state("fails") == "Failed"
