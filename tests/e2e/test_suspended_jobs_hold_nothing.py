"""A suspended job is a plan that holds no device; resumed, it is a new attempt beside nothing of the earlier one."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.cluster import Cluster, eventually, signal_component
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def test_a_suspended_job_frees_its_devices_and_resumes_as_a_new_attempt(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=8)
    first = team.until("job", "Running")
    team.submit("other", gpusPerNode=8)
    team.until("other", "Queued")
    team.change("job", suspend=True)
    team.until("job", "Suspended")
    eventually(lambda: not team.pods(uid) and not team.jobs(uid), what="no pod of the suspended job")
    team.until("other", "Running")
    team.change("job", suspend=False)
    team.until("job", "Queued")
    team.delete("other")
    second = team.until("job", "Running", timeout=60)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert second["jobName"] == first["jobName"].removesuffix("-1") + "-2"
    assert len(team.pods(uid)) == 1

    # Resumed before its end was seen, and in spite of a crash: still no loss, still one attempt after the other.
    operator.signal(signal.SIGSTOP)
    team.change("job", suspend=True)
    operator.signal(signal.SIGCONT)
    eventually(lambda: team.state("job") == "Suspended" or not team.jobs(uid), 10, every=0.002)
    team.change("job", suspend=False)
    operator.restart_after_kill()
    third = team.until("job", "Running", timeout=60)
    eventually(lambda: len(team.pods(uid)) == 1, what="one pod")
    assert third["attempt"] == 3
    assert team.told("job").count("Placed") == 3


def test_the_next_attempt_waits_for_a_pod_that_lingers_and_holds_its_devices(
    operator: OperatorProcess, cluster: Cluster, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    uid = team.submit("job", gpusPerNode=4)
    team.until("job", "Running")
    signal_component(cluster.dir, "kwok", signal.SIGSTOP)
    try:
        # No kubelet answers: the old pod never stops saying that it runs.
        team.change("job", suspend=True)
        team.until("job", "Suspended")
        eventually(lambda: not team.jobs(uid), what="no child Job")
        team.change("job", suspend=False)
        status = team.until("job", "Restarting")
        assert (status["display"]["reason"], status["attempt"]) == ("EarlierAttemptEnding", 1)
        (pod,) = team.pods(uid)
        told = team.condition("job", "Placed")["message"]
        assert told.startswith(f"attempt 2 waits until pod {pod['metadata']['name']} of attempt 1 on node ")
        team.submit("other", gpusPerNode=8)
        team.until("other", "Queued")
        assert (team.jobs(uid), len(team.pods(uid))) == ([], 1)
    finally:
        signal_component(cluster.dir, "kwok", signal.SIGCONT)
    status = team.until("job", "Running", timeout=60)
    assert (status["attempt"], len(team.pods(uid)), team.state("other")) == (2, 1, "Queued")


def test_a_suspended_job_is_a_plan_only_and_a_running_one_cannot_be_changed(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1, mi300x=1)
    uid = team.submit("job", suspend=True, images={"cuda": {"image": "example.com/train:1"}})
    status = team.until("job", "Suspended")
    assert status["placement"]["pool"] == "h100-sxm-p5-48xlarge-ondemand"
    assert status["placement"]["image"] == "example.com/train:1"
    assert [each["outcome"] for each in status["candidates"]] == ["Chosen", "Rejected"]
    assert team.condition("job", "Suspended")["status"] == "True"
    assert (team.jobs(uid), team.services(uid), team.pods(uid)) == ([], [], [])

    team.change("job", images={"rocm": {"image": "example.com/train:2"}, "cuda": None})
    eventually(lambda: "mi300x" in team.status("job")["placement"]["pool"], what="another plan")
    team.change("job", suspend=False)
    team.until("job", "Running")
    patch = '{"spec": {"images": {"rocm": {"image": "example.com/train:3"}}}}'
    refused = team.api.kubectl("patch", "gpujob", "job", f"-n{team.namespace}", "--type=merge", "-p", patch)
    child = team.status("job")["jobName"]
    sentence = f"spec cannot change while the child Job {child} exists; create a new GPUJob, or set suspend first"
    assert sentence in refused.stderr
    team.change("job", suspend=True)
    team.until("job", "Suspended")
    team.change("job", images={"rocm": {"image": "example.com/train:3"}}, suspend=False)
    running = team.until("job", "Running")
    assert (running["placement"]["image"], running["attempt"]) == ("example.com/train:3", 2)


def test_of_a_gang_that_was_resumed_the_service_of_the_earlier_attempt_is_gone(
    operator: OperatorProcess, fleet: Fleet, team: Team
) -> None:
    fleet(h100=2)
    uid = team.submit("gang", nodes=2, gpusPerNode=8)
    team.until("gang", "Running")
    team.change("gang", suspend=True)
    team.until("gang", "Suspended")
    eventually(lambda: not team.services(uid) and not team.jobs(uid), what="neither Service nor Job")
    told = team.condition("gang", "Suspended")["message"]
    assert told == "spec.suspend is true: attempt 1 was stopped and nothing new is created"
    team.change("gang", suspend=False)
    status = team.until("gang", "Running", timeout=60)
    assert [each["metadata"]["name"] for each in team.services(uid)] == [status["jobName"]]
