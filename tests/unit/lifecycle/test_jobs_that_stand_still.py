"""A running job without a step for longer than its bound: the condition, the event, and what spec.stall.action makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_device_faults import CREATED, on, running
from test_failed_attempts import BEGAN, PLACEMENT

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.lifecycle.actions import DeleteChild, Finish, Next, Nothing, Schedule, WriteStatus
from gpujob.lifecycle.attempts import newly_failed
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.stalls import bound_of, is_near, stall_of
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.standstill import Ranks, RankSeen
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.status.job.events import event_of
from gpujob.status.job.telemetry import SILENT, Telemetry, port_refused
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.read_objects import read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import ConditionType, Reason, State

WAITING = ("all_reduce (torch/distributed/distributed_c10d.py:2810)", "train (/code/train.py:40)")
RANKS = Ranks(
    (
        RankSeen(0, "j-0", "n0", 118, still=120.0, stack=WAITING),
        RankSeen(1, "j-1", "n1", 118, still=119.0, stack=("read (/code/data.py:7)", "train (/code/train.py:38)")),
    ),
    2,
)
WHERE = (
    "rank 1 (pod j-1 on node n1) is at step 118 in read (/code/data.py:7) < train (/code/train.py:38); rank 0 waits at step 118 in "
    "all_reduce (torch/distributed/distributed_c10d.py:2810), called from train (/code/train.py:40)"
)


class Run:
    """A job whose attempt runs; `look` is one evaluation at a second after BEGAN, with what was read of its reporter."""

    def __init__(self, stall: Any = None, child: ChildRecord | None = None, **spec: Any) -> None:
        self.spec = spec if stall is None else spec | {"stall": stall}
        self.sightings, self.child, self.leaving = Sightings(), child or on(), False
        self.status: dict[str, Any] = {
            "state": "Running", "attempt": 1, "jobName": child_name("j", "u", 1), "startTime": CREATED,
            "placement": dict(PLACEMENT),
        }  # fmt: skip

    @property
    def job(self) -> JobRecord:
        metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
        if self.leaving:
            metadata["deletionTimestamp"] = CREATED
        return read_job({"metadata": metadata, "spec": self.spec, "status": self.status})

    def look(self, second: float, read: Telemetry) -> Next:
        view = JobView(self.job, [self.child], [running()], {"n0": True}, telemetry=read)
        found = next_action(view, self.sightings, Moment(second, BEGAN + timedelta(seconds=second)), Timings())
        self.sightings = found.sightings
        return found

    def written(self, second: float, read: Telemetry) -> dict[str, Any]:
        """The status that is written, which is the job's then."""
        action = self.look(second, read).action
        assert isinstance(action, WriteStatus | Finish)
        self.status = dict(action.status)
        return self.status

    @property
    def stalled(self) -> Any:
        found = (c for c in self.status.get("conditions", ()) if c["type"] == ConditionType.STALLED)
        return next(((c["status"], c["reason"], c["message"]) for c in found), None)


def said(
    second: float, still: float | None, steps: float = 118.0, slowest: float | None = 2.0, ranks: Ranks = RANKS
) -> Telemetry:
    """A reading that was made at that second."""
    at = BEGAN + timedelta(seconds=second)
    return Telemetry(Measured(at, counters={"steps": steps}, still=still, slowest_step=slowest, ranks=ranks))


STILL = (
    "no step for 120 seconds after step 118; the bound is 90 seconds (6 times the slowest step of 2 seconds, 90 to 900)"
)


def alone(read: Telemetry) -> Telemetry:
    """The reading of the first pod before the others are read."""
    assert read.measured is not None
    return replace(read, measured=replace(read.measured, ranks=Ranks(), compared=False))


def test_the_first_pod_alone_decides_nothing_and_takes_no_time_from_the_standstill() -> None:
    """Before, an attempt could end without the rank that is behind in its message, or although another pod worked."""
    run = Run({"action": "Restart"})
    for second in (0.0, 15.0):
        run.written(second, alone(said(second, 120.0)))
        run.written(second + 1.0, said(second, 120.0))
    run.written(40.0, alone(said(40.0, 120.0)))
    assert run.status["state"] == "Running"
    (attempt,) = run.written(41.0, said(40.0, 120.0))["attempts"]
    assert attempt["message"].startswith(
        f"{STILL}; rank 1 (pod j-1 on node n1) is at step 118 in read (/code/data.py:7)"
    )


def test_a_job_that_was_stalled_does_not_work_again_by_its_first_pod_alone() -> None:
    run = Run()
    for second in (0.0, 30.0):
        run.written(second, said(second, 120.0 + second))
    run.written(45.0, alone(said(45.0, 2.0, steps=119.0)))
    assert run.stalled[0] == "True"
    run.written(46.0, said(45.0, 2.0, steps=119.0))
    assert run.stalled[0] == "False"


