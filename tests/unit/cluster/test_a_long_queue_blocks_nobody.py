"""A long queue: the others have turns between its pieces, and what changes no decision makes none."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from builders import H100, demand, fleet, node, pod

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import Fenced
from gpujob.cluster.controller.actions import AT_ONCE
from gpujob.cluster.controller.controller import Reconciler
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.turns import TimeSlice
from gpujob.cluster.writer.writes import NotLeader
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner import Runner
from gpujob.schedule import answers
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, SchedulingCycle
from gpujob.status.attempts import waits

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})
FULL = {"nvidia.com/gpu": 8}


class Clock:
    """Moves by a step each time that it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Controller:
    """A reconciler whose statuses are all accepted, and a cluster of one full node and one without GPUs."""

    def __init__(self, jobs: int, step: float = 0.0, gpus: Sequence[int] = (8,)) -> None:
        self.cache, self.version = ObjectCache(mirrored(RUNNER.name)), 1
        for kind in self.cache.kinds:
            self.cache.replace(kind, [], "1")
        self.cache.replace("nodes", [node("gpu", H100), node("plain")], "1")
        self.put(pod("full", "gpu", FULL, cpu="1"))
        raw = [
            {
                "apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "status": {},
                "spec": {"gpusPerNode": gpus[number % len(gpus)]},
                "metadata": {
                    "name": f"j{number:03}", "namespace": "team", "uid": f"u{number:03}", "generation": 1,
                    "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
                },
            }
            for number in range(jobs)
        ]  # fmt: skip
        self.raw = {each["metadata"]["uid"]: each for each in raw}
        self.cache.replace("gpujobs", raw, "1")
        self.clock = Clock(step)
        self.index = ClusterIndex(self.cache, load_catalog())
        timings = Timings(hold=0.0, explain_again=0.0, explain_factor=0.0, explain_slice=1e9)
        leads = lambda: True  # noqa: E731
        self.reconciler = Reconciler(self.index, self, leads, RUNNER, timings, self.clock)  # type: ignore[arg-type]
        self.work = self.reconciler.work

    def put(self, raw: dict[str, Any], event: str = "ADDED") -> None:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.cache.apply("pods", event, raw)

    async def write_status(self, job: Any, changes: Any, status: Any) -> bool:
        self.version += 1
        raw = self.raw[job.uid]
        raw["status"] = dict(status)
        raw["metadata"] = raw["metadata"] | {"resourceVersion": str(self.version)}
        self.cache.note_written("gpujobs", raw)
        return True

    async def round(self) -> None:
        self.work.dirty |= self.index.take(self.cache.take_changes())
        await self.reconciler.round()
        while self.work.tasks:
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Rounds until every job has its status."""
        for _ in range(50):
            self.clock.now += 100
            await self.round()
        assert all(raw["status"] for raw in self.raw.values())

    def decisions(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The lengths of the queues that are decided from now on."""
        lengths, real = list[int](), SchedulingCycle.run

        def run(cycle: SchedulingCycle, jobs: Any, found: Any, now: Any) -> Any:
            jobs = list(jobs)
            lengths.append(len(jobs))
            return real(cycle, jobs, found, now)

        monkeypatch.setattr(SchedulingCycle, "run", run)
        return lengths


async def turns_during(controller: Controller) -> int:
    """How often another task has its turn in one round."""
    turns = [0]

    async def other() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    controller.work.dirty |= controller.index.take(controller.cache.take_changes())
    task = asyncio.create_task(other())
    await controller.reconciler.round()
    task.cancel()
    await controller.reconciler._steps.end_tasks()
    return turns[0]


async def test_a_slice_that_is_not_used_up_gives_nobody_a_turn() -> None:
    clock = Clock(0.0)
    piece = TimeSlice(clock, 0.01)
    assert await piece.pause() is False
    clock.now = 0.01
    assert await piece.pause() is True
    assert await piece.pause() is False
    clock.now = 0.02
    piece.begin()
    assert await piece.pause() is False


async def test_each_look_and_each_decision_of_a_long_queue_is_a_piece() -> None:
    # With each reading of the clock a slice is used up: a turn after each look, each job that is prepared and placed.
    assert await turns_during(Controller(50, step=0.02)) >= 3 * 50
    assert await turns_during(Controller(50)) <= 2


