"""Creations of children whose outcome is open: the request is under way, or no answer says that it is over.

Until the outcome is known the devices stay reserved, and the next try repeats the same request: the name of a child is that of
its attempt, so that the API server keeps one of the two, and both are on the same nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gpujob.cluster.client.api_errors import ApiError, OutcomeUnknown
from gpujob.cluster.client.rate_limit import Clock
from gpujob.cluster.writer.child_errors import ChildNotCreated
from gpujob.placement.scoring.candidate import Decision
from gpujob.status.records.objects import JobRecord

REPEATED: Final = 60.0
"""Seconds for which one decision is repeated; a later try is decided again, because the fleet has changed."""

ANSWERED: Final = 2.0
"""Seconds in which the answer comes, although the watch shows the child before it."""


@dataclass(frozen=True, slots=True)
class OpenCreation:
    """One creation of the children of an attempt."""

    generation: int
    attempt: int
    decision: Decision
    runtime_classes: Container[str]
    """The names of the RuntimeClasses that existed: a repeated request is the same."""
    first: float
    """When the first request of this decision was sent (monotonic seconds)."""
    last: float
    """When the last one was sent."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of its pods."""
        choice = self.decision.choice
        return choice.nodes if choice is not None else ()


class OpenCreations:
    """The open creation of each job, by uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_job: dict[str, OpenCreation] = {}

    @contextmanager
    def one(self, job: JobRecord, attempt: int, decision: Decision, runtime_classes: Container[str]) -> Iterator[None]:
        """The requests of one creation, which stays open if their outcome is not known, or that of an earlier request of the same
        decision: that one may still be performed, whatever this one is answered."""
        now, held = self._clock(), self._by_job.get(job.uid)
        earlier = held if held is not None and held.decision is decision else None
        first = earlier.first if earlier is not None else now
        self._by_job[job.uid] = OpenCreation(job.generation, attempt, decision, runtime_classes, first, now)
        try:
            yield
        except BaseException as error:
            if earlier is not None and not _is_open(error):
                self._by_job[job.uid] = earlier
            elif not _is_open(error):
                self.settle(job.uid)
            raise
        self.settle(job.uid)

    def of(self, uid: str) -> OpenCreation | None:
        """The open creation of a job."""
        return self._by_job.get(uid)

    def settle(self, uid: str) -> None:
        """Forgets a creation whose outcome is known, or that the job needs no more."""
        self._by_job.pop(uid, None)

    def to_repeat(self, job: JobRecord, attempt: int) -> OpenCreation | None:
        """The creation whose request a job sends once more; None if its next attempt needs a new decision."""
        held = self._by_job.get(job.uid)
        if held is None or (held.generation, held.attempt) != (job.generation, attempt):
            return None
        return held if self._clock() - held.first < REPEATED else None

    def is_older(self, uid: str, than: float) -> bool:
        """Whether the last request of a job was sent before a time (monotonic seconds); False where none is open."""
        held = self._by_job.get(uid)
        return held is not None and held.last < than

    def seconds_to_answer(self, uid: str) -> float:
        """Seconds in which the answer to the last request is still expected; 0 or less after them."""
        held = self._by_job.get(uid)
        return held.last + ANSWERED - self._clock() if held is not None else 0.0


def _is_open(error: BaseException) -> bool:
    match error:
        case ChildNotCreated():
            return error.unanswered
        case ApiError():
            return error.status == 0 or isinstance(error, OutcomeUnknown)
        case _:
            return isinstance(error, asyncio.CancelledError)
