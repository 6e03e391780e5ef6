"""The order of the candidates: the outcome, then the job's objective, then warnings, speed, memory and names.

An unknown price is never 0: it comes after every known one. Names break all ties, so that equal inputs give equal decisions on
every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from gpujob.catalog.devices.throughput import MILLION
from gpujob.catalog.images.versions import Release
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_fit import NodeFit
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Candidate, lacks_nodes
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Objective, Outcome, Reason

ORDER: Final = (Outcome.CHOSEN, Outcome.FITS, Outcome.BUSY, Outcome.MISCONFIGURED, Outcome.REJECTED)

_ORDER: Final = {outcome: index for index, outcome in enumerate(ORDER)}

SILENT_WARNINGS: Final = frozenset({
    Reason.RUNS_AS_ROOT, Reason.ID_OUT_OF_RANGE, Reason.BF16_EMULATED, Reason.OVERRIDE_NOT_SET,
    Reason.SHARDING_ASSUMED, Reason.FRAMEWORK_UNMEASURED, Reason.NO_COMMAND, Reason.NO_STEPS, Reason.LAUNCH_DIFFERS,
    Reason.DEVICE_TAINTED, Reason.KERNEL_OLD, Reason.SYSTEM_UNLISTED,
})  # fmt: skip
"""Warnings that are shown but do not lower a candidate's rank."""

OF_OWN_LISTS: Final = frozenset({Reason.VENDOR_EXCLUDED, Reason.ACCELERATOR_EXCLUDED, Reason.POOL_EXCLUDED})
"""Reasons that repeat fields of the job."""

MOST_REASONS: Final = 1000
"""More reasons than any candidate has."""

FINE: Final = MILLION**4
"""The parts of a micro-dollar in which values are counted. Prices in whole micro-dollars over speeds s and t in whole millionths
of the reference differ by at least 1/st if they differ: up to the speed of a million references that is one such part. So the
order of the pools for one GPU is the order for any number of GPUs.
"""

Rank = tuple[object, ...]

_SortKey = tuple[int, int, tuple[object, ...]]
"""Outcome, reasons and missing versions of its images: the sort key of the results of one pool and gang."""


class PoolResult(NamedTuple):
    """Candidates of one pool and gang that differ only in their image and its findings, best first, with what ranking and choosing
    need.
    """

    candidates: Sequence[Candidate]
    ranks: Sequence[int]
    """The ranks of their images."""
    room: NodeFit
    warnings: int
    """Warnings about their images."""
    lacks: Release = ()
    """The driver that their images need and the pool does not have."""
    apart: float = 0.0
    """How far the versions of their images are from those that the job asks for."""

    @property
    def candidate(self) -> Candidate:
        """The best of them."""
        return self.candidates[0]


def job_price(demand: Demand, pool: Pool, room: NodeFit) -> int | None:
    """Micro-dollars an hour for the whole job; None if no price is known.

    On existing nodes, or on nodes that are started for other jobs, the job pays for its GPUs. It pays for a whole node that is
    started for it alone.
    """
    if pool.price is None:
        return None
    started = [node for node in room.nodes if node.started_for_one]
    idle = sum(max(0, (node.total or node.healthy) - demand.gpus_per_node) for node in started)
    of_new = pool.growth.price if room.coming and pool.growth is not None else 0
    if not (idle or room.coming):
        return pool.price_of(demand.nodes, demand.gpus_per_node)
    return max(pool.price.per_gpu_hour, of_new) * (demand.gang.gpus + idle)


def ranked(pools: Iterable[Sequence[PoolResult]], demand: Demand) -> tuple[tuple[Candidate, ...], PoolResult | None]:
    """The candidates of all pools and gangs, best first, and the result of the first one.

    Sorted by outcome, then pools and gangs by their best image, then images. A job that does not wait takes what is free now, even
    if nodes that an autoscaler can add are better.
    """
    stands = [[(_in_pool(trial, demand), trial) for trial in place] for place in pools]
    objective = objective_used(demand.objective, [trial.candidate for place in stands for _, trial in place])
    bests = [min(place, key=_first)[1].candidate for place in stands]
    aim = aim_of(objective, [each for each in bests if each.outcome is Outcome.FITS], demand)
    places = sorted(zip(bests, stands, strict=True), key=lambda place: rank_of(place[0], aim, demand))
    equal: dict[tuple[object, ...], list[PoolResult]] = {}
    for index, (_, place) in enumerate(places):
        for (outcome, refused, image), trial in place:
            equal.setdefault((outcome, refused, index, image), []).append(trial)
    ordered = [equal[rank] for rank in sorted(equal)]
    best = min(ordered[0], key=lambda trial: trial.ranks[0]) if ordered else None
    return tuple(chain.from_iterable(map(_by_image, ordered))), best


