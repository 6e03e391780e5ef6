"""Refreshes the numbers of waiting jobs: rarely for each, one job after the other.

Changed numbers alone cause no status write (see `status_patch`); without this a long-waiting job would show an outdated cluster.
The messages come from the last decision, so refreshing them costs no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpujob.cluster.queue.due_times import DueTimes
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.status.job import status_patch
from gpujob.status.records.objects import JobRecord


@dataclass(frozen=True, slots=True)
class StaleStatus:
    """A status that differs from the stored one in numbers only."""

    held: Mapping[str, Any]
    status: Mapping[str, Any]


class Reports(Protocol):
    """Writes statuses."""

    def report(self, job: JobRecord, status: Mapping[str, Any], *, moved: bool = False) -> None:
        """Writes a status that changed; `moved`: its numbers are worth a write too."""


class StatusRefresh:
    """Keeps the outdated statuses of waiting jobs. One of them at a time shares the queue of progress writes, so that many of them
    are written less often and hardly delay it.
    """

    def __init__(self, work: ControllerState, steps: Reports) -> None:
        self._work, self._steps = work, steps
        self._stale: dict[str, StaleStatus] = {}
        self._ripe = DueTimes()
        """The earliest time of each refresh."""
        self._next = 0.0

    def report(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        """Writes a changed status now, and one with other numbers when it is due."""
        if status_patch.patch(job.status, status) is not None:
            self._drop(job.uid)
            self._steps.report(job, status)
        elif status_patch.has_other_numbers(job.status, status):
            if job.uid not in self._stale:
                refreshed_at, timings = self._work.remember(job.uid).refreshed_at, self._work.timings
                self._ripe[job.uid] = max(self._work.clock() + timings.numbers_settled, refreshed_at + timings.numbers)
            self._stale[job.uid] = StaleStatus(job.status, status)
        else:
            self._drop(job.uid)

    def write_due(self) -> None:
        """Writes those that are due."""
        while (first := self._ripe.first()) is not None:
            ripe, uid = first
            job, stale = self._work.index.jobs.get(uid), self._stale[uid]
            if job is None or not self._is_of_now(job, stale):
                self._drop(uid)
                continue
            now = self._work.clock()
            wait = ripe - now if ripe > now else self._work.progress.wait(uid, soon=True)
            if wait > 0:
                self._next = now + wait
                return
            self._drop(uid)
            self._work.remember(uid).refreshed_at = now
            self._steps.report(job, stale.status, moved=True)

    def seconds_to_next(self) -> float | None:
        """Seconds until the next one is due; None if there is none."""
        return max(0.0, self._next - self._work.clock()) if self._stale else None

    def _is_of_now(self, job: JobRecord, stale: StaleStatus) -> bool:
        """Whether the job still waits with the status from which the new one was made."""
        waits = job.uid in self._work.queue and job.uid not in self._work.tasks
        return waits and job.status == stale.held and job.generation == stale.status.get("observedGeneration")

    def _drop(self, uid: str) -> None:
        if self._stale.pop(uid, None) is not None:
            del self._ripe[uid]
            self._work.progress.forget(uid)
