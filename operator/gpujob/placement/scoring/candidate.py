"""The result of placement: an outcome for every candidate, the choice, the verdict; sentences are formatted on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpujob.catalog.devices.throughput import MILLION, Speed, two_digits
from gpujob.fleet.kubernetes.namespaces import IdRanges
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.images.image import ImageChoice
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Outcome, Reason, Verdict


class Candidate(NamedTuple):
    """One pool × runtime × gang with its outcome; `reasons` reject, `warnings` warn. A decision creates thousands."""

    pool: Pool
    runtime: ImageChoice
    gang: Gang
    outcome: Outcome
    reasons: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    price_per_hour: int | None = None
    """Micro-dollars an hour for the whole job; None if no price is known."""
    provision: bool = False
    """Whether an autoscaler must add nodes first."""
    speed: Speed | None = None
    """The speed of one of its devices on the job's work, relative to the catalog's reference; None if unknown."""
    scales: bool = True
    """Whether the speed grows with the number of GPUs; see `Demand.scales`."""
    suspected: bool = False
    """Whether an agent reports that one of its nodes may be faulty; of a pool that is busy, of those that it gets at best."""
    planned: bool = False
    """Whether maintenance of one of these nodes is announced."""
    risk: int = 0
    """How likely the model does not run there: 0 without a warning about it; see `filters.memory.risk`."""

    @property
    def counts_as_one(self) -> bool:
        """Whether its several GPUs are taken as no faster than one."""
        return self.gang.gpus > 1 and not self.scales and self.speed is not None and not self.speed.measured

    @property
    def speed_of_job(self) -> int | None:
        """The speed of the whole gang in millionths of the reference; None if unknown."""
        return None if self.speed is None else self.speed.millionths * (1 if self.counts_as_one else self.gang.gpus)

    @property
    def price_of_work(self) -> int | None:
        """Micro-dollars for an hour of the reference's work, rounded down; None if price or speed is unknown."""
        price, speed = self.price_per_hour, self.speed_of_job
        return None if price is None or not speed else price * MILLION // speed


def speed_text(millionths: int) -> str:
    """A relative speed in two significant digits."""
    return two_digits(millionths / MILLION)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate, its nodes and the resources of each pod."""

    candidate: Candidate
    nodes: tuple[str, ...]
    needs: Resources
    shared_memory: int
    tolerations: tuple[tuple[str, str], ...] = ()
    """Taints of the chosen nodes that the pods tolerate: key and effect."""
    ids: IdRanges | None = None
    """The uids and groups that the platform assigns to pods of the job's namespace."""
    not_on: tuple[str, ...] = ()
    """Excluded nodes of the pool, if the pods may go to any node of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one field of the job: its path, its value now, and the value that fits; None is absent."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Fix:
    """The nearest changes of the job, mostly one, that together make it fit."""

    message: str
    changes: tuple[Change, ...]
    pool: str
    """The pool that it would fit."""
    demand: Demand
    """The job's demand after the changes."""


@dataclass(frozen=True, slots=True)
class StartsNow:
    """A gang that has room at this moment, as changes of the job's fields."""

    changes: tuple[Change, ...]
    pool: str
    """The pool that it fits."""
    price_per_hour: int | None
    """Micro-dollars an hour for the whole job; None when no price is known."""
    provision: bool = False
    """Whether an autoscaler must add nodes first."""

    def sentence(self, pool: str) -> str:
        """The changes in words, with this name of the pool: "nodes: 1 fits mi300x"."""
        fields = ", ".join(f"{change.field.removeprefix('spec.')}: {change.after}" for change in self.changes)
        return f"{fields} fits {pool}{' once nodes are added' * self.provision}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a demand against one fleet."""

    demand: Demand
    verdict: Verdict
    candidates: tuple[Candidate, ...]
    """Ranked: the chosen one first, then what fits, is busy, must be fixed, is rejected."""
    choice: Choice | None = None
    problems: tuple[Finding, ...] = ()
    """What must be fixed in the job itself, whatever the pool."""
    fix: Fix | None = None
    hopeless: str = ""
    """States that no change of the job helps, and what blocks the nearest one; empty if unknown."""
    starts_now: tuple[StartsNow, ...] = ()
    """Gangs that would start now, for a job that waits; `smaller_gang.with_ways_out` adds them."""

    @property
    def digest(self) -> str:
        """Sixteen hex digits that are equal for equal choices."""
        if self.choice is None:
            return hashlib.sha256(self.verdict.encode()).hexdigest()[:16]
        chosen = self.choice.candidate
        parts = (chosen.pool.name, chosen.runtime.image, chosen.gang.shape, *self.choice.nodes)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def best_per_pool(decision: Decision) -> tuple[Candidate, ...]:
    """The first candidate of each pool, in the order of the ranking: what a table or a status can show."""
    return tuple(first_of_each_pool(decision.candidates).values())


def first_of_each_pool(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """The first candidate of each pool by the pool's name, in the order of the candidates."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.pool.name, candidate)
    return first


def lacks_nodes(candidate: Candidate) -> bool:
    """Whether an unavailable candidate waits for nodes that no autoscaler is known to add."""
    return any(finding.reason is Reason.MAY_GROW for finding in candidate.reasons)
