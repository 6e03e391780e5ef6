"""A probe's time is read from the operator's clock and the API server's, and a probe that nothing can measure does not count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.lifecycle.actions import EndProbe
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment
from gpujob.placement.request.demand import Demand
from gpujob.status.job import telemetry
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.records.objects import JobRecord, PodState
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record
from gpujob.values.vocabulary import Annotation, Label

MADE = datetime(2026, 1, 1, 12, tzinfo=UTC)
HINT = {
    "pool": "mi300x", "vendor": "AMD", "accelerator": "MI300X", "nodes": 1, "gpusPerNode": 1, "image": "i", "runtime": "own",
    "probe": 50,
}  # fmt: skip
JOB = {"name": "j", "namespace": "team", "uid": "u"}


class Trial:
    """A trial as the operator sees it, so many seconds after its child was made."""

    def __init__(self) -> None:
        self.seconds, self.sightings = 0.0, Sightings()
        self.again: float | None = None
        self.pods: list[PodState] = []
        self.telemetry = SILENT
        self.child = {
            "metadata": {
                "name": "j-1", "namespace": "team", "uid": "c", "creationTimestamp": "2026-01-01T12:00:00Z",
                "labels": {Label.ATTEMPT: "1", Label.JOB_UID: "u"},
                "ownerReferences": [{"kind": "GPUJob", "name": "j", "uid": "u", "controller": True}],
                "annotations": {Annotation.PLACEMENT: orjson.dumps(HINT).decode()},
            },
            "spec": {},
        }  # fmt: skip

    def pod(self, **status: Any) -> None:
        """Its pod, as the kubelet reports it."""
        owner = {"kind": "Job", "name": "j-1", "uid": "c", "controller": True}
        labels = {Label.JOB_UID: "u", Label.ATTEMPT: "1"}
        metadata = {"name": "j-1-0-x", "namespace": "team", "uid": "p", "labels": labels, "ownerReferences": [owner]}
        spec = {"nodeName": "n", "containers": [{"name": "train"}]}
        state = read_pod_record({"metadata": metadata, "spec": spec, "status": status}).state
        assert state is not None
        self.pods = [state]

    def result(self, **status: Any) -> str | None:
        """What came of it, now."""
        held = {"jobName": "j-1", "state": "Running", **status}
        job = read_job({"metadata": JOB, "spec": {}, "status": held})
        view = JobView(job, [read_child(self.child)], self.pods, telemetry=self.telemetry)
        now = Moment(self.seconds, MADE + timedelta(seconds=self.seconds))
        found = next_action(view, self.sightings, now, Timings())
        self.sightings, self.again = found.sightings, found.requeue_after
        return found.action.result.sentence if isinstance(found.action, EndProbe) else None


def a_desk() -> ControllerState:
    return ControllerState(ClusterIndex(ObjectCache(mirrored("gpujob-runner-x")), load_catalog()))


def running(since: str) -> dict[str, Any]:
    state = {"running": {"startedAt": since}}
    return {"phase": "Running", "containerStatuses": [{"name": "train", "state": state}]}


@pytest.mark.parametrize("told", ["2026-01-01T05:00:00Z", "2026-01-01T12:02:00Z", "2026-01-02T12:00:00Z"])
def test_the_clock_of_the_node_does_not_count(told: str) -> None:
    trial = Trial()
    trial.seconds = 120.0
    trial.pod(**running(told))
    assert trial.result() is None
    trial.seconds = 120.0 + 899
    assert trial.result() is None
    trial.seconds = 120.0 + 900
    assert trial.result() == (
        "the trial on pool mi300x reported no step within 900 seconds; its program needs to report"
    )


def test_a_trial_that_somebody_suspends_did_start() -> None:
    trial = Trial()
    trial.seconds = 120.0
    trial.pod(**running("2026-01-01T12:02:00Z"))
    assert trial.result() is None
    trial.pods = []
    trial.child["spec"] = {"suspend": True}
    trial.seconds = 120.0 + 900
    said = trial.result(startTime="2026-01-01T12:02:00Z", state="Placed")
    assert said == "the trial on pool mi300x reported no step within 900 seconds; its program needs to report"


def test_where_the_way_to_the_pod_is_blocked_the_trial_ends_soon_and_says_what_to_add() -> None:
    trial = Trial()
    trial.pod(**running("2026-01-01T12:00:00Z"))
    assert trial.result() is None
    blocked = telemetry.blocked("j-1-0-x", 9466, "j", "gpujob-system", "no connection within 1.5 seconds")
    trial.telemetry = Telemetry(None, (blocked,))
    trial.seconds = 119.0
    assert trial.result() is None
    assert trial.again == 1.0
    trial.seconds = 120.0
    assert trial.result() == f"the trial on pool mi300x was not read: {blocked.message}"
    trial.telemetry = Telemetry(None, (telemetry.port_refused("j-1-0-x", 9466),))
    assert trial.result() is None


def test_an_image_that_cannot_be_pulled_ends_the_trial_with_the_reason() -> None:
    trial = Trial()
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    trial.pod(phase="Pending", containerStatuses=[{"name": "train", "state": {"waiting": waiting}}])
    trial.seconds = 899.0
    assert trial.result() is None
    assert trial.again == 1.0
    trial.seconds = 900.0
    assert trial.result() == (
        "the trial on pool mi300x did not start within 900 seconds: 0 of 1 pods run; pod j-1-0-x starts on node n: "
        "ImagePullBackOff (Back-off pulling image)"
    )


def test_an_operator_that_starts_again_and_again_ends_a_trial_all_the_same() -> None:
    for seconds in (1799.0, 1800.0):
        trial = Trial()
        trial.seconds = seconds
        trial.pod(**running("2026-01-01T12:00:05Z"))
        assert (trial.result() is not None) is (seconds == 1800.0)


@pytest.mark.parametrize("reason", ["NoInterpreter", None])
def test_in_an_image_that_nothing_measures_nothing_is_tried(reason: str | None) -> None:
    work = a_desk()
    condition = {"type": "PreflightPassed", "status": "Unknown", "reason": reason, "observedGeneration": 1}
    job: JobRecord = read_job({"metadata": JOB, "spec": {}, "status": {"conditions": [condition]}})
    asked = replace(Demand(), probe_steps=50, exploration=5_000_000)
    informed = ProfileUpdates(work, None).informed(job, asked)  # type: ignore[arg-type]
    if reason is None:
        assert informed == asked
    else:
        assert (informed.probe_steps, informed.exploration) == (None, None)
        assert informed.unprobed == "nothing is tried: its image runs no Python, so nothing is measured"


def test_jobs_of_a_profile_that_run_are_known_to_those_that_explore() -> None:
    work = a_desk()
    placement = {"accelerator": "MI300X", "device": "MI300X cpx_nps4", "nodes": 2, "gpusPerNode": 8}

    def job(name: str, profile: str = "llama", **status: Any) -> JobRecord:
        metadata = {"name": name, "namespace": "team", "uid": name}
        made = read_job({"metadata": metadata, "spec": {"profile": profile}, "status": status})
        work.index.jobs[name] = made
        return made

    job("runs", state="Running", jobName="r-1", placement=placement)
    job("other", "bert", state="Running", jobName="o-1", placement=placement)
    job("ended", state="Succeeded", jobName="e-1", placement=placement)
    job("tries", state="Running", jobName="t-1", placement={**placement, "probe": 50})
    job("waits", state="Queued")
    learning = ProfileUpdates(work, None)  # type: ignore[arg-type]
    wish = replace(Demand(), exploration=5_000_000)
    learning.decides()
    asks = job("asks")
    assert learning.informed(asks, wish).under_way == ((("MI300X cpx_nps4", "2x8"), 1),)
    # One whose writes are under way has no status yet.
    work.tasks["made"] = None  # type: ignore[assignment]
    learning.count_placed(job("made"), ("H100-SXM", "1x8"))
    learning.decides()
    assert dict(learning.informed(asks, wish).under_way) == {("H100-SXM", "1x8"): 1, ("MI300X cpx_nps4", "2x8"): 1}
    del work.tasks["made"]
    learning.step_ended("made")
    learning.decides()
    assert dict(learning.informed(asks, wish).under_way) == {("MI300X cpx_nps4", "2x8"): 1}
