"""A job whose child was made just now is not looked at whole until a pod of it shows more than that it is bound."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from builders import MI300X, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller import job_reconciler
from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.actions import Next, Nothing
from gpujob.lifecycle.sightings import Sightings
from gpujob.render.runner import Runner
from gpujob.schedule.answers import Answer
from gpujob.values.vocabulary import PREFLIGHT, State

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})
JOB: dict[str, Any] = {
    "metadata": {"name": "j", "namespace": "team", "uid": "u", "generation": 1, "resourceVersion": "5"},
    "spec": {"preflight": "Disabled"},
    "status": {},
}

Object = dict[str, Any]


class Server:
    """Takes the child that is made."""

    child: Object

    async def create(self, path: str, body: Object, *, patience: Any = None) -> Object:
        self.child = {**body, "metadata": {**body["metadata"], "uid": "c", "resourceVersion": "7"}}
        return self.child


class Room:
    """A job whose child this process has just made, and the number of whole looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.looks, self.version = 100.0, 0, 10
        self.server, self.cache = Server(), ObjectCache(mirrored(RUNNER.name))
        self.work = ControllerState(ClusterIndex(self.cache, load_catalog()), clock=lambda: self.seconds)
        writer = Writer(self.server, self.cache, lambda: True, "here")  # type: ignore[arg-type]
        delivery = RunnerConfigMaps(self.work, writer, RUNNER)
        self.steps = JobActions(self.work, writer, delivery, ProfileUpdates(self.work, writer))
        self.reconciler = JobReconciler(self.work, self.steps)
        for kind in self.cache.kinds:
            self.cache.replace(kind, [copy.deepcopy(JOB)] if kind == "gpujobs" else [], "5")
        self.work.index.take(self.cache.take_changes())
        monkeypatch.setattr(job_reconciler, "next_action", self._next_action)

    def _next_action(self, *_: Any) -> Next:
        self.looks += 1
        return Next(Nothing(), Sightings(unbound=("c", self.seconds)))

    async def place(self) -> None:
        """Makes the child."""
        job = self.work.index.jobs["u"]
        self.work.remember("u")
        wish, there = self.work.parsed_spec(job).demand, fleet(node("a", MI300X))
        assert wish is not None
        await self.steps.place(job, Answer(wish, there, load_catalog()).decision, there.runtime_classes)

    def show(self, kind: str, obj: Object) -> None:
        """The watch shows another state of an object."""
        self.version += 1
        shown = copy.deepcopy(obj)
        shown["metadata"]["resourceVersion"] = str(self.version)
        self.cache.apply(kind, "MODIFIED", shown)

    def pod(self, status: Object, attempt: int = 1, **metadata: Any) -> None:
        """The watch shows the pod of an attempt."""
        name, labels = f"p{attempt}", self.server.child["spec"]["template"]["metadata"]["labels"]
        owner = {"kind": "Job", "name": "x", "uid": "c" if attempt == 1 else "earlier", "controller": True}
        meta = {
            "name": name,
            "namespace": "team",
            "uid": name,
            "labels": labels,
            "ownerReferences": [owner],
            **metadata,
        }
        spec = {"nodeName": "a", "containers": [{"name": "train"}]}
        self.show("pods", {"metadata": meta, "spec": spec, "status": status})

    def looked(self) -> int:
        """The number of whole looks since the last call; the job changed."""
        before = self.looks
        self.work.index.take(self.cache.take_changes())
        self.reconciler.reconcile(self.work.index.jobs["u"])
        return self.looks - before


@pytest.fixture
async def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    made = Room(monkeypatch)
    await made.place()
    return made


async def test_the_waits_of_a_child_begin_with_its_creation_without_a_look(room: Room) -> None:
    room.seconds += 1.0
    assert room.looked() == 0
    seen = room.work.remember("u").sightings
    assert (seen.unbound, seen.refused, seen.not_running) == (("c", 100.0), ("c", 100.0, 0), (State.PLACED, 100.0))


async def test_a_child_that_another_process_made_is_looked_at_whole(room: Room) -> None:
    room.work.remember("u").made = None
    assert room.looked() == 1


async def test_pods_that_are_made_and_bound_cause_no_look_and_the_job_is_looked_at_when_placed_is_due(
    room: Room,
) -> None:
    assert room.looked() == 0
    room.pod({"phase": "Pending"})
    room.pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
    room.seconds += 1.5
    assert room.looked() == 0
    assert room.work.due["u"] == pytest.approx(100.0 + room.work.timings.placed)
    room.seconds += 0.6
    assert room.looked() == 1