async def test_what_runs_beside_a_decision_does_not_delay_the_next_one() -> None:
    """A decision delays the next one by twice what it takes itself: on a busy operator the writes between its pieces take longer."""
    controller = Controller(20, step=0.006)
    controller.work.dirty |= controller.index.take(controller.cache.take_changes())

    async def others() -> None:
        while True:
            controller.clock.now += 1000
            await asyncio.sleep(0)

    busy = asyncio.create_task(others())
    began = controller.clock.now
    await controller.reconciler.round()
    assert controller.clock.now - began > 10_000
    assert controller.reconciler._deciding._next_decision < controller.clock.now + 1000
    busy.cancel()
    while controller.work.tasks:
        await asyncio.sleep(0)


async def test_each_node_that_is_read_is_a_piece() -> None:
    """300 nodes of 60 unlike pools take 50 ms in one piece."""
    controller = Controller(1, step=0.02)
    controller.cache.replace("nodes", [node(f"n{number}", H100) for number in range(60)], "2")
    assert await turns_during(controller) >= 60
    assert len(controller.index.fleet().pools[0].nodes) == 60


async def test_a_node_that_changes_between_two_pieces_is_read_as_it_is_then() -> None:
    controller = Controller(1)
    controller.cache.replace("nodes", [node(f"n{number}", H100) for number in range(3)], "2")
    pieces = controller.index.read_nodes()
    next(pieces)
    changed = node("n0", H100, cordoned=True)
    changed["metadata"]["resourceVersion"] = "9"
    controller.cache.apply("nodes", "MODIFIED", changed)
    gone = node("n1", H100)
    gone["metadata"]["resourceVersion"] = "10"
    controller.cache.apply("nodes", "DELETED", gone)
    assert [each.name for each in controller.index.fleet().pools[0].nodes] == ["n0", "n2"]
    list(pieces)
    (pool,) = controller.index.fleet().pools
    assert [(each.name, each.unready is not None) for each in pool.nodes] == [("n0", True), ("n2", False)]


def test_holding_devices_for_many_jobs_is_done_in_pieces() -> None:
    cluster = fleet(node("a", H100), node("b", H100), pod("full", "a", {"nvidia.com/gpu": 4}))
    from gpujob.fleet.kubernetes.priority_classes import PriorityClass

    cluster.__dict__["priorities"] = {"high": PriorityClass("high", 1000)}
    high = [
        PendingJob(f"h{n:02}", "2026", demand(gpusPerNode=8, nodes=2, priorityClassName="high"), name=f"h{n}")
        for n in range(20)
    ]
    low = PendingJob("low", "2026", demand(gpusPerNode=1), name="low")
    steps = list(SchedulingCycle(load_catalog()).run([*high, low], cluster, ALWAYS))
    assert sum(step is None for step in steps) >= len(high)
    assert [step.job.uid for step in steps if step is not None] == [*(job.uid for job in high), "low"]


async def test_a_pod_that_takes_nothing_of_a_gpu_node_makes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(5)
    await controller.settle()
    decided = controller.decisions(monkeypatch)
    web = pod("web", "plain", cpu="1")
    controller.put(web)
    await controller.settle()
    controller.put(web, "DELETED")
    await controller.settle()
    assert decided == []


