"""The status of a job for each thing that can be the case, and the patch that makes it so."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pytest
from builders import ANY_IMAGES, H100, MI300X, decision, demand, fleet, gpupool, node

from gpujob.api.kinds.gpujob_status import GPUJobStatus
from gpujob.api.kinds.gpupool import GPUPoolSpec, GPUPoolStatus
from gpujob.api.manifest import read_gpupool
from gpujob.lifecycle import endings
from gpujob.lifecycle.attempts import end_attempt
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.status import pools
from gpujob.status.job import events, job_status, status_patch
from gpujob.status.job.conditions import ConditionUpdate, merged
from gpujob.status.job.events import transition
from gpujob.status.observe.child import Observation
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.preflight import Check
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.errors import BadManifest
from gpujob.values.vocabulary import Annotation, ConditionType, Label, Reason, State

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
PLACED = decision(node("a", MI300X, price="2.10"), node("b", MI300X, price="2.10"), nodes=2, gpusPerNode=8)
BUSY = decision(node("a", H100, cordoned=True))
NEVER = decision(node("a", H100), gpuMemory="1T")
BROKEN = decision(node("u", devices={"amd.com/gpu": "8"}))


def job(generation: int = 1, **status: Any) -> JobRecord:
    return read_job({"metadata": {"name": "j", "uid": "u", "generation": generation}, "spec": {}, "status": status})


def child(found: Decision | None = None, **annotations: str) -> ChildRecord:
    labels = {Label.ATTEMPT: "1"}
    if found is not None:
        annotations[Annotation.PLACEMENT] = orjson.dumps(job_status.hint(found)).decode()
    return read_child({"metadata": {"name": "j-1", "labels": labels, "annotations": annotations}, "spec": {}})


def seen(state: State, reason: Reason, message: str = "so it is", **times: str) -> Observation:
    return Observation(state, reason, message, **times)


def of_type(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def valid(status: dict[str, Any]) -> dict[str, Any]:
    """The status, which the CRD's schema accepts and JSON can hold."""
    GPUJobStatus.model_validate(orjson.loads(orjson.dumps(status)))
    return status


@pytest.mark.parametrize(
    ("found", "state", "reason", "verdict"),
    [
        (BUSY, "Queued", "Cordoned", ("False", "Cordoned")),
        (NEVER, "Impossible", "Impossible", ("False", "Impossible")),
        (BROKEN, "Misconfigured", "DeviceUnknown", ("False", "DeviceUnknown")),
    ],
)
def test_a_job_that_is_not_placed(found: Decision, state: str, reason: str, verdict: tuple[str, str]) -> None:
    status = valid(job_status.refused(job(), found, NOW))
    assert (status["state"], status["display"]) == (state, {"reason": reason})
    assert of_type(status) == {
        "Placed": verdict,
        "Running": ("False", "NotStarted"),
        "Suspended": ("False", "NotSuspended"),
    }
    assert status["candidates"][0]["reason"]
    assert "placement" not in status


def test_a_placed_job_says_where_and_for_how_much() -> None:
    status = valid(job_status.placed(job(), child(PLACED), seen(State.PLACED, Reason.PLACED), NOW))
    assert status["placement"] == {
        "pool": "mi300x-ondemand",
        "vendor": "AMD",
        "accelerator": "MI300X",
        "nodes": 2,
        "gpusPerNode": 8,
        "nodeNames": ["a", "b"],
        "image": "reg.example/rocm:1",
        "runtime": "rocm",
        "pricePerHour": "33.60",
        "priceSource": "node annotation gpujob.dev/price-per-gpu-hour",
        "digest": PLACED.digest,
    }
    told = next(c for c in status["conditions"] if c["type"] == "Placed")
    assert told["message"] == "mi300x-ondemand is the only pool with room at $33.60 an hour"
    assert status["display"] == {"accelerator": "2x8 MI300X", "reason": "Placed"}
    assert (status["jobName"], status["attempt"], of_type(status)["Placed"]) == ("j-1", 1, ("True", "Placed"))


