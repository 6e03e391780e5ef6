"""Retries, pauses, limits and stalls at their bounds: each time at the second where its answer changes, each missing figure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from test_next_actions_of_a_job import HELD, ONE, RUNNING, RUNS, look, written
from test_start_failures import waits

from gpujob.fleet.labels.faults import Fault
from gpujob.lifecycle import attempts, children, stalls
from gpujob.lifecycle.actions import Finish, Nothing, WriteStatus
from gpujob.lifecycle.attempts import MOST_FACTOR, REMEMBERED
from gpujob.lifecycle.failures.device_faults import device_faults
from gpujob.lifecycle.failures.failure import Blame
from gpujob.lifecycle.failures.start_failures import start_failure
from gpujob.lifecycle.limits import budget_of, nearest_limit, seconds_to_live
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import Made
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.waits import write_time
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import Hint, JobRecord
from gpujob.status.records.read_objects import read_job
from gpujob.values.vocabulary import Reason, Vendor

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMINGS = Timings()


def at(seconds: float) -> str:
    return write_time(NOON + timedelta(seconds=seconds))


def job(spec: dict[str, Any] | None = None, **status: Any) -> JobRecord:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 2}
    return read_job({"metadata": metadata, "spec": spec or {}, "status": status})


@pytest.mark.parametrize(
    ("factor", "memory"),
    [
        ("1", "80000M"), (1, "80000M"), ("1.5", "120000M"), ("0.99", None), (MOST_FACTOR, f"{80000 * MOST_FACTOR}M"),
        (f"{MOST_FACTOR}.01", None), ("much", None), (None, None), (1.5, None), ("1.50000000000000", "120000M"),
        ("1.500000000000000", None), ([], None),
    ],
)  # fmt: skip
def test_the_memory_of_the_next_attempt(factor: Any, memory: str | None) -> None:
    assert attempts.larger_memory(job({"retries": {"memoryFactor": factor}}), 80_000 * 10**6) == memory


@pytest.mark.parametrize(
    ("within", "first", "now", "late"),
    [
        (60, at(0), 59, False),
        (60, at(0), 60, True),
        (0, at(0), 0, True),
        (None, at(0), 99, False),
        (60, None, 99, False),
    ],
)
def test_the_time_in_which_a_job_is_tried_again(within: int | None, first: str | None, now: int, late: bool) -> None:
    failing = job({"retries": {"withinSeconds": within, "user": 1}}, failingSince=first)
    assert attempts.is_too_late(failing, NOON + timedelta(seconds=now)) is late
    assert attempts.may_retry(failing, Blame.USER, NOON + timedelta(seconds=now)) is not late
    assert attempts.may_retry(failing, Blame.SPOT, NOON + timedelta(seconds=now))


@pytest.mark.parametrize(("count", "again"), [(0, True), (1, True), (2, False), (3, False)])
def test_the_number_of_retries(count: int, again: bool) -> None:
    failing = job({"retries": {"user": 2}}, failures={"user": count})
    assert attempts.may_retry(failing, Blame.USER, NOON) is again
    said = attempts.with_failure(failing, Blame.USER, at(5))
    assert said == {"failures": {"user": count + 1}, "failingSince": at(5)}
    assert "failingSince" not in attempts.with_failure(failing, Blame.SPOT, at(5))


def spot(number: int, seconds: float | None, blame: str = "Spot") -> dict[str, Any]:
    ran = {} if seconds is None else {"from": at(0), "to": at(seconds)}
    return {"attempt": number, "blame": blame, **ran}


LONG = TIMINGS.retry_longest


@pytest.mark.parametrize(
    ("entries", "ran", "number"),
    [
        ([], None, 1),
        ([], 0.0, 1),
        ([spot(1, 5)], 0.0, 2),
        ([spot(1, LONG)], 0.0, 2),
        ([spot(1, 5), spot(2, LONG)], 0.0, 2),
        ([spot(1, 5), spot(2, LONG - 1)], 0.0, 3),
        ([spot(1, 5)], LONG, 1),
        ([spot(1, 5)], LONG - 1, 2),
        ([spot(1, 5), spot(2, 5, "Infrastructure")], 0.0, 1),
        ([spot(1, 5), spot(2, 5, "Infrastructure"), spot(3, 5)], 0.0, 2),
        ([spot(1, 5), spot(2, None)], 0.0, 3),
        ([spot(n, 5) for n in range(1, 9)], 0.0, REMEMBERED),
        ([spot(1, 5), spot(2, 5)], None, 2),
    ],
)
def test_failures_in_a_row_on_spot_nodes(entries: list[Any], ran: float | None, number: int) -> None:
    assert attempts.failures_in_a_row(job(attempts=entries), Blame.SPOT, ran, TIMINGS) == number
    counted = job(attempts=entries, failures={"infrastructure": 3})
    assert attempts.failures_in_a_row(counted, Blame.INFRASTRUCTURE, ran, TIMINGS) == 3 + (ran is not None)


def test_the_pause_doubles_up_to_the_longest() -> None:
    assert [attempts.pause(number, TIMINGS) for number in (1, 2, 3, 6, 7, 8, 99)] == [10, 20, 40, 320, 600, 600, 600]
    assert attempts.pause(40, Timings(retry_first=1.0, retry_longest=1e12)) == 2.0**32


@pytest.mark.parametrize(
    ("entry", "now", "left"),
    [
        ({"to": at(0), "blame": "Infrastructure"}, 0, 10),
        ({"to": at(0), "blame": "Infrastructure"}, 4, 6),
        ({"to": at(0), "blame": "Infrastructure"}, 10, 0),
        ({"to": at(0), "blame": "Infrastructure"}, 99, 0),
        ({"to": at(99), "blame": "Infrastructure"}, 0, 10),
        ({"to": at(0), "blame": ""}, 0, 0),
        ({"to": at(0), "blame": "Moon"}, 0, 0),
        ({"to": "soon", "blame": "Infrastructure"}, 0, 0),
    ],
)
def test_the_pause_after_the_last_attempt(entry: dict[str, Any], now: float, left: float) -> None:
    failed = job(attempt=1, attempts=[{"attempt": 1, "reason": "NodeLost", **entry}], failures={"infrastructure": 1})
    assert attempts.pause_left(failed, NOON + timedelta(seconds=now), TIMINGS) == left


def test_an_entry_of_an_attempt_at_its_limits() -> None:
    held = job(jobName=ONE.name, placement={"pool": "p", "nodes": 1, "gpusPerNode": 8}, cost={"earlier": "1.00"})
    status = {"jobName": ONE.name, "startTime": at(0), "cost": {"accrued": "0.50"}}
    (entry,) = attempts.with_entry(held, ONE, status, ("r", "User", "x" * 300), at(5))["attempts"]
    assert entry == {"attempt": 1, "pool": "p", "nodes": list(ONE.nodes), "gpus": 8, "from": at(0), "to": at(5), "cost": "0.00",
                     "reason": "r", "blame": "User", "message": "x" * 256}  # fmt: skip
    unseen = job(jobName="other")
    (bare,) = attempts.with_entry(unseen, ONE, {}, ("r", "", ""), at(5))["attempts"]
    assert not {"from", "cost", "blame", "message"} & bare.keys()


def test_an_entry_lists_eight_nodes() -> None:
    wide = replace(ONE, nodes=tuple(f"n{number}" for number in range(10)))
    (entry,) = attempts.with_entry(job(), wide, {}, ("r", "", ""), at(5))["attempts"]
    assert entry["nodes"] == [f"n{number}" for number in range(8)]


@pytest.mark.parametrize(("left", "written_now"), [(1.0, False), (0.5, False), (0.0, True)])
def test_a_child_that_may_soon_run_is_reported_after_its_delay(left: float, written_now: bool) -> None:
    made = Made("c", 1, "", 0.0, ONE.hint)
    pending = replace(RUNS, phase="Pending", running=False, started="")
    found = look({"state": "Queued"}, ONE, pods=(pending,), made=made, second=TIMINGS.placed - left)
    assert isinstance(found.action, WriteStatus) is written_now
    assert written_now or found.requeue_after == left


def test_the_newest_attempt_that_ran_stays_listed() -> None:
    def listed(*ran: int) -> list[int]:
        entries = [
            {"attempt": n, "to": at(n), "reason": "r", **({"from": at(n)} if n in ran else {})} for n in range(2, 8)
        ]
        status = attempts.with_entry(job(attempts=entries), ONE, {}, ("r", "", ""), at(9))
        return [entry["attempt"] for entry in status["attempts"]]

    assert listed() == listed(7) == [4, 5, 6, 7, 1]
    assert listed(2) == [2, 5, 6, 7, 1]
    assert listed(2, 3) == [3, 5, 6, 7, 1]
    assert listed(3, 4) == [4, 5, 6, 7, 1]


@pytest.mark.parametrize(
    ("spec", "status", "left"),
    [
        ({}, {}, None),
        ({"activeDeadlineSeconds": 60}, {}, 60),
        ({"activeDeadlineSeconds": 60}, {"startTime": at(-60)}, 0),
        ({"activeDeadlineSeconds": 60}, {"startTime": at(-61), "ranSeconds": 5}, -6),
        ({"placement": {"budget": "1.00"}}, {"cost": {"accrued": "1.00"}, "placement": {"pricePerHour": "36.00"}}, 0),
        (
            {"placement": {"budget": "1.00"}},
            {"cost": {"accrued": "0.999999"}, "placement": {"pricePerHour": "36.00"}},
            1,
        ),
        ({"placement": {"budget": "1.00"}}, {"cost": {"accrued": "0.90"}, "placement": {"pricePerHour": "36.00"}}, 10),
        ({"placement": {"budget": "1.00"}}, {"placement": {"pricePerHour": "36.00"}}, 100),
        ({"placement": {"budget": "1.00"}}, {"placement": {}}, float("inf")),
        ({"placement": {"budget": "0"}}, {}, 0),
        ({"placement": {"budget": 1}}, {"placement": {"pricePerHour": "36.00"}}, 100),
        ({"placement": {"budget": "much"}}, {}, None),
    ],
)
def test_the_seconds_that_a_limit_leaves(spec: Any, status: Any, left: float | None) -> None:
    limit = nearest_limit(job(spec, **status), status, NOON)
    assert (limit and limit.seconds_left) == left
    assert (budget_of(job(spec)) is None) is (spec.get("placement", {}).get("budget") in (None, "much"))


@pytest.mark.parametrize(
    ("status", "left"),
    [
        ({"completionTime": at(0)}, 60),
        ({"completionTime": at(-50)}, 10),
        ({"completionTime": at(50)}, 60),
        ({"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at(-50)}]}, 10),
        ({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(-50)}]}, 10),
        ({"conditions": [{"type": "Failed", "status": "False", "lastTransitionTime": at(-50)}]}, None),
        ({"conditions": [{"type": "Placed", "status": "True", "lastTransitionTime": at(-50)}]}, None),
        ({}, None),
    ],
)
def test_the_time_to_live_of_a_job_that_ended(status: Any, left: float | None) -> None:
    assert seconds_to_live(job({"ttlSecondsAfterFinished": 60}, **status), NOON) == left
    assert seconds_to_live(job({}, **status), NOON) is None


def still(seconds: float | None, age: float = 0.0, **more: Any) -> Telemetry:
    return Telemetry(Measured(NOON - timedelta(seconds=age), still=seconds, **more))


STALL = {"stall": {"firstStepSeconds": 50, "afterSeconds": 100}}


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        (still(50.0), "no first step for 50 seconds; the bound is 50 seconds (spec.stall.firstStepSeconds)"),
        (still(49.9), None),
        (still(None), None),
        (
            still(100.0, counters={"steps": 7.0}),
            "no step for 100 seconds after step 7; the bound is 100 seconds (spec.stall.afterSeconds)",
        ),
        (still(99.0, counters={"steps": 7.0}), None),
        (
            still(50.0, stalls.FRESH.total_seconds()),
            "no first step for 50 seconds; the bound is 50 seconds (spec.stall.firstStepSeconds)",
        ),
        (still(50.0, stalls.FRESH.total_seconds() + 1), None),
    ],
)
def test_a_job_stands_still_from_its_bound_on(read: Telemetry, missing: str | None) -> None:
    found = stalls.stall_of(job(STALL), read, NOON)
    assert (found and found.message) == missing
    assert read.measured is not None
    assert stalls.is_near(job(STALL), read.measured) is (read.measured.still is not None and read.measured.still >= 49)


@pytest.mark.parametrize(("slowest", "bound"), [(None, stalls.SHORTEST), (0.0, stalls.SHORTEST), (1e9, stalls.LONGEST)])
def test_the_bound_by_the_slowest_step(slowest: float | None, bound: float) -> None:
    found, why = stalls.bound_of(job(), 7.0, slowest)
    assert (found, f"of {slowest or 0:.3g} seconds" in why) == (bound, True)
    middle = (stalls.SHORTEST + stalls.LONGEST) / 2 / stalls.TIMES
    assert stalls.bound_of(job(), 7.0, middle)[0] == pytest.approx(stalls.TIMES * middle)
    assert not stalls.is_near(job(), Measured(NOON, still=stalls.FIRST_STEP / 2 - 1))
    assert stalls.is_near(job(), Measured(NOON, still=stalls.FIRST_STEP / 2))


@pytest.mark.parametrize(
    ("reason", "message", "said"),
    [
        ("ErrImagePull", "", "did not start within 300 seconds: ErrImagePull; check the registry and the node's network"),
        ("ErrImagePull", "i/o timeout", "ErrImagePull (i/o timeout); check the registry and the node's network"),
        ("InvalidImageName", "", "InvalidImageName; correct spec.images or spec.imagePullSecrets"),
        ("CreateContainerError", "", "CreateContainerError; check the node's driver and container runtime"),
        ("CreateContainerConfigError", 'configmap "x" not found',
         'CreateContainerConfigError (configmap "x" not found); correct what the sentence names in the job\'s spec'),
    ],
)  # fmt: skip
def test_the_remedy_of_a_start_that_failed(reason: str, message: str, said: str) -> None:
    failure = start_failure([waits(reason, message)], 300)
    assert failure is not None
    assert failure.message.endswith(said)
    mine = failure.blame is Blame.USER
    assert (failure.node, failure.nodes) == (("", ()) if mine else ("n0", ("n0",)))


@pytest.mark.parametrize(
    ("vendor", "since", "counts"),
    [
        (None, "", True), ("NVIDIA", "", True), ("AMD", "", False),
        (None, "2026-01-01T11:59:59Z", False), (None, "2026-01-01T12:00:00Z", True), (None, "2026-01-01T12:00:01Z", True),
    ],
)  # fmt: skip
def test_a_fault_of_a_node_counts_since_the_attempt_began(vendor: Any, since: str, counts: bool) -> None:
    of = replace(ONE, created=at(0), hint=Hint({"vendor": "NVIDIA"}))
    faults = {"n0": (Fault("other", "", Vendor.AMD), Fault("broken", since, vendor))}
    found = [fault.message for fault in device_faults(of, [RUNS], faults)]
    when = f" since {since}" if since else ""
    assert found == ([f"node n0 reports a device fault{when}: broken"] if counts else [])


def test_who_is_waited_for() -> None:
    one = children.message_of_wait([RUNS], 2)
    assert " and " not in one.split("on node")[0]
    assert " and 1 more" in children.message_of_wait([RUNS, RUNS], 2)


@pytest.mark.parametrize(("left", "acts"), [(60, False), (0, True)])
def test_a_limit_of_a_waiting_job_acts_on_its_second(left: int, acts: bool) -> None:
    status = {"ranSeconds": 60 - left}
    found = look(status, spec={"activeDeadlineSeconds": 60})
    assert isinstance(found.action, WriteStatus) is acts
    if acts:
        assert written(found.action)["display"]["reason"] == Reason.DEADLINE_EXCEEDED


def test_a_deleted_job_keeps_the_generation_that_it_had() -> None:
    found = look({**RUNNING, "observedGeneration": 3}, ONE, pods=(RUNS,), leaving=True, generation=4)
    status = getattr(found.action, "status", None)
    assert status is None or status["observedGeneration"] == 3
    again = look({**RUNNING, "observedGeneration": 3}, ONE, pods=(RUNS,), generation=4)
    assert written(again.action)["observedGeneration"] == 4


def test_pods_that_do_not_run_yet_are_reported_after_their_delay() -> None:
    starting = replace(RUNS, phase="Pending", running=False, started="")
    held = {**HELD, "state": "Placed", "display": {"reason": "Placed"}}
    first = look(held, ONE, pods=(starting,))
    assert written(first.action)["state"] == "Placed"
    early = look(held, ONE, pods=(starting,), second=TIMINGS.starting - 1, seen=first.sightings)
    assert (written(early.action)["state"], early.requeue_after) == ("Placed", 1)
    late = look(held, ONE, pods=(starting,), second=TIMINGS.starting, seen=first.sightings)
    assert written(late.action)["state"] == "Starting"
    known = look({**held, "state": "Starting"}, ONE, pods=(starting,))
    assert written(known.action)["state"] == "Starting"


def test_pods_of_an_earlier_attempt_are_waited_for_and_then_reported() -> None:
    other = replace(RUNS, child_name=ONE.name, child_uid="x")
    held = {"attempt": 1, "state": "Queued", "attempts": [{"attempt": 1, "to": at(-99), "reason": "r"}]}
    first = look(held, pods=(other,))
    assert isinstance(first.action, Nothing)
    assert first.requeue_after == TIMINGS.restarting
    early = look(held, pods=(other,), second=TIMINGS.restarting - 1, seen=first.sightings)
    assert (isinstance(early.action, Nothing), early.requeue_after) == (True, 1)
    late = look(held, pods=(other,), second=TIMINGS.restarting, seen=first.sightings)
    assert written(late.action)["state"] == "Restarting"
    assert isinstance(look({**held, "state": "Restarting"}, pods=(other,)).action, WriteStatus)


def test_a_final_status_is_finished_once() -> None:
    ended = replace(ONE, ended="Complete", ended_at=at(0))
    over = replace(RUNS, phase="Succeeded", running=False, exit_code=0)
    first = look(RUNNING, ended, pods=(over,))
    assert isinstance(first.action, Finish)
    assert Sightings().probe[0] == ""
