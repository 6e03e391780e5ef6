"""What a waiting job says of the cluster is brought up to date: seldom for each job, two writes a second for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import H100, decision, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.messages.status_refresh import StatusRefresh
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.lifecycle.timings import Timings
from gpujob.placement.scoring.candidate import Decision
from gpujob.status.job import job_status
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import read_job

NOW = "2026-01-01T00:00:00Z"
EVERY, SETTLED_AFTER = Timings().numbers, Timings().numbers_settled


def with_free(gpus: int) -> Decision:
    """What is decided about a job of 8 GPUs where so many are free."""
    return decision(node("n", H100, allocatable={"nvidia.com/gpu": str(gpus)}), gpusPerNode=8)


class Queue:
    """Jobs that wait, and what is written of them; it stands for the steps too."""

    def __init__(self, jobs: int = 1) -> None:
        self.now, self.written = 1000.0, list[tuple[float, str, Any]]()
        self.work = ControllerState(
            ClusterIndex(ObjectCache(mirrored("gpujob-runner-x")), load_catalog()), clock=lambda: self.now
        )
        self.retelling = StatusRefresh(self.work, self)  # type: ignore[arg-type]
        for number in range(jobs):
            uid = f"u{number:03}"
            self.put(uid, job_status.refused(read(uid), with_free(7), NOW))

    def put(self, uid: str, status: dict[str, Any]) -> None:
        self.work.index.jobs[uid] = read(uid, **status)
        self.work.queue.add(uid)

    def report(self, job: JobRecord, status: Any, *, moved: bool = False) -> None:
        self.written.append((self.now, job.uid, status))
        self.put(job.uid, status)

    def decided(self, found: Decision) -> None:
        """A decision about all jobs, then the end of the round."""
        for job in list(self.work.index.jobs.values()):
            self.retelling.report(job, job_status.refused(job, found, NOW))
        self.retelling.write_due()

    def until(self, end: float) -> None:
        """Rounds without a decision, as the loop makes them."""
        while (seconds := self.retelling.seconds_to_next()) is not None and self.now + seconds <= end:
            self.now += seconds
            self.retelling.write_due()
        self.now = end

    @property
    def told(self) -> Iterator[str]:
        for _, _, status in self.written:
            yield next(c["message"] for c in status["conditions"] if c["type"] == "Placed")


@pytest.fixture
def queue() -> Queue:
    return Queue()


def read(uid: str, **status: Any) -> JobRecord:
    return read_job({"metadata": {"name": uid, "namespace": "team", "uid": uid}, "spec": {}, "status": status})


def test_numbers_that_moved_are_told_when_they_stay_and_then_nothing(queue: Queue) -> None:
    queue.decided(with_free(6))
    queue.until(1001)
    queue.decided(with_free(5))
    queue.until(1005)
    queue.decided(with_free(3))
    queue.until(2000)
    assert [at for at, _, _ in queue.written] == [1000 + SETTLED_AFTER, 1005 + EVERY]
    first, sentence = queue.told
    assert ("5 of 8" in first, "3 of 8" in sentence) == (True, True)
    queue.decided(with_free(3))
    assert queue.retelling.seconds_to_next() is None


def test_numbers_that_moved_back_are_not_told(queue: Queue) -> None:
    queue.decided(with_free(6))
    queue.decided(with_free(7))
    queue.until(2000)
    assert queue.written == []


def test_numbers_that_move_all_the_time_are_told_twice_a_minute(queue: Queue) -> None:
    for second in range(300):
        queue.decided(with_free(1 + second % 6))
        queue.until(1001 + second)
    assert 9 <= len(queue.written) <= 1 + 300 / EVERY


def test_another_reason_is_told_at_once(queue: Queue) -> None:
    queue.decided(with_free(6))
    queue.decided(decision(node("n", H100, cordoned=True), gpusPerNode=8))
    queue.until(2000)
    assert [at for at, _, _ in queue.written] == [1000]


def test_many_jobs_take_turns_and_running_jobs_are_not_kept_from_theirs() -> None:
    queue = Queue(100)
    queue.decided(with_free(2))
    queue.until(1020)
    assert queue.work.progress.wait("runs", soon=True) <= 1
    queue.until(2000)
    times = [at for at, _, _ in queue.written]
    assert len({uid for _, uid, _ in queue.written}) == len(times) == 100
    assert all(sum(start <= at < start + 1 for at in times) <= 2 for start in times)


def test_a_job_that_is_edited_placed_or_gone_is_told_nothing_old(queue: Queue) -> None:
    queue.decided(with_free(2))
    queue.work.queue.clear()
    queue.until(2000)
    assert (queue.written, queue.retelling.seconds_to_next()) == ([], None)
