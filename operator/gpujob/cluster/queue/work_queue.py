"""What the loop knows of each job between rounds, and what every step of it shares.

All of it can be lost: the mirror and the statuses say the rest, so that a restart costs time and never correctness.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.manifest import read_gpujob
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.outage_gate import OutageGate, outage_delay
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.metrics.durations import Durations
from gpujob.cluster.queue.due_times import DueTimes
from gpujob.cluster.queue.pending_jobs import PendingJobs
from gpujob.cluster.queue.progress_throttle import ProgressPace
from gpujob.fleet.assembly.usage import Promise
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import Moment
from gpujob.placement.request.demand import Demand, demand_of
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import JobRecord
from gpujob.values.errors import BadInput
from gpujob.values.vocabulary import API_VERSION

log = structlog.get_logger(__name__)

DEFAULT_TIMINGS = Timings()
NOTHING_SEEN = Sightings()


@dataclass(slots=True)
class ParsedSpec:
    """A job's manifest as read, kept for its generation."""

    generation: int
    job: GPUJob | None
    demand: Demand | None
    problem: str = ""


@dataclass(slots=True)
class JobState:
    """What is remembered of a job between rounds; losing it (a restart) costs time, never correctness."""

    sightings: Sightings = NOTHING_SEEN
    """What was seen of it, and since when."""
    impossible_since: float | None = None
    told_at: float = -math.inf
    """When it was last told why it waits."""
    words_took: float = 0.0
    """Seconds that these words took to find."""
    told_of: object = None
    """What these words were about: while that is the same, so are they."""
    retold_at: float = -math.inf
    """When it was last told other numbers."""
    retry_at: float = 0.0
    delay: float = 0.0
    outages: int = 0
    """Steps in a row that failed for the API server's sake; `delay` is of failures that are the job's own."""
    unanswered: bool = False
    """Whether no answer came to the last of them: any answer to anybody is news then."""
    failed_on: int | str = ""
    """The job's generation or resourceVersion that the last step failed on: another one is tried at once."""


