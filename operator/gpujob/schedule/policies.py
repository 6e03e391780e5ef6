"""The policies of a scheduling cycle, by name: what each does, and its reason for one job. docs/placement.md shows the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from gpujob.fleet.kubernetes.priority_classes import Priorities, can_reserve, priority_of
from gpujob.schedule.pending_job import PendingJob
from gpujob.values.vocabulary import Verdict


class Policy(NamedTuple):
    """One row of the table in docs/placement.md."""

    name: str
    does: str


ORDER: Final = Policy(
    "order", "a higher priority goes first, then the older job, then the lower uid: equal queues have equal results"
)
WHOLE_GANGS: Final = Policy(
    "whole gangs", "a job gets all nodes of its gang on one snapshot, or none; later jobs do not see these devices"
)
EQUAL_DEMANDS: Final = Policy(
    "equal demands",
    "if a demand finds no room, an equal demand finds none later in the same cycle: free devices only become fewer",
)
SHARES: Final = Policy(
    "shares",
    "the jobs of a namespace that find no place take at most 0.25 s of a cycle; its other new jobs join a later "
    "cycle, and lower priorities wait for them for 5 s at most",
)
PRECEDENCE: Final = Policy(
    "precedence",
    "the jobs of one priority go before the jobs of lower priorities, which wait with the reason QueuedBehind",
)
RESERVATION: Final = Policy(
    "reservation",
    "a waiting job gets reservations of free devices against lower priorities, on the nodes where it lacks the fewest",
)
QUOTA: Final = Policy(
    "quota",
    "a reservation counts in the ResourceQuotas of its namespace like the gang; beyond them nothing is reserved",
)
BACKFILL: Final = Policy("backfill", "a job of a lower priority takes free devices that are reserved for no other job")

POLICIES: Final = (ORDER, WHOLE_GANGS, EQUAL_DEMANDS, SHARES, PRECEDENCE, RESERVATION, QUOTA, BACKFILL)
"""In the order in which a cycle applies them."""


@dataclass(frozen=True, slots=True)
class Level:
    """The jobs of one priority in their order; `last`: no job of a lower priority follows."""

    priority: int
    jobs: tuple[PendingJob, ...]
    last: bool


def in_order(jobs: Iterable[PendingJob], priorities: Priorities) -> list[Level]:
    """ORDER: the queue by levels, the highest priority first."""
    values: dict[str | None, int] = {}

    def priority(job: PendingJob) -> int:
        named = job.demand.priority_class
        if named not in values:
            values[named] = priority_of(named, priorities)
        return values[named]

    queue = sorted(jobs, key=lambda job: (-priority(job), job.created, job.uid))
    levels = [(level, tuple(equals)) for level, equals in groupby(queue, key=priority)]
    return [Level(level, equals, last=number == len(levels)) for number, (level, equals) in enumerate(levels, 1)]


class Gate(NamedTuple):
    """A condition under which nothing is reserved for a job that has no place, and the sentence that says so."""

    reason: str
    applies: Callable[[PendingJob, Verdict, datetime], bool]


GATES: Final = (
    Gate("a suspended job starts nothing", lambda job, verdict, now: job.plan_only),
    Gate("no device that becomes free helps it", lambda job, verdict, now: verdict is not Verdict.WAITING),
    Gate(
        "its PriorityClass belongs to Kubernetes and counts in kube-system only",
        lambda job, verdict, now: not can_reserve(job.demand.priority_class, job.namespace),
    ),
    Gate(
        "it has waited for the whole holdSeconds",
        lambda job, verdict, now: job.reserves_until is not None and job.reserves_until <= now,
    ),
)

NOTHING_HELPS: Final = (
    "devices alone do not help it: it lacks nodes, other resources, or quota beside what is reserved for its namespace"
)


def why_unreserved(job: PendingJob, verdict: Verdict, now: datetime) -> str:
    """RESERVATION: the first gate that applies to a job without a place; empty where devices may be reserved for it."""
    return next((gate.reason for gate in GATES if gate.applies(job, verdict, now)), "")
