"""The level-based loop: gather, reconcile, decide, refresh; readable as these numbered steps.

A round reads the cache and starts at most one task for each job; a task makes the writes of one step and ends. The next round
reconciles the job again, so a crash between any two writes loses and doubles nothing: children have fixed names, the child carries
the status's content, and the status is the record.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.controller.namespace_budgets import NamespaceBudgets
from gpujob.cluster.controller.orphaned_children import OrphanedChildren
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.controller.scheduling import SchedulingRound
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.messages.status_refresh import StatusRefresh
from gpujob.cluster.queue.turns import TimeSlice
from gpujob.cluster.queue.work_queue import DEFAULT_TIMINGS, ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner import Runner


class Reconciler:
    """Runs rounds until cancelled; only the leader acts, the others keep their index warm."""

    def __init__(
        self,
        index: ClusterIndex,
        writer: Writer,
        is_leader: Callable[[], bool],
        runner: Runner,
        timings: Timings = DEFAULT_TIMINGS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        home: str = "gpujob-system",
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.work = ControllerState(index, clock, wall, timings, chance)
        self._is_leader = is_leader
        self.delivery = RunnerConfigMaps(self.work, writer, runner)
        learning = ProfileUpdates(self.work, writer)
        self._steps = JobActions(self.work, writer, self.delivery, learning)
        self.budgets = NamespaceBudgets(self.work, writer, home)
        self.orphans = OrphanedChildren(self.work, writer)
        self._reconciler = JobReconciler(self.work, self._steps, self.budgets.refusal)
        self._refresh = StatusRefresh(self.work, self._steps)
        self._deciding = SchedulingRound(self.work, self._steps, learning, self._refresh)
        self._slice = TimeSlice(clock, timings.loop_slice)
        self._led = False

    async def run(self) -> None:
        """Rounds until cancelled, each started by a change or at the time that a job requested."""
        cache = self.work.index.cache
        try:
            while True:
                try:
                    async with asyncio.timeout(self.seconds_to_next()):
                        await cache.changed.wait()
                    await asyncio.sleep(self.work.timings.gather)
                except TimeoutError:
                    pass
                changes, complete = cache.take_changes(), cache.complete
                await self._slice.run(self.work.index.take_in_pieces(changes, self.work.dirty))
                self.work.index.is_complete |= complete
                if "nodes" in changes:
                    self.work.dirty |= self.work.awaiting
                if cache.complete and self._leads():
                    await self.round()
        finally:
            await self._steps.end_tasks()

    def clock_was_set(self) -> None:
        """The API server's time is another one: the next process has no other witness than the times of what jobs leave out."""
        self.work.dirty |= {uid for uid, memory in self.work.memory.items() if memory.excluded}
        self.work.index.cache.changed.set()

    async def round(self) -> None:
        """One round over everything that changed: the steps in order."""
        self.work.counters.rounds += 1
        # 1. Gather: the nodes that changed, and the jobs that did or whose time has come.
        await self._slice.run(self.work.index.read_nodes())
        for uid in self._gather():
            job = self.work.index.jobs.get(uid)
            if job is None:
                self.work.forget(uid)
            elif uid in self.work.tasks:
                self._reconciler.interrupt(job)
            # A step that ended since then has changed its job's state: the next round handles that.
            elif uid not in self.work.dirty:
                # 2. Reconcile: those with a child are observed and reported, those without join the queue.
                with self.work.alone(job):
                    self._reconciler.reconcile(job)
                    self._deciding.prepare(job)
            await self._slice.pause()
        # 3. Decide for the whole queue on one snapshot; each placed job is rendered, created and reported by its task.
        if self._deciding.must_decide():
            await self._deciding.decide()
        # 4. Refresh: waiting jobs get their new numbers, one at a time.
        self._refresh.write_due()

    def _leads(self) -> bool:
        leads = self._is_leader()
        if leads and not self._led:
            self.work.dirty |= set(self.work.index.jobs)
            self.work.decided_at = ()
        self._led = leads
        return leads

    def _gather(self) -> list[str]:
        due = self.work.due.take(self.work.clock())
        for uid in due:
            if self.work.index.child(uid) is None:
                self.work.decided_at = ()
        dirty, self.work.dirty = self.work.dirty | due, set()
        return sorted(dirty)

    def seconds_to_next(self) -> float | None:
        """Seconds until a round without a change; None while nothing is due."""
        if not self._led:
            return 1.0
        first = self.work.due.first()
        waits = [first[0] - self.work.clock()] if first else []
        others = self._deciding.seconds_to_next(), self._refresh.seconds_to_next()
        waits += [seconds for seconds in others if seconds is not None]
        return max(0.0, min(waits)) if waits else None
