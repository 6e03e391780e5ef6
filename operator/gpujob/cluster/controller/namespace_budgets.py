"""Meters what namespaces with a monthly budget spend, in a ConfigMap beside the operator: jobs that are deleted stay counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from copy import copy
from typing import cast

import structlog

from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import NotLeader, Writer
from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.status.attempts.believed_clock import BelievedClock
from gpujob.status.attempts.monthly_budget import Ledger, ledgers_of, metered, refusal
from gpujob.status.records.objects import JobRecord

log = structlog.get_logger(__name__)


class NamespaceBudgets:
    """The ledgers of namespaces whose Namespace has the annotation; nothing is read or written where none has."""

    def __init__(self, work: ControllerState, writer: Writer, home: str) -> None:
        self._work, self._writer, self._home = work, writer, home
        self._asked = asyncio.Event()
        self._ledgers: dict[str, Ledger] | None = None
        self._clock = BelievedClock()
        self._jobs: dict[str, JobRecord] = {}
        """The jobs of these namespaces as they were counted last: one that is gone is counted once more."""

    async def run(self, is_leader: Callable[[], bool]) -> None:
        """Meters as long as this process leads; a new leader reads what the one before it wrote."""
        while True:
            if is_leader() and self._work.index.is_complete:
                try:
                    await self.meter()
                except (ApiError, NotLeader) as error:
                    log.warning("budgets of namespaces not metered", error=str(error))
            elif not is_leader():
                self._ledgers, self._jobs, self._clock = None, {}, BelievedClock()
            await self._pause(self._work.timings.budgets if self._ledgers is not None else 1.0)

    async def _pause(self, seconds: float) -> None:
        """Waits so long, or until the first job of a namespace whose spending is not known asks for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        self._asked.clear()

    async def meter(self) -> None:
        """Counts until now, and writes where that is more than was written."""
        budgets = self._budgets()
        if not budgets:
            self._ledgers = self._ledgers or {}
            return
        held = self._ledgers
        if not held:
            held = ledgers_of(await self._writer.read_spending(self._home))
        jobs, moment = self._jobs_in(budgets), self._work.moment()
        counted = max((each.counted for each in held.values()), default=None)
        # A count that cannot be written did not happen.
        clock = copy(self._clock)
        turn = clock.turn(moment.elapsed, moment.server, moment.here, counted)
        now = turn.until.replace(microsecond=0)
        gone = [job for uid, job in self._jobs.items() if uid not in self._work.index.jobs and job.namespace in budgets]
        for job in gone:
            jobs[job.namespace].append(job)
        ledgers = {name: metered(held.get(name), jobs[name], now, turn.since) for name in sorted(budgets)}
        before = self._ledgers or {}
        if {name: each.spent for name, each in before.items()} != {name: each.spent for name, each in ledgers.items()}:
            await self._writer.write_spending(self._home, {name: each.text() for name, each in ledgers.items()})
        self._ledgers, self._clock = ledgers, clock
        self._jobs = {job.uid: job for each in jobs.values() for job in each if job.uid in self._work.index.jobs}

    def refusal(self, namespace: str) -> str | None:
        """Why no job of the namespace may start now; empty where it may, None while that is not known yet."""
        budget = self._budgets().get(namespace)
        if budget is None:
            return ""
        ledger = (self._ledgers or {}).get(namespace)
        if ledger is None:
            if self._ledgers is not None:
                self._asked.set()
            return None
        return refusal(namespace, budget, ledger, self._clock.now(self._work.clock(), self._work.wall()))

    def _budgets(self) -> dict[str, str]:
        found = cast("dict[tuple[str, str], Namespace]", self._work.index.cache.objects("namespaces"))
        return {name: held.monthly_budget for (_, name), held in found.items() if held.monthly_budget is not None}

    def _jobs_in(self, namespaces: dict[str, str]) -> defaultdict[str, list[JobRecord]]:
        found: defaultdict[str, list[JobRecord]] = defaultdict(list)
        for job in self._work.index.jobs.values():
            if job.namespace in namespaces:
                found[job.namespace].append(job)
        return found
