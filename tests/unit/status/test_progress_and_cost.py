"""How far a job is, how fast and for how much: what the status says of it and when that is worth a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
import yaml

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.cluster.queue.turns import ProgressPace
from gpujob.lifecycle import endings
from gpujob.lifecycle.attempts import end_attempt
from gpujob.lifecycle.timings import Timings
from gpujob.status.attempts import cost, progress
from gpujob.status.attempts.progress import Measured
from gpujob.status.job import job_status, status_patch, telemetry
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.observe.child import Observation
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.vocabulary import Label, Reason, State

STARTED, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"
EVERY = Timings().progress
AT = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
UNPRICED = {
    "pool": "p", "vendor": "AMD", "accelerator": "MI300X", "nodes": 2, "gpusPerNode": 8, "image": "i", "runtime": "own",
}  # fmt: skip
PLACEMENT = {**UNPRICED, "pricePerHour": "33.60"}
MEASURED = Measured(
    at=AT,
    fraction=0.429,
    remaining=5400.0,
    counters={"steps": 1200.0, "tokens": 1e9},
    rates={"steps": 0.66666, "tokens": 2553.4},
    checkpoint=1000,
    checkpoint_at=datetime(2026, 1, 1, 0, 25, tzinfo=UTC),
)


def status_of(
    held: dict[str, Any], seen: Observation, told: Telemetry = telemetry.SILENT, now: str = NOW
) -> dict[str, Any]:
    job = read_job({"metadata": {"name": "j", "uid": "u", "generation": 1}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": "j-1", "labels": {Label.ATTEMPT: "1"}}, "spec": {}})
    status = job_status.placed(job, child, seen, now, told)
    GPUJobStatus.model_validate(orjson.loads(orjson.dumps(status)))
    return status


RUNNING = Observation(State.RUNNING, Reason.RUNNING, "the pod runs on node n", STARTED)


def test_a_running_job_says_how_far_how_fast_and_for_how_much() -> None:
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED}
    status = status_of(held, RUNNING, Telemetry(MEASURED, (telemetry.read("j-1-0-x"),)))
    assert status["progress"] == {"step": 1200, "percent": 42, "estimatedEnd": "2026-01-01T02:00:00Z", "updated": NOW}
    assert status["throughput"] == {"stepsPerSecond": "0.667", "tokensPerSecond": "2553"}
    assert status["cost"] == {"accrued": "16.80"}
    assert status["checkpoint"] == {"step": 1000, "time": "2026-01-01T00:25:00Z"}
    shown = {key: status["display"][key] for key in ("progress", "throughput", "cost")}
    assert shown == {"progress": "42 %", "throughput": "2553", "cost": "$16.80"}


@pytest.mark.parametrize(
    ("held", "measured", "checkpoint"),
    [
        ({}, {"unsaved": 7, "save_seconds": 12.5}, {"step": 1000, "saveSeconds": 13, "lostSteps": 7}),
        (
            {"step": 900, "lostSteps": 5, "saveSeconds": 40},
            {"unsaved": 7},
            {"step": 1000, "saveSeconds": 40, "lostSteps": 12},
        ),
        # The attempt went on from a checkpoint and made none: all its steps are lost.
        ({"step": 900}, {"checkpoint": None}, {"step": 900, "lostSteps": 1200}),
        ({}, {"checkpoint": None}, {}),
        ({}, {"unsaved": 0}, {"step": 1000}),
        ({"step": 900, "lostSteps": "x"}, {"unsaved": 3}, {"step": 1000, "lostSteps": 3}),
    ],
)
def test_steps_after_the_last_checkpoint_of_a_failed_attempt_are_lost(
    held: dict[str, Any], measured: dict[str, Any], checkpoint: dict[str, Any]
) -> None:
    found = progress.after_failure({"checkpoint": held}, replace(MEASURED, checkpoint_at=None, **measured))
    assert found == checkpoint


def test_nothing_is_lost_of_a_job_that_nobody_read() -> None:
    held = {"checkpoint": {"step": 9, "lostSteps": 1}}
    assert progress.after_failure(held, None) == held["checkpoint"]


def test_what_was_measured_stays_when_the_job_ends_and_the_cost_is_of_its_whole_time() -> None:
    held = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING, Telemetry(MEASURED))
    ended = Observation(State.SUCCEEDED, Reason.SUCCEEDED, "ended well", STARTED, "2026-01-01T01:00:00Z")
    status = status_of(held, ended, now="2026-01-01T09:00:00Z")
    assert status["throughput"] == held["throughput"]
    assert status["cost"] == {"accrued": "33.60"}
    failed = status_of(held, replace(ended, state=State.FAILED, reason=Reason.ENDED))
    assert failed["progress"] == held["progress"]


def test_a_program_that_ended_well_has_done_all_of_what_it_told_a_share_of() -> None:
    """It was read up to 15 seconds before its end, which would never show: 81 % was shown of a job that had succeeded."""
    ended = Observation(State.SUCCEEDED, Reason.SUCCEEDED, "ended well", STARTED, "2026-01-01T01:00:00Z")
    held = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING, Telemetry(MEASURED))
    status = status_of(held, ended)
    assert status["progress"] == {"step": 1200, "percent": 100, "updated": NOW}
    assert status["display"]["progress"] == "100 %"
    untold = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING, Telemetry(replace(MEASURED, fraction=None)))
    assert status_of(untold, ended)["progress"] == {"step": 1200, "updated": NOW}


def test_an_unknown_price_is_never_a_cost_of_nothing() -> None:
    status = status_of({"jobName": "j-1", "placement": UNPRICED}, RUNNING)
    assert "cost" not in status
    assert "cost" not in status["display"]


def test_the_cost_of_a_suspended_job_is_kept_and_added_to() -> None:
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED, "state": "Running"}
    job = read_job({"metadata": {"name": "j", "uid": "u"}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": "j-1", "labels": {Label.ATTEMPT: "1"}}, "spec": {}})
    suspended = end_attempt(job, child, endings.suspension(child), NOW)
    assert suspended["cost"] == {"accrued": "16.80", "earlier": "16.80"}
    resumed = {**suspended, "jobName": "j-2", "placement": PLACEMENT, "startTime": "2026-01-02T00:00:00Z"}
    assert cost.cost(resumed, PLACEMENT, resumed["startTime"], datetime(2026, 1, 2, 1, tzinfo=UTC)) == {
        "accrued": "50.40",
        "earlier": "16.80",
    }


def test_a_cost_never_becomes_less_when_an_operator_with_a_slower_clock_takes_over() -> None:
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED, "cost": {"accrued": "16.80"}}
    assert status_of(held, RUNNING, now="2026-01-01T00:29:00Z")["cost"] == {"accrued": "16.80"}
    assert status_of(held, RUNNING, now="2026-01-01T00:31:00Z")["cost"] == {"accrued": "17.36"}
    ended = Observation(State.SUCCEEDED, Reason.SUCCEEDED, "ended well", STARTED, "2026-01-01T00:29:58Z")
    assert status_of(held, ended)["cost"] == {"accrued": "16.80"}


@pytest.mark.parametrize("told", ["17.91", "50.00", "1000000.00"])
def test_a_cost_that_a_wrong_clock_wrote_is_corrected(told: str) -> None:
    """The price is 33.60 an hour, so that a minute costs 0.56."""
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED, "cost": {"accrued": told}}
    assert status_of(held, RUNNING)["cost"] == {"accrued": "16.80"}
    held["cost"] = {"accrued": "17.30"}
    assert status_of(held, RUNNING)["cost"] == {"accrued": "17.30"}


def test_what_an_attempt_has_cost_that_was_given_up_is_kept() -> None:
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED, "cost": {"accrued": "1.00"}}
    job = read_job({"metadata": {"name": "j", "uid": "u"}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": "j-1", "labels": {Label.ATTEMPT: "1"}}, "spec": {}})
    for status in (
        end_attempt(job, child, ending, NOW)
        for ending in (
            endings.no_interpreter("its image has no Python"),
            endings.nodes_did_not_come(job, child, 60, AT),
            endings.not_bound(job, child, "no node fits", 60, 180, AT),
            endings.probe_over("it ended", []),
            endings.suspension(child),
        )
    ):
        assert status["cost"] == {"accrued": "16.80", "earlier": "16.80"}
        assert status["display"]["cost"] == "$16.80"


@pytest.mark.parametrize("price", ["many", "-1", "1e99", 3, None, {"a": 1}])
def test_a_price_that_cannot_be_read_is_none(price: Any) -> None:
    assert cost.cost({"cost": "x"}, {"pricePerHour": price}, STARTED, AT) == {}


@pytest.mark.parametrize(
    ("before", "after", "worth"),
    [(None, 4, False), (None, 5, True), (40, 44, False), (40, 45, True), (40, 3, False), ("x", 5, True)],
)
def test_five_percent_are_worth_a_write(before: Any, after: int, worth: bool) -> None:
    assert progress.is_worth_a_write({"progress": {"percent": before}}, {"progress": {"percent": after}}) is worth


@pytest.mark.parametrize(
    ("ran", "remaining", "rate", "worth"),
    [
        (59, 5400.0, 0.5, False),
        (60, 5400.0, 0.5, True),
        (60, None, 0.5, True),
        (60, 299.0, 0.5, False),
        (60, 300.0, 0.5, True),
        (60, 5400.0, 0.0, False),
    ],
)
def test_the_first_speed_of_a_job_that_runs_on_for_long_is_worth_one_write(
    ran: int, remaining: float | None, rate: float, worth: bool
) -> None:
    at = AT.replace(minute=0) + timedelta(seconds=ran)
    measured = Measured(at=at, remaining=remaining, rates={"steps": rate})
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED}
    wanted = progress.members(held, measured)
    assert progress.is_worth_a_write(held, wanted) is worth
    assert not progress.is_worth_a_write({**held, **wanted}, wanted)


def test_a_status_says_how_old_its_figures_are() -> None:
    held = {"jobName": "j-1", "placement": PLACEMENT, "startTime": STARTED}
    running = status_of(held, RUNNING)
    assert running["updated"] == NOW
    later = status_of(running, RUNNING, now="2026-01-01T00:45:00Z")
    assert status_patch.patch(running, {**running, "updated": later["updated"]}) is None
    ended = Observation(State.SUCCEEDED, Reason.SUCCEEDED, "ended well", STARTED, "2026-01-01T01:00:00Z")
    assert status_of(running, ended, now="2026-01-01T01:00:09Z")["updated"] == "2026-01-01T01:00:00Z"
    assert "updated" not in status_of({}, Observation(State.PLACED, Reason.PLACED, "it is there"))


def test_a_new_checkpoint_is_worth_a_write() -> None:
    assert progress.is_worth_a_write({}, {"checkpoint": {"step": 100}})
    assert not progress.is_worth_a_write({"checkpoint": {"step": 100}}, {"checkpoint": {"step": 100}})


READ = Telemetry(None, (telemetry.read("j-1-0-x"),))
STOPPED = telemetry.blocked("j-1-0-x", 9466, "j", "gpujob-system", "no connection within 1.5 seconds")
GARBAGE = telemetry.unreadable("j-1-0-x", 9466, "not ASCII text")


@pytest.mark.parametrize(("seconds", "worth"), [(15, False), (59, False), (60, True), (300, True), (-7200, True)])
def test_a_checkpoint_after_each_step_is_told_once_a_minute(seconds: int, worth: bool) -> None:
    later = AT + timedelta(seconds=seconds)
    held = progress.members({}, replace(MEASURED, fraction=None))
    wanted = progress.members(held, replace(MEASURED, fraction=None, at=later, checkpoint=1001))
    assert progress.is_worth_a_write(held, wanted) is worth


def test_that_a_reporter_answers_rides_on_another_write_and_that_it_is_blocked_is_worth_one() -> None:
    held = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING)
    answers = status_of(held, RUNNING, READ)
    assert status_patch.patch(held, answers) is None
    assert status_patch.patch(held, answers, moved=True) is not None
    assert not telemetry.differs(held, answers)
    stopped = status_of(held, RUNNING, Telemetry(None, (STOPPED,)))
    assert telemetry.differs(held, stopped)
    assert telemetry.is_news(held, stopped)
    assert STOPPED.message == (
        "port 9466 of pod j-1-0-x cannot be reached from namespace gpujob-system (no connection within 1.5 seconds); if a "
        "NetworkPolicy or a mesh keeps it apart, add a NetworkPolicy with podSelector {gpujob.dev/job: j} and ingress "
        "from namespaceSelector {kubernetes.io/metadata.name: gpujob-system} to TCP port 9466"
    )


def test_a_port_that_answers_now_so_and_now_so_is_told_of_at_the_pace_of_progress() -> None:
    now = 0.0
    pace, writes = ProgressPace(lambda: now, EVERY, 2.0), 0
    held = status_of({"jobName": "j-1", "placement": UNPRICED}, RUNNING)
    for reading in range(240):
        now = 15.0 * reading
        told = Telemetry(None, (GARBAGE,)) if reading // 4 % 2 else READ
        status = status_of(held, RUNNING, told)
        assert status_patch.patch(held, status) is None
        if telemetry.differs(held, status) and pace.wait("u", soon=telemetry.is_news(held, status)) == 0:
            held, writes = status, writes + 1
    assert 1 < writes <= now / EVERY + 1


@pytest.mark.parametrize(
    ("label", "written"),
    [("llama-7b", "llama-7b"), ("v1.2", "v1.2"), ("123", '"123"'), ("true", '"true"'), ("1e3", '"1e3"')],
)
def test_a_label_in_a_remedy_is_text_in_yaml_too(label: str, written: str) -> None:
    message = telemetry.blocked("p", 9466, label, "o", "no reply").message
    assert f"podSelector {{gpujob.dev/job: {written}}}" in message
    assert yaml.safe_load(f"{{gpujob.dev/job: {written}}}") == {"gpujob.dev/job": label}


def test_what_was_read_of_one_attempt_is_unknown_of_the_next() -> None:
    held = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING, Telemetry(None, (STOPPED,)))
    job = read_job({"metadata": {"name": "j", "uid": "u", "generation": 1}, "spec": {}, "status": held})
    child = read_child({"metadata": {"name": "j-1", "labels": {Label.ATTEMPT: "1"}}, "spec": {}})
    suspended = end_attempt(job, child, endings.suspension(child), NOW)
    assert reading_of(suspended) == ("Unknown", "NotRead")
    gave_up = endings.nodes_did_not_come(job, child, 9.0, AT)
    for other in (job_status.unreadable(job, Reason.INVALID_SPEC, "no", NOW), end_attempt(job, child, gave_up, NOW)):
        assert reading_of(other) == ("Unknown", "NotRead")
    assert reading_of(status_of(held, RUNNING)) == ("False", "TelemetryBlocked")
    assert reading_of(status_of({**held, "jobName": "j-0"}, RUNNING)) == ("Unknown", "NotRead")
    again = status_of({**suspended, "jobName": "j-1"}, RUNNING, Telemetry(None, (STOPPED,)))
    assert telemetry.is_news(suspended, again)
    assert job_status.lost(job, NOW)["conditions"] != suspended["conditions"]
    assert reading_of(job_status.lost(job, NOW)) == ("False", "TelemetryBlocked")


def reading_of(status: dict[str, Any]) -> tuple[str, str]:
    (found,) = (c for c in status["conditions"] if c["type"] == "TelemetryReachable")
    return found["status"], found["reason"]


def test_the_remedy_for_a_pod_on_the_network_of_its_node_is_none_that_does_not_apply_there() -> None:
    stopped = telemetry.blocked_on_its_node("p", 62_001, "gpujob-system", "no connection within 1.5 seconds").message
    assert stopped == (
        "port 62001 of pod p cannot be reached from namespace gpujob-system (no connection within 1.5 seconds); it is on the "
        "network of its node: let the nodes' firewall (a cloud's security group) admit TCP ports 62000 to 64999 from "
        "the operator"
    )
    for claim in (telemetry.unreadable("p", 62_001, "not ASCII text", True), telemetry.anothers("p", 62_001, True)):
        assert claim.message.endswith(
            "; the pod is on the network of its node, where another program has this port: once that ends, the "
            "reporter takes it, and a new attempt has another one"
        )
    assert "GPUJOB_JOB_UID" in telemetry.anothers("p", 9466).message


def test_the_report_of_another_is_told_at_once() -> None:
    held = status_of({"jobName": "j-1", "placement": PLACEMENT}, RUNNING)
    another = status_of(held, RUNNING, Telemetry(None, (telemetry.anothers("p", 62_001, True),)))
    assert reading_of(another) == ("False", "ReportOfAnother")
    assert telemetry.is_news(held, another)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(2553.4, "2553"), (99.96, "100"), (25.53, "25.5"), (0.025, "0.025"), (1e-9, "0"), (1e17, "1" + "0" * 17)],
)
def test_a_rate_has_three_digits_that_count(rate: float, text: str) -> None:
    measured = Measured(at=AT, rates={"samples": rate})
    assert progress.members({}, measured)["throughput"] == {"samplesPerSecond": text}
