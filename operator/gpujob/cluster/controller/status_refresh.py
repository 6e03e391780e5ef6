"""A job that waits is told its numbers again when they have moved: seldom for each, one job after the other.

That numbers moved is no news by itself (see `news.patch`); without this a job that waits for long would tell of a
cluster that is no more. The words come from the last decision, so that telling them costs no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.queue.due_times import DueTimes
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.status.job import status_patch
from gpujob.status.records.objects import JobRecord


@dataclass(frozen=True, slots=True)
class StaleStatuses:
    """A status that differs from the one held in numbers only."""

    held: Mapping[str, Any]
    status: Mapping[str, Any]


class StatusRefresh:
    """Keeps what waiting jobs are to be told. One of them at a time stands in the line of those that tell their progress,
    so that many of them are told less often and hardly delay it."""

    def __init__(self, work: ControllerState, steps: JobActions) -> None:
        self._work, self._steps = work, steps
        self._untold: dict[str, StaleStatuses] = {}
        self._ripe = DueTimes()
        """When each of them may be told."""
        self._next = 0.0

    def report(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        """Writes a status that says something new now, and one that has other numbers when it is its turn."""
        if status_patch.patch(job.status, status) is not None:
            self._drop(job.uid)
            self._steps.report(job, status)
        elif status_patch.has_other_numbers(job.status, status):
            if job.uid not in self._untold:
                told_at, timings = self._work.remember(job.uid).retold_at, self._work.timings
                self._ripe[job.uid] = max(self._work.clock() + timings.numbers_settled, told_at + timings.numbers)
            self._untold[job.uid] = StaleStatuses(job.status, status)
        else:
            self._drop(job.uid)

    def tell(self) -> None:
        """Writes those whose turn it is."""
        while (first := self._ripe.first()) is not None:
            ripe, uid = first
            job, untold = self._work.book.jobs.get(uid), self._untold[uid]
            if job is None or not self._is_of_now(job, untold):
                self._drop(uid)
                continue
            now = self._work.clock()
            wait = ripe - now if ripe > now else self._work.progress.wait(uid, soon=True)
            if wait > 0:
                self._next = now + wait
                return
            self._drop(uid)
            self._work.remember(uid).retold_at = now
            self._steps.report(job, untold.status, moved=True)

    def seconds_to_next(self) -> float | None:
        """Seconds until it is the next one's turn; None while nobody is to be told anything."""
        return max(0.0, self._next - self._work.clock()) if self._untold else None

    def _is_of_now(self, job: JobRecord, untold: StaleStatuses) -> bool:
        """Whether the job still waits with the status from which the other one was made."""
        waits = job.uid in self._work.queue and job.uid not in self._work.tasks
        return waits and job.status == untold.held and job.generation == untold.status.get("observedGeneration")

    def _drop(self, uid: str) -> None:
        if self._untold.pop(uid, None) is not None:
            del self._ripe[uid]
            self._work.progress.forget(uid)