@dataclass(slots=True)
class ControllerCounters:
    """What the loop has done so far, for the metrics room."""

    rounds: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By verdict and reason."""
    failures: Counter[str] = field(default_factory=Counter)
    decide_seconds: float = 0.0
    queue_wait: Durations = field(default_factory=Durations)
    placing: Durations = field(default_factory=Durations)


class ControllerState:
    """State that the controller's steps share: parsed specs, state of each job, tasks in flight and the queue."""

    def __init__(
        self,
        book: ClusterIndex,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        self.book, self.clock, self.wall, self.timings = book, clock, wall, timings
        self.tally = ControllerCounters()
        self.wishes: dict[str, ParsedSpec] = {}
        self.memory: dict[str, JobState] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.promised: dict[str, tuple[Promise, ...]] = {}
        """What placements under way will take of the fleet, by job."""
        book.under_way = lambda: [promise for promises in self.promised.values() for promise in promises]
        self.dirty: set[str] = set()
        """Jobs to be looked at in the next round."""
        self.due = DueTimes()
        """When a job is to be looked at though nothing changes."""
        self.queue = PendingJobs()
        """Jobs without a child: to be decided."""
        self.awaiting: set[str] = set()
        """Jobs whose pods wait for nodes to be added: looked at when nodes change."""
        self.passed_over: set[str] = set()
        """Those of them that the last decision left out, since a write of theirs was under way."""
        self.telemetry: dict[str, Telemetry] = {}
        """What the reporters of running jobs said last."""
        self.dollars_told: dict[str, int] = {}
        """Micro-dollars that /metrics said last of jobs that have run."""
        self.progress = ProgressPace(clock, timings.progress, timings.progress_rate)
        self.held: set[str] = set()
        """Jobs that are not looked at while the API server gives no good answer."""
        self.outage = OutageGate(clock)
        self.outage.on_open = self._outage_ended
        self.decided_at: tuple[object, ...] = ()
        """What the last decision about the queue was made on; empty: to be made anew."""

    def wish(self, job: JobRecord) -> ParsedSpec:
        """What a job asks for, read once for each of its generations."""
        held = self.wishes.get(job.uid)
        if held is None or held.generation != job.generation:
            held = self.wishes[job.uid] = _read_wish(job)
        return held

    def remember(self, uid: str) -> JobState:
        """What is remembered of a job."""
        return self.memory.setdefault(uid, JobState())

    def forget(self, uid: str) -> None:
        """A job is gone."""
        for store in (self.wishes, self.memory, self.due, self.telemetry):
            store.pop(uid, None)
        self.progress.forget(uid)
        self.queue.discard(uid)
        self.held.discard(uid)
        self.awaiting.discard(uid)
        self.passed_over.discard(uid)

    def requeue_after(self, uid: str, seconds: float) -> None:
        """Looks at a job after some seconds, or before if something else asks for that."""
        self.due[uid] = min(self.due.get(uid, math.inf), self.clock() + seconds)

    def requeue_with_backoff(self, job: JobRecord, why: Exception | str, failed_on: int | str) -> None:
        """Waits before the next step, longer each time, unless the job itself changes in what the step failed on."""
        memory = self.remember(job.uid)
        memory.delay = min(max(memory.delay * 2, self.timings.backoff_first), self.timings.backoff_longest)
        self._retry(job, memory.delay, why, failed_on)

    def requeue_after_outage(self, job: JobRecord, why: Exception) -> int:
        """Waits 15 s at most before the next step, since the API server and not the job was at fault; gives the failures in a row."""
        memory = self.remember(job.uid)
        memory.outages += 1
        memory.unanswered = isinstance(why, ApiError) and why.status == 0
        self._retry(job, outage_delay(memory.outages, random.random), why, job.generation)
        return memory.outages

    def _retry(self, job: JobRecord, seconds: float, why: Exception | str, failed_on: int | str) -> None:
        """The next step of a job is due after some seconds, or at once where it changes in what the last one failed on."""
        memory = self.remember(job.uid)
        memory.retry_at, memory.failed_on = self.clock() + seconds, failed_on
        memory.told_of = None
        self.due[job.uid] = memory.retry_at
        self.tally.failures[type(why).__name__ if isinstance(why, Exception) else "Stale"] += 1
        log.warning("step is tried again", job=f"{job.namespace}/{job.name}", seconds=round(seconds, 1), why=str(why))

    def succeeded(self, uid: str) -> None:
        """A step of a job went well."""
        memory = self.remember(uid)
        memory.delay, memory.outages, memory.unanswered = 0.0, 0, False

    def _outage_ended(self, lasted: bool) -> None:
        """The API server answers again: jobs that waited for that are looked at now, those whose steps got no answer too."""
        self.dirty |= self.held
        self.held.clear()
        for uid, memory in self.memory.items() if lasted else ():
            if memory.unanswered:
                memory.unanswered, memory.retry_at = False, 0.0
                self.dirty.add(uid)
        self.book.mirror.changed.set()

    @contextmanager
    def alone(self, job: JobRecord) -> Iterator[None]:
        """What is done about one job: whatever it holds, the others go on."""
        try:
            yield
        except Exception as error:
            log.exception("job is left out", job=f"{job.namespace}/{job.name}")
            self.requeue_with_backoff(job, error, job.version)

    def now(self) -> str:
        """The time as statuses write it."""
        return self.moment().text

    def moment(self) -> Moment:
        """The time by both clocks."""
        return Moment(self.clock(), self.wall())


def _read_wish(job: JobRecord) -> ParsedSpec:
    document = {"apiVersion": API_VERSION, "kind": "GPUJob", "metadata": dict(job.metadata), "spec": dict(job.spec)}
    try:
        parsed = read_gpujob(document)
        return ParsedSpec(job.generation, parsed, demand_of(parsed))
    except BadInput as error:
        return ParsedSpec(job.generation, None, None, str(error)[:1024])