def test_one_reading_alone_is_no_standstill_however_late_the_next_one_is() -> None:
    """On a busy machine the operator itself reads late, and a process that was frozen shows one long pause when it goes on."""
    run, once = Run({"action": "Restart"}), said(0.0, 120.0)
    for second in (0.0, 21.0, 50.0):
        run.look(second, once)
        assert run.status["state"] == "Running"
        assert not isinstance(run.look(second, once).action, Finish)
    assert run.written(55.0, said(55.0, 1.0))["state"] == "Running"
    run.look(60.0, said(60.0, 120.0))
    assert run.written(81.0, said(81.0, 141.0))["state"] == "Restarting"


def test_a_job_that_stands_still_says_who_is_behind_and_runs_on() -> None:
    run = Run()
    run.written(0.0, said(0.0, 90.0))
    assert run.stalled is None
    run.written(19.0, said(15.0, 105.0))
    assert run.stalled is None
    before = run.job
    status = run.written(30.0, said(30.0, 120.0))
    assert run.stalled == (
        "True", "Stalled", f"{STILL}; {WHERE}; the job runs on, spec.stall.action: Restart or Fail would end the attempt",
    )  # fmt: skip
    assert status["state"] == "Running"
    GPUJobStatus.model_validate(status)
    event = event_of(before, status, "me", "2026-01-01T12:00:30Z")
    assert event is not None
    assert (event["type"], event["reason"], event["metadata"]["name"]) == (
        "Warning",
        "Stalled",
        "j.u.1.stalled.20260101120030.1",
    )
    assert event["note"].startswith(STILL)
    assert event_of(run.job, status, "me", "2026-01-01T12:00:45Z") is None


def test_one_that_works_again_is_not_stalled() -> None:
    run = Run()
    for second in (0.0, 30.0):
        run.written(second, said(second, 120.0 + second))
    assert run.stalled[0] == "True"
    run.written(45.0, said(45.0, 2.0, steps=119.0))
    assert run.stalled == ("False", "StepsGoOn", "the job works again")
    for second in (60.0, 90.0):
        run.written(second, said(second, 200.0, steps=119.0))
    assert run.stalled[0] == "True"


@pytest.mark.parametrize(
    "read", [SILENT, said(-100.0, 500.0), said(45.0, None)], ids=["nothing", "old", "says nothing"]
)
def test_what_is_not_known_changes_nothing(read: Telemetry) -> None:
    run = Run({"action": "Restart"})
    for second in (0.0, 30.0, 60.0):
        run.written(second, read)
    assert run.stalled is None
    assert run.status["state"] == "Running"
    told = Run()
    for second in (0.0, 30.0):
        told.written(second, said(second, 120.0))
    told.written(45.0, read)
    assert told.stalled[0] == "True"


def test_a_process_that_was_frozen_as_a_whole_shows_one_long_pause() -> None:
    run = Run({"action": "Restart"})
    run.written(0.0, said(0.0, 3600.0))
    run.written(15.0, said(15.0, 1.0, steps=119.0))
    run.written(30.0, said(30.0, 3600.0, steps=119.0))
    assert run.written(49.0, said(45.0, 3600.0))["state"] == "Running"


def test_restart_ends_the_attempt_and_the_next_one_follows() -> None:
    run = Run({"action": "Restart"})
    run.written(0.0, said(0.0, 90.0))
    before = run.job
    status = run.written(30.0, said(30.0, 120.0))
    assert status["state"] == "Restarting"
    assert run.stalled is None
    (placed,) = (c for c in status["conditions"] if c["type"] == "Placed")
    assert (placed["reason"], placed["message"]) == (
        "Stalled",
        f"{STILL}; {WHERE}; attempt 2 follows at 2026-01-01T12:00:40Z",
    )
    assert status["failures"] == {"infrastructure": 1}
    assert "excludedNodes" not in status
    assert list(newly_failed(before, status)) == [("h100", "Infrastructure", "Stalled")]
    assert isinstance(run.look(31.0, SILENT).action, DeleteChild)
    GPUJobStatus.model_validate(status)


@pytest.mark.parametrize("stall", [{"action": "Fail"}, {"action": "Restart"}])
def test_fail_and_a_last_restart_end_the_job_and_give_its_gpus_back(stall: Any) -> None:
    run = Run(stall, retries={"infrastructure": 0} if stall["action"] == "Restart" else {})
    run.written(0.0, said(0.0, 90.0))
    status = run.written(30.0, said(30.0, 120.0))
    (failed,) = (c for c in status["conditions"] if c["type"] == "Failed")
    assert (status["state"], failed["reason"], failed["message"]) == ("Failed", "Stalled", f"{STILL}; {WHERE}")
    assert run.stalled is None
    assert [(each["reason"], each["blame"]) for each in status["attempts"]] == [("Stalled", "Infrastructure")]
    assert isinstance(run.look(31.0, SILENT).action, DeleteChild)


def test_what_ended_by_itself_meanwhile_is_not_failed() -> None:
    run = Run({"action": "Fail"})
    run.look(0.0, said(0.0, 90.0))
    run.child = replace(run.child, ended="Complete", ended_at="2026-01-01T12:00:20Z")
    # The pod that is given here still runs: it is waited for, and the stall ends nothing meanwhile.
    assert isinstance(run.look(25.0, said(25.0, 115.0)).action, Nothing)
    assert run.written(30.0, said(30.0, 120.0))["state"] == "Succeeded"