@pytest.mark.parametrize(
    ("state", "reason", "wanted"),
    [
        (State.STARTING, Reason.STARTING, {"Running": ("False", "NotStarted")}),
        (State.RUNNING, Reason.RUNNING, {"Running": ("True", "Running")}),
        (State.SUCCEEDED, Reason.SUCCEEDED, {"Running": ("False", "Ended"), "Complete": ("True", "Succeeded")}),
        (State.FAILED, Reason.POD_FAILED, {"Running": ("False", "Ended"), "Failed": ("True", "PodFailed")}),
    ],
)
def test_conditions_of_a_job_with_a_child(state: State, reason: Reason, wanted: dict[str, tuple[str, str]]) -> None:
    status = valid(job_status.placed(job(), child(PLACED), seen(state, reason, started=NOW), NOW))
    assert of_type(status) == {"Placed": ("True", "Placed"), "PreflightPassed": ("Unknown", "NoInterpreter"), **wanted}
    assert status["startTime"] == NOW


def test_a_suspended_child_earns_no_second_event_and_its_own_line_in_the_log() -> None:
    running = valid(job_status.placed(job(), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), NOW))
    stopped = replace(seen(State.PLACED, Reason.CHILD_SUSPENDED), message="a user suspended it")
    status = valid(job_status.placed(job(**running), child(), stopped, LATER))
    assert of_type(status)["Running"] == ("False", "ChildSuspended")
    assert (status["state"], status["startTime"], status["placement"]) == ("Placed", NOW, running["placement"])
    assert events.event_of(job(**running), status, "here", LATER) is None
    line = transition(running, status)
    assert line is not None
    assert (line["reason"], line["message"]) == ("ChildSuspended", "a user suspended it")


def test_a_plan_says_where_the_job_would_go() -> None:
    status = valid(job_status.planned(job(), PLACED, NOW))
    assert (status["state"], status["placement"]["pool"]) == ("Suspended", "mi300x-ondemand")
    assert of_type(status)["Suspended"] == ("True", "PlanOnly")
    assert "placement" not in valid(job_status.planned(job(), BUSY, NOW))


def test_a_lost_child_is_the_end_and_what_was_known_stays() -> None:
    before = job_status.placed(job(), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), NOW)
    status = valid(job_status.lost(job(**before), LATER))
    assert (status["state"], status["startTime"], status["completionTime"]) == ("Failed", NOW, LATER)
    assert status["placement"] == before["placement"]
    assert of_type(status)["Failed"] == ("True", "ChildLost")


def test_what_a_lost_job_has_cost_counts_until_its_loss() -> None:
    held = job_status.placed(job(), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), NOW)
    price = Decimal(held["placement"]["pricePerHour"])
    hour = job_status.lost(job(**held), NOW.replace("T00", "T01"))
    assert Decimal(hour["cost"]["accrued"]) == price