async def test_a_look_that_needs_no_other_one_leaves_no_time_for_it(room: Room) -> None:
    assert room.looked() == 0
    assert "u" in room.work.due
    room.pod(RUNNING)
    assert room.looked() == 1
    assert "u" not in room.work.due


@pytest.mark.parametrize(
    ("before", "seconds_between", "longer"),
    [(0, 0.0, 0.0), (3, 0.0, 1.5), (3, 0.9, 1.0), (3, 2.0, 0.0), (40, 0.0, 8.0)],
)
async def test_pods_of_a_burst_get_longer_until_placed_is_due(
    monkeypatch: pytest.MonkeyPatch, before: int, seconds_between: float, longer: float
) -> None:
    room = Room(monkeypatch)
    for _ in range(before):
        await room.place()
        room.seconds += seconds_between
    await room.place()
    placed_at, within = room.seconds, room.work.timings.placed + longer
    room.seconds = placed_at + within - 0.1
    assert room.looked() == 0
    room.seconds = placed_at + within
    assert room.looked() == 1


def _job(**changes: Any) -> Object:
    return {**JOB, "metadata": {**JOB["metadata"], **changes.pop("metadata", {})}, **changes}


RUNNING = {
    "phase": "Running",
    "containerStatuses": [{"name": "train", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
}
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
CHECKING = {"phase": "Pending", "initContainerStatuses": [{"name": PREFLIGHT, "state": {"running": {}}}]}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda room: room.pod(RUNNING), id="the pod runs"),
        pytest.param(lambda room: room.pod({"phase": "Failed"}), id="the pod failed"),
        pytest.param(lambda room: room.pod({"phase": "Succeeded"}), id="the pod ended"),
        pytest.param(lambda room: room.pod(CHECKING), id="its preflight runs"),
        pytest.param(
            lambda room: room.pod(
                {"phase": "Pending", "containerStatuses": [{"name": "train", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
            ),
            id="it cannot start",
        ),
        pytest.param(
            lambda room: room.pod({"phase": "Pending"}, deletionTimestamp="2026-01-01T00:00:00Z"), id="it is deleted"
        ),
        pytest.param(lambda room: room.pod({"phase": "Running"}, attempt=2), id="a pod of another attempt runs"),
        pytest.param(
            lambda room: room.show("gpujobs", _job(metadata={"generation": 2}, spec={"gpuMemory": "2G"})), id="spec"
        ),
        pytest.param(
            lambda room: room.show("gpujobs", _job(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})), id="leaving"
        ),
        pytest.param(lambda room: room.show("gpujobs", _job(status={"jobName": room.server.child["metadata"]["name"]})), id="written"),
        pytest.param(
            lambda room: room.show("jobs", {**room.server.child, "spec": {**room.server.child["spec"], "suspend": True}}),
            id="the child is suspended",
        ),
        pytest.param(
            lambda room: room.show(
                "jobs", {**room.server.child, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
            ),
            id="the child failed",
        ),
        pytest.param(lambda room: room.cache.apply("jobs", "DELETED", room.server.child), id="the child is gone"),
    ],
)  # fmt: skip
async def test_whatever_else_is_seen_is_looked_at_at_once(room: Room, change: Callable[[Room], None]) -> None:
    assert room.looked() == 0
    change(room)
    assert room.looked() == 1


async def test_a_pod_that_the_scheduler_refuses_is_looked_at_at_once(room: Room) -> None:
    labels = room.server.child["spec"]["template"]["metadata"]["labels"]
    owner = {"kind": "Job", "name": "x", "uid": "c", "controller": True}
    meta = {"name": "p1", "namespace": "team", "uid": "p1", "labels": labels, "ownerReferences": [owner]}
    room.show(
        "pods", {"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Pending", "conditions": [REFUSED]}}
    )
    assert room.looked() == 1


async def test_the_job_and_the_pods_of_an_attempt_that_failed_stay_for_their_logs_and_cause_no_look(room: Room) -> None:
    metadata = room.server.child["metadata"]
    name = f"{metadata['name'].rpartition('-')[0]}-2"
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    room.show("gpujobs", _job(status={"attempt": 2}))
    room.show("jobs", {**room.server.child, "metadata": {**metadata, "name": name, "uid": "earlier"}, "status": failed})
    room.pod({"phase": "Failed"}, attempt=2)
    room.pod({"phase": "Pending"})
    assert room.looked() == 0
    room.seconds += room.work.timings.placed
    assert room.looked() == 1
