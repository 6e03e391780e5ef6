"""Pods that are taken away: on spot nodes they count in no retries, and exit code 0 on request is no end of the job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_failed_attempts import BEGAN, PLACEMENT, child, disrupted, pod

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.actions import DeleteChild, Finish, Next, Nothing, WriteStatus
from gpujob.lifecycle.attempts import failures_in_a_row, pause_left
from gpujob.lifecycle.failures.causes import failure_of
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.observe.child import observe
from gpujob.status.records.objects import ChildRecord, Hint, JobRecord, PodState
from gpujob.status.records.read_objects import TRACKING, read_job, read_pod_record
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Reason

SPOT = PLACEMENT | {"capacityType": "Spot"}
TIMINGS = Timings()


def running(
    number: int = 0, *, leaving: bool = False, ended: str = "", code: int = 0, why: str = "EvictionByEvictionAPI"
) -> PodState:
    """A pod that runs, or that ended at a time; `leaving`: its deletion was requested at 12:00:00 with 30 s of grace."""
    owner = {"kind": "Job", "name": child_name("j", "u", 1), "uid": "c1", "controller": True}
    state: dict[str, Any] = {"running": {"startedAt": "2026-01-01T11:30:00Z"}}
    if ended:
        state = {"terminated": {"exitCode": code, "startedAt": "2026-01-01T11:30:00Z", "finishedAt": ended}}
    gone = {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30} if leaving else {}
    raw = {
        "metadata": {
            "name": f"p{number}", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": [owner], "finalizers": [TRACKING], **gone,
        },
        "spec": {"nodeName": f"n{number}"},
        "status": {
            "phase": ("Failed" if code else "Succeeded") if ended else "Running",
            "containerStatuses": [{"name": "train", "state": state}],
            **(disrupted(why) if leaving and why else {}),
        },
    }  # fmt: skip
    found = read_pod_record(raw).state
    assert found is not None
    return found


class Run:
    """A job whose attempt runs; `look` is one evaluation at a second after BEGAN."""

    def __init__(self, pods: int = 1, placement: Any = None, **spec: Any) -> None:
        self.spec, self.pods, self.sightings = spec, pods, Sightings()
        self.departed: list[PodState] = []
        self.ready = {f"n{number}": True for number in range(pods)}
        self.placement = placement or PLACEMENT
        self.status: dict[str, Any] = {
            "state": "Running", "attempt": 1, "jobName": child_name("j", "u", 1), "placement": dict(self.placement),
            "startTime": "2026-01-01T11:30:00Z",
        }  # fmt: skip

    @property
    def job(self) -> JobRecord:
        return read_job(
            {"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": self.spec, "status": self.status}
        )

    def child(self, ended: str = "", **child_is: Any) -> ChildRecord:
        return replace(child(pods=self.pods, ended=ended), hint=Hint(self.placement), **child_is)

    def look(self, second: float, pods: list[PodState], ended: str = "", **child_is: Any) -> Next:
        found = self.child(ended, **child_is)
        view = JobView(self.job, [found], pods, self.ready, departed=self.departed)
        after = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), TIMINGS)
        self.sightings = after.sightings
        return after

    def status_after(self, second: float, pods: list[PodState], ended: str = "", **child_is: Any) -> dict[str, Any]:
        action = self.look(second, pods, ended, **child_is).action
        assert isinstance(action, WriteStatus | Finish)
        self.status = dict(action.status)
        GPUJobStatus.model_validate(self.status)
        return self.status


SAID = (
    "pod p0 on node n0 was taken away (EvictionByEvictionAPI); its program ended with exit code 0 when it was asked to, which is no "
    "end of the job"
)


def test_a_pod_that_ends_well_because_it_was_evicted_has_not_finished() -> None:
    run = Run()
    run.look(1.0, [running(leaving=True)])
    status = run.status_after(5.0, [running(leaving=True, ended="2026-01-01T12:00:04Z")], "Complete")
    assert status["state"] == "Restarting"
    (entry,) = status["attempts"]
    assert (entry["reason"], entry["blame"], entry["message"]) == ("Evicted", "Infrastructure", SAID)
    assert status["failures"] == {"infrastructure": 1}
    assert "excludedNodes" not in status


@pytest.mark.parametrize("seen_before", [True, False])
def test_its_pod_may_be_gone_when_the_job_is_complete(seen_before: bool) -> None:
    run = Run()
    if seen_before:
        run.look(1.0, [running(leaving=True)])
    status = run.status_after(5.0, [], "Complete")
    assert status["state"] == ("Restarting" if seen_before else "Succeeded")


@pytest.mark.parametrize(
    ("ended", "state"),
    [
        ("2026-01-01T11:59:59Z", "Succeeded"),
        ("2026-01-01T12:00:00Z", "Restarting"),
        ("2026-01-01T12:00:31Z", "Restarting"),
    ],
)
def test_a_program_that_ended_before_its_pod_was_deleted_has_finished(ended: str, state: str) -> None:
    assert Run().status_after(40.0, [running(leaving=True, ended=ended)], "Complete")["state"] == state


@pytest.mark.parametrize("why", ["", "PreemptionByScheduler", "DeletionByTaintManager", "Something"])
def test_whatever_asked_for_its_end(why: str) -> None:
    (entry,) = Run().status_after(5.0, [running(leaving=True, ended="2026-01-01T12:00:04Z", why=why)], "Complete")[
        "attempts"
    ]
    reasons = {"": "PodDeleted", "PreemptionByScheduler": "Preempted", "DeletionByTaintManager": "NodeLost"}
    assert entry["reason"] == reasons.get(why, "Evicted")


def test_one_that_was_never_asked_has_finished() -> None:
    assert Run().status_after(5.0, [running(ended="2026-01-01T12:00:04Z")], "Complete")["state"] == "Succeeded"


def test_where_no_retry_is_left_the_job_has_failed() -> None:
    run = Run(retries={"infrastructure": 0})
    status = run.status_after(5.0, [running(leaving=True, ended="2026-01-01T12:00:04Z")], "Complete")
    assert (status["state"], status["display"]["reason"]) == ("Failed", "Evicted")
    assert isinstance(run.look(6.0, [], "Complete").action, Nothing)


@pytest.mark.parametrize("child_is", [{"leaving": True}, {"paused": True}])
def test_pods_that_the_operator_or_a_suspension_ends_are_not_taken_away(child_is: Any) -> None:
    run = Run()
    run.look(1.0, [running(leaving=True, why="")], **child_is)
    assert run.sightings.interrupted == ("", 0.0, None)


def test_the_others_of_a_gang_may_end_by_themselves_before_the_attempt_ends() -> None:
    run = Run(pods=2)
    assert run.status_after(1.0, [running(0, leaving=True), running(1)])["state"] == "Running"
    evicted = [running(0, leaving=True, ended="2026-01-01T12:00:04Z"), running(1)]
    assert run.status_after(60.0, evicted)["state"] == "Running"
    assert run.status_after(120.9, [running(1)])["state"] == "Running"
    status = run.status_after(121.0, [running(1)])
    assert (status["state"], status["attempts"][0]["message"]) == ("Restarting", SAID)


def test_a_node_that_stopped_to_answer_does_not_end_it_that_way() -> None:
    run = Run(pods=2)
    for second in (1.0, 200.0):
        assert (
            run.status_after(second, [running(0, leaving=True, why="DeletionByTaintManager"), running(1)])["state"]
            == "Running"
        )


@pytest.mark.parametrize(
    "word", ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC"]
)
def test_spot_nodes_that_are_reclaimed_count_in_no_retries(word: str) -> None:
    run = Run(placement=SPOT, retries={"infrastructure": 0, "user": 0, "withinSeconds": 1})
    status = run.status_after(5.0, [pod(0, code=143, **disrupted(word))], "Failed")
    assert (status["state"], status["failures"]) == ("Restarting", {"spot": 1})
    assert status["attempts"][0]["blame"] == "Spot"
    assert status["attempts"][0]["message"].endswith("; pool h100 is Spot, retries do not count it")
    assert "failingSince" not in status
    assert "excludedNodes" not in status


def test_an_eviction_that_ends_well_on_a_spot_node() -> None:
    run = Run(placement=SPOT, retries={"infrastructure": 0})
    status = run.status_after(5.0, [running(leaving=True, ended="2026-01-01T12:00:04Z")], "Complete")
    assert (status["state"], status["failures"]) == ("Restarting", {"spot": 1})


@pytest.mark.parametrize(
    ("pods", "reason"),
    [([pod(0, code=1)], Reason.POD_FAILED), ([pod(0, code=1, train={"message": "uncorrectable ECC error"})], Reason.DEVICE_FAULT),
     ([pod(0, code=1, **disrupted("DeletionByDeviceTaintManager"))], Reason.DEVICE_FAULT)],
)  # fmt: skip
def test_other_failures_on_spot_nodes_count_as_everywhere(pods: list[PodState], reason: Reason) -> None:
    failed = replace(child(), hint=Hint(SPOT))
    found = failure_of(failed, pods, observe(failed, pods, ran=True))
    assert found.reason is reason
    assert found.blame is not Blame.SPOT


def entry(attempt: int, minutes: int, blame: str = "Spot") -> dict[str, Any]:
    began, ended = BEGAN - timedelta(minutes=minutes), BEGAN
    return {
        "attempt": attempt,
        "from": f"{began:%Y-%m-%dT%H:%M:%SZ}",
        "to": f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        "blame": blame,
        "reason": "x",
    }


@pytest.mark.parametrize(
    ("entries", "ran", "number"),
    [([], 60.0, 1), ([entry(1, 1)], 60.0, 2), ([entry(1, 60)], 60.0, 2), ([entry(1, 1)], 3600.0, 1),
     ([entry(1, 1), entry(2, 30)], 9.0, 2),
     ([entry(1, 1, "User"), entry(2, 1)], 9.0, 2), ([entry(number, 1) for number in range(1, 6)], 9.0, 5), ([entry(1, 1)], None, 1),
     ([entry(1, 1), entry(2, 1)], None, 2), ([{"attempt": 1, "blame": "Spot"}, 7, {"blame": "Spot", "from": 3}], None, 2)],
)  # fmt: skip
def test_pauses_grow_with_short_attempts_in_a_row(entries: Any, ran: float | None, number: int) -> None:
    run = Run()
    run.status["attempts"] = entries
    assert failures_in_a_row(run.job, Blame.SPOT, ran, TIMINGS) == number


def test_the_pause_that_is_written_is_the_pause_that_is_kept() -> None:
    run = Run(placement=SPOT)
    run.status["attempts"] = [entry(number, 1) for number in (1, 2, 3)]
    run.status |= {"attempt": 4, "jobName": child_name("j", "u", 4), "startTime": "2026-01-01T11:59:00Z"}
    failed = replace(child(4), hint=Hint(SPOT))
    taken = replace(pod(0, attempt=4, code=143, **disrupted("PreemptionByScheduler")))
    after = next_action(JobView(run.job, [failed], [taken], {}), Sightings(), Moment(0.0, BEGAN), TIMINGS).action
    assert isinstance(after, WriteStatus)
    (placed,) = (c for c in after.status["conditions"] if c["type"] == "Placed")
    assert placed["message"].endswith("; attempt 5 follows at 2026-01-01T12:01:20Z")
    run.status = dict(after.status)
    assert pause_left(run.job, BEGAN, TIMINGS) == 80.0


def test_a_complete_job_whose_pod_still_runs_is_looked_at_when_the_watch_of_pods_has_come() -> None:
    run = Run()
    found = run.look(1.0, [running()], "Complete")
    assert (found.action, found.requeue_after) == (Nothing(), TIMINGS.failed_pods)
    status = run.status_after(2.0, [running(leaving=True, ended="2026-01-01T12:00:04Z")], "Complete")
    assert status["state"] == "Restarting"
    late = Run()
    late.look(1.0, [running()], "Complete")
    assert late.status_after(1.0 + TIMINGS.failed_pods, [running()], "Complete")["state"] == "Succeeded"


@pytest.mark.parametrize(("placed", "wanted"), [(1, 0), (2, 0), (2, 1)])
def test_a_child_that_is_complete_with_fewer_pods_than_were_placed_has_not_succeeded(placed: int, wanted: int) -> None:
    """Kubernetes calls a Job complete as soon as a user has lowered its completions to those that ended."""
    run = Run(pods=wanted or 1, placement=PLACEMENT | {"nodes": placed})
    lowered: dict[str, Any] = {"emptied": wanted == 0}
    status = run.status_after(5.0, [], "Complete", **lowered)
    (failed,) = (c for c in status["conditions"] if (c["type"], c["status"]) == ("Failed", "True"))
    assert (status["state"], failed["reason"]) == ("Failed", "ChildLost")
    assert failed["message"] == (
        f"someone else set spec.completions of child Job {child_name('j', 'u', 1)} from {placed} to {wanted}, and it ended without "
        "the other pods; create a new GPUJob to run it again"
    )
    assert not any((c["type"], c["status"]) == ("Complete", "True") for c in status["conditions"])


def test_a_lowered_child_of_an_attempt_that_is_over_is_no_end_of_the_job() -> None:
    run = Run()
    run.status |= {"state": "Suspended", "jobName": ""}
    run.spec = {"suspend": True}
    assert run.look(5.0, [], "Complete", emptied=True).action == DeleteChild(run.child("Complete", emptied=True))
