"""State of each job between rounds, shared by all steps.

All of it can be lost: the cache and the statuses contain the rest, so a restart costs time and never correctness.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson
import structlog

from gpujob.api.fields.base import ObjectMeta
from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.manifest import read_gpujob
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.outage_gate import OutageGate, outage_delay
from gpujob.cluster.client.rate_limit import retry_after_of
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.metrics.durations import Durations
from gpujob.cluster.queue.due_times import DueTimes
from gpujob.cluster.queue.open_creations import OpenCreations
from gpujob.cluster.queue.turns import ProgressPace
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import Made, Moment
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.status.attempts.exclusions import NOTHING as NOTHING_EXCLUDED
from gpujob.status.attempts.exclusions import Seen
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.errors import BadInput
from gpujob.values.packed import Packed
from gpujob.values.vocabulary import API_VERSION


class WaitingUids(MutableSet[str]):
    """Job uids. `version` grows with every change, so that an unchanged long queue needs no comparison."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}
        self.version = 0

    def put(self, uid: str, generation: int) -> None:
        """Adds a waiting job; one with the same generation changes nothing."""
        if self._generations.get(uid) != generation:
            self._generations[uid] = generation
            self.version += 1

    def add(self, value: str) -> None:
        """Adds a job whatever its generation."""
        self.put(value, 0)

    def discard(self, value: str) -> None:
        """Removes a job, if it waits."""
        if self._generations.pop(value, None) is not None:
            self.version += 1

    def __contains__(self, value: object) -> bool:
        return value in self._generations

    def __iter__(self) -> Iterator[str]:
        return iter(self._generations)

    def __len__(self) -> int:
        return len(self._generations)


log = structlog.get_logger(__name__)

DEFAULT_TIMINGS = Timings()
NOTHING_SEEN = Sightings()
UNNAMED: Final = ObjectMeta()
"""The metadata of a manifest without a name: a copy of it costs a tenth of a new one."""

SHORTEST_WAIT: Final = 0.001
"""Seconds: what rounding leaves of a difference of two times becomes no loop."""


@dataclass(slots=True)
class ParsedSpec:
    """What a job asks for, kept for its generation."""

    generation: int
    demand: Demand | None
    """None if the spec cannot be read."""
    problem: str = ""


@dataclass(slots=True)
class JobState:
    """State of a job between rounds; losing it (a restart) costs time, never correctness."""

    sightings: Sightings = NOTHING_SEEN
    """What was observed, and since when."""
    made: Made | None = None
    """The child created last, until the status names it."""
    unlabelled: ChildRecord | None = None
    """The child that this process deleted last because it lost its label: it did not go by itself."""
    refused: tuple[str, str] = ("", "")
    """The uid of a child, and what the API server reported about pods of it that it refused."""
    excluded: Seen = field(default_factory=lambda: NOTHING_EXCLUDED)
    """Since when the pools and nodes of its status are left out, while it waits."""
    impossible_since: float | None = None
    explained_at: float = -math.inf
    """The time of its last explanation."""
    explanation_took: float = 0.0
    """Seconds that this explanation took."""
    explained_version: str = ""
    """The job's resourceVersion then, or that of the write of this explanation."""
    explained_status: bytes = b""
    """The digest of the status that this explanation makes."""
    explained_digest: bytes = b""
    """The digest of what of this explanation does not depend on the job."""
    explained_for: object = None
    """The inputs of this explanation: while they are the same, so is the message."""
    refreshed_at: float = -math.inf
    """The time of its last refreshed numbers."""
    retry_at: float = 0.0
    delay: float = 0.0
    outages: int = 0
    """Steps in a row that failed because of the API server; `delay` is for failures of the job itself."""
    unanswered: bool = False
    """Whether the last of them got no response: then any response to any job is news."""
    failed_on: int | str = ""
    """The job's generation or resourceVersion on which the last step failed: another one is tried at once."""

    def refused_to(self, child: ChildRecord) -> str | None:
        """What the API server reported about pods of this child; None if that was not read."""
        uid, words = self.refused
        return words if uid == child.uid else None


