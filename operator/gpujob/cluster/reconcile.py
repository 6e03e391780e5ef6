"""The level-based loop: gather, decide, render, create, observe, report; readable as these numbered steps.

A round reads the mirror and starts at most one task for each job; a task makes the writes of one step and ends. The next
round looks at the job again, so a crash between any two writes loses and doubles nothing: children have fixed names, the
child carries what the status will say, and the status is the record.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from gpujob.api.gpujob import GPUJob
from gpujob.api.manifest import read_gpujob
from gpujob.cluster.api_errors import ApiError, Fenced
from gpujob.cluster.book import Book
from gpujob.cluster.kinds import JOBS, SERVICES
from gpujob.cluster.writer import ChildRefused, NameConflict, NotLeader, Writer
from gpujob.errors import BadInput
from gpujob.fleet.pools import Fleet
from gpujob.fleet.usage import Promise, promises_of
from gpujob.placement.decision import Decision
from gpujob.placement.demand import Demand, demand_of
from gpujob.render.attempt import Numbered
from gpujob.render.children import render
from gpujob.render.service import rendezvous
from gpujob.schedule.queue import Waiting, place_all
from gpujob.status import patience, report
from gpujob.status.observe import Observation, observe
from gpujob.status.records import ChildRecord, JobRecord, read_child
from gpujob.untrusted import whole_number
from gpujob.vocabulary import API_VERSION, Reason, State, Verdict

log = structlog.get_logger(__name__)

STARTING_AFTER: Final = 5.0
"""Seconds that a pod may take to start before Starting is worth a status write of its own."""

UNBOUND_AFTER: Final = 20.0
"""Seconds that pods may be missing or without a node before that is worth one: a busy cluster takes a while."""

IMPOSSIBLE_AFTER: Final = 300.0
"""Seconds that Impossible must hold for a job that fitted before, until it is said."""

SERVICE_AFTER: Final = 2.0
"""Seconds that a gang's Service may be missing before it is made again: when a job goes, it may be seen to go first."""

BACKOFF: Final = (1.0, 300.0)
"""Seconds before a refused write of a job is tried again: the first and the longest wait."""

GATHER: Final = 0.02
"""Seconds in which changes gather before a round looks at them."""

REFUSALS: Final = frozenset({Reason.NAME_CONFLICT.value, Reason.CHILD_REFUSED.value})
"""Reasons that a try found, so that saying them is no progress."""

AT_ONCE: Final = 32
"""Jobs whose writes are under way at the same time."""


@dataclass(slots=True)
class Wish:
    """A job's manifest as read, kept for its generation."""

    generation: int
    job: GPUJob | None
    demand: Demand | None
    problem: str = ""


@dataclass(slots=True)
class Memory:
    """What is remembered of a job between rounds; losing it (a restart) costs time, never correctness."""

    no_service_since: float | None = None
    """Since when its gang has no Service."""
    not_running: tuple[State, float] | None = None
    """Since when its pods are in this stage before running."""
    impossible_since: float | None = None
    retry_at: float = 0.0
    delay: float = 0.0
    failed_on: int | str = ""
    """The job's generation or resourceVersion that the last step failed on: another one is tried at once."""


@dataclass(slots=True)
class Tally:
    """What the loop has done so far, for the metrics room."""

    rounds: int = 0
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    decide_seconds: float = 0.0
    placed_after: list[float] = field(default_factory=list)


