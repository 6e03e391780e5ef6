"""Explains to waiting jobs why they have no place, and to suspended ones where they would go: a few in each round, namespaces in
turn.

An explanation costs more than a decision, and a user can write a job whose explanation is costly, so that one round explains for a
limited time. A decision gives the jobs one order; rounds take jobs from its front, so that a queue of n jobs takes n steps.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

from gpujob.cluster.messages.status_refresh import StatusRefresh
from gpujob.cluster.queue.due_times import DueTimes
from gpujob.cluster.queue.turns import TimeSlice
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.queue import QueueDecision
from gpujob.status.job import job_status
from gpujob.status.records.objects import JobRecord
from gpujob.values.vocabulary import State, Verdict


class Explanations:
    """The jobs without a place of the last decision, in the order of their explanations."""

    def __init__(self, work: ControllerState, refresh: StatusRefresh, piece: TimeSlice) -> None:
        self._work, self._refresh, self._piece = work, refresh, piece
        self._timings = work.timings
        self._decisions: dict[str, QueueDecision] = {}
        self._decided_on: tuple[object, ...] = ()
        """The inputs of the decision: while they are the same, so is each message."""
        self._unordered = False
        """Whether no order was made since the last decision."""
        self._order = deque[str]()
        self._ordered = set[str]()
        self._later = DueTimes()
        """When a job with the same outcome gets its changes."""
        self._explained_in: dict[str, float] = {}
        """The time of the last explanation in each namespace with such jobs."""
        self._digests: dict[int, tuple[object, bytes, float]] = {}
        """For each result, by its id: its snapshot, its explanation, and the seconds that the explanation took."""
        self._looked_at = -math.inf
        """When all jobs were put into turns."""
        self._renewed, self._renew_at = False, 0.0
        """Whether all are put into turns again, and when."""
        self._next = 0.0

    def begin(
        self,
        without_place: Iterable[QueueDecision],
        decided_on: tuple[object, ...],
        placed: Collection[str] = (),
        *,
        left: int = 0,
    ) -> None:
        """Takes over the jobs without a place of a new decision, and the uids of those with one. If it `left` jobs, the others keep
        their earlier results and their turn.
        """
        found, queue = {decided.job.uid: decided for decided in without_place}, self._work.queue
        earlier = self._decisions.items() if left else ()
        kept = {uid: decided for uid, decided in earlier if uid in queue and uid not in placed}
        self._decisions = kept | found
        self._ordered = (self._ordered & kept.keys() | found.keys()) if left else set(found)
        self._decided_on, self._unordered = decided_on, bool(self._ordered)
        self._order.clear()
        self._digests.clear()
        if not left:
            self._later.clear()

    def renew(self, decided_on: tuple[object, ...]) -> None:
        """The same jobs have no place on a newer snapshot: from time to time all of them are explained again, since numbers or
        reasons may differ."""
        self._decided_on = decided_on
        if not self._unordered and not self._renewed:
            self._renewed = bool(self._decisions)
            self._renew_at = max(self._work.clock(), self._looked_at + self._timings.explain_again)

    def requeue(self, uid: str) -> None:
        """A job changed, or its step ended: it gets an explanation if that was not its message."""
        if uid in self._decisions and uid not in self._ordered and not self._unordered:
            self._order.append(uid)
            self._ordered.add(uid)

    def next_at(self) -> float | None:
        """When jobs may get an explanation, by the clock of the controller; None if all have theirs."""
        if self._unordered or self._order:
            return self._next
        times = [self._renew_at] if self._renewed else []
        times += [first[0] for first in [self._later.first()] if first]
        return max(self._next, min(times)) if times else None

    async def explain(self) -> None:
        """Explains until the time of one round is used up, or a change waits that may place a job."""
        work, began, said = self._work, self._work.clock(), 0
        self._make_order()
        for uid in sorted(self._later.take(began)):
            self.requeue(uid)
        while self._order:
            uid = self._order[0]
            job, decided = work.index.jobs.get(uid), self._decisions[uid]
            # One that is left out here has left the queue, or is looked at again when its step has ended.
            if job is not None and uid in work.queue and uid not in work.tasks and not self._may_wait(job, decided):
                late = work.clock() >= began + self._timings.explain_slice
                if late or (said and work.index.cache.changed.is_set()):
                    break
                with work.alone(job):
                    digest, took = await self._digest_of(decided)
                    if not self._is_shown_whole(job, decided, digest, took):
                        self._write(job, decided, digest, took)
                        said += 1
            self._ordered.discard(self._order.popleft())
            await self._piece.pause()
        self._next = work.clock() + 2 * (work.clock() - began)

    def _make_order(self) -> None:
        """Puts the jobs of a new decision into turns; which of them need words is seen when their turn comes."""
        now = self._work.clock()
        if not self._unordered and not (self._renewed and now >= self._renew_at):
            return
        if self._renewed or len(self._ordered) == len(self._decisions):
            self._looked_at, self._renewed, self._ordered = now, False, set(self._decisions)
            self._later.clear()
        found = ((uid, decided) for uid, decided in self._decisions.items() if uid in self._ordered)
        jobs = [(uid, decided.job.namespace, self._explained_at(uid)) for uid, decided in found]
        spaces = {namespace for _, namespace, _ in jobs}
        self._explained_in = {namespace: at for namespace, at in self._explained_in.items() if namespace in spaces}
        self._order = deque(in_turns(jobs, self._explained_in))
        self._unordered = False

    def _explained_at(self, uid: str) -> float:
        memory = self._work.memory.get(uid)
        return memory.explained_at if memory is not None else -math.inf

    def _is_explained(self, job: JobRecord, decided: QueueDecision) -> bool:
        """Whether the job's last explanation has the same inputs, and its status is still as it was then or as it was written then."""
        memory = self._work.remember(job.uid)
        if memory.explained_for != (self._decided_on, decided.job.demand):
            return False
        if memory.explained_version != job.version and memory.explained_status == digest_of(job.status):
            memory.explained_version = job.version
        return memory.explained_version == job.version

    def _may_wait(self, job: JobRecord, decided: QueueDecision) -> bool:
        """Whether a job with the same outcome needs no explanation now: nothing changed, or it gets the changes later."""
        memory, now, verdict = self._work.remember(job.uid), self._work.clock(), decided.verdict
        if _state_of(decided) is State.IMPOSSIBLE and job.status.get("state") == State.QUEUED:
            return self._is_unripe(job)
        if verdict is not Verdict.IMPOSSIBLE:
            memory.impossible_since = None
        if self._is_explained(job, decided):
            return True
        again = memory.explained_at + max(
            self._timings.explain_again, self._timings.explain_factor * memory.explanation_took
        )
        if _is_shown(job, decided) and now < again:
            self._later[job.uid] = again
            return True
        return False

    def _is_shown_whole(self, job: JobRecord, decided: QueueDecision, digest: bytes, took: float) -> bool:
        """Whether an explanation of now has the digest of the job's last one, which its status still has."""
        memory = self._work.remember(job.uid)
        if decided.job.plan_only or not _is_shown(job, decided):
            return False
        if memory.explained_digest != digest:
            return False
        memory.explained_for = (self._decided_on, decided.job.demand)
        memory.explained_at, memory.explanation_took = self._work.clock(), max(memory.explanation_took, took)
        return self._is_explained(job, decided)

    async def _digest_of(self, decided: QueueDecision) -> tuple[bytes, float]:
        """The digest of a refusal's message, and the seconds that it took; equal demands share one result. Others run meanwhile."""
        answer, clock = decided.answer, self._work.clock
        kept = self._digests.get(id(answer))
        if kept is None or kept[0] is not answer.fleet:
            took, began = 0.0, clock()
            for _ in answer.decision_in_pieces():
                took += clock() - began
                await self._piece.pause()
                began = clock()
            digest = b"" if decided.job.plan_only else digest_of(job_status.message_of_refusal(decided.decision))
            kept = self._digests[id(answer)] = answer.fleet, digest, took + clock() - began
        return kept[1:]

    def _is_unripe(self, job: JobRecord) -> bool:
        """Whether a job that fitted before has been impossible for too short a time to report it."""
        memory, now = self._work.remember(job.uid), self._work.clock()
        memory.impossible_since = memory.impossible_since or now
        ripe = memory.impossible_since + self._timings.impossible
        if ripe > now:
            self._later[job.uid] = ripe
        return ripe > now

    def _write(self, job: JobRecord, decided: QueueDecision, digest: bytes, took: float) -> None:
        """Explains to one job, and records the inputs and the duration of its explanation."""
        memory, began = self._work.remember(job.uid), self._work.clock()
        status_of = job_status.planned if decided.job.plan_only else job_status.refused
        status = status_of(job, decided.decision, self._work.now())
        self._refresh.report(job, status)
        if not decided.job.plan_only:
            self.count(decided.decision)
        memory.explained_at, memory.explained_for = self._work.clock(), (self._decided_on, decided.job.demand)
        memory.explained_version, memory.explained_status = job.version, digest_of(status)
        memory.explanation_took, memory.explained_digest = took + memory.explained_at - began, digest
        self._explained_in[job.namespace] = memory.explained_at

    def count(self, decision: Decision) -> None:
        """Counts an explained decision; waiting jobs whose explanation is delayed, or never comes, have none."""
        self._work.counters.decisions[decision.verdict.value, summary.reason(decision).value] += 1


