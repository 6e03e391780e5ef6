"""Limits count over all attempts of a job: running time, dollars, and how long it stays after its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.actions import DeleteChild, DeleteJob, Finish, Next, Nothing, Schedule, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.job import status_patch
from gpujob.status.job.events import event_of
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record
from gpujob.values.names import child_name

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLACEMENT = {"pool": "h100", "vendor": "NVIDIA", "accelerator": "H100-SXM", "pricePerHour": "36.00", "image": "i",
             "nodes": 1, "gpusPerNode": 8, "runtime": "r"}  # fmt: skip


def child(attempt: int = 1, ended: str = "", at: str = "") -> ChildRecord:
    owner = {"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}
    conditions = [{"type": ended, "status": "True", "lastTransitionTime": at}] if ended else []
    name, created = child_name("j", "u", attempt), "2026-01-01T11:00:00Z"
    metadata = {"name": name, "uid": f"c{attempt}", "ownerReferences": [owner], "creationTimestamp": created}
    return read_child({"metadata": metadata, "spec": {"completions": 1}, "status": {"conditions": conditions}})


def pod(attempt: int = 1, started: str = "2026-01-01T12:00:00Z") -> PodState:
    owner = {"kind": "Job", "name": child_name("j", "u", attempt), "uid": f"c{attempt}", "controller": True}
    raw = {
        "metadata": {"name": f"p{attempt}", "labels": {"gpujob.dev/job-uid": "u"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n0"},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "train", "state": {"running": {"startedAt": started}}}],
        },
    }
    found = read_pod_record(raw).state
    assert found is not None
    return found


class Watch:
    """One job that is looked at, with what the operator writes of it; times in seconds after noon."""

    def __init__(self, **spec: Any) -> None:
        self.sightings, self.spec, self.generation = Sightings(), spec, 1
        self.status: dict[str, Any] = {}

    def runs(self, attempt: int = 1, since: str = "2026-01-01T12:00:00Z", **more: Any) -> None:
        self.status |= {
            "state": "Running", "attempt": attempt, "jobName": child_name("j", "u", attempt), "jobUID": f"c{attempt}",
            "placement": PLACEMENT, "startTime": since, "observedGeneration": 1, **more,
        }  # fmt: skip

    def edit(self, **spec: Any) -> None:
        self.spec, self.generation = {**self.spec, **spec}, self.generation + 1

    def look(
        self,
        second: float,
        children: Any = (),
        pods: Any = (),
        price_now: int | None = None,
        here: float | None = None,
        ahead: float = 0.0,
        **job: Any,
    ) -> Next:
        """`here`: the second by the clock of the operator's machine; `ahead`: of the API server's clock, in seconds."""
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": self.generation, **job}
        record = read_job({"metadata": metadata, "spec": self.spec, "status": self.status})
        found = next_action(
            JobView(record, children, pods, {}, price_now=price_now),
            self.sightings,
            Moment(
                second,
                NOON + timedelta(seconds=second + ahead),
                None if here is None else NOON + timedelta(seconds=here),
            ),
            Timings(),
        )
        self.sightings = found.sightings
        if isinstance(found.action, (WriteStatus, Finish)):
            self.event = event_of(record, found.action.status, "here", "2026-01-01T12:00:00Z")
            self.status = dict(found.action.status)
            GPUJobStatus.model_validate(self.status)
        return found

    def condition(self, kind: str) -> tuple[str, str, str]:
        (found,) = (c for c in self.status["conditions"] if c["type"] == kind)
        return found["status"], found["reason"], found["message"]


RUNS = ((child(),), (pod(),))


def test_at_its_deadline_a_job_fails_and_its_child_goes() -> None:
    watch = Watch(activeDeadlineSeconds=100)
    watch.runs()
    assert watch.look(40.0, *RUNS).requeue_after == 60.0
    ended = watch.look(100.0, *RUNS)
    assert isinstance(ended.action, Finish)
    sentence = (
        "the job has run for 100 seconds, all attempts together, which is activeDeadlineSeconds; "
        "create a new GPUJob with a longer one to go on"
    )
    assert watch.condition("Failed") == ("True", "DeadlineExceeded", sentence)
    assert (watch.status["state"], watch.status["completionTime"]) == ("Failed", "2026-01-01T12:01:40Z")
    assert watch.status["attempts"][0] | {"message": ""} == {
        "attempt": 1, "pool": "h100", "vendor": "NVIDIA", "gpus": 8, "from": "2026-01-01T12:00:00Z",
        "to": "2026-01-01T12:01:40Z", "cost": "1.00", "reason": "DeadlineExceeded", "message": "",
    }  # fmt: skip
    assert watch.look(101.0, *RUNS).action == DeleteChild(child())
    assert watch.look(102.0).action == Nothing()
    # A restarted operator does the same.
    watch.sightings = Sightings()
    assert watch.look(103.0, *RUNS).action == DeleteChild(child())


def test_a_process_that_starts_ends_no_job_while_its_own_clock_says_that_less_time_passed() -> None:
    watch = Watch(activeDeadlineSeconds=1000)
    watch.runs()
    for second in (50.0, 80.0, 169.0):
        assert not isinstance(watch.look(second, *RUNS, here=second, ahead=3600.0).action, Finish)
    # The server's clock is right again, and then wrong once more.
    assert not isinstance(watch.look(170.0, *RUNS, here=170.0).action, Finish)
    assert not isinstance(watch.look(180.0, *RUNS, here=180.0, ahead=3600.0).action, Finish)
    assert watch.look(999.0, *RUNS, here=999.0).requeue_after == 1.0
    assert isinstance(watch.look(1000.0, *RUNS, here=1000.0).action, Finish)


def test_a_clock_of_the_server_that_keeps_to_its_time_is_believed() -> None:
    """The clock of the operator's machine is always behind."""
    watch = Watch(activeDeadlineSeconds=1000)
    watch.runs()
    assert not isinstance(watch.look(2000.0, *RUNS, here=500.0).action, Finish)
    assert watch.look(2010.0, *RUNS, here=510.0).requeue_after <= 110.0
    assert isinstance(watch.look(2120.0, *RUNS, here=620.0).action, Finish)