def _first(stand: tuple[_SortKey, PoolResult]) -> tuple[_SortKey, int]:
    return stand[0], stand[1].ranks[0]


def _by_image(trials: Sequence[PoolResult]) -> Iterable[Candidate]:
    """The candidates of results with equal rank, by the ranks of their images."""
    if len(trials) == 1:
        return trials[0].candidates
    found = [each for trial in trials for each in zip(trial.ranks, trial.candidates, strict=True)]
    return (candidate for _, candidate in sorted(found, key=itemgetter(0)))


class Worth(NamedTuple):
    """The hourly cost of a gang in micro-dollars, its speed in millionths of the reference's, and that speed's error in per cent."""

    price: int | None
    speed: int | None
    error: int = 0
    planned: bool = False
    """Whether maintenance of a node is announced (`PENALTY`)."""

    @property
    def counted_price(self) -> int | None:
        """The price with the penalty."""
        return self.price * PENALTY[0] // PENALTY[1] if self.planned and self.price is not None else self.price

    @property
    def counted_speed(self) -> int:
        """The speed with the penalty, which counts where speed alone decides; 0 if unknown."""
        return (self.speed or 0) * PENALTY[1] // PENALTY[0] if self.planned else self.speed or 0

    @property
    def value(self) -> int | None:
        """The price of an hour of the reference's work, in parts of a micro-dollar (`FINE`); None if unknown."""
        price = self.counted_price if self.planned else self.price
        return price * FINE // self.speed if price is not None and self.speed else None

    @property
    def at_worst(self) -> int | None:
        """The value if the speed is too high by its error, the figure that users read after ±."""
        value = self.value
        return None if value is None else value * (100 + self.error) // 100

    @property
    def at_best(self) -> int | None:
        """The value if the speed is too low by its error."""
        value = self.value
        return None if value is None else value * 100 // (100 + self.error)


PENALTY: Final = (6, 5)
"""Nodes with announced maintenance count as a fifth more expensive: an interruption costs the work since the last checkpoint and a new
start, and no node is worth any price to avoid that. Under Speed they count as that much slower.
"""


class Aim(NamedTuple):
    """An objective and, under Value, the value up to which candidates are equal within the error of their speeds: the lowest value
    at worst of all candidates. Among these the lower price an hour wins.
    """

    objective: Objective
    ceiling: int | None = None
    at_worst: bool = False
    """Whether candidates are ordered by their value at worst, which finds the ceiling."""


def aim_of(objective: Objective, fitting: Sequence[Candidate], demand: Demand) -> Aim:
    """The aim for candidates, with those that fit now; if none fits, their value at worst."""
    worst = Aim(objective, at_worst=objective is Objective.VALUE)
    if not worst.at_worst or not fitting:
        return worst
    return Aim(objective, worth(min(fitting, key=lambda each: rank_of(each, worst, demand))).at_worst)


def rank_of(candidate: Candidate, aim: Aim, demand: Demand) -> Rank:
    """The sort key of the candidates of one outcome; see `ranked`. No price makes up for a model that may not run."""
    late = candidate.provision and not demand.wait_seconds
    other = is_late(demand, candidate.pool, candidate.gang)
    # A node that may be faulty comes last, except in a probe of this very pool.
    suspected = candidate.suspected and (demand.trying is None or other)
    return (suspected, other, candidate.risk, late, *objective_key(candidate, aim), *ties(candidate))


def is_late(demand: Demand, pool: Pool, gang: Gang) -> bool:
    """Whether another pool or gang is tried first."""
    trying = demand.trying
    return trying is not None and (pool.name, gang.shape) != (trying.pool, trying.shape)


def objective_used(objective: Objective, candidates: Sequence[Candidate]) -> Objective:
    """The objective that decides: Value if the speed of every relevant pool is known, else Cost.

    With a price and no known speed the value of a pool is unknown.
    """
    return Objective.COST if objective is Objective.VALUE and without_speed(candidates) else objective


def without_speed(candidates: Sequence[Candidate]) -> list[str]:
    """The accelerators with a price and an unknown value, of the pools with room, else of the unavailable ones, else of all."""
    with_room = [candidate for candidate in candidates if candidate.outcome in (Outcome.CHOSEN, Outcome.FITS)]
    busy = [candidate for candidate in candidates if candidate.outcome is Outcome.BUSY]
    asked = with_room or busy or candidates
    return sorted({candidate.pool.accelerator_id for candidate in asked if lacks_speed(candidate)})


