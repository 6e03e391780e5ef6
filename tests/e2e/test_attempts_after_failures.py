"""What the infrastructure fails is tried again on another node; what the program fails is not repeated on another pool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.api_server import JOBS, PODS, Object
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def shut_down(team: Team, pod: Object) -> None:
    """Ends a pod as a kubelet does whose machine is shut down."""
    cause = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": "node shuts down",
    }
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z",
                            "startedAt": pod["status"]["startTime"]}}  # fmt: skip
    train = {**pod["status"]["containerStatuses"][0], "state": ended, "ready": False, "started": False}
    status = {
        "phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown.",
        "conditions": [cause], "containerStatuses": [train],
    }  # fmt: skip
    team.api.patch(PODS.format(team.namespace), pod["metadata"]["name"], {"status": status}, "status")


def gpujob(team: Team, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpujob.cli.main", *arguments, "-n", team.namespace]
    return subprocess.run(command, env=team.api.cluster.environment(), capture_output=True, text=True, timeout=60)


def test_a_failure_of_the_infrastructure_is_tried_again_on_another_node(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    uid = team.submit("moves", gpusPerNode=8)
    first = team.until("moves", "Running")
    (pod,) = team.pods(uid)
    shut_down(team, pod)

    restarting = team.until("moves", "Restarting")
    left, gone = (
        pod["spec"]["nodeName"],
        f"pod {pod['metadata']['name']} on node {pod['spec']['nodeName']} was taken away",
    )
    assert [(each["name"], each["attempt"], each["reason"]) for each in restarting["excludedNodes"]] == [
        (left, 1, "NodeLost")
    ]
    assert team.condition("moves", "Placed")["message"].startswith(
        f"{gone} (TerminationByKubelet): node shuts down; attempt 2 follows at "
    )
    second = team.until("moves", "Running")
    assert (second["attempt"], second["failures"]) == (2, {"infrastructure": 1})
    assert second["jobName"] != first["jobName"]
    assert second["placement"]["nodeNames"] != first["placement"]["nodeNames"]
    (running,) = [each for each in team.pods(uid) if each["status"]["phase"] == "Running"]
    assert running["spec"]["nodeName"] != left
    assert running["metadata"]["labels"]["gpujob.dev/attempt"] == "2"
    (entry,) = second["attempts"]
    assert (entry["attempt"], entry["nodes"], entry["blame"]) == (1, [left], "Infrastructure")
    # The Job that failed stays for its logs, with the number of its attempt.
    labels = {job["metadata"]["name"]: job["metadata"]["labels"]["gpujob.dev/attempt"] for job in team.jobs(uid)}
    assert labels == {first["jobName"]: "1", second["jobName"]: "2"}

    # A user deletes the second one: the job ends, and both attempts say why.
    team.api.delete(JOBS.format(team.namespace), second["jobName"])
    final = team.until("moves", "Failed")
    assert [(each["attempt"], each["reason"]) for each in final["attempts"]] == [(1, "NodeLost"), (2, "ChildLost")]


def test_a_failure_of_the_program_is_not_repeated_on_another_pool(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(mi210=1, h100=1)
    uid = team.submit("wrong", runs_for="2s", exit_code=3, gpusPerNode=8, retries={"user": 1})
    first = team.until("wrong", "Running", "Restarting")
    pool = first.get("placement", first["attempts"][0] if "attempts" in first else {})["pool"]
    team.until("wrong", "Restarting")
    (pod,) = team.pods(uid)
    team.api.patch("/api/v1/nodes", pod["spec"]["nodeName"], {"spec": {"unschedulable": True}})
    # The pause is over, the other pool has room, and the job waits for its own.
    waiting = team.until("wrong", "Queued")
    reasons = {each["pool"]: each["reason"] for each in waiting["candidates"]}
    assert reasons.pop(pool) == "Cordoned"
    assert set(reasons.values()) == {"PoolExcluded"}
    assert len(team.jobs(uid)) == 1
    team.api.patch("/api/v1/nodes", pod["spec"]["nodeName"], {"spec": {"unschedulable": False}})
    final = team.until("wrong", "Failed")
    assert [(each["attempt"], each["pool"], each["blame"]) for each in final["attempts"]] == [
        (1, pool, "User"), (2, pool, "User"),
    ]  # fmt: skip
    assert team.condition("wrong", "Failed")["message"].endswith(
        "exit code 3; it was tried again 1 time (retries.user)"
    )
    eventually(lambda: len(team.jobs(uid)) == 2, what="both Jobs stay")

    # What people see of it.
    waited = gpujob(team, "wait", "wrong")
    assert (waited.returncode, waited.stdout.startswith("Failed wrong: pod ")) == (1, True), waited
    told = gpujob(team, "explain", "wrong").stdout
    rows = [line.split() for line in told.splitlines() if line.split()[:1] in (["1"], ["2"])]
    assert [(row[0], row[1], "PodFailed" in row) for row in rows] == [("1", pool, True), ("2", pool, True)]
    assert gpujob(team, "wait", "nobody").returncode == 2


def test_a_device_that_breaks_under_a_job_moves_it(operator: OperatorProcess, fleet: Fleet, team: Team) -> None:
    fleet(h100=2)
    uid = team.submit("moved", gpusPerNode=8)
    team.until("moved", "Running")
    (pod,) = team.pods(uid)
    sick = pod["spec"]["nodeName"]
    node = team.api.get("/api/v1/nodes", sick)
    now = node["status"]["conditions"][0]["lastHeartbeatTime"]
    later = max(now, pod["status"]["startTime"])
    fault = {
        "type": "XIDErrors",
        "status": "True",
        "reason": "XID79",
        "lastHeartbeatTime": later,
        "lastTransitionTime": later,
    }
    conditions = [*node["status"]["conditions"], fault]
    team.api.patch("/api/v1/nodes", sick, {"status": {"conditions": conditions}}, "status")

    moved = team.until("moved", "Restarting", timeout=60)
    assert [(each["name"], each["reason"]) for each in moved["excludedNodes"]] == [(sick, "DeviceFault")]
    assert team.condition("moved", "Placed")["message"].startswith(
        f"node {sick} reports a device fault since {later}: condition XIDErrors is True (XID79); attempt 2 follows at "
    )
    again = team.until("moved", "Running", timeout=60)
    assert (again["attempt"], again["failures"]) == (2, {"infrastructure": 1})
    assert again["placement"]["nodeNames"] != [sick]
    eventually(lambda: "DeviceFault" in team.told("moved"), what="an event that says so")