def test_a_machine_whose_clock_is_before_the_start_of_the_run_is_no_witness() -> None:
    watch = Watch(activeDeadlineSeconds=1000)
    watch.runs()
    assert isinstance(watch.look(2000.0, *RUNS, here=-1600.0).action, Finish)


def test_the_deadline_counts_the_running_time_of_earlier_attempts_and_no_waiting() -> None:
    watch = Watch(activeDeadlineSeconds=100, suspend=True)
    watch.runs()
    watch.look(70.0, *RUNS)
    assert (watch.status["state"], watch.status["ranSeconds"]) == ("Suspended", 70)
    watch.edit(suspend=False)
    assert watch.look(5000.0).action == Schedule()
    watch.runs(2, "2026-01-01T14:00:00Z")
    second = ((child(2),), (pod(2, "2026-01-01T14:00:00Z"),))
    assert watch.look(7220.0, *second).requeue_after == 10.0
    watch.look(7230.0, *second)
    assert watch.condition("Failed")[1] == "DeadlineExceeded"


def test_an_attempt_that_failed_while_the_operator_was_off_ran_until_it_failed() -> None:
    watch = Watch(activeDeadlineSeconds=1000)
    watch.runs()
    failed = child(ended="Failed", at="2026-01-01T12:01:00Z")
    gone = read_pod_record(
        {
            "metadata": {
                "name": "p1", "labels": {"gpujob.dev/job-uid": "u"},
                "ownerReferences": [{"kind": "Job", "name": failed.name, "uid": "c1", "controller": True}],
            },
            "spec": {"nodeName": "n0"},
            "status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
        }
    ).state  # fmt: skip
    watch.look(3600.0, (failed,), (gone,))
    assert (watch.status["ranSeconds"], watch.status["cost"]["accrued"]) == (60, "0.60")
    assert watch.status["attempts"][0]["to"] == "2026-01-01T12:01:00Z"
    assert watch.condition("Placed")[2].endswith("attempt 2 follows at 2026-01-01T13:00:00Z, not on n0")
    assert watch.look(3600.0, (failed,), (gone,)).action == Schedule()


