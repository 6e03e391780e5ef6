"""Jobs whose explanation costs much get it a few in each round, after the others have started; nothing else waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from builders import A100, H100, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.scheduling import SchedulingRound
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.messages.status_refresh import StatusRefresh
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.lifecycle.timings import Timings
from gpujob.status.job import job_status
from gpujob.status.records.objects import JobRecord

COSTLY, TELLING = Timings().explain_factor, Timings().explain_slice
WORDS_TAKE = 0.3
"""Seconds for the words of one job, by the test's clock."""


class Round:
    """Impossible jobs before one that fits; it stands for the steps too."""

    def __init__(self, impossible: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.started, self.worded = 1000.0, list[str](), 0
        self.cache = ObjectCache(mirrored("gpujob-runner-x"))
        self.work = ControllerState(
            ClusterIndex(self.cache, load_catalog()), clock=lambda: self.now, timings=Timings(hold=0.0)
        )
        self.deciding = SchedulingRound(
            self.work, self, ProfileUpdates(self.work, None), StatusRefresh(self.work, self),  # type: ignore[arg-type]
        )  # fmt: skip
        self.cache.replace("nodes", [node("n", H100)], "1")
        self.jobs = {f"u{number:03}": {"gpuMemory": "500Gi"} for number in range(impossible)} | {"u999": {}}
        self.namespaces: dict[str, str] = {}
        self.writes, self.versions, self.statuses = 0, Counter[str](), dict[str, dict[str, Any]]()
        self.write()
        real = job_status.refused
        monkeypatch.setattr(job_status, "refused", lambda *arguments: self.slowly(real(*arguments)))

    def write(self) -> None:
        """The jobs as the API server has them, with what was written of them."""
        self.writes += 1
        found = [
            {
                "apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "spec": spec, "status": self.statuses.get(uid, {}),
                "metadata": {
                    "name": uid, "namespace": self.namespaces.get(uid, "team"), "uid": uid, "generation": 1,
                    "resourceVersion": str(self.versions[uid]),
                    "creationTimestamp": "2026-01-01T12:00:00Z",
                },
            }
            for uid, spec in self.jobs.items()
        ]  # fmt: skip
        self.cache.replace("gpujobs", found, str(self.writes))
        self.work.index.take(self.cache.take_changes())
        self.work.queue |= self.jobs.keys() - set(self.started)

    def slowly(self, status: dict[str, Any]) -> dict[str, Any]:
        self.now += WORDS_TAKE
        self.worded += 1
        return status

    def place(self, job: JobRecord, *others: object) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(0)

    def start(self, job: JobRecord, step: Coroutine[Any, Any, None], *, urgent: bool = False) -> None:
        step.close()
        self.started.append(job.uid)
        self.work.queue.discard(job.uid)

    def report(self, job: JobRecord, status: dict[str, Any], *, moved: bool = False) -> None:
        self.statuses[job.uid] = status
        self.versions[job.uid] += 1

    async def until_rest(self) -> int:
        """Decides as often as the loop would until no job is left to look at; how often."""
        for rounds in range(1000):
            waits = [at - self.now for at in self.work.due.values()]
            waits += [wait for wait in [self.deciding.seconds_to_next()] if wait is not None]
            if not waits:
                return rounds
            self.now += max(0.0, min(waits))
            if self.work.due.take(self.now):
                self.work.decided_at = ()
            if self.deciding.must_decide():
                await self.deciding.decide()
                self.write()
        raise AssertionError("it never rests")


async def turns_of_others(counted: list[int]) -> None:
    while True:
        counted[0] += 1
        await asyncio.sleep(0)


async def test_a_job_that_fits_starts_before_words_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, counted = Round(40, monkeypatch), [0]
    others = asyncio.create_task(turns_of_others(counted))
    await asyncio.sleep(0)
    before = counted[0]
    await queue.deciding.decide()
    others.cancel()
    assert queue.started == ["u999"]
    # The last of them is begun before the time is over.
    assert queue.worded == TELLING // WORDS_TAKE + 1
    assert counted[0] - before >= queue.worded


async def test_a_job_whose_creation_got_no_answer_is_not_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its step may end between the looks at jobs and the decision of one round."""
    queue = Round(0, monkeypatch)
    queue.jobs["u998"] = {}
    queue.write()
    queue.work.reserved["u999"] = ()
    await queue.deciding.decide()
    assert queue.started == ["u998"]
    del queue.work.reserved["u999"]
    await queue.deciding.decide()
    assert queue.started == ["u998", "u999"]


async def test_everybody_is_told_in_turn_and_then_the_loop_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Round(10, monkeypatch)
    await queue.until_rest()
    assert queue.statuses.keys() == queue.jobs.keys() - {"u999"}
    assert {status["state"] for status in queue.statuses.values()} == {"Impossible"}
    worded, queue.now = queue.worded, queue.now + 3600
    assert await queue.until_rest() == 0
    assert queue.worded == worded


async def test_a_job_of_another_namespace_does_not_wait_for_the_many(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Round(150, monkeypatch)
    await queue.deciding.decide()
    queue.write()
    queue.jobs["u500"], queue.namespaces["u500"] = {"gpuMemory": "500Gi"}, "other"
    queue.write()
    queue.now += 60
    await queue.deciding.decide()
    assert queue.statuses["u500"]["state"] == "Impossible"
    assert len(queue.statuses) < 10


async def test_costly_words_are_seldom_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Round(1, monkeypatch)
    await queue.until_rest()
    began, worded = queue.now, queue.worded
    for number in range(200):
        queue.now += 1
        queue.cache.replace("nodes", [node("n", (H100, A100)[number % 2])], f"{number + 2}")
        queue.work.decided_at = ()
        if queue.deciding.must_decide():
            await queue.deciding.decide()
            queue.write()
    assert 1 <= queue.worded - worded <= (queue.now - began) / (COSTLY * WORDS_TAKE) + 1


async def test_words_that_are_still_the_same_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Round(20, monkeypatch)
    await queue.until_rest()
    worded = queue.worded
    for number in range(5):
        queue.now += 1000
        queue.cache.replace("nodes", [node("n", H100 if number < 3 else A100)], f"{number + 2}")
        queue.work.decided_at = ()
        await queue.until_rest()
    # Only another device is news.
    assert queue.worded == worded + 20


async def test_telling_a_long_queue_looks_at_each_job_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(jobs: int) -> float:
        return counted[jobs] / jobs

    counted: Counter[int] = Counter()
    for jobs in (20, 200):
        queue = Round(jobs, monkeypatch)
        told, real = queue.deciding._explanations, queue.deciding._explanations._may_wait
        monkeypatch.setattr(told, "_may_wait", lambda *args, n=jobs, real=real: (counted.update([n]), real(*args))[1])
        await queue.until_rest()
        assert len(queue.statuses) == jobs
    assert looks(200) <= looks(20) <= 3


async def test_who_comes_while_words_are_looked_for_waits_for_those_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Round(40, monkeypatch)
    real = job_status.refused
    monkeypatch.setattr(job_status, "refused", lambda *arguments: (queue.cache.changed.set(), real(*arguments))[1])
    await queue.deciding.decide()
    assert (queue.started, queue.worded) == (["u999"], 1)
    queue.jobs["u998"] = {}
    queue.write()
    assert queue.deciding.must_decide()
    await queue.deciding.decide()
    assert (queue.started, queue.worded) == (["u999", "u998"], 1)
    # What was promised to it is decided on too. The others get theirs after twice the time that the explanation took.
    await queue.deciding.decide()
    assert queue.worded == 1
    assert queue.deciding.seconds_to_next() == pytest.approx(2 * WORDS_TAKE)
    queue.now += 2 * WORDS_TAKE + 0.001
    assert queue.deciding.must_decide()
    await queue.deciding.decide()
    assert queue.worded == 2
