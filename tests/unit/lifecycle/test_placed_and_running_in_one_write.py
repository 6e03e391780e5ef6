"""A child that runs soon is reported once: its status says in one write that it is placed and that it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import H100, decision, node

from gpujob.lifecycle.actions import DeleteChild, Finish, Nothing, WriteStatus
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Made, Moment
from gpujob.status.job import job_status
from gpujob.status.job.events import event_of
from gpujob.status.records.objects import Hint, JobRecord, PodState
from gpujob.status.records.preflight import Check
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Annotation

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAME = child_name("j", "u", 1)
HINT = job_status.hint(decision(node("n", H100, price="2.10")))
MADE = Made("c1", 1, "", 0.0, Hint(HINT))
RUNS = PodState(
    f"{NAME}-0", "c1", "n", "Running", running=True, leaving=False, child_name=NAME, namespace="team",
    started="2026-01-01T12:00:01Z",
)  # fmt: skip
STARTS = replace(RUNS, phase="Pending", running=False, started="")


def job(generation: int = 1, spec: dict[str, Any] | None = None, **status: Any) -> JobRecord:
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": generation}
    return read_job({"metadata": metadata, "spec": spec or {}, "status": status})


def child(nodes: list[str] | None = None, hint: dict[str, Any] = HINT, uid: str = "c1", **also: Any) -> Any:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"] if nodes is None else nodes}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    owner = {"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}
    head = {
        "name": NAME,
        "namespace": "team",
        "uid": uid,
        "creationTimestamp": "2026-01-01T12:00:00Z",
        "ownerReferences": [owner],
        "annotations": {Annotation.PLACEMENT: json.dumps(hint)},
    }
    spec = {"completions": 1, "template": {"spec": {"affinity": affinity}}} | also.pop("spec", {})
    return read_child({"metadata": head, "spec": spec, **also})


def look(second: float, its: Any, *pods: PodState, of: JobRecord | None = None, made: Made | None = MADE) -> Any:
    moment = Moment(second, BEGAN + timedelta(seconds=second))
    return next_action(JobView(of or job(), (its,), pods, {"n": True}, made=made), Sightings(), moment, Timings())


def told(found: Any) -> dict[str, str]:
    assert isinstance(found.action, WriteStatus)
    return {c["type"]: c["status"] for c in found.action.status["conditions"]}


def test_one_write_says_that_it_is_placed_and_runs() -> None:
    first = look(0.1, child())
    assert (first.action, first.requeue_after) == (Nothing(), pytest.approx(1.9))
    assert look(0.5, child(), STARTS).action == Nothing()
    found = look(1.5, child(), RUNS)
    assert (told(found)["Placed"], told(found)["Running"]) == ("True", "True")
    status = found.action.status
    assert (status["state"], status["jobName"], status["startTime"]) == ("Running", NAME, "2026-01-01T12:00:01Z")
    event = event_of(job(), status, "here", "2026-01-01T12:00:02Z")
    assert event is not None
    assert (event["reason"], event["note"]) == ("Placed", HINT["message"])


@pytest.mark.parametrize("pods", [(), (STARTS,)])
def test_one_that_does_not_run_soon_is_placed(pods: tuple[PodState, ...]) -> None:
    status = told(look(2.0, child(), *pods))
    assert (status["Placed"], "Running" in status) == ("True", False)


def test_one_of_a_burst_gets_longer() -> None:
    made = replace(MADE, burst=3.0)
    found = look(2.0, child(), STARTS, made=made)
    assert (found.action, found.requeue_after) == (Nothing(), pytest.approx(3.0))
    assert told(look(4.9, child(), RUNS, made=made))["Running"] == "True"
    late = look(5.0, child(), STARTS, made=made)
    assert (told(late)["Placed"], late.action.status["state"]) == ("True", "Starting")
    # With a preflight, whose pods take longer, and where no pod is there yet, only that it is placed.
    checks = replace(STARTS, check=Check(over=False))
    assert look(5.0, child(), checks, made=made).action.status["state"] == "Placed"
    assert look(5.0, child(), made=made).action.status["state"] == "Placed"
    assert look(2.0, child(), STARTS).action.status["state"] == "Placed"


@pytest.mark.parametrize(
    ("its", "made"),
    [
        (child(), None),
        (child(uid="c2"), MADE),
        (child(nodes=[]), MADE),
    ],
    ids=["another process made it", "another child of that name", "nodes must be added"],
)
def test_what_is_told_at_once(its: Any, made: Made | None) -> None:
    assert told(look(0.1, its, made=made))["Placed"] == "True"


def test_one_that_the_status_names_is_told_of_at_once() -> None:
    before = look(2.0, child()).action.status
    found = look(2.1, child(), RUNS, of=job(**before))
    assert told(found)["Running"] == "True"


def test_one_that_ends_before_it_was_told_of_is_told_of_whole() -> None:
    ends = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T12:00:02Z"}]}
    ended = replace(RUNS, phase="Succeeded", running=False, exit_code=0)
    found = look(1.9, child(status=ends), ended).action
    assert isinstance(found, Finish)
    assert (found.status["state"], found.status["startTime"]) == ("Succeeded", "2026-01-01T12:00:01Z")
    assert found.status["placement"]["pricePerHour"] == "2.10"
    assert found.status["cost"]["accrued"]


def test_a_spec_that_changes_before_the_status_names_the_child_is_placed_anew() -> None:
    its = child()
    assert look(0.5, its, of=job(generation=2)).action == DeleteChild(replace(its, hint=MADE.hint))
    assert look(0.5, its, RUNS, of=job(generation=2)).action == DeleteChild(replace(its, hint=MADE.hint))
    named = look(2.0, its).action.status
    assert not isinstance(look(2.5, its, of=job(generation=2, **named)).action, DeleteChild)
    # A restart forgets what the child was made of.
    assert not isinstance(look(0.5, its, of=job(generation=2), made=None).action, DeleteChild)


def test_a_suspension_before_the_status_names_the_child_ends_it() -> None:
    found = look(0.5, child(), of=job(generation=2, spec={"suspend": True})).action
    assert isinstance(found, WriteStatus)
    assert (found.status["attempt"], "jobName" in found.status) == (1, False)


@pytest.mark.parametrize("forged", [{}, HINT | {"pricePerHour": "0.01"}, HINT | {"pool": "other"}, {"pool": 7}])
def test_what_others_write_into_the_child_meanwhile_counts_for_nothing(forged: dict[str, Any]) -> None:
    status = look(1.5, child(hint=forged), RUNS).action.status
    assert status["placement"] == {key: value for key, value in HINT.items() if key != "message"}
    assert next(c["message"] for c in status["conditions"] if c["type"] == "Placed") == HINT["message"]