@pytest.mark.parametrize("suspend", [False, None])
def test_a_deadline_that_is_lowered_below_what_has_run_ends_a_waiting_job(suspend: bool | None) -> None:
    watch = Watch(activeDeadlineSeconds=60, suspend=suspend)
    watch.status = {"state": "Queued", "attempt": 2, "ranSeconds": 60, "observedGeneration": 1}
    watch.look(0.0)
    assert watch.condition("Failed")[:2] == ("True", "DeadlineExceeded")
    assert watch.status["jobName"] == child_name("j", "u", 2)
    assert watch.look(1.0).action == Nothing()
    assert watch.look(2.0, (child(2),)).action == DeleteChild(child(2)), "a create that came late"


def test_a_suspended_job_stays_a_plan_whatever_its_limits_say() -> None:
    watch = Watch(activeDeadlineSeconds=60, suspend=True, placement={"budget": "1"})
    watch.status = {
        "state": "Suspended",
        "attempt": 2,
        "ranSeconds": 90,
        "cost": {"accrued": "2.00", "earlier": "2.00"},
    }
    assert watch.look(0.0).action == Schedule()


def test_at_its_budget_a_job_is_suspended_and_goes_on_when_that_is_raised() -> None:
    watch = Watch(placement={"budget": "1.00"})
    watch.runs()
    assert watch.look(40.0, *RUNS).requeue_after == 60.0
    watch.look(100.0, *RUNS)
    said = "the job has cost $1.00, all attempts together, and placement.budget is $1.00; raise it and the job goes on"
    assert watch.condition("Suspended") == ("True", "BudgetExceeded", said)
    assert watch.condition("Placed") == ("False", "BudgetExceeded", said)
    assert (watch.status["state"], watch.status["cost"]) == ("Suspended", {"accrued": "1.00", "earlier": "1.00"})
    assert watch.event is not None
    assert (watch.event["type"], watch.event["reason"], watch.event["note"]) == ("Warning", "BudgetExceeded", said)
    assert watch.look(101.0, *RUNS).action == DeleteChild(child())
    before = watch.status
    watch.look(130.0)
    assert before == watch.status, "nothing new is said"
    watch.edit(placement={"budget": "1.50"})
    assert watch.look(200.0).action == Schedule()
    watch.runs(2, "2026-01-01T13:00:00Z")
    second = ((child(2),), (pod(2, "2026-01-01T13:00:00Z"),))
    assert watch.look(3600.0, *second).requeue_after == 50.0
    watch.look(3650.0, *second)
    assert watch.condition("Suspended")[2].startswith("the job has cost $1.50, all attempts together")
    assert [entry["cost"] for entry in watch.status["attempts"]] == ["1.00", "0.50"]


@pytest.mark.parametrize("price", ["36.00", "18.00"])
def test_the_budget_counts_each_attempt_at_the_price_that_was_decided_for_it(price: str) -> None:
    watch = Watch(placement={"budget": 2})
    watch.runs(2, cost={"accrued": "1.00", "earlier": "1.00"}, placement=PLACEMENT | {"pricePerHour": price})
    second = ((child(2),), (pod(2),))
    left = {"36.00": 100.0, "18.00": 200.0}[price]
    assert watch.look(1.0, *second).requeue_after == left - 1.0
    watch.look(left, *second)
    assert watch.status["state"] == "Suspended"


