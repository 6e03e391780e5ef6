"""Reads the reporter of each running job's first pod, and of the others in turn for faults of devices: rarely, spread over time, and
bounded in number, time and size.

The address comes from the pod's own record, and the port from its container, or from its attempt in the host network. Redirects
are not followed and nothing of a reply is repeated, so that a job cannot use the operator to reach or say anything. Reports of
another job or attempt are dropped.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import aiohttp
import structlog

from gpujob.cluster.metrics.exposition import Report, UnreadableReport, read_report
from gpujob.cluster.metrics.window import SHORTEST, Window
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.telemetry.fetching import (
    Proxied,
    Refused,
    Silent,
    Unreached,
    fetch,
    pod_address,
    reading_session,
    reading_slots,
)
from gpujob.cluster.telemetry.ranks import faults_of, read_ranks
from gpujob.lifecycle import stalls
from gpujob.status.attempts import probe_runs, progress
from gpujob.status.attempts.progress import FaultSeen, Measured
from gpujob.status.attempts.standstill import Ranks, RankSeen
from gpujob.status.job import telemetry
from gpujob.status.job.conditions import ConditionUpdate
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.values.names import label_value
from gpujob.values.untrusted import is_true
from gpujob.values.vocabulary import ConditionType, Reason

log = structlog.get_logger(__name__)

EVERY: Final = 15.0
"""Seconds between two readings of a job."""

TRIAL_EVERY: Final = 5.0
"""Seconds between two readings of a probe, which ends after some steps."""

WITHOUT_POD: Final = 5.0
"""Seconds between two searches for the pod to read of a running job that has none: many jobs bring no reporter."""

ROUND: Final = 1.0
"""Seconds between two searches for the jobs that are due."""

PATIENCE: Final = 4
"""Intervals of failure before it is reported: a program needs time until it imports torch, a network until it is up."""

TURNS: Final = 20
"""Readings of a gang's first pod in which each of its other pods is read once: a fault of a device is known after five minutes."""

SELDOM: Final = 20
"""Intervals between two readings of a job after that: waiting for many would delay the others."""


@dataclass(slots=True)
class _Memory:
    """The state of reading one job's pod."""

    pod: str = ""
    window: Window = field(default_factory=Window)
    failing_since: float | None = None
    next_at: float = 0.0
    read_at: float | None = None
    """When the reporter last answered, by this process's monotonic clock."""
    silent: bool = False
    """Whether it accepted the last connection and did not answer, although it answered before."""
    phase_left: float = 0.0
    """Seconds after that reading for which the clock is paused: the program compiled, evaluated or saved."""
    turn: int = 0
    """How often the other pods were read, each part of them once in `TURNS`."""
    faults: dict[str, tuple[FaultSeen, ...]] = field(default_factory=dict)
    """What the pods' reporters report about broken devices, by pod."""
    steps: float | None = None
    stepped_at: float | None = None
    """The time of the last step's first reading, as Unix time; None before the first."""