def test_nothing_ends_for_a_stall_while_the_job_is_deleted_suspended_or_probes() -> None:
    deleted, probe = Run({"action": "Restart"}), Run({"action": "Restart"}, child=on())
    deleted.leaving = True
    trial = replace(probe.child.hint, placement={"vendor": "NVIDIA", "probe": 10})
    probe.child = replace(probe.child, created="2026-01-01T12:00:00Z", hint=trial)
    for run in (deleted, probe):
        for second in (0.0, 30.0):
            assert run.written(second, said(second, 120.0))["state"] == "Running"
    suspended = Run({"action": "Restart"}, suspend=True)
    assert suspended.written(30.0, said(30.0, 120.0))["state"] == "Suspended"


def test_a_suspended_child_has_no_clock() -> None:
    run = Run({"action": "Restart"}, child=replace(on(), paused=True))
    run.status["state"] = "Placed"
    view = JobView(run.job, [run.child], [], {}, telemetry=said(0.0, 120.0))
    for second in (0.0, 30.0):
        found = next_action(view, run.sightings, Moment(second, BEGAN), Timings())
        run.sightings = found.sightings
        assert found.sightings.stalled == ("", 0.0)


@pytest.mark.parametrize(
    ("stall", "steps", "slowest", "bound"),
    [(None, 5, None, 90), (None, 5, 0.1, 90), (None, 5, 20.0, 120), (None, 5, 1000.0, 900), (None, 0, None, 1800),
     ({"afterSeconds": 30}, 5, 1000.0, 30), ({"afterSeconds": 30}, 0, None, 1800), ({"firstStepSeconds": 60}, 0, None, 60),
     ({"firstStepSeconds": 60}, 5, 30.0, 180), ({"afterSeconds": "x", "firstStepSeconds": -1}, 5, 0.0, 90), ("x", 0, None, 1800)],
)  # fmt: skip
def test_bounds(stall: Any, steps: int, slowest: float | None, bound: float) -> None:
    run = Run(stall)
    assert bound_of(run.job, steps, slowest)[0] == bound
    now = BEGAN
    for still, expected in ((bound - 0.1, False), (bound, True)):
        assert bool(stall_of(run.job, said(0.0, still, float(steps), slowest), now)) is expected
    for still, expected in ((bound / 2 - 0.1, False), (bound / 2, True)):
        measured = said(0.0, still, float(steps), slowest).measured
        assert measured is not None
        assert is_near(run.job, measured) is expected


def test_before_the_first_step() -> None:
    found = stall_of(Run().job, said(0.0, 1800.0, steps=0.0, ranks=Ranks()), BEGAN)
    assert found is not None
    assert found.message == "no first step for 1800 seconds; the bound is 1800 seconds (the first step)"
    assert stall_of(Run(model={"method": "Inference"}).job, said(0.0, 1800.0, steps=0.0), BEGAN) is None


REFUSED = Telemetry(None, (port_refused("p0", 9466),))
BLOCKED = Telemetry(
    None, (ConditionUpdate(ConditionType.TELEMETRY_REACHABLE, False, Reason.TELEMETRY_BLOCKED, "closed"),)
)


@pytest.mark.parametrize(
    ("stall", "read", "spec", "stalls"),
    [({}, REFUSED, {}, True), (None, REFUSED, {}, False), ({}, BLOCKED, {}, False), ({}, SILENT, {}, False),
     ({"firstStepSeconds": 86400}, REFUSED, {}, False), ({}, REFUSED, {"model": {"method": "Inference"}}, False)],
)  # fmt: skip
def test_a_program_that_never_reported_counts_only_where_the_job_says_so(
    stall: Any, read: Telemetry, spec: Any, stalls: bool
) -> None:
    run = Run(stall, **spec)
    found = stall_of(run.job, read, BEGAN)
    assert bool(found) is stalls
    if found:
        assert found.message == (
            "no first step for 1800 seconds; the bound is 1800 seconds (spec.stall.firstStepSeconds, 1800 when absent); no process of "
            "the first pod has made an optimizer, or called gpujob_report.step()"
        )


@pytest.mark.parametrize("action", ["Explode", 7, None, ["Restart"], "restart"])
def test_an_unreadable_action_ends_nothing(action: Any) -> None:
    run = Run({"action": action})
    for second in (0.0, 30.0):
        assert run.written(second, said(second, 120.0))["state"] == State.RUNNING
    assert run.stalled[0] == "True"


def test_the_next_attempt_begins_without_the_condition() -> None:
    run = Run()
    for second in (0.0, 30.0):
        run.written(second, said(second, 120.0))
    run.child = replace(run.child, ended="Failed", ended_at="2026-01-01T12:00:40Z", reason="PodFailurePolicy")
    run.spec = {"retries": {"user": 1}}
    run.look(45.0, said(45.0, 120.0))
    run.written(60.0, said(60.0, 120.0))
    assert run.status["state"] == "Restarting"
    assert run.stalled is None
    assert not isinstance(run.look(61.0, SILENT).action, Schedule)