def test_a_price_that_changes_while_an_attempt_runs_is_said_and_not_applied() -> None:
    watch = Watch(placement={"budget": "1.00"})
    watch.runs()
    watch.look(10.0, *RUNS)
    before = watch.status
    watch.look(20.0, *RUNS, price_now=36_000_000)
    assert watch.status == before | {
        "updated": watch.status["updated"],
        "cost": {"accrued": "0.20"},
        "display": watch.status["display"],
    }
    dear = watch.look(30.0, *RUNS, price_now=72_000_000)
    assert isinstance(dear.action, WriteStatus)
    assert watch.condition("Running")[2] == (
        "the pod runs on node n0; pool h100 costs $72.00 an hour now, this attempt goes on at $36.00"
    )
    assert watch.status["placement"] == PLACEMENT | {"currentPricePerHour": "72.00"}
    assert watch.status["cost"] == {"accrued": "0.30"}
    assert status_patch.patch(before, watch.status) is not None, "worth a write"
    assert dear.requeue_after == 70.0, "the budget is reached at the price that was decided"
    watch.look(40.0, *RUNS, price_now=36_000_000)
    assert "currentPricePerHour" not in watch.status["placement"]
    assert watch.condition("Running")[2] == "the pod runs on node n0"
    # What differs below the cent that a decided price is rounded to is the same price.
    for same in (36_004_999, 35_995_000):
        watch.look(41.0, *RUNS, price_now=same)
        assert "currentPricePerHour" not in watch.status["placement"]
    watch.look(42.0, *RUNS, price_now=36_005_000)
    assert watch.status["placement"]["currentPricePerHour"] == "36.01"
    watch.look(100.0, *RUNS, price_now=1)
    assert (watch.status["state"], watch.status["cost"]["accrued"]) == ("Suspended", "1.00")


def test_the_nearer_limit_acts() -> None:
    watch = Watch(activeDeadlineSeconds=50, placement={"budget": "1.00"})
    watch.runs()
    watch.look(50.0, *RUNS)
    assert watch.condition("Failed")[1] == "DeadlineExceeded"


@pytest.mark.parametrize(
    "spec",
    [{"activeDeadlineSeconds": "x"}, {"activeDeadlineSeconds": -1}, {"placement": {"budget": "much"}}, {"placement": 7},
     {"placement": {"budget": True}}, {"ttlSecondsAfterFinished": []}],
)  # fmt: skip
def test_a_limit_that_cannot_be_read_limits_nothing_that_runs(spec: Any) -> None:
    watch = Watch(**spec)
    watch.runs()
    watch.look(86400.0, *RUNS)
    assert watch.status["state"] == "Running"


def test_what_ends_by_itself_at_its_deadline_has_ended_by_itself() -> None:
    watch = Watch(activeDeadlineSeconds=100)
    watch.runs()
    watch.look(500.0, (child(ended="Complete", at="2026-01-01T12:01:30Z"),))
    assert watch.status["state"] == "Succeeded"


def test_a_job_that_has_ended_is_deleted_after_its_ttl() -> None:
    watch = Watch(ttlSecondsAfterFinished=60)
    watch.runs()
    ended = (child(ended="Complete", at="2026-01-01T12:00:30Z"),)
    watch.look(31.0, ended)
    assert watch.look(40.0, ended).requeue_after == 50.0
    assert watch.look(90.0, ended).action == DeleteJob()
    assert watch.look(90.0, ended, deletionTimestamp="2026-01-01T12:01:30Z").action == Nothing()
    assert watch.look(90.0, RUNS[0]).action != DeleteJob(), "its child goes on"


@pytest.mark.parametrize("ended", ["2036-01-01T00:00:00Z", "yesterday", None, 7])
def test_a_time_that_another_clock_wrote_keeps_no_job_longer_than_its_ttl(ended: Any) -> None:
    watch = Watch(ttlSecondsAfterFinished=60)
    claim = {
        "type": "Failed",
        "status": "True",
        "reason": "PodFailed",
        "message": "",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    watch.status = {"state": "Failed", "completionTime": ended, "conditions": [claim]}
    assert watch.look(10.0).requeue_after == (60.0 if ended == "2036-01-01T00:00:00Z" else 50.0)


def test_without_a_ttl_a_job_stays() -> None:
    watch = Watch()
    watch.status = {"state": "Succeeded", "completionTime": "2020-01-01T00:00:00Z"}
    assert (watch.look(0.0).action, watch.look(0.0).requeue_after) == (Nothing(), None)
