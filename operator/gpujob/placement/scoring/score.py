"""Which of the candidates is best: the outcome, then the job's objective, then doubts, memory and names.

An unknown price is never 0: it comes after every known one. Everything ends in names, so that equal inputs give equal
decisions on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from gpujob.catalog.devices.throughput import MILLION
from gpujob.catalog.images.versions import Release
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_fit import NodeFit
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Candidate
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Objective, Outcome, Reason

ORDER: Final = (Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY, Outcome.MISCONFIGURED, Outcome.REJECTED)

_ORDER: Final = {outcome: index for index, outcome in enumerate(ORDER)}

SILENT_DOUBTS: Final = frozenset(
    {
        Reason.RUNS_AS_ROOT,
        Reason.ID_OUT_OF_RANGE,
        Reason.BF16_EMULATED,
        Reason.OVERRIDE_NOT_SET,
        Reason.SHARDING_ASSUMED,
        Reason.FRAMEWORK_UNMEASURED,
        Reason.NO_COMMAND,
        Reason.DEVICE_TAINTED,
    }
)
"""Doubts that are shown but do not rank a candidate lower."""

MOST_REASONS: Final = 1000
"""More reasons than any candidate has."""

FINE: Final = MILLION**4
"""The parts of a micro-dollar in which values are counted. Prices in whole micro-dollars over speeds s and t in whole
millionths of the reference differ by 1/st at least if at all: up to the speed of a million of it that is one such part. So the
order of the pools for one GPU is that for any number of them."""

_IN_VAIN: Final = frozenset({Reason.MAY_GROW, Reason.NODES_DID_NOT_COME, Reason.UNSCHEDULABLE})

Rank = tuple[object, ...]

_Standing = tuple[int, int, tuple[object, ...]]
"""The outcome, reasons against it and what its images lack: what orders the trials of one place."""


class PoolResult(NamedTuple):
    """Candidates of one pool and gang that differ in nothing but their image and the words against it, best first, with
    what is needed to rank and to choose them."""

    candidates: Sequence[Candidate]
    ranks: Sequence[int]
    """The ranks of their images."""
    room: NodeFit
    doubts: int
    """Doubts about their images."""
    lacks: Release = ()
    """The driver that their images need and the pool does not have."""

    @property
    def candidate(self) -> Candidate:
        """The best of them."""
        return self.candidates[0]


def job_price(demand: Demand, pool: Pool, room: NodeFit) -> int | None:
    """Micro-dollars an hour for the whole job; None when no price is known.

    On nodes that run anyway, or that are started for other jobs, the job pays for its GPUs. A node that is started for it
    alone is paid whole.
    """
    if pool.price is None:
        return None
    started = [node for node in room.nodes if node.started_for_one]
    idle = sum(max(0, (node.total or node.healthy) - demand.gpus_per_node) for node in started)
    return pool.price.per_gpu_hour * (demand.gang.gpus + idle)


def ranked(places: Iterable[Sequence[PoolResult]], demand: Demand) -> tuple[tuple[Candidate, ...], PoolResult | None]:
    """The candidates of all pools and gangs, best first, and the trial of the first one.

    The order is that of the outcomes, then of pools and gangs by their best image, then of images. A job that does not wait
    takes what is free now, also where nodes that an autoscaler can add would be better.
    """
    stands = [[(_in_pool(trial, demand), trial) for trial in place] for place in places]
    objective = objective_used(demand.objective, [trial.candidate for place in stands for _, trial in place])
    bests = [min(place, key=_first)[1].candidate for place in stands]
    aim = aim_of(objective, [each for each in bests if each.outcome is Outcome.FITS], demand)
    stands.sort(key=lambda place: rank_of(min(place, key=_first)[1].candidate, aim, demand))
    equal: dict[tuple[object, ...], list[PoolResult]] = {}
    for index, place in enumerate(stands):
        for (outcome, refused, image), trial in place:
            equal.setdefault((outcome, refused, index, image), []).append(trial)
    ordered = [equal[standing] for standing in sorted(equal)]
    best = min(ordered[0], key=lambda trial: trial.ranks[0]) if ordered else None
    return tuple(candidate for trials in ordered for candidate in _by_image(trials)), best


def _first(stand: tuple[_Standing, PoolResult]) -> tuple[_Standing, int]:
    return stand[0], stand[1].ranks[0]


def _by_image(trials: Sequence[PoolResult]) -> Iterable[Candidate]:
    """The candidates of trials that stand equal, by the ranks of their images."""
    if len(trials) == 1:
        return trials[0].candidates
    found = [each for trial in trials for each in zip(trial.ranks, trial.candidates, strict=True)]
    return (candidate for _, candidate in sorted(found, key=itemgetter(0)))


class Worth(NamedTuple):
    """What a gang costs an hour in micro-dollars, its speed in millionths of the reference's, and that speed's error in per cent."""

    price: int | None
    speed: int | None
    error: int = 0

    @property
    def value(self) -> int | None:
        """The price of what the reference does in an hour, in parts of a micro-dollar (`FINE`); None where it is not known."""
        return self.price * FINE // self.speed if self.price is not None and self.speed else None

    @property
    def at_worst(self) -> int | None:
        """The value if the speed is too high by its error; see `_BAND`."""
        value = self.value
        return None if value is None else value * (MILLION + self.error * _BAND) // MILLION

    @property
    def at_best(self) -> int | None:
        """The value if the speed is too low by its error."""
        value = self.value
        return None if value is None else value * MILLION // (MILLION + self.error * _BAND)


_BAND: Final = 7071
"""Millionths of a value for a per cent of a speed's error: a root of a half of it. The errors of two speeds then add up to no more
than the error of their ratio, and to just that where they are equal."""


class Aim(NamedTuple):
    """An objective, and under Value the value up to which candidates are equal within the error of their speeds: the least
    that a candidate has at worst. Of these the cheaper hour wins."""

    objective: Objective
    ceiling: int | None = None
    at_worst: bool = False
    """Whether candidates are ordered by their value at worst, which finds the ceiling."""


def aim_of(objective: Objective, fitting: Sequence[Candidate], demand: Demand) -> Aim:
    """What orders candidates of which these fit now; where none does, their value at worst."""
    worst = Aim(objective, at_worst=objective is Objective.VALUE)
    if not worst.at_worst or not fitting:
        return worst
    return Aim(objective, worth(min(fitting, key=lambda each: rank_of(each, worst, demand))).at_worst)


def rank_of(candidate: Candidate, aim: Aim, demand: Demand) -> Rank:
    """What orders the candidates of one outcome; see `ranked`."""
    late = candidate.provision and not demand.wait_seconds
    other = is_late(demand, candidate.pool, candidate.gang)
    # A node that may be faulty comes after every other, but where a trial is about this very pool.
    suspected = candidate.suspected and (demand.trying is None or other)
    return (suspected, late, other, *wish(candidate, aim), *ties(candidate))


def is_late(demand: Demand, pool: Pool, gang: Gang) -> bool:
    """Whether another pool or shape is tried first."""
    trying = demand.trying
    return trying is not None and (pool.name, gang.shape) != (trying.pool, trying.shape)


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
    return sorted({candidate.pool.accelerator_id for candidate in asked if _lacks_speed(candidate)})


def _lacks_speed(candidate: Candidate) -> bool:
    return candidate.price_per_hour is not None and not candidate.speed_of_job


def worth(candidate: Candidate) -> Worth:
    """The price and the speed of a candidate's whole job."""
    speed = candidate.speed
    return Worth(candidate.price_per_hour, candidate.speed_of_job, speed.error if speed else 0)