@dataclass(slots=True)
class ControllerCounters:
    """Counts of the loop so far, for the metrics."""

    rounds: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By verdict and reason."""
    failed_attempts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Attempts that failed, by pool, whose count they are in (User or Infrastructure) and reason."""
    failures: Counter[str] = field(default_factory=Counter)
    decide_seconds: float = 0.0
    queue_wait: Durations = field(default_factory=Durations)
    placing: Durations = field(default_factory=Durations)


class ControllerState:
    """State that the controller's steps share: parsed specs, state of each job, tasks in flight and the queue."""

    def __init__(
        self,
        index: ClusterIndex,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        timings: Timings = DEFAULT_TIMINGS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.index, self.clock, self.wall, self.timings, self._chance = index, clock, wall, timings, chance
        self.here: Callable[[], datetime] | None = None
        """The clock of this process's machine."""
        self.counters = ControllerCounters()
        self.parsed_specs: dict[str, ParsedSpec] = {}
        self.memory: dict[str, JobState] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.reserved: dict[str, tuple[PodReservation, ...]] = {}
        """Reservations of placements in flight or without an answer, by job."""
        self.open_creations = OpenCreations(clock)
        index.under_way = lambda: [
            reservation for reservations in self.reserved.values() for reservation in reservations
        ]
        self.dirty: set[str] = set()
        """Jobs to reconcile in the next round."""
        self.due = DueTimes()
        """The next reconcile time of a job without changes."""
        self.queue = WaitingUids()
        """Jobs without a child: to be decided."""
        self.awaiting: set[str] = set()
        """Jobs whose pods wait for new nodes: reconciled when nodes change."""
        self.passed_over: set[str] = set()
        """Waiting jobs that the last decision left out, because a write of theirs was in flight."""
        self.telemetry: dict[str, Telemetry] = {}
        """The last report of each running job."""
        self.counted_dollars: dict[str, int] = {}
        """Micro-dollars in the last scrape for jobs that have run."""
        self.progress = ProgressPace(clock, timings.progress, timings.progress_rate)
        self.held: set[str] = set()
        """Jobs that are not reconciled while the API server gives no good response."""
        self.outage = OutageGate(clock, chance)
        self.outage.on_open = self._outage_ended
        self.decided_at: tuple[object, ...] = ()
        """The inputs of the last decision about the queue; empty: decide again."""

    def parsed_spec(self, job: JobRecord) -> ParsedSpec:
        """The parsed spec of a job, once for each of its generations."""
        held = self.parsed_specs.get(job.uid)
        if held is None or held.generation != job.generation:
            _, demand, problem = _read_spec(job)
            held = self.parsed_specs[job.uid] = ParsedSpec(job.generation, demand, problem)
        return held

    def manifest(self, job: JobRecord) -> GPUJob | None:
        """The manifest of a job, read again; None if it cannot be read. No job holds its own: it takes 2 KiB."""
        read, _, _ = _read_spec(job)
        if read is None:
            return None
        named = {"name": job.name, "namespace": job.namespace, "uid": job.uid, "generation": job.generation}
        return read.model_copy(update={"metadata": UNNAMED.model_copy(update=named)})

    def remember(self, uid: str) -> JobState:
        """The state of a job."""
        return self.memory.setdefault(uid, JobState())

    def forget(self, uid: str) -> None:
        """Removes a deleted job."""
        for store in (self.parsed_specs, self.memory, self.due, self.telemetry):
            store.pop(uid, None)
        self.progress.forget(uid)
        self.queue.discard(uid)
        self.held.discard(uid)
        self.awaiting.discard(uid)
        self.passed_over.discard(uid)
        if self.open_creations.of(uid) is not None and (task := self.tasks.get(uid)) is not None:
            task.cancel()
        self.settle(uid)

    def settle(self, uid: str) -> None:
        """Drops the open creation of a job with its reservation; a step under way keeps its own."""
        self.open_creations.settle(uid)
        if uid not in self.tasks:
            self.reserved.pop(uid, None)

    def put_aside(self, uid: str) -> None:
        """Drops what is remembered of a job that has ended and needs nothing more; if it does, it is read again."""
        for store in (self.parsed_specs, self.memory, self.telemetry):
            store.pop(uid, None)
        self.progress.forget(uid)

    def requeue_after(self, uid: str, seconds: float) -> None:
        """Reconciles a job after some seconds, or before if something else requests it."""
        self.due[uid] = min(self.due.get(uid, math.inf), self.clock() + max(seconds, SHORTEST_WAIT))

    def requeue_with_backoff(self, job: JobRecord, why: Exception | str, failed_on: int | str) -> None:
        """Waits before the next step, longer each time, unless the part of the job on which the step failed changes."""
        memory, timings = self.remember(job.uid), self.timings
        longest = timings.backoff_of_writes if isinstance(why, ApiError | str) else timings.backoff_longest
        memory.delay = min(max(memory.delay * 2, timings.backoff_first), longest)
        self._retry(job, memory.delay, why, failed_on)

    def requeue_after_outage(self, job: JobRecord, why: Exception, retry_after: float | None = None) -> int:
        """Waits at most 15 s, or `retry_after`, which the API server asks for, because it and not the job failed; returns the failures
        in a row.
        """
        memory = self.remember(job.uid)
        memory.outages += 1
        memory.unanswered = isinstance(why, ApiError) and why.status == 0
        delay = max(outage_delay(memory.outages, self._chance), retry_after_of(retry_after))
        self._retry(job, delay, why, job.generation)
        return memory.outages

    def _retry(self, job: JobRecord, seconds: float, why: Exception | str, failed_on: int | str) -> None:
        """The next step of a job is due after some seconds, or at once if the part on which the last one failed changes."""
        memory = self.remember(job.uid)
        memory.retry_at, memory.failed_on = self.clock() + seconds, failed_on
        memory.explained_for = None
        self.due[job.uid] = memory.retry_at
        self.counters.failures[type(why).__name__ if isinstance(why, Exception) else "Stale"] += 1
        log.warning("step is tried again", job=f"{job.namespace}/{job.name}", seconds=round(seconds, 1), why=str(why))

    def succeeded(self, uid: str) -> None:
        """A step of a job went well."""
        memory = self.remember(uid)
        memory.delay, memory.outages, memory.unanswered = 0.0, 0, False

    def _outage_ended(self, lasted: bool) -> None:
        """The API server responds again: jobs that waited for it are reconciled now, including those whose steps got no response."""
        self.dirty |= self.held
        self.held.clear()
        for uid, memory in self.memory.items() if lasted else ():
            if memory.unanswered:
                memory.unanswered, memory.retry_at = False, 0.0
                self.dirty.add(uid)
        self.index.cache.changed.set()

    @contextmanager
    def alone(self, job: JobRecord) -> Iterator[None]:
        """Runs the work on one job, so that its error does not stop the others."""
        try:
            yield
        except Exception as error:
            log.exception("job is left out", job=f"{job.namespace}/{job.name}")
            self.requeue_with_backoff(job, error, job.version)

    def now(self) -> str:
        """The time as written in statuses."""
        return self.moment().text

    def moment(self) -> Moment:
        """The time by all clocks."""
        return Moment(self.clock(), self.wall(), self.here() if self.here is not None else None)


ALIKE: Final = 256
"""Specs that are kept as read: jobs of a burst often have equal ones."""

LONGEST_ALIKE: Final = 4096
"""Bytes of such a spec."""


def _read_spec(job: JobRecord) -> tuple[GPUJob | None, Demand | None, str]:
    """The spec of a job as a manifest without a name, and its demand; or why it cannot be read. What gets a place soon is kept."""
    text = _text_of(job.spec)
    return _read_alike(text) if text and len(text) <= LONGEST_ALIKE else _read(dict(job.spec))


def _text_of(spec: Mapping[str, Any]) -> bytes | None:
    if isinstance(spec, Packed):
        return spec.text
    try:
        return orjson.dumps(spec)
    except orjson.JSONEncodeError:
        return None


@lru_cache(ALIKE)  # 1.9 ms of pydantic against 1 µs: 256 equal jobs of a burst are read in 2 ms, not in half a second
def _read_alike(text: bytes) -> tuple[GPUJob | None, Demand | None, str]:
    return _read(orjson.loads(text))


def _read(spec: Mapping[str, Any]) -> tuple[GPUJob | None, Demand | None, str]:
    try:
        parsed = read_gpujob({"apiVersion": API_VERSION, "kind": "GPUJob", "spec": spec})
        return parsed, demand_of(parsed), ""
    except BadInput as error:
        return None, None, str(error)[:1024]
