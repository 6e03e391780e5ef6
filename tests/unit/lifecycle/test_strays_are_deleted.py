"""A Job under the name of a child that is not the child runs the program a second time: whatever its job does, it goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpujob.lifecycle.actions import Action, DeleteChild
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.status.records.objects import ChildRecord, PodState
from gpujob.status.records.read_objects import read_child, read_job
from gpujob.values.names import child_name

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "name": "j", "uid": "u", "controller": True}


def a_job(uid: str, attempt: int = 1) -> ChildRecord:
    metadata = {"name": child_name("j", "u", attempt), "namespace": "team", "uid": uid, "ownerReferences": [OWNER]}
    return read_child({"metadata": metadata, "spec": {}})


def pod(child: ChildRecord) -> PodState:
    return PodState(
        "p", child.uid, leaving=False, node="n", phase="Running", running=True, child_name=child.name, namespace="team"
    )


RECORDED = {"attempt": 1, "jobName": child_name("j", "u", 1), "jobUID": "c"}
ONE, LATE = a_job("c"), a_job("late")
STATES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[ChildRecord, ...]]] = {
    "it runs": ({**RECORDED, "state": "Running"}, {}, (ONE,)),
    "its child is gone, which is not confirmed": ({**RECORDED, "state": "Running"}, {}, ()),
    "it reached its deadline": (
        {**RECORDED, "state": "Failed", "conditions": [{"type": "Failed", "reason": "DeadlineExceeded"}]},
        {"activeDeadlineSeconds": 150},
        (),
    ),
    "it succeeded and its child was collected": ({**RECORDED, "state": "Succeeded"}, {}, ()),
    "it succeeded": ({**RECORDED, "state": "Succeeded"}, {}, (replace(ONE, ended="Complete"),)),
    "it is being deleted": ({**RECORDED, "state": "Running"}, {"leaving": True}, (ONE,)),
    "it waits": ({"state": "Queued"}, {}, ()),
    "it is suspended": ({"attempt": 1, "state": "Suspended"}, {"suspend": True}, ()),
}


def action(state: str, *strays: ChildRecord, second: float = 0.0, seen: Sightings | None = None) -> Action:
    return looked(state, *strays, second=second, seen=seen).action


def looked(state: str, *strays: ChildRecord, second: float = 0.0, seen: Sightings | None = None) -> Any:
    status, spec, children = STATES[state]
    metadata: dict[str, Any] = {"name": "j", "namespace": "team", "uid": "u", "generation": 1}
    if spec.get("leaving"):
        metadata["deletionTimestamp"], spec = "2026-01-01T12:00:00Z", {}
    job = read_job({"metadata": metadata, "spec": spec, "status": status})
    pods = tuple(map(pod, strays))
    view = JobView(job, children, pods, {"n": True}, strays=strays)
    return next_action(view, seen or Sightings(), Moment(second, BEGAN + timedelta(seconds=second)), Timings())


@pytest.mark.parametrize("stray", [LATE, a_job("late", 7)], ids=["the recorded name", "a later attempt"])
@pytest.mark.parametrize("state", STATES)
def test_a_stray_is_deleted_whatever_its_job_does(state: str, stray: ChildRecord) -> None:
    assert action(state, stray) == DeleteChild(stray)


@pytest.mark.parametrize("state", STATES)
def test_a_stray_that_has_ended_stays_for_its_logs(state: str) -> None:
    gone = replace(LATE, ended="Failed")
    assert action(state, gone) != DeleteChild(gone)


@pytest.mark.parametrize("state", STATES)
def test_the_pods_of_a_stray_that_a_finalizer_keeps_are_deleted_after_ten_seconds(state: str) -> None:
    kept = replace(LATE, leaving=True)
    first = looked(state, kept)
    assert not isinstance(first.action, DeleteChild)
    assert action(state, kept, second=10.0, seen=first.sightings) == DeleteChild(kept, pods_first=True)