def _state_of(decided: QueueDecision) -> State:
    return State.SUSPENDED if decided.job.plan_only else job_status.STATE_OF[decided.verdict]


def _is_shown(job: JobRecord, decided: QueueDecision) -> bool:
    """Whether the job's status shows this outcome, for the spec of now."""
    return job.status.get("state") == _state_of(decided) and job.status.get("observedGeneration") == job.generation


def digest_of(status: Mapping[str, Any]) -> bytes:
    """A short form of a status, to recognise it when the watch shows it."""
    return hashlib.blake2b(json.dumps(dict(status), sort_keys=True, default=str).encode(), digest_size=16).digest()


Job = TypeVar("Job")


def in_turns(jobs: Iterable[tuple[Job, str, float]], explained_in: Mapping[str, float]) -> Iterator[Job]:
    """The jobs, each given with its namespace and the time of its last explanation: one of each namespace, then the second of
    each.

    Within a namespace the oldest time comes first, and so do namespaces, by `explained_in`; the times are of one clock, and None or
    minus infinity means never. Equal ones keep their order.
    """
    turns, ordered = defaultdict[str, Iterator[int]](count), []
    for job, namespace, _ in sorted(jobs, key=lambda each: each[2]):
        ordered.append((next(turns[namespace]), explained_in.get(namespace, -math.inf), job))
    ordered.sort(key=lambda each: each[:2])
    return (job for _, _, job in ordered)
