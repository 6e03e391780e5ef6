"""A container that something injected runs on: the job ends with its program, well or badly, and gives its GPUs back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_failed_attempts import BEGAN, PLACEMENT, child

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.actions import DeleteChild, Finish, Next, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.records.objects import Hint, PodState
from gpujob.status.records.read_objects import read_job, read_pod_record
from gpujob.values.names import child_name

RUNNING = {"running": {"startedAt": "2026-01-01T11:30:00Z"}}
PROXY = [{"name": "istio-proxy", "state": RUNNING}]


def pod(
    number: int, code: int | None, others: Any = PROXY, *, phase: str = "Running", message: str = "", **status: Any
) -> PodState:
    """A pod whose program ended with a code, or runs, beside other containers."""
    owner = {"kind": "Job", "name": child_name("j", "u", 1), "uid": "c1", "controller": True}
    times = {"startedAt": "2026-01-01T11:30:00Z", "finishedAt": "2026-01-01T11:59:59Z"}
    state = RUNNING if code is None else {"terminated": {"exitCode": code, "message": message, **times}}
    containers = [*others, {"name": "train", "state": state}]
    raw = {
        "metadata": {"name": f"p{number}", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": [owner]},
        "spec": {"nodeName": f"n{number}"}, "status": {"phase": phase, "containerStatuses": containers, **status},
    }  # fmt: skip
    found = read_pod_record(raw).state
    assert found is not None
    return found


class Run:
    def __init__(self, pods: int = 1, **spec: Any) -> None:
        self.child = replace(child(pods=pods, ended=""), hint=Hint(PLACEMENT))
        self.spec, self.sightings = spec, Sightings()
        self.status: dict[str, Any] = {
            "state": "Running", "attempt": 1, "jobName": child_name("j", "u", 1), "placement": dict(PLACEMENT),
            "startTime": "2026-01-01T11:30:00Z",
        }  # fmt: skip

    def look(self, second: float, *pods: PodState) -> Next:
        job = read_job(
            {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": self.spec, "status": self.status}
        )
        view = JobView(job, [self.child], pods, {"n0": True, "n1": True})
        found = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), Timings())
        self.sightings = found.sightings
        return found

    def status_after(self, second: float, *pods: PodState) -> dict[str, Any]:
        action = self.look(second, *pods).action
        assert isinstance(action, WriteStatus | Finish)
        self.status = dict(action.status)
        GPUJobStatus.model_validate(self.status)
        return self.status

    def message(self, kind: str) -> str:
        return next(str(c["message"]) for c in self.status["conditions"] if c["type"] == kind)


def test_a_program_that_ended_well_ends_the_job() -> None:
    run = Run()
    assert run.status_after(0.0, pod(0, 0))["state"] == "Running"
    assert run.status_after(29.0, pod(0, 0))["state"] == "Running"
    status = run.status_after(30.0, pod(0, 0))
    assert (status["state"], status["completionTime"]) == ("Succeeded", "2026-01-01T12:00:30Z")
    assert (
        run.message("Complete") == "the program ended well; container istio-proxy runs on, and ends with the child Job"
    )
    assert isinstance(run.look(31.0, pod(0, 0)).action, DeleteChild)


def test_a_gang_ends_when_all_its_programs_have() -> None:
    run = Run(pods=2)
    for second in (0.0, 60.0):
        assert run.status_after(second, pod(0, 0), pod(1, None))["state"] == "Running"
    two = [*PROXY, {"name": "vault-agent", "state": RUNNING}]
    run.status_after(61.0, pod(0, 0, two), pod(1, 0, [], phase="Succeeded"))
    assert run.status_after(91.0, pod(0, 0, two), pod(1, 0, [], phase="Succeeded"))["state"] == "Succeeded"
    assert run.message("Complete") == (
        "the programs of all 2 pods ended well; containers istio-proxy and vault-agent run on, and end with the child Job"
    )


@pytest.mark.parametrize(("retries", "state"), [({"user": 1}, "Restarting"), ({}, "Failed")])
def test_a_program_that_failed_ends_the_attempt(retries: Any, state: str) -> None:
    run = Run(pods=2, retries=retries)
    pods = pod(0, None), pod(1, 3, message="ValueError: x")
    run.look(0.0, *pods)
    status = run.status_after(30.0, *pods)
    assert status["state"] == state
    (entry,) = status["attempts"]
    assert (entry["reason"], entry["blame"], entry["message"]) == (
        "PodFailed", "User",
        "pod p1 on node n1 failed with exit code 3: ValueError: x; container istio-proxy runs on, and ends with the child Job",
    )  # fmt: skip
    assert isinstance(run.look(31.0, *pods).action, DeleteChild)


def test_out_of_memory_stays_what_it_is() -> None:
    run = Run()
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB"
    for second in (0.0, 30.0):
        run.status_after(second, pod(0, 1, message=words))
    assert run.status["attempts"][0]["reason"] == "GPUOutOfMemory"


@pytest.mark.parametrize(
    "others",
    [[], [{"name": "istio-proxy", "state": {"terminated": {"exitCode": 0}}}], [{"name": "x", "state": {"waiting": {"reason": "y"}}}],
     ["x", {"name": 7}]],
)  # fmt: skip
def test_a_pod_that_is_about_to_end_is_left_to_kubernetes(others: Any) -> None:
    run = Run()
    for second in (0.0, 60.0):
        assert run.status_after(second, pod(0, 0, others))["state"] == "Running"


def test_a_native_sidecar_is_none() -> None:
    run = Run()
    sidecars = [{"name": "istio-proxy", "state": RUNNING}]
    for second in (0.0, 60.0):
        assert run.status_after(second, pod(0, 0, [], initContainerStatuses=sidecars))["state"] == "Running"


def test_what_runs_again_meanwhile_counts_from_the_start() -> None:
    run = Run()
    run.look(0.0, pod(0, 0))
    run.look(20.0, pod(0, None))
    assert run.status_after(40.0, pod(0, 0))["state"] == "Running"
    assert run.status_after(70.0, pod(0, 0))["state"] == "Succeeded"