def choices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The GPUs a node of each demand that is decided from now on."""
    found, real = list[int](), answers.choose

    def choose(wish: Any, *others: Any) -> Any:
        found.append(wish.gpus_per_node)
        return real(wish, *others)

    monkeypatch.setattr(answers, "choose", choose)
    return found


async def test_where_nothing_is_gained_nobody_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(200, gpus=[1, 2, 4, 8])
    controller.put(pod("other", "gpu", {"nvidia.com/gpu": 1}, cpu="1"))
    controller.put(pod("full", "gpu", {"nvidia.com/gpu": 7}, cpu="1"))
    await controller.settle()
    chosen, cycles = choices(monkeypatch), controller.decisions(monkeypatch)
    for number in range(5):
        controller.put(pod(f"late{number}", "gpu", {"nvidia.com/gpu": 1}, cpu="1"))
        await controller.settle()
    assert (chosen, cycles) == ([], [])


async def test_where_too_little_is_gained_for_each_class_none_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(200, gpus=[2, 4, 8])
    controller.put(pod("other", "gpu", {"nvidia.com/gpu": 1}, cpu="1"))
    controller.put(pod("full", "gpu", {"nvidia.com/gpu": 7}, cpu="1"))
    await controller.settle()
    chosen, cycles = choices(monkeypatch), controller.decisions(monkeypatch)
    controller.put(pod("other", "gpu"), "DELETED")
    await controller.settle()
    assert (chosen, cycles) == ([], [])


async def test_a_gain_that_places_one_decides_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(200, gpus=[2, 4, 8])
    controller.put(pod("other", "gpu", {"nvidia.com/gpu": 2}, cpu="1"))
    controller.put(pod("full", "gpu", {"nvidia.com/gpu": 6}, cpu="1"))
    await controller.settle()
    started = list[str]()
    monkeypatch.setattr(
        controller.reconciler._steps, "place", lambda job, *_: (started.append(job.uid), asyncio.sleep(0))[1]
    )
    cycles = controller.decisions(monkeypatch)
    controller.put(pod("other", "gpu"), "DELETED")
    controller.clock.now += 100
    await controller.round()
    assert (started, cycles) == (["u000"], [200])


async def test_a_job_is_prepared_again_only_where_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(200)
    await controller.settle()
    # The own write of each status was a change.
    controller.work.decided_at = ()
    await controller.settle()
    prepared, real = list[str](), waits.timely
    monkeypatch.setattr(
        waits, "timely", lambda wish, created, *others: (prepared.append(created), real(wish, created, *others))[1]
    )
    controller.put(pod("full", "gpu", FULL, cpu="1"), "DELETED")
    controller.clock.now += 100
    controller.work.dirty |= controller.index.take(controller.cache.take_changes())
    await controller.reconciler.round()
    await controller.reconciler._steps.end_tasks()
    assert prepared == []


async def test_what_a_pod_gives_back_is_decided_on_although_others_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(5)
    await controller.settle()
    decided = controller.decisions(monkeypatch)
    controller.put(pod("web", "plain", cpu="1"))
    await controller.settle()
    assert decided == []
    started = list[str]()
    monkeypatch.setattr(
        controller.reconciler._steps, "place", lambda job, *_: (started.append(job.uid), asyncio.sleep(0))[1]
    )
    controller.put(pod("full", "gpu", FULL, cpu="1"), "DELETED")
    controller.clock.now += 100
    await controller.round()
    assert (started, decided) == (["u000"], [5])


async def test_a_job_whose_step_ends_during_a_round_is_looked_at_in_the_next() -> None:
    controller = Controller(3, step=0.02)
    looked, real = list[str](), controller.reconciler._reconciler.reconcile

    def look(job: Any) -> None:
        looked.append(job.uid)
        if job.uid == "u000":
            controller.work.dirty.add("u002")
        real(job)

    controller.reconciler._reconciler.reconcile = look  # type: ignore[method-assign]
    controller.work.dirty |= controller.index.take(controller.cache.take_changes())
    await controller.reconciler.round()
    assert looked == ["u000", "u001"]
    assert "u002" in controller.work.dirty
    await controller.reconciler._steps.end_tasks()


async def test_what_is_left_to_be_told_is_told_without_another_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(30)
    # Each explanation takes longer than the time that one round has for all of them.
    controller.reconciler._deciding._explanations._timings = replace(controller.work.timings, explain_slice=0.2)
    lengths = controller.decisions(monkeypatch)
    rounds = 0
    while not all(raw["status"] for raw in controller.raw.values()):
        controller.clock.now += 100
        controller.clock.step = 0.001
        await controller.round()
        rounds += 1
        assert rounds < 100
    assert rounds > 5
    assert lengths == [30]


async def test_the_own_write_of_an_explanation_is_no_reason_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(10)
    await controller.settle()
    lengths, told = controller.decisions(monkeypatch), []
    real = controller.reconciler._deciding._explanations._write
    monkeypatch.setattr(
        controller.reconciler._deciding._explanations,
        "_write",
        lambda job, placing: (told.append(job.uid), real(job, placing)),
    )
    for _ in range(5):
        controller.clock.now += 1000
        await controller.round()
    assert (lengths, told) == ([], [])


async def test_a_status_that_another_one_wrote_is_explained_anew() -> None:
    controller = Controller(3)
    await controller.settle()
    raw = controller.raw["u001"]
    before = raw["status"]
    controller.version += 1
    raw["status"] = before | {"state": "Running"}
    raw["metadata"] = raw["metadata"] | {"resourceVersion": str(controller.version)}
    controller.cache.note_written("gpujobs", raw)
    controller.put(pod("other", "gpu", cpu="1"))
    await controller.settle()
    assert controller.raw["u001"]["status"]["state"] == before["state"]


@pytest.mark.parametrize("error", [NotLeader, Fenced])
async def test_an_explanation_that_was_not_written_is_given_again(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process lost the Lease when it explained, and leads again a moment later."""
    controller, lost = Controller(2), list[str]()

    async def write_status(job: Any, changes: Any, status: Any) -> bool:
        if not lost:
            lost.append(job.uid)
            raise error("another process leads")
        return await Controller.write_status(controller, job, changes, status)

    monkeypatch.setattr(controller, "write_status", write_status)
    await controller.settle()
    assert lost == ["u000"]


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("urgent", [True, False])
@pytest.mark.parametrize("before", [0, AT_ONCE])
async def test_a_step_that_is_cancelled_before_it_begins_is_closed(turns: int, urgent: bool, before: int) -> None:
    """Before its task has a turn, or while it waits for a slot behind as many others as run at once."""
    controller, begun = Controller(0), list[int]()

    async def step(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(60)

    made = [step(number) for number in range(before + 1)]
    for number, each in enumerate(made):
        job = SimpleNamespace(uid=f"u{number}", namespace="team", name=f"j{number}", version="1")
        controller.reconciler._steps.start(job, each, urgent=urgent)  # type: ignore[arg-type]
    for _ in range(turns):
        await asyncio.sleep(0)
    assert (before in begun) == (turns > 0 and not before)
    await controller.reconciler._steps.end_tasks()
    assert {inspect.getcoroutinestate(each) for each in made} == {inspect.CORO_CLOSED}
    assert not controller.work.tasks, "its job can have another step"
    assert controller.work.dirty >= {f"u{number}" for number in range(before + 1)}


@pytest.mark.parametrize(("step", "least"), [(0.0, 0), (0.02, 60)])
async def test_others_have_turns_while_a_fix_is_searched(step: float, least: int) -> None:
    controller = Controller(1, step=step)
    spec = {"vendors": ["AMD"], "capacityTypes": ["Reserved"], "maxPricePerHour": "0.30"}
    controller.raw["u000"]["spec"] = {"gpuMemory": "500Gi", "placement": spec}
    controller.cache.replace("gpujobs", list(controller.raw.values()), "2")
    nodes = [node(f"n{gpus}", H100, gpus, price=f"{gpus}") for gpus in range(1, 9)]
    controller.cache.replace("nodes", nodes, "2")
    assert least <= await turns_during(controller) <= 2 + 20 * least


async def test_a_quota_of_another_namespace_decides_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers change with each pod there; a quota of the jobs' own namespace decides them again."""
    controller, decided, real = Controller(9, gpus=(1, 2, 4)), list[Any](), answers.choose
    await controller.settle()

    def choose(wish: Any, *others: Any) -> Any:
        decided.append(wish)
        return real(wish, *others)

    async def put(namespace: str, used: int, event: str) -> None:
        controller.version += 1
        metadata = {"name": "q", "namespace": namespace, "uid": namespace, "resourceVersion": str(controller.version)}
        status = {"hard": {"pods": "900"}, "used": {"pods": str(used)}}
        controller.cache.apply("resourcequotas", event, {"metadata": metadata, "spec": {}, "status": status})
        controller.clock.now += 100
        await controller.round()

    monkeypatch.setattr(answers, "choose", choose)
    await put("other", 1, "ADDED")
    await put("other", 2, "MODIFIED")
    assert not decided
    await put("team", 1, "ADDED")
    assert len(decided) == 3, "once for each class of equal jobs"
