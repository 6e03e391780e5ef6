"""Which of the candidates is best: the outcome, then the job's objective, then doubts, memory and names.

An unknown price is never 0: it comes after every known one. Everything ends in names, so that equal inputs give equal
decisions on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.throughput import MILLION
from gpujob.fleet.pools import Pool
from gpujob.placement.capacity import Room
from gpujob.placement.decision import Candidate
from gpujob.placement.demand import Demand, Gang
from gpujob.vocabulary import Objective, Outcome, Reason

ORDER: Final = (Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY, Outcome.MISCONFIGURED, Outcome.REJECTED)

SILENT_DOUBTS: Final = frozenset(
    {Reason.RUNS_AS_ROOT, Reason.BF16_EMULATED, Reason.OVERRIDE_NOT_SET, Reason.SHARDING_ASSUMED}
)
"""Doubts that are shown but do not rank a candidate lower."""

_IN_VAIN: Final = frozenset({Reason.MAY_GROW, Reason.NODES_DID_NOT_COME})

Rank = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate with what is needed to choose it; `rank` orders the images of its pool."""

    candidate: Candidate
    room: Room
    rank: Rank


def job_price(demand: Demand, pool: Pool, room: Room) -> int | None:
    """Micro-dollars an hour for the whole job; None when no price is known.

    On nodes that run anyway the job pays for its GPUs. A node that is started for it is paid whole.
    """
    if pool.price is None:
        return None
    started = [node for node in room.nodes if node.coming]
    idle = sum(max(0, (node.total or node.healthy) - demand.gpus_per_node) for node in started)
    return pool.price.per_gpu_hour * (demand.gang.gpus + idle)


def ranked(trials: Iterable[Trial], demand: Demand) -> list[Trial]:
    """Best first: outcome, then the pool and the gang by their best image, then the image.

    A job that does not wait takes what is free now, also where nodes that an autoscaler can add would be better.
    """
    trials = list(trials)
    objective = objective_used(demand.objective, [trial.candidate for trial in trials])
    best: dict[tuple[str, Gang], Trial] = {}
    for trial in trials:
        place = _place(trial)
        if place not in best or _in_pool(trial) < _in_pool(best[place]):
            best[place] = trial
    ranks = {
        place: (
            trial.candidate.provision and not demand.wait_seconds,
            *wish(trial.candidate, objective),
            *_ties(trial.candidate),
        )
        for place, trial in best.items()
    }
    return sorted(trials, key=lambda trial: (*_in_pool(trial)[:2], ranks[_place(trial)], trial.rank))


def objective_used(objective: Objective, candidates: Sequence[Candidate]) -> Objective:
    """The objective that decides: Value needs the speed of every pool that it is about, else Cost decides.

    Where a pool that it is about has a price but no known speed, nobody can say what is the better value.
    """
    return Objective.COST if objective is Objective.VALUE and without_speed(candidates) else objective


def without_speed(candidates: Sequence[Candidate]) -> list[str]:
    """The accelerators whose value nobody knows though they have a price, of the pools with room, else of the busy ones,
    else of all."""
    with_room = [candidate for candidate in candidates if candidate.outcome in (Outcome.CHOSEN, Outcome.FITS)]
    busy = [candidate for candidate in candidates if candidate.outcome is Outcome.BUSY]
    asked = with_room or busy or candidates
    return sorted({c.pool.accelerator_id for c in asked if c.price_per_hour is not None and not c.speed_of_job})


def wish(candidate: Candidate, objective: Objective) -> tuple[int, ...]:
    """What an objective makes of a candidate, less is better: numbers that compare with those of the same objective.

    Value is the price of the work, in millionths of a micro-dollar for what a B200 does in an hour; of equal values
    the cheaper gang is first, and of those that cost nothing the fastest. Speed puts an unknown speed last, as Cost
    and Value do an unknown price.
    """
    price, speed = candidate.price_per_hour, candidate.speed_of_job
    cost = (price is None, price or 0)
    if objective is Objective.COST:
        return cost
    if objective is Objective.SPEED:
        return (not speed, -(speed or 0), *cost)
    return (price is None, not speed, (price or 0) * MILLION**2 // speed if speed else 0, *cost, -(speed or 0))


def worth_waiting_for(best: Candidate, candidates: Sequence[Candidate], demand: Demand) -> Candidate | None:
    """The best busy candidate that the objective prefers to the best one with room; None when there is none.

    A pool that may only grow, or whose nodes did not come, is not waited for: nobody says that its GPUs become free.
    """
    busy = [
        each for each in candidates if each.outcome is Outcome.BUSY and not _IN_VAIN & {f.reason for f in each.reasons}
    ]
    objective = objective_used(demand.objective, [replace(each, outcome=Outcome.FITS) for each in (best, *busy)])
    better = [each for each in busy if wish(each, objective) < wish(best, objective)]
    return min(better, key=lambda each: (*wish(each, objective), *_ties(each)), default=None)


def _ties(candidate: Candidate) -> Rank:
    """What decides between equals: nodes that are there, fewer doubts, less memory, the pool's name, the smaller gang."""
    pool, gang = candidate.pool, candidate.gang
    doubts = sum(doubt.reason not in SILENT_DOUBTS for doubt in candidate.doubts)
    memory = (pool.memory is None, pool.memory or 0)
    return (candidate.provision, doubts, *memory, pool.name, gang.gpus, gang.nodes, gang.entry or 0)


def _place(trial: Trial) -> tuple[str, Gang]:
    return trial.candidate.pool.name, trial.candidate.gang


def _in_pool(trial: Trial) -> Rank:
    candidate = trial.candidate
    refused = len(candidate.reasons) if candidate.outcome is Outcome.REJECTED else 0
    if any(finding.reason is Reason.MAY_GROW for finding in candidate.reasons):
        refused += 1  # Nobody promised that more nodes come; what only has to become free is nearer.
    return (ORDER.index(candidate.outcome), refused, trial.rank)