def test_a_deleted_job_that_a_finalizer_holds_says_that_nothing_of_it_runs() -> None:
    before = job_status.placed(job(), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), NOW)
    status = valid(job_status.deleted(job(**before), LATER))
    assert (status["state"], status["completionTime"], status["display"]["reason"]) == ("Failed", LATER, "BeingDeleted")
    (failed,) = (c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["message"] == (
        "the GPUJob is being deleted, its child Job j-1 is gone and the GPUs are given back; the object stays until the "
        "finalizers of its metadata are taken off by those who put them there"
    )
    assert events.event_of(replace(job(**before), leaving=True), status, "here", LATER) is None
    queued = valid(job_status.deleted(job(**job_status.refused(job(), BUSY, NOW)), LATER))
    assert "nothing of it was left running" in str(queued["conditions"])


def test_a_manifest_that_cannot_be_read() -> None:
    status = valid(
        job_status.unreadable(job(attempt=3), Reason.INVALID_SPEC, "spec.nodes: must be a whole number", NOW)
    )
    assert (status["state"], status["attempt"]) == ("Misconfigured", 3)
    assert of_type(status)["Placed"] == ("False", "InvalidSpec")


def test_times_change_with_the_status_of_a_condition_only() -> None:
    held = job_status.refused(job(), BUSY, NOW)
    again = job_status.refused(job(**held), BROKEN, LATER)
    assert {c["lastTransitionTime"] for c in again["conditions"]} == {NOW}
    placed = job_status.placed(job(**held), child(PLACED), seen(State.PLACED, Reason.PLACED), LATER)
    assert {c["type"]: c["lastTransitionTime"] for c in placed["conditions"]}["Placed"] == LATER


def test_conditions_of_others_stay() -> None:
    other = {"type": "Team", "status": "True", "reason": "X", "message": "", "lastTransitionTime": NOW}
    found = merged([other, "junk"], [ConditionUpdate(ConditionType.PLACED, True, Reason.PLACED, "x" * 9999)], 2, LATER)  # type: ignore[list-item]
    assert [c["type"] for c in found] == ["Placed", "Team"]
    assert (len(found[0]["message"]), found[0]["observedGeneration"], found[1]) == (4096, 2, other)


def test_a_patch_turns_the_held_status_into_the_wanted_one() -> None:
    held = job_status.refused(job(), BUSY, NOW)
    wanted = job_status.placed(job(**held), child(PLACED), seen(State.RUNNING, Reason.RUNNING, started=NOW), LATER)
    patch = status_patch.patch(held, wanted)
    assert patch is not None
    assert merge(held, patch) == wanted
    assert status_patch.patch(wanted, wanted) is None
    back = status_patch.patch(wanted, held)
    assert back is not None
    assert merge(wanted, back) == held


def merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396."""
    found = dict(target)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merge(found[key], value)
        else:
            found[key] = value
    return found


def test_numbers_that_move_are_not_news_and_reasons_are() -> None:
    first = decision(node("n", H100, allocatable={"nvidia.com/gpu": "7"}), gpusPerNode=8)
    moved = decision(node("n", H100, allocatable={"nvidia.com/gpu": "6"}), gpusPerNode=8)
    held = job_status.refused(job(), first, NOW)
    assert status_patch.patch(held, job_status.refused(job(**held), moved, LATER)) is None
    assert status_patch.patch(held, job_status.refused(job(**held), BUSY, LATER)) is not None
    assert status_patch.patch(held, job_status.refused(job(2, **held), first, LATER)) is not None


def test_a_hint_says_after_a_crash_what_the_decision_said_before() -> None:
    text = orjson.dumps(job_status.hint(PLACED)).decode()
    known = job_status.placed(job(), child(PLACED), seen(State.PLACED, Reason.PLACED), NOW)
    rebuilt = job_status.placed(job(), child(**{"gpujob.dev/placement": text}), seen(State.PLACED, Reason.PLACED), NOW)
    assert rebuilt == known


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "MI300X"),
        ({"gpusPerNode": 8}, "8 MI300X"),
        ({"nodes": 2, "gpusPerNode": 8}, "2x8 MI300X"),
        ({"nodes": 2}, "2x1 MI300X"),
    ],
)
def test_devices_in_one_column(spec: dict[str, int], text: str) -> None:
    found = decision(node("a", MI300X), node("b", MI300X), **spec)
    status = job_status.placed(job(), child(found), seen(State.PLACED, Reason.PLACED), NOW)
    assert status["display"]["accelerator"] == text


def test_at_most_five_candidates_of_as_many_pools() -> None:
    objects = [node(f"n{number}", H100, labels={"topology.kubernetes.io/region": f"r{number}"}) for number in range(8)]
    found = decide(demand(), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)
    status = job_status.refused(job(), found, NOW, State.QUEUED)
    assert len({candidate["pool"] for candidate in status["candidates"]}) == 5


def test_what_a_pool_says_of_itself() -> None:
    x = {"pool": "x"}
    found = fleet(
        node("a", H100, labels=x, price="2"), node("b", devices={"amd.com/gpu": "1"}),
        gpupool("mine", x), gpupool("late", x, "2026-02-01T00:00:00Z"),
    )  # fmt: skip
    told = {pool.name: pools.status(pool, found, {}, NOW) for pool in found.pools}
    for status in told.values():
        GPUPoolStatus.model_validate(status)
    mine = told["mine"]
    assert (mine["nodes"], mine["gpus"], mine["pricePerGPUHour"]) == (1, {"total": 8, "free": 8}, "2.00")
    assert of_type(mine) == {"Read": ("True", "Read"), "Overlaps": ("False", "NoOverlap")}
    assert of_type(told["late"]) == {"Read": ("False", "NoPool"), "Overlaps": ("True", "Overlaps")}
    assert of_type(told["unknown-amd-ondemand"]) == {"Read": ("False", "DeviceUnknown")}
    assert mine["display"] == {"price": "2.00"}
    assert "pricePerGPUHour" not in told["unknown-amd-ondemand"]
    assert "display" not in told["unknown-amd-ondemand"]
    # What `kubectl get gpupools` shows of it.
    problems = {name: status.get("problem") for name, status in told.items()}
    assert problems == {"mine": None, "late": "NoPool", "unknown-amd-ondemand": "DeviceUnknown"}
    # An overlap is reported once.
    said = [c["message"] for c in told["late"]["conditions"]]
    assert sorted(said) == [
        "GPUPool late has no GPU node of its own; check spec.nodeSelector",
        "the older GPUPool mine claims node a too and has it; narrow spec.nodeSelector",
    ]


def test_a_pool_whose_taint_keeps_every_job_away_says_so() -> None:
    taint = ["team=ml:NoSchedule"]
    found = fleet(node("a", H100, taints=taint), node("b", H100, taints=taint))
    status = pools.status(found.pools[0], found, {}, NOW)
    assert (status["problem"], of_type(status)["Read"]) == ("TaintNotTolerated", ("False", "TaintNotTolerated"))
    assert status["conditions"][0]["message"] == (
        "all 2 nodes have taint team=ml:NoSchedule; tolerate it in a GPUPool (spec.tolerations) or remove it"
    )
    some = fleet(node("a", H100, taints=taint), node("b", H100))
    assert all(pools.status(pool, some, {}, NOW).get("problem") in (None, "TaintNotTolerated") for pool in some.pools)
    tolerant = fleet(
        node("a", H100, labels={"x": "y"}, taints=taint), gpupool("mine", {"x": "y"}, tolerations=[{"key": "team"}])
    )
    assert "problem" not in pools.status(tolerant.pools[0], tolerant, {}, NOW)


def test_a_pool_keeps_its_exact_price_and_shows_cents() -> None:
    found = fleet(node("a", H100, price="3.430887"))
    [told] = [pools.status(pool, found, {}, NOW) for pool in found.pools]
    assert (told["pricePerGPUHour"], told["display"]) == ("3.430887", {"price": "3.43"})


def test_an_edit_of_a_discovered_pool_is_told_with_the_remedy_and_so_is_its_end() -> None:
    found = fleet(node("a", H100))
    (pool,) = found.pools
    written = pools.manifest(pool)["spec"]
    edited = {**written, "accelerator": "A100-80GB"}
    assert [pools.is_edited(pool, *held) for held in ((written, 1), (edited, 2), (written, 3))] == [False, True, False]
    status = pools.status(pool, found, {}, NOW, 2, edited=True)
    assert of_type(status)["Edited"] == ("True", "SpecNotRead")
    (told,) = (condition["message"] for condition in status["conditions"] if condition["type"] == "Edited")
    assert told == (
        "the operator wrote this GPUPool from its nodes and does not read its spec; set spec.nodeSelector and "
        "remove the label gpujob.dev/discovered to make it yours, or create a GPUPool of your own"
    )
    assert of_type(pools.status(pool, found, status, NOW, 3))["Edited"] == ("False", "SpecAsWritten")
    assert "Edited" not in of_type(pools.status(pool, found, {}, NOW))


EDITS: dict[str, Any] = {
    "accelerator": "A100-80GB",
    "resourceName": "nvidia.com/other",
    "capacityType": "Spot",
    "price": {"perGPUHour": "1.50"},
    "memoryPerGPU": "80G",
    "supplementalGroups": [44],
    "runtimeClassName": "nvidia",
    "tolerations": [{"key": "team", "operator": "Exists"}],
    "env": [{"name": "A", "value": "b"}],
    "deviceMode": "DRA",
    "gpusPerNode": 8,
    "fabric": {"hostNetwork": True},
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "provision": {"maxNodes": 1},
}


@pytest.mark.parametrize(("field", "value"), EDITS.items(), ids=EDITS)
def test_an_edit_of_a_discovered_pool_is_refused_or_told(field: str, value: Any) -> None:
    (pool,) = fleet(node("a", H100)).pools
    document = pools.manifest(pool)
    written = document["spec"]
    document["spec"] = edited = {**written, field: value}
    if field in written:
        assert read_gpupool(document).spec != read_gpupool({**document, "spec": written}).spec
        assert pools.is_edited(pool, edited, 2)
    else:
        with pytest.raises(BadManifest, match="reads nothing else that is written here; to set a price, tolerations"):
            read_gpupool(document)


def test_every_field_of_a_pool_is_among_the_edits_that_are_tried() -> None:
    assert {field.alias for field in GPUPoolSpec.model_fields.values()} == {"nodeSelector", *EDITS}


def test_a_job_that_is_suspended_while_it_runs_was_stopped_and_its_preflight_is_over() -> None:
    checked = Check(True, True, Reason.PREFLIGHT_PASSED, "2 GPUs work")
    running = replace(seen(State.RUNNING, Reason.RUNNING, started=NOW), checked=checked)
    child_ = replace(child(PLACED), preflight=True)
    held = job_status.placed(job(), child_, running, NOW)
    assert of_type(held)["PreflightPassed"] == ("True", "PreflightPassed")
    stopping = valid(end_attempt(job(**held), child_, endings.suspension(child_), LATER))
    planned = valid(job_status.planned(job(**stopping), PLACED, LATER))
    for status in (stopping, planned):
        said = {c["type"]: c["message"] for c in status["conditions"]}
        assert said["Suspended"] == "spec.suspend is true: attempt 1 was stopped and nothing new is created"
        assert of_type(status)["PreflightPassed"] == ("Unknown", "PreflightPending")
    never = job_status.planned(job(), PLACED, NOW)
    assert {c["type"]: c["message"] for c in never["conditions"]}["Suspended"] == (
        "spec.suspend is true: nothing is created"
    )
    assert "PreflightPassed" not in of_type(never)


def test_that_an_image_cannot_run_the_preflight_outlives_a_suspension() -> None:
    held = end_attempt(job(), child(), endings.no_interpreter("no Python"), NOW)
    status = job_status.planned(job(**held), PLACED, LATER)
    assert of_type(status)["PreflightPassed"] == ("Unknown", "NoInterpreter")


def test_an_entry_of_an_attempt_without_its_number_its_end_or_its_reason_is_left_out() -> None:
    whole = {"attempt": 1, "to": NOW, "reason": "NodeLost"}
    bad = [{**whole, "attempt": 0}, {**whole, "attempt": "x"}, {**whole, "to": 7}, {"attempt": 2, "to": NOW}, "junk"]
    assert job_status.ended_attempts({"attempts": [*bad, whole]}) == [whole]
    assert job_status.ended_attempts({"attempts": "x"}) == []
