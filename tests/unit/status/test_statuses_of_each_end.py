"""Members that each status of a job keeps or drops, its price now, its patch, and what is read of its reporter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_reporting import BUSY, LATER, NEVER, NOW, PLACED, child, job, of_type, seen, valid

from gpujob.status.job import conditions, events, job_status, status_patch, telemetry
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.status.observe.child import Observation
from gpujob.status.records.preflight import Check
from gpujob.status.records.preflight_messages import SENTENCES
from gpujob.values.vocabulary import ConditionType, Reason, State

PLACEMENT = {
    "pool": "p", "vendor": "AMD", "accelerator": "MI300X", "nodes": 1, "gpusPerNode": 1, "image": "i", "runtime": "own",
    "pricePerHour": "3600.00",
}  # fmt: skip
HELD: dict[str, Any] = {
    "attempt": 2, "excludedPools": [{"name": "x", "until": NOW}], "gpuMemory": "9G", "failingSince": NOW, "failures": {"user": 1},
    "attempts": [{"attempt": 1, "to": NOW, "reason": "NodeLost"}], "cost": {"accrued": "1.00", "earlier": "1.00"},
    "ranSeconds": 7, "checkpoint": {"step": 3}, "excludedNodes": [{"name": "n", "until": NOW, "attempt": 1}],
}  # fmt: skip
RUNS = {"jobName": "j-2", "jobUID": "c", "startTime": NOW, "placement": PLACEMENT, "progress": {"percent": 5},
        "throughput": {"tokensPerSecond": "9"}, "display": {"accelerator": "MI300X"}}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "state", "reason", "also"),
    [
        (job_status.restarting(job(**HELD), "why", LATER), "Restarting", "EarlierAttemptEnding", {"Suspended": "False"}),
        (job_status.unreadable(job(**HELD), Reason.INVALID_SPEC, "why", LATER), "Misconfigured", "InvalidSpec", {"Suspended": "False"}),
        (job_status.queued(job(**HELD), Reason.QUOTA_EXCEEDED, "why", LATER), "Queued", "QuotaExceeded", {"Suspended": "False"}),
        (job_status.queued(job(**HELD), Reason.CHILD_NOT_CREATED, "why", LATER), "Queued", "ChildNotCreated", {"Suspended": "False"}),
        (job_status.over_budget(job(**HELD), "why", LATER), "Suspended", "BudgetExceeded", {"Suspended": "True"}),
    ],
)  # fmt: skip
def test_a_status_without_a_child_keeps_what_outlives_an_attempt(
    status: dict[str, Any], state: str, reason: str, also: dict[str, str]
) -> None:
    assert (status["state"], status["display"]["reason"], status["display"]["cost"]) == (state, reason, "$1.00")
    assert {key: status[key] for key in HELD} == HELD
    said = {c["type"]: (c["status"], c["message"]) for c in status["conditions"]}
    assert said["Placed"] == ("False", "why")
    assert said["Running"] == ("False", "the job is not placed")
    assert {kind: said[kind][0] for kind in said if kind not in ("Placed", "Running")} == also


@pytest.mark.parametrize("attempts", ["x", None, 7])
def test_members_of_a_status_that_are_not_what_they_should_be_are_left_out(attempts: Any) -> None:
    held = {"attempts": attempts, "cost": attempts, "checkpoint": attempts, "failures": attempts, "ranSeconds": "many"}
    status = job_status.queued(job(**held), Reason.QUOTA_EXCEEDED, "why", NOW)
    assert not {"attempts", "cost", "checkpoint", "failures", "ranSeconds", "attempt"} & status.keys()


@pytest.mark.parametrize("end", [job_status.lost, job_status.deleted])
def test_a_job_whose_child_is_gone_keeps_what_it_was(end: Any) -> None:
    status = valid(end(job(**HELD, **RUNS), LATER))
    assert {key: status[key] for key in RUNS if key != "display"} == {
        key: RUNS[key] for key in RUNS if key != "display"
    }
    assert (status["cost"], status["completionTime"]) == ({"accrued": "301.00", "earlier": "1.00"}, LATER)
    assert status["display"]["accelerator"] == "MI300X"
    assert of_type(status)["Failed"][0] == "True"
    assert of_type(status)["Running"] == ("False", "Ended")
    bare = end(job(**HELD), LATER)
    assert (bare["cost"], "accelerator" in bare["display"]) == (HELD["cost"], False)


def test_a_job_at_its_limit_names_the_child_that_has_to_go() -> None:
    held = job_status.placed(job(), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), NOW)
    status = valid(job_status.expired(job(2, **held), held, Reason.DEADLINE_EXCEEDED, "too long", "j-9", LATER))
    assert (status["state"], status["observedGeneration"], status["jobName"]) == ("Failed", 2, "j-9")
    assert (status["completionTime"], status["display"]["reason"]) == (LATER, "DeadlineExceeded")
    assert of_type(status)["Failed"] == ("True", "DeadlineExceeded")
    bare = job_status.expired(job(), {}, Reason.DEADLINE_EXCEEDED, "too long", "", LATER)
    assert of_type(bare) == {"Failed": ("True", "DeadlineExceeded"), "Running": ("False", "Ended")}


RUNNING = seen(State.RUNNING, Reason.RUNNING, started=NOW)


@pytest.mark.parametrize(
    ("price", "now", "observed", "shown"),
    [
        ("2.00", 3_000_000, RUNNING, "3.00"),
        ("2.00", 2_000_000, RUNNING, None),
        ("2.00", 2_004_999, RUNNING, None),
        (None, 3_000_000, RUNNING, None),
        ("2.00", 3_000_000, seen(State.STARTING, Reason.STARTING), "3.00"),
        ("2.00", None, RUNNING, None),
    ],
)
def test_the_price_of_now_is_beside_the_decided_one_where_they_differ(
    price: str | None, now: int | None, observed: Observation, shown: str | None
) -> None:
    placement = {**PLACEMENT, "pricePerHour": price, "currentPricePerHour": "9.99"}
    held = {"jobName": "j-1", "placement": {key: value for key, value in placement.items() if value}}
    status = job_status.placed(job(**held), child(), observed, NOW, price_now=now)
    assert status["placement"].get("currentPricePerHour") == (shown if now is not None else "9.99")
    said = {c["type"]: c["message"] for c in status["conditions"]}.get("Running", "")
    words = f"pool p costs ${shown} an hour now, this attempt goes on at $2.00"
    assert (words in said) is (shown is not None and observed is RUNNING)


@pytest.mark.parametrize(
    ("placement", "shown"),
    [
        ({"accelerator": "X"}, "X"),
        ({"accelerator": "X", "nodes": 1, "gpusPerNode": 1}, "X"),
        ({"nodes": 2}, "2x1 ?"),
        ({"accelerator": "X", "gpusPerNode": 2}, "2 X"),
        ({"accelerator": "X", "probe": 0}, "X (probe)"),
    ],
)
def test_the_column_of_a_placement_that_lacks_members(placement: dict[str, Any], shown: str) -> None:
    status = job_status.placed(job(jobName="j-1", placement=placement), child(), RUNNING, NOW)
    assert status["display"]["accelerator"] == shown


def test_the_sentence_of_a_placement() -> None:
    def sentence(held: dict[str, Any], of: Any = None) -> str:
        status = job_status.placed(job(**held), of or child(), RUNNING, NOW)
        return {c["type"]: str(c["message"]) for c in status["conditions"]}["Placed"]

    def said(holds: str, message: str) -> list[dict[str, str]]:
        return [
            {"type": "Running", "status": "True", "message": "runs"},
            {"type": "Placed", "status": holds, "message": message},
        ]

    chosen = "mi300x-ondemand is the only pool with room at $33.60 an hour"
    waits = {"jobName": "j-1", "conditions": said("False", "waits"), "placement": {"pool": "p"}}
    assert sentence(waits | {"conditions": said("True", "as said")}) == "as said"
    assert sentence(waits) == "placed on pool p"
    assert sentence({"jobName": "j-1", "placement": {"pool": "p"}}) == "placed on pool p"
    assert sentence({}) == "placed on pool ?"
    assert sentence({"conditions": said("True", "of a plan")}, child(PLACED)) == chosen
    assert sentence({"jobName": "j-1", "conditions": said("True", "as said")}, child(PLACED)) == "as said"
    assert sentence({"jobName": "j-0", "conditions": said("True", "as said")}, child(PLACED)) == chosen


def test_candidates_of_a_status() -> None:
    (busy,) = job_status.refused(job(), BUSY, NOW)["candidates"]
    assert busy == {"pool": "h100-sxm-ondemand", "runtime": "cuda", "shape": "1x1", "outcome": "Busy", "reason": "Cordoned",
                    "message": busy["message"]}  # fmt: skip
    (chosen,) = job_status.planned(job(attempt=2), PLACED, NOW)["candidates"]
    assert not {"reason", "message"} & chosen.keys()
    first = BUSY.candidates[0]
    wordy = first._replace(reasons=(replace(first.reasons[0], sentence="x" * 600, numbers=()),))
    (long,) = job_status.refused(job(), replace(BUSY, candidates=(wordy,)), NOW)["candidates"]
    assert long["message"] == "x" * 512
    words = job_status.message_of_refusal(NEVER)
    assert (words["verdict"], words["reason"], len(words["of"])) == ("Impossible", "Impossible", 1)
    assert job_status.refused(job(attempt=2), NEVER, NOW, State.QUEUED)["state"] == "Queued"


@pytest.mark.parametrize(
    ("condition", "unchecked"),
    [
        ({"type": "PreflightPassed", "reason": "NoInterpreter", "observedGeneration": 1}, True),
        ({"type": "PreflightPassed", "reason": "NoInterpreter", "observedGeneration": 2}, False),
        ({"type": "PreflightPassed", "reason": "DeviceUnusable", "observedGeneration": 1}, False),
        ({"type": "Placed", "reason": "NoInterpreter", "observedGeneration": 1}, False),
    ],
)
def test_a_job_runs_unchecked_where_its_status_of_this_generation_says_so(
    condition: dict[str, Any], unchecked: bool
) -> None:
    assert job_status.runs_unchecked(job(conditions=[condition])) is unchecked


PASSED = Check(True, True, Reason.PREFLIGHT_PASSED, "good")
FOUND = ConditionUpdate(ConditionType.PREFLIGHT_PASSED, True, Reason.PREFLIGHT_PASSED, "good")
UNCHECKED = f"{SENTENCES[Reason.NO_INTERPRETER]({})}; attempt 1 runs without a preflight"


@pytest.mark.parametrize(
    ("preflight", "observed", "disabled", "first", "expected"),
    [
        (True, replace(RUNNING, checked=PASSED), False, False, (FOUND,)),
        (True, replace(RUNNING, checked=PASSED), True, True, (FOUND,)),
        (True, RUNNING, False, True, (ConditionType.PREFLIGHT_PASSED,)),
        (True, RUNNING, False, False, ()),
        (True, replace(seen(State.STARTING, Reason.STARTING), checked=PASSED), False, False, ()),
        (True, replace(seen(State.PLACED, Reason.PLACED), checked=PASSED), False, True, ()),
        (True, replace(seen(State.STARTING, Reason.STARTING), checked=PASSED, stuck="x"), False, False, (FOUND,)),
        (False, RUNNING, True, True, (ConditionType.PREFLIGHT_PASSED,)),
        (False, RUNNING, False, True, (ConditionUpdate(
            ConditionType.PREFLIGHT_PASSED, None, Reason.NO_INTERPRETER, UNCHECKED),)),
    ],
)  # fmt: skip
def test_the_condition_of_a_preflight(
    preflight: bool, observed: Observation, disabled: bool, first: bool, expected: tuple[Any, ...]
) -> None:
    of = replace(child(PLACED), preflight=preflight)
    assert conditions.of_preflight(of, observed, disabled=disabled, first=first) == expected


def test_the_conditions_of_the_end_of_a_child() -> None:
    wait = replace(seen(State.PLACED, Reason.WAITING_FOR_DEVICES), stuck="x")
    found = [
        conditions.of_child(each, "why")[1]
        for each in (wait, seen(State.PLACED, Reason.PLACED), seen(State.PLACED, Reason.UNSCHEDULABLE), RUNNING)
    ]
    assert [each if isinstance(each, ConditionType) else (each.holds, each.reason) for each in found] == [
        (False, Reason.WAITING_FOR_DEVICES), ConditionType.RUNNING, (False, Reason.UNSCHEDULABLE), (True, Reason.RUNNING),
    ]  # fmt: skip
    stuck = conditions.of_child(replace(seen(State.PLACED, Reason.PLACED), stuck="x"), "why")[1]
    assert stuck == ConditionUpdate(ConditionType.RUNNING, False, Reason.NOT_STARTED, "so it is")


@pytest.mark.parametrize(
    ("update", "holds", "reason", "part"),
    [
        (telemetry.read("p"), True, "ReporterRead", "pod p reports its progress"),
        (telemetry.port_refused("p", 7), False, "NoReporter", "nothing listens on port 7 of pod p"),
        (
            telemetry.blocked("p", 7, "j", "ops", "timeout"),
            False,
            "TelemetryBlocked",
            "podSelector {gpujob.dev/job: j} and ingress",
        ),
        (telemetry.blocked("p", 7, "no", "ops", "timeout"), False, "TelemetryBlocked", '{gpujob.dev/job: "no"}'),
        (
            telemetry.blocked_on_its_node("p", 7, "ops", "refused"),
            False,
            "TelemetryBlocked",
            "admit TCP ports 62000 to 64999",
        ),
        (
            telemetry.blocked_by_a_proxy("p", 7, "ops", "HTTP status 503"),
            False,
            "TelemetryBlocked",
            "(HTTP status 503); let the mesh pass requests from namespace ops to TCP port 7, or exclude the port by an annotation",
        ),
        (
            telemetry.unreadable("p", 7, "no JSON"),
            False,
            "ReportUnreadable",
            "(no JSON); if the program uses this port",
        ),
        (
            telemetry.unreadable("p", 7, "no JSON", True),
            False,
            "ReportUnreadable",
            "(no JSON); the pod is on the network",
        ),
        (telemetry.anothers("p", 7), False, "ReportOfAnother", "if the program sets GPUJOB_JOB_UID"),
        (telemetry.anothers("p", 7, True), False, "ReportOfAnother", "the pod is on the network of its node"),
    ],
)
def test_what_is_said_of_a_reporter(update: ConditionUpdate, holds: bool, reason: str, part: str) -> None:
    assert (update.type, update.holds, update.reason) == (ConditionType.TELEMETRY_REACHABLE, holds, reason)
    assert part in update.message
    blocked = telemetry.Telemetry(None, (update,)).blocked
    assert blocked == (update.message if reason == "TelemetryBlocked" else "")


def reached(reason: str | None) -> dict[str, Any]:
    others = [{"type": "Placed", "reason": "Placed"}]
    return {"conditions": others if reason is None else [*others, {"type": "TelemetryReachable", "reason": reason}]}


@pytest.mark.parametrize(
    ("held", "wanted", "differs", "news"),
    [
        (None, "ReporterRead", False, False),
        (None, "TelemetryBlocked", True, True),
        ("NotRead", "ReportOfAnother", True, True),
        ("ReporterRead", "TelemetryBlocked", True, False),
        ("TelemetryBlocked", "ReporterRead", True, False),
        ("TelemetryBlocked", "TelemetryBlocked", False, False),
        ("NoReporter", "ReporterRead", False, False),
    ],
)
def test_which_change_of_a_reporter_is_worth_a_write(held: str | None, wanted: str, differs: bool, news: bool) -> None:
    assert telemetry.differs(reached(held), reached(wanted)) is differs
    assert telemetry.is_news(reached(held), reached(wanted)) is news


BASE: dict[str, Any] = {
    "state": "Queued", "jobName": "a", "attempt": 1, "startTime": NOW, "observedGeneration": 1, "display": {"reason": "x"},
    "conditions": [{"type": "Placed", "status": "False", "reason": "x", "observedGeneration": 1, "message": "m"},
                   {"type": "TelemetryReachable", "status": "False", "reason": "x"}],
    "candidates": [{"pool": "p", "reason": "x", "message": "m"}],
    "placement": {"pool": "p", "image": "i", "nodeNames": ["n"], "pricePerHour": "1.00"},
}  # fmt: skip


def placed_of(**more: Any) -> dict[str, Any]:
    return {"conditions": [{**BASE["conditions"][0], **more}, BASE["conditions"][1]]}


@pytest.mark.parametrize(
    ("change", "news", "numbers"),
    [
        ({}, False, False),
        *(({key: "other"}, True, False) for key in ("state", "jobName", "attempt", "observedGeneration")),
        *(({key: "other"}, True, False) for key in ("startTime", "completionTime")),
        ({"display": {"reason": "y"}}, True, False),
        ({"display": {"reason": "x", "cost": "$1"}}, False, False),
        *((placed_of(**{key: "y"}), True, key == "type") for key in ("type", "status", "reason", "observedGeneration")),
        (placed_of(message="n"), False, True),
        ({"conditions": BASE["conditions"][:1]}, False, True),
        ({"candidates": [{"pool": "q", "reason": "x"}]}, True, True),
        ({"candidates": [{"pool": "p", "reason": "y"}]}, True, True),
        ({"candidates": [{"pool": "p", "reason": "x", "message": "n"}]}, False, True),
        ({"candidates": []}, True, True),
        ({"placement": {**BASE["placement"], "pool": "q"}}, True, False),
        ({"placement": {**BASE["placement"], "image": "q"}}, True, False),
        ({"placement": {**BASE["placement"], "currentPricePerHour": "2"}}, True, False),
        ({"placement": {**BASE["placement"], "nodeNames": ["m"]}}, True, False),
        ({"placement": {**BASE["placement"], "pricePerHour": "2.00"}}, False, True),
        ({"cost": {"accrued": "1.00"}}, False, False),
    ],
)  # fmt: skip
def test_which_change_of_a_status_is_worth_a_write(change: dict[str, Any], news: bool, numbers: bool) -> None:
    wanted = BASE | change
    patch = status_patch.patch(BASE, wanted)
    assert (patch is not None) is news
    assert (status_patch.patch(BASE, wanted, moved=True) is not None) is (wanted != BASE)
    assert status_patch.has_other_numbers(BASE, wanted) is numbers


def test_a_plan_on_other_nodes_is_not_written_and_what_is_gone_is_taken_out() -> None:
    plan = BASE | {"state": "Suspended"}
    other = plan | {"placement": {**BASE["placement"], "nodeNames": ["m"]}}
    assert status_patch.patch(plan, other) is None
    assert status_patch.patch(plan, other, moved=True) == {"placement": {"nodeNames": ["m"]}}
    assert status_patch.patch(BASE, {"state": "Failed"}) == {**dict.fromkeys(BASE), "state": "Failed"}
    assert status_patch.patch({}, {}) is None
    assert (
        status_patch.patch({"state": "a", "placement": None, "display": None, "conditions": None}, {"state": "a"})
        is None
    )


@pytest.mark.parametrize(
    ("held", "wanted", "line"),
    [
        ({"state": "Queued"}, {"state": "Queued"}, None),
        ({}, {"state": "Placed", "placement": PLACEMENT}, {"state": "Placed", "pool": "p"}),
        ({"placement": PLACEMENT}, {"state": "Placed", "placement": PLACEMENT}, {"state": "Placed", "pool": "p"}),
        ({"placement": PLACEMENT}, {"state": "Running", "placement": PLACEMENT}, {"state": "Running", "pool": None}),
        ({}, {"state": "Running", "placement": PLACEMENT}, {"state": "Running", "pool": "p"}),
        ({"state": "a"}, {"state": "b", "display": {"cost": "$1"}}, {"was": "a", "cost": None}),
        ({"state": "a"}, {"state": "b", "completionTime": NOW, "display": {"cost": "$1"}}, {"was": "a", "cost": "$1"}),
    ],
)
def test_the_line_of_the_log(held: dict[str, Any], wanted: dict[str, Any], line: dict[str, Any] | None) -> None:
    found = events.transition(held, wanted)
    assert (found is None) is (line is None)
    assert line is None or {key: (found or {}).get(key) for key in line} == line