class Reconciler:
    """Runs rounds for ever; only the leader acts, the others keep their index warm."""

    def __init__(
        self,
        book: Book,
        writer: Writer,
        is_leader: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        provision_seconds: float = 900.0,
    ) -> None:
        self.tally = Tally()
        self.book, self._writer, self._is_leader = book, writer, is_leader
        self._clock, self._wall, self._provision_seconds = clock, wall, provision_seconds
        self._wishes: dict[str, Wish] = {}
        self._memory: dict[str, Memory] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._promised: dict[str, tuple[Promise, ...]] = {}
        self._dirty: set[str] = set()
        self._queue: set[str] = set()
        self._passed_over: set[str] = set()
        self._due: dict[str, float] = {}
        self._decided_at: tuple[object, ...] = ()
        self._next_decision = 0.0
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._led = False

    async def run(self) -> None:
        """Rounds for ever, each woken by a change or by the time that a job asked for."""
        mirror = self.book.mirror
        try:
            while True:
                try:
                    async with asyncio.timeout(self._seconds_to_next()):
                        await mirror.changed.wait()
                    await asyncio.sleep(GATHER)
                except TimeoutError:
                    pass
                self._dirty |= self.book.take(mirror.take_changes())
                if mirror.complete and self._leads():
                    self.round()
        finally:
            await self._end_tasks()

    async def _end_tasks(self) -> None:
        """Ends the steps under way, so that nothing is written once the Lease is given back."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def round(self) -> None:
        """One look at everything that changed: the steps in order."""
        self.tally.rounds += 1
        # 1. Gather: the jobs that changed or asked to be looked at again.
        for uid in self._gather():
            job = self.book.jobs.get(uid)
            if job is None:
                self._forget(uid)
            elif uid not in self._tasks:
                # 2. Observe and report those with a child, queue those without.
                with self._alone(job):
                    self._look(job)
        # 3. Decide for the whole queue on one snapshot; each placed job is rendered, created and reported by its task.
        if self._queue and self._must_decide():
            self._decide()

    # --- Gather

    def _leads(self) -> bool:
        leads = self._is_leader()
        if leads and not self._led:
            self._dirty |= set(self.book.jobs)
            self._decided_at = ()
        self._led = leads
        return leads

    def _gather(self) -> list[str]:
        now = self._clock()
        due = {uid for uid, at in self._due.items() if at <= now}
        for uid in due:
            del self._due[uid]
            self._decided_at = ()
        dirty, self._dirty = self._dirty | due, set()
        return sorted(dirty)

    def _forget(self, uid: str) -> None:
        for store in (self._wishes, self._memory, self._due):
            store.pop(uid, None)
        self._queue.discard(uid)

    def _seconds_to_next(self) -> float | None:
        if not self._led:
            return 1.0
        waits = [at - self._clock() for at in self._due.values()]
        if self._queue and self._stale():
            waits.append(self._next_decision - self._clock())
        return max(0.0, min(waits)) if waits else None

    # --- Observe

    def _look(self, job: JobRecord) -> None:
        """What the next step of one job is: nothing, a write, or a place in the queue."""
        self._queue.discard(job.uid)
        if job.uid in self._passed_over:
            # Its write was under way when the queue was last decided, so that decision was not about it.
            self._passed_over.discard(job.uid)
            self._decided_at = ()
        if job.leaving or _is_final(job):
            return
        memory = self._remember(job.uid)
        if memory.retry_at > self._clock() and memory.failed_on in (job.generation, job.version):
            self._due[job.uid] = memory.retry_at
            return
        child = self.book.child(job.uid)
        if child is None:
            self._look_without_child(job)
        else:
            self._look_at_child(job, child)

    def _look_without_child(self, job: JobRecord) -> None:
        if job.status.get("jobName"):
            self._start(job, self._confirm_loss(job))
            return
        wish = self._wish(job)
        if wish.demand is None:
            self._report(job, report.unreadable(job, Reason.INVALID_SPEC, wish.problem, self._now()))
        else:
            self._queue.add(job.uid)

    def _look_at_child(self, job: JobRecord, child: ChildRecord) -> None:
        retired = child.attempt <= _last_attempt(job) and job.status.get("jobName") != child.name
        if child.ended:
            self._report_child(job, child)
        elif child.leaving:
            return
        elif retired:
            self._remember(job.uid).not_running = None
            self._start(job, self._end(child))
        elif job.spec.get("suspend") is True:
            # Recorded before it is done: a crash, or a resume meanwhile, must not take the child's end for a loss.
            self._report(job, report.suspending(job, child, self._now()))
        elif self._waited_too_long(job, child):
            self._report(job, report.gave_up(job, child, self._provision_seconds, self._wall()))
        elif self._lost_service(job, child):
            self._start(job, self._serve(job, child))
        else:
            self._report_child(job, child)

    def _waited_too_long(self, job: JobRecord, child: ChildRecord) -> bool:
        """Whether pods that wait for nodes to be added have waited for them in vain."""
        if child.nodes or not child.hint.placement.get("provision") or job.status.get("startTime"):
            return False
        pods, begun = self.book.pods(child), patience.read_time(child.created)
        if begun is None or (len(pods) >= child.pods and all(pod.node for pod in pods)):
            return False
        left = self._provision_seconds - (self._wall() - begun).total_seconds()
        if left > 0:
            self._due[job.uid] = self._clock() + left
        return left <= 0

    def _lost_service(self, job: JobRecord, child: ChildRecord) -> bool:
        """Whether a gang's Service has been gone for longer than one watch may be ahead of another."""
        memory = self._remember(job.uid)
        if not self.book.lacks_service(child):
            memory.no_service_since = None
            return False
        now = self._clock()
        if memory.no_service_since is None:
            memory.no_service_since = now
        self._due[job.uid] = memory.no_service_since + SERVICE_AFTER
        return memory.no_service_since + SERVICE_AFTER <= now

    def _report_child(self, job: JobRecord, child: ChildRecord) -> None:
        seen = observe(child, self.book.pods(child), ran=bool(job.status.get("startTime")))
        seen = self._patiently(job, seen)
        self._report(job, report.placed(job, child, seen, None, self._now()))

    def _patiently(self, job: JobRecord, seen: Observation) -> Observation:
        """That pods do not run yet is said only once it has lasted: most run before anyone could read it."""
        memory = self._remember(job.uid)
        if seen.state not in (State.PLACED, State.STARTING):
            memory.not_running = None
            return seen
        now = self._clock()
        if memory.not_running is None or memory.not_running[0] is not seen.state:
            memory.not_running = (seen.state, now)
        ripe = memory.not_running[1] + (STARTING_AFTER if seen.state is State.STARTING else UNBOUND_AFTER)
        if ripe <= now or job.status.get("state") == State.STARTING:
            return seen
        self._due[job.uid] = ripe
        return Observation(State.PLACED, Reason.PLACED, seen.message)

    def _wish(self, job: JobRecord) -> Wish:
        held = self._wishes.get(job.uid)
        if held is None or held.generation != job.generation:
            held = self._wishes[job.uid] = _read_wish(job)
        return held

    # --- Decide

    def _stale(self) -> bool:
        return self._decided_at != self._inputs()

    def _inputs(self) -> tuple[object, ...]:
        """What a decision about the queue depends on."""
        asks = frozenset((uid, self.book.jobs[uid].generation) for uid in self._queue if uid in self.book.jobs)
        return (self.book.fleet_version(), asks, frozenset(self._promised))

    def _must_decide(self) -> bool:
        return self._stale() and self._clock() >= self._next_decision

    def _decide(self) -> None:
        began = self._clock()
        self._decided_at = self._inputs()
        fleet = self.book.fleet(p for promises in self._promised.values() for p in promises)
        for job, decision in self._decisions(fleet):
            self.tally.decisions[decision.verdict.value, job.namespace] += 1
            with self._alone(job):
                if job.spec.get("suspend") is True:
                    self._report(job, report.planned(job, decision, self._now()))
                elif decision.choice is not None:
                    self._promise(job, decision)
                    self._start(job, self._place(job, decision, fleet))
                else:
                    self._refuse(job, decision)
        took = self._clock() - began
        self.tally.decide_seconds += took
        # A long queue is looked at less often, so that deciding never takes more than a third of the time.
        self._next_decision = self._clock() + 2 * took

    def _decisions(self, fleet: Fleet) -> Iterator[tuple[JobRecord, Decision]]:
        self._passed_over = self._queue & self._tasks.keys()
        jobs = [self.book.jobs[uid] for uid in self._queue - self._passed_over if uid in self.book.jobs]
        waiting = [
            Waiting(job.uid, job.created, self._timely(job, demand), job.spec.get("suspend") is True, job.namespace)
            for job in jobs
            if (demand := self._wish(job).demand) is not None
        ]
        for placing in place_all(waiting, fleet, self.book.catalog, self._not_decided):
            yield self.book.jobs[placing.job.uid], placing.decision

    def _timely(self, job: JobRecord, demand: Demand) -> Demand:
        """What a job asks for now; it is looked at again when time alone changes that."""
        now = self._wall()
        seconds = patience.next_change(demand, job.created, job.status, now)
        if seconds is not None:
            self._due[job.uid] = self._clock() + seconds
        return patience.timely(demand, job.created, job.status, now)

    def _not_decided(self, waiting: Waiting, error: Exception) -> None:
        job = self.book.jobs[waiting.uid]
        self._queue.discard(job.uid)
        self._retry_later(job, error, job.generation)

    def _refuse(self, job: JobRecord, decision: Decision) -> None:
        memory = self._remember(job.uid)
        if decision.verdict is not Verdict.IMPOSSIBLE:
            memory.impossible_since = None
        elif job.status.get("state") == State.QUEUED:
            now = self._clock()
            memory.impossible_since = memory.impossible_since or now
            ripe = memory.impossible_since + IMPOSSIBLE_AFTER
            if ripe > now:
                self._due[job.uid] = ripe
                return
        self._report(job, report.refused(job, decision, self._now()))

    def _promise(self, job: JobRecord, decision: Decision) -> None:
        choice = decision.choice
        if choice is not None:
            pool, gpus = choice.candidate.pool, choice.candidate.gang.gpus_per_node
            attempt = _next_attempt(job)
            self._promised[job.uid] = promises_of(
                job.uid, attempt, job.namespace, choice.nodes, pool.name, pool.resource, gpus, choice.needs
            )

    # --- Render, create

    async def _place(self, job: JobRecord, decision: Decision, fleet: Fleet) -> None:
        """Creates the children of a placed job and writes its status: the Service first, so that names resolve."""
        wish, choice = self._wish(job), decision.choice
        if wish.job is None or choice is None:
            return
        attempt = _next_attempt(job)
        children = render(wish.job, choice, attempt, fleet.runtime_classes, decision.digest, report.hint(decision))
        if children.service is not None:
            await self._writer.ensure_child(SERVICES, children.service, job)
        raw, created = await self._writer.ensure_child(JOBS, children.job, job)
        child = read_child(raw)
        seen = Observation(State.PLACED, Reason.PLACED, f"child Job {child.name} is created")
        status = report.placed(job, child, seen, decision if created else None, self._now())
        self._queue.discard(job.uid)
        await self._write(job, status)

    async def _serve(self, job: JobRecord, child: ChildRecord) -> None:
        """Makes a gang's Service again that somebody deleted; a gang that runs goes on whatever comes of it."""
        wish = self._wish(job)
        self._remember(job.uid).no_service_since = None
        if wish.job is None:
            return
        try:
            await self._writer.ensure_child(SERVICES, rendezvous(Numbered(wish.job, child.attempt)), job)
        except (NameConflict, ChildRefused) as error:
            self._retry_later(job, error, job.version)

    async def _end(self, child: ChildRecord) -> None:
        await self._writer.delete_child(child)

    async def _confirm_loss(self, job: JobRecord) -> None:
        """A child that the mirror lacks is lost only when the API server says so."""
        held = await self._writer.find_child(job, str(job.status["jobName"]))
        if held is None:
            await self._write(job, report.lost(job, self._now()))
            return
        # It is there and the watch does not show it (yet, or because its labels were taken off): asked again, ever later.
        child = read_child(held)
        if child.ended:
            seen = observe(child, self.book.pods(child), ran=bool(job.status.get("startTime")))
            await self._write(job, report.placed(job, child, seen, None, self._now()))
        self._retry_later(job, "the watch does not show its child Job", job.version)

    # --- Report

    def _report(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        if report.patch(job.status, status) is not None:
            self._start(job, self._write(job, status))

    async def _write(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        changes = report.patch(job.status, status)
        if changes is None:
            return
        if not await self._writer.write_status(job, changes, status):
            # Gone or changed; the watch will tell, and until then the same write would fail again.
            self._retry_later(job, "the job changed meanwhile", job.version)
        elif job.uid in self._memory and status.get("display", {}).get("reason") not in REFUSALS:
            self._memory[job.uid].delay = 0.0

    def _now(self) -> str:
        return self._wall().strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- Tasks

    @contextmanager
    def _alone(self, job: JobRecord) -> Iterator[None]:
        """What is done about one job: whatever it holds, the others go on."""
        try:
            yield
        except Exception as error:
            log.exception("job is left out", job=f"{job.namespace}/{job.name}")
            self._retry_later(job, error, job.version)

    def _start(self, job: JobRecord, step: Coroutine[Any, Any, None]) -> None:
        """Runs one step of a job; afterwards the job is looked at again."""
        task = asyncio.create_task(self._guarded(job, step), name=f"{job.namespace}/{job.name}")
        self._tasks[job.uid] = task

    async def _guarded(self, job: JobRecord, step: Coroutine[Any, Any, None]) -> None:
        try:
            async with self._slots:
                await step
        except (NotLeader, Fenced):
            log.info("step dropped, another process leads", job=f"{job.namespace}/{job.name}")
        except NameConflict as error:
            await self._refused_write(job, error, Reason.NAME_CONFLICT, str(error))
        except ChildRefused as error:
            message = f"the API server refuses its child: {error}"
            await self._refused_write(job, error, Reason.CHILD_REFUSED, message)
        except ApiError as error:
            self._retry_later(job, error, job.version)
        except Exception as error:  # whatever one job does, the others go on
            self._retry_later(job, error, job.version)
            log.exception("step failed", job=f"{job.namespace}/{job.name}")
        finally:
            self._tasks.pop(job.uid, None)
            self._promised.pop(job.uid, None)
            self._dirty.add(job.uid)
            self.book.mirror.changed.set()

    async def _refused_write(self, job: JobRecord, error: Exception, reason: Reason, message: str) -> None:
        """A child that the API server refuses is the job's to mend: one condition, and another try later."""
        self._retry_later(job, error, job.generation)
        try:
            await self._write(job, report.unreadable(job, reason, message[:1024], self._now()))
        except (ApiError, NotLeader) as unwritten:
            log.warning("status not written", job=f"{job.namespace}/{job.name}", error=str(unwritten))

    def _retry_later(self, job: JobRecord, why: Exception | str, failed_on: int | str) -> None:
        """Waits before the next step, longer each time, unless the job itself changes in what the step failed on."""
        memory = self._remember(job.uid)
        memory.delay = min(max(memory.delay * 2, BACKOFF[0]), BACKOFF[1])
        memory.retry_at, memory.failed_on = self._clock() + memory.delay, failed_on
        self._due[job.uid] = memory.retry_at
        self.tally.failures[type(why).__name__ if isinstance(why, Exception) else "Stale"] += 1
        log.warning("step is tried again", job=f"{job.namespace}/{job.name}", seconds=memory.delay, why=str(why))

    def _remember(self, uid: str) -> Memory:
        return self._memory.setdefault(uid, Memory())


def _is_final(job: JobRecord) -> bool:
    return job.status.get("state") in (State.SUCCEEDED, State.FAILED)


def _last_attempt(job: JobRecord) -> int:
    return whole_number(job.status.get("attempt")) or 0


def _next_attempt(job: JobRecord) -> int:
    return _last_attempt(job) + 1


def _read_wish(job: JobRecord) -> Wish:
    document = {"apiVersion": API_VERSION, "kind": "GPUJob", "metadata": dict(job.metadata), "spec": dict(job.spec)}
    try:
        parsed = read_gpujob(document)
        return Wish(job.generation, parsed, demand_of(parsed))
    except BadInput as error:
        return Wish(job.generation, None, None, str(error)[:1024])