def wish(candidate: Candidate, aim: Aim) -> tuple[int, ...]:
    """What an objective makes of a candidate, less is better: numbers that compare with those of the same aim."""
    return wish_of(worth(candidate), aim)


def wish_of(worth: Worth, aim: Aim) -> tuple[int, ...]:
    """`wish` of a price and a speed of the whole job; never more for a lower price.

    Under Value those that are equal within the error of their speeds come first, the cheaper hour before the dearer one and of
    those that cost the same the faster one; then the others by their value. Speed puts an unknown speed last, as Cost and
    Value do an unknown price.
    """
    price, speed = worth.price, worth.speed
    cost = (price is None, price or 0)
    if aim.objective is Objective.COST:
        return cost
    if aim.objective is Objective.SPEED:
        return (not speed, -(speed or 0), *cost)
    if aim.at_worst:
        return (price is None, not speed, worth.at_worst or 0, *cost, -(speed or 0))
    beyond = is_beyond(worth, aim)
    return (price is None, not speed, beyond, (worth.value or 0) if beyond else 0, *cost, -(speed or 0))


def is_beyond(worth: Worth, aim: Aim) -> bool:
    """Whether a value is worse than the best one by more than the error of the speeds."""
    return aim.ceiling is not None and (worth.at_best or 0) > aim.ceiling