class Scraper:
    """Reads while this process leads; results go to the controller state, and wake a job only if that may be worth a write."""

    def __init__(
        self, work: ControllerState, is_leader: Callable[[], bool], namespace: str, every: float = EVERY
    ) -> None:
        self.results: Counter[str] = Counter()
        self._work, self._is_leader, self._namespace, self._every = work, is_leader, namespace, every
        self._memory: dict[str, _Memory] = {}
        # Pods that do not answer delay no other namespace.
        self._slots, self._reading = reading_slots(), set[str]()

    async def run(self) -> None:
        """Rounds until cancelled; each starts to read the jobs that are due."""
        self._reading.clear()
        async with reading_session() as session, asyncio.TaskGroup() as readings:
            while True:
                due = self._due() if self._is_leader() and self._work.index.cache.complete else []
                for job, pod in due:
                    if job.uid not in self._reading:
                        self._reading.add(job.uid)
                        readings.create_task(self._read_one(session, job, pod))
                await asyncio.sleep(ROUND)

    def _due(self) -> list[tuple[JobRecord, PodState]]:
        """The running jobs to read now, with the pod of their first process."""
        now, due, running = self._work.clock(), [], self._work.index.running
        for uid, job in running.items():
            memory = self._memory.get(uid)
            # Each second this goes over all of them, and to find a job's pod costs more than all the rest.
            if memory is not None and memory.next_at > now:
                continue
            if (pod := self._first_pod(uid)) is None:
                self._memory[uid] = _Memory(next_at=now + WITHOUT_POD)
                continue
            if memory is None or memory.pod != pod.name:
                # Spread over the interval, and the same for each start of the operator.
                spread = self._every * (zlib.crc32(uid.encode()) % 997) / 997
                memory = self._memory[uid] = _Memory(pod.name, next_at=now + spread)
            if memory.next_at <= now:
                memory.next_at = now + (
                    min(self._every, TRIAL_EVERY) if probe_runs.is_trial(job.status) else self._every
                )
                due.append((job, pod))
        for uid in self._memory.keys() - running.keys():
            del self._memory[uid]
        return due

    def _first_pod(self, uid: str) -> PodState | None:
        child = self._work.index.child(uid)
        pods = self._work.index.pods(child) if child is not None else []
        return next((pod for pod in pods if pod.index == 0 and pod.running and pod.port and pod.address), None)

    async def _read_one(self, session: aiohttp.ClientSession, job: JobRecord, pod: PodState) -> None:
        try:
            async with self._slots.slot(job.namespace, urgent=False):
                found = await self._read(session, job, pod)
            # Another attempt may have begun during the reading, which says nothing about it.
            child = self._work.index.child(job.uid)
            if child is None or child.uid != pod.child_uid:
                return
            if isinstance(found, Report) and not found.is_of(job.uid, child.attempt, must_say=pod.on_host_network):
                found = telemetry.anothers(pod.name, pod.port or 0, pod.on_host_network)
            if isinstance(found, Report):
                self._take(job, pod, found)
                self.results["Read"] += 1
            else:
                self._fail(job, found)
            await self._read_faults(session, job, child)
            await self._compare_ranks(session, job, child)
        except Exception as error:  # an error in one pod's report does not stop the others
            log.exception("report left out", job=f"{job.namespace}/{job.name}", error=repr(error))
            self.results["Error"] += 1
        finally:
            self._reading.discard(job.uid)

    async def _read(self, session: aiohttp.ClientSession, job: JobRecord, pod: PodState) -> Report | ConditionUpdate:
        """The report of a pod, or why there is none."""
        port = pod.port or 0
        try:
            return read_report(await fetch(session, pod_address(pod.address), port))
        except Refused:
            return telemetry.port_refused(pod.name, port)
        except Unreached as error:
            self._count_on(job, silent=isinstance(error, Silent))
            if isinstance(error, Proxied):
                return telemetry.blocked_by_a_proxy(pod.name, port, self._namespace, str(error))
            if pod.on_host_network:
                return telemetry.blocked_on_its_node(pod.name, port, self._namespace, str(error))
            return telemetry.blocked(pod.name, port, label_value(job.name), self._namespace, str(error))
        except UnreadableReport as error:
            return telemetry.unreadable(pod.name, port, str(error), pod.on_host_network)

    def _take(self, job: JobRecord, pod: PodState, report: Report) -> None:
        memory = self._memory.setdefault(job.uid, _Memory())
        memory.failing_since, memory.silent = None, False
        memory.read_at, memory.phase_left = self._work.clock(), _phase_left(report)
        memory.faults[pod.name] = faults_of(pod, report)
        memory.window.add(self._work.clock(), report.counters)
        now = self._work.wall()
        saved = None if report.checkpoint_at is None else datetime.fromtimestamp(int(report.checkpoint_at), UTC)
        overall, seconds = memory.window.overall()
        # A past time cannot be in the future, whatever a node's clock says.
        measured = Measured(
            at=now,
            fraction=report.progress,
            remaining=report.remaining,
            counters=dict(memory.window.last),
            # A job may end before it, or a counter that came late, is read twice.
            rates=report.rates(SHORTEST) | memory.window.rates(),
            overall=overall,
            seconds=seconds,
            checkpoint=report.checkpoint,
            checkpoint_at=saved and min(saved, now),
            save_seconds=report.save_seconds,
            unsaved=report.unsaved,
            last_step_at=_last_step(memory, report, now.timestamp()),
            on_device=report.on_device,
            still=report.still,
            slowest_step=report.slowest_step,
            faults=_all_faults(memory),
        )
        self._note(job, Telemetry(_to_compare(job, measured), (telemetry.read(pod.name),)))

    def _fail(self, job: JobRecord, update: ConditionUpdate) -> None:
        reason = update.reason
        self.results[reason.value] += 1
        memory, now = self._memory.setdefault(job.uid, _Memory()), self._work.clock()
        if memory.failing_since is None:
            memory.failing_since = now
        held = self._work.telemetry.get(job.uid, telemetry.SILENT)
        # A program that has reported and stopped has ended its training, or is about to end.
        ended = reason is Reason.NO_REPORTER and held.measured is not None
        if now - memory.failing_since >= PATIENCE * self._every and not ended:
            self._note(job, Telemetry(held.measured, (update,)))
            # A refused connection is reported at once, and often lasts until the first step; a process that stopped is counted on.
            seldom = reason is Reason.TELEMETRY_BLOCKED and not memory.silent
            memory.next_at = now + (SELDOM if seldom else 1) * self._every

    def _count_on(self, job: JobRecord, *, silent: bool) -> None:
        """Continues the seconds without a step of a process that no longer answers; in a phase, from the phase's bound on."""
        memory, held = self._memory.get(job.uid), self._work.telemetry.get(job.uid, telemetry.SILENT)
        measured, now = held.measured, self._work.clock()
        if memory is None or memory.read_at is None or measured is None or measured.still is None:
            return
        memory.silent = silent
        if not silent or now - memory.read_at < memory.phase_left:
            return
        still, memory.read_at, memory.phase_left = measured.still + now - memory.read_at, now, 0.0
        counted = replace(measured, at=self._work.wall(), still=still)
        self._work.telemetry[job.uid] = replace(held, measured=_to_compare(job, counted))

    async def _read_faults(self, session: aiohttp.ClientSession, job: JobRecord, child: ChildRecord) -> None:
        """Reads a part of a gang's other pods in turn, all of them where the job stands still."""
        memory, held = self._memory.get(job.uid), self._work.telemetry.get(job.uid, telemetry.SILENT)
        if memory is None or held.measured is None or child.pods < 2:
            return
        memory.turn += 1
        near = stalls.is_near(job, held.measured)
        pods = [pod for pod in self._work.index.pods(child) if pod.index and pod.running and pod.port and pod.address]
        due = [pod for pod in pods if near or ((pod.index or 0) - memory.turn) % TURNS == 0]
        for pod, faults in zip(
            due, await asyncio.gather(*(self._faults_of(session, job, child, pod) for pod in due)), strict=True
        ):
            if faults is not None:
                memory.faults[pod.name] = faults
        if (found := _all_faults(memory)) != held.measured.faults:
            self._note(job, replace(held, measured=replace(held.measured, faults=found)))

    async def _faults_of(
        self, session: aiohttp.ClientSession, job: JobRecord, child: ChildRecord, pod: PodState
    ) -> tuple[FaultSeen, ...] | None:
        """What the reporter of a pod reports about broken devices; None where it cannot be read, or is another one's."""
        try:
            async with self._slots.slot(job.namespace, urgent=False):
                report = read_report(await fetch(session, pod_address(pod.address), pod.port or 0))
        except (Refused, Unreached, UnreadableReport):
            return None
        return faults_of(pod, report) if report.is_of(job.uid, child.attempt, must_say=pod.on_host_network) else None

    async def _compare_ranks(self, session: aiohttp.ClientSession, job: JobRecord, child: ChildRecord) -> None:
        """Reads all pods of a job that stands still; it does not stand still if a phase of another pod explains the wait."""
        held = self._work.telemetry.get(job.uid, telemetry.SILENT)
        if held.measured is None or not stalls.is_near(job, held.measured) or probe_runs.is_trial(job.status):
            return
        pods = [pod for pod in self._work.index.pods(child) if pod.running and pod.port and pod.address]
        found = await asyncio.gather(*(self._ranks_of(session, job, child, pod) for pod in pods))
        seen = [each for ranks in found if not isinstance(ranks, str) for each in ranks[1]]
        worlds = [ranks[0] for ranks in found if not isinstance(ranks, str)]
        unread = [(pod.name, why) for pod, why in zip(pods, found, strict=True) if isinstance(why, str)]
        ranks = Ranks(tuple(seen), max(worlds, default=1), tuple(unread))
        still = min([held.measured.still or 0.0, *(each.still for each in seen)])
        self._note(job, replace(held, measured=replace(held.measured, still=still, ranks=ranks, compared=True)))

    async def _ranks_of(
        self, session: aiohttp.ClientSession, job: JobRecord, child: ChildRecord, pod: PodState
    ) -> tuple[int, list[RankSeen]] | str:
        """(ranks of the whole job, ranks of the pod), or why they could not be read."""
        port = pod.port or 0
        try:
            async with self._slots.slot(job.namespace, urgent=False):
                body = await fetch(session, pod_address(pod.address), port, "/ranks")
            return read_ranks(body, pod, job.uid, child.attempt)
        except Refused:
            return f"has no reporter on port {port}"
        except Silent:
            return f"accepts connections on port {port} and does not answer: its process is stopped, or keeps Python's lock"
        except Unreached as error:
            return f"cannot be reached on port {port} ({error})"
        except UnreadableReport as error:
            return f"has no report of ranks on port {port} ({error})"

    def _note(self, job: JobRecord, seen: Telemetry) -> None:
        """Stores a reading; the job is reconciled only if that may be worth a write."""
        before = self._work.telemetry.get(job.uid, telemetry.SILENT)
        self._work.telemetry[job.uid] = seen
        trial = probe_runs.is_trial(job.status)
        # A job that stands still: each reading may end that.
        stands = is_true(job.status, ConditionType.STALLED)
        stalled = (seen.measured is not None and stalls.is_near(job, seen.measured)) or stands
        faulty = [] if before.measured is None else before.measured.faults
        broke = seen.measured is not None and bool(seen.measured.faults) and seen.measured.faults != faulty
        turned = (
            stalled
            or broke
            or [update.reason for update in before.updates] != [update.reason for update in seen.updates]
        )
        if trial or turned or progress.is_worth_a_write(job.status, progress.members(job.status, seen.measured)):
            self._work.dirty.add(job.uid)
            self._work.index.cache.changed.set()


def _to_compare(job: JobRecord, measured: Measured) -> Measured:
    """The reading of a first pod, which alone says nothing of a job that may stand still: all its pods are read next."""
    return replace(measured, compared=probe_runs.is_trial(job.status) or not stalls.is_near(job, measured))


def _all_faults(memory: _Memory) -> tuple[FaultSeen, ...]:
    return tuple(each for name in sorted(memory.faults) for each in memory.faults[name])


def _phase_left(report: Report) -> float:
    """Seconds for which this report pauses the clock; without end in a phase for which an earlier reporter gives no bound."""
    return (math.inf if report.phase_left is None else report.phase_left) if report.in_phase else 0.0


def _last_step(memory: _Memory, report: Report, now: float) -> float | None:
    """The time of the last step: by the operator's clock once a step was observed, before that by the node's, which may be wrong."""
    steps = report.counters.get("steps")
    if memory.steps is not None and steps is not None and steps != memory.steps:
        memory.stepped_at = now
    memory.steps = memory.steps if steps is None else steps
    reported = None if report.last_step_at is None else min(report.last_step_at, now)
    return reported if memory.stepped_at is None else memory.stepped_at