def lacks_speed(candidate: Candidate) -> bool:
    return candidate.price_per_hour is not None and not candidate.speed_of_job


def worth(candidate: Candidate) -> Worth:
    """The price and the speed of a candidate's whole job."""
    speed = candidate.speed
    return Worth(candidate.price_per_hour, candidate.speed_of_job, speed.error if speed else 0, candidate.planned)


def objective_key(candidate: Candidate, aim: Aim) -> tuple[int, ...]:
    """The sort key of a candidate for an objective, less is better; comparable within one aim."""
    return objective_key_of(worth(candidate), aim)


def objective_key_of(worth: Worth, aim: Aim) -> tuple[int, ...]:
    """`objective_key` of a price and a speed of the whole job; never more for a lower price.

    Under Value the candidates that are equal within the error of their speeds come first, sorted by price an hour, then by speed;
    then the others by their value. Speed puts an unknown speed last, as Cost and Value do with an unknown price.
    """
    price, speed = worth.counted_price if worth.planned else worth.price, worth.speed
    cost = (price is None, price or 0)
    if aim.objective is Objective.COST:
        return cost
    if aim.objective is Objective.SPEED:
        return (not speed, -worth.counted_speed, *cost)
    if aim.at_worst:
        return (price is None, not speed, worth.at_worst or 0, *cost, -(speed or 0))
    beyond = is_beyond(worth, aim)
    return (price is None, not speed, beyond, (worth.value or 0) if beyond else 0, *cost, -(speed or 0))


def is_beyond(worth: Worth, aim: Aim) -> bool:
    """Whether a value's range, the printed error of its speed up and down, is above that of the best one."""
    return aim.ceiling is not None and (worth.at_best or 0) > aim.ceiling


def prefers(one: Worth, other: Worth, objective: Objective) -> bool:
    """Whether an objective prefers one to the other if there are only these two."""
    known = [each for each in (one.at_worst, other.at_worst) if each is not None]
    aim = Aim(objective, min(known, default=None) if objective is Objective.VALUE else None)
    return objective_key_of(one, aim) < objective_key_of(other, aim)


def ties(candidate: Candidate) -> Rank:
    """The tie breakers: existing nodes, fewer warnings, more speed, less memory, the pool's name, the smaller gang."""
    paid = candidate.speed_of_job if candidate.price_per_hour is not None else None
    return (candidate.provision, *ties_of(candidate.pool, candidate.gang, telling(candidate.warnings), paid))


def ties_of(pool: Pool, gang: Gang, warnings: int, speed: int | None) -> Rank:
    """`ties` of a pool and a gang on existing nodes, with this number of ranked warnings and this speed.

    The speed counts where the prices are known and equal. Of pools without a price the smaller one is likely to be the cheaper.
    """
    return (
        warnings,
        -(speed or 0),
        pool.memory is None,
        pool.memory or 0,
        pool.name,
        gang.gpus,
        gang.nodes,
        gang.entry or 0,
    )


BY_NAME: Final = 4
"""The elements of a rank from the pool's name on."""


def is_tied(one: Candidate, other: Candidate, objective: Objective, demand: Demand) -> bool:
    """Whether only the name puts one candidate before the other."""
    aim = Aim(objective)
    return rank_of(one, aim, demand)[:-BY_NAME] == rank_of(other, aim, demand)[:-BY_NAME]


def telling(warnings: Iterable[Finding]) -> int:
    """The number of warnings that lower a candidate's rank."""
    return sum([warning.reason not in SILENT_WARNINGS for warning in warnings])


def _in_pool(trial: PoolResult, demand: Demand) -> _SortKey:
    candidate = trial.candidate
    refused = len(candidate.reasons) if candidate.outcome is Outcome.REJECTED else 0
    if not OF_OWN_LISTS.isdisjoint([finding.reason for finding in candidate.reasons]):
        refused += MOST_REASONS  # The user knows whom the own lists exclude, and not what is wrong with the pools that they name.
    wanted = candidate.gang.accelerator
    if wanted is not None and not demand.may_mean((wanted,), candidate.pool):
        refused += MOST_REASONS  # For a pool that an entry of spec.shapes is for, that entry is reported.
    if lacks_nodes(candidate):
        refused += (
            1  # No autoscaler is known to add these nodes; a pool whose devices only have to become free is nearer.
        )
    if candidate.outcome is not Outcome.REJECTED:
        return (_ORDER[candidate.outcome], refused, (trial.warnings,))
    # Among images of other versions the nearest counts, among those that need a newer driver the smallest upgrade.
    return (_ORDER[candidate.outcome], refused, (trial.apart, not trial.lacks, trial.lacks, trial.warnings))