def prefers(one: Worth, other: Worth, objective: Objective) -> bool:
    """Whether an objective prefers one to the other where there are only these two."""
    known = [each for each in (one.at_worst, other.at_worst) if each is not None]
    aim = Aim(objective, min(known, default=None) if objective is Objective.VALUE else None)
    return wish_of(one, aim) < wish_of(other, aim)


def worth_waiting_for(best: Candidate, candidates: Sequence[Candidate], demand: Demand) -> Candidate | None:
    """The best busy candidate that the objective prefers to the best one with room; None when there is none.

    A pool that may only grow, or whose nodes did not come, is not waited for: nobody says that its GPUs become free.
    """
    busy, objective = (
        [each for each in candidates if each.outcome is Outcome.BUSY and not in_vain(each)],
        demand.objective,
    )
    if objective is Objective.VALUE and any(map(_lacks_speed, (best, *busy))):
        objective = Objective.COST
    better = [each for each in busy if prefers(worth(each), worth(best), objective)]
    aim = aim_of(objective, better, demand)
    return min(better, key=lambda each: (*wish(each, aim), *ties(each)), default=None)


def in_vain(candidate: Candidate) -> bool:
    """Whether nobody says that what a busy candidate waits for ever becomes free."""
    return any(finding.reason in _IN_VAIN for finding in candidate.reasons)


def lacks_nodes(candidate: Candidate) -> bool:
    """Whether a busy candidate waits for nodes that nobody promised."""
    return any(finding.reason is Reason.MAY_GROW for finding in candidate.reasons)


def ties(candidate: Candidate) -> Rank:
    """What decides between equals: nodes that are there, fewer doubts, less memory, the pool's name, the smaller gang."""
    return (candidate.provision, *ties_of(candidate.pool, candidate.gang, telling(candidate.doubts)))


def ties_of(pool: Pool, gang: Gang, doubts: int) -> Rank:
    """`ties` of a pool and a gang with so many telling doubts, all nodes being there."""
    return (doubts, pool.memory is None, pool.memory or 0, pool.name, gang.gpus, gang.nodes, gang.entry or 0)


def telling(doubts: Iterable[Finding]) -> int:
    """How many doubts rank a candidate lower."""
    return sum(doubt.reason not in SILENT_DOUBTS for doubt in doubts)


def _in_pool(trial: PoolResult, demand: Demand) -> _Standing:
    candidate = trial.candidate
    refused = len(candidate.reasons) if candidate.outcome is Outcome.REJECTED else 0
    if not demand.is_meant_for(candidate.gang, (candidate.pool.accelerator_id, *candidate.pool.models)):
        refused += MOST_REASONS  # Of a pool that an entry of spec.shapes is for, that entry is what is to be told.
    if lacks_nodes(candidate):
        refused += 1  # Nobody promised that more nodes come; what only has to become free is nearer.
    if candidate.outcome is not Outcome.REJECTED:
        return (_ORDER[candidate.outcome], refused, (trial.doubts,))
    # Of images that lack a newer driver the one that lacks least is the nearest: no host is to be upgraded too far.
    return (_ORDER[candidate.outcome], refused, (not trial.lacks, trial.lacks, trial.doubts))
