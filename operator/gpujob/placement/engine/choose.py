"""choose(demand, fleet, catalog): the choice and the verdict of `decide`, without the other candidates.

Evaluates (pool, gang) candidates in the order of their lower bounds (`pool_order`) and ends at the first one that fits and that
no later one can beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.best_first import GangSearch, LazyCandidate
from gpujob.placement.engine.decide import choice_of, decide
from gpujob.placement.engine.evaluate import GangEvaluator
from gpujob.placement.engine.gang_sizing import estimated, has_more_gangs
from gpujob.placement.engine.shared_by_gangs import SharedByGangs
from gpujob.placement.filters.fixable import is_unread
from gpujob.placement.filters.job_validation import job_problems
from gpujob.placement.filters.selection import FilterSelection
from gpujob.placement.images.selection import selector_of
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring import score, waiting
from gpujob.placement.scoring.candidate import Choice
from gpujob.placement.scoring.reservations import Reservation, reservations_of_room
from gpujob.placement.scoring.score import Aim, PoolResult, Rank, Worth
from gpujob.values.vocabulary import Objective, Verdict


@dataclass(frozen=True, slots=True)
class Pick:
    """The head of `decide`: the verdict and, if the job is placed, the choice."""

    verdict: Verdict
    choice: Choice | None = None


def choose(demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None) -> Pick:
    """The verdict and the choice of `decide(demand, fleet, catalog)`. With `only`, all other pools count as infeasible."""
    sized = estimated(demand, fleet, catalog, choosing=True, only=only)
    if job_problems(sized, fleet, catalog):
        return Pick(Verdict.MISCONFIGURED)
    with _searches(sized, fleet, catalog, only) as asked:
        pick = _pick(asked, sized)
        if pick is None and demand.sized_by_model:
            pick = _of_more_gangs(demand, sized, asked, fleet, catalog, only)
        pick = pick or Pick(_without_room(asked, _objective(asked, demand.objective)))
    if pick.verdict is Verdict.IMPOSSIBLE and _fix_of_pools_helps(demand, fleet, catalog, only):
        return Pick(Verdict.MISCONFIGURED)
    return pick


def _of_more_gangs(
    demand: Demand, sized: Demand, asked: Sequence[GangSearch], fleet: Fleet, catalog: Catalog, only: str | None
) -> Pick | None:
    """The pick among the gangs that hold the model tightly too, where those that hold it easily have no room; None if there are no
    more of them.
    """
    tight = estimated(demand, fleet, catalog, tight=True, choosing=True, only=only)
    if not has_more_gangs(tight, sized):
        return None
    with _searches(tight, fleet, catalog, only) as every:
        pick = _pick(every, tight)
        if pick is not None:
            return pick
        verdict = _without_room(asked, _objective(asked, demand.objective))
        # More gangs make no job that waits infeasible.
        return Pick(
            verdict if verdict is Verdict.WAITING else _without_room(every, _objective(every, demand.objective))
        )


def _fix_of_pools_helps(demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None) -> bool:
    """Whether a GPUPool that cannot be read may take the job once it is fixed: its numbers of now exclude nothing, so that `decide`
    reads it.
    """
    unread = (pool.name for pool in fleet.pools if only in (None, pool.name) and is_unread(pool))
    return any(decide(demand, fleet, catalog, only=name).verdict is Verdict.MISCONFIGURED for name in unread)


def _pick(asked: Sequence[GangSearch], demand: Demand) -> Pick | None:
    """The verdict if a candidate has room; None if none has."""
    objective = _objective(asked, demand.objective)
    best = _best(asked, objective, demand)
    if best is None:
        return None
    if demand.wait_seconds and any(True for _ in _better_that_are_busy(best, asked, objective)):
        return Pick(Verdict.WAITING)
    return Pick(Verdict.PLACED, choice_of(best, demand))


def waits_for(demand: Demand, fleet: Fleet, catalog: Catalog) -> tuple[Reservation, ...]:
    """What to reserve for a demand that `choose` lets wait: the candidate that lacks only devices, and the fewest; ties by the
    objective.

    A job with room that waits for a better pool reserves both: the room first, then the better pool.
    """
    demand = estimated(demand, fleet, catalog, choosing=True)
    with _searches(demand, fleet, catalog) as asked:
        objective = _objective(asked, demand.objective)
        best = _best(asked, objective, demand) if demand.wait_seconds else None
        if best is None:
            candidates = [each for search in asked for each in search.candidates(_plain(objective))]
            return _nearest(candidates, objective)
        return (*reservations_of_room(best), *_nearest(_better_that_are_busy(best, asked, objective), objective))


def _nearest(candidates: Iterable[LazyCandidate], objective: Objective) -> tuple[Reservation, ...]:
    found = [
        (reservation.lacking, each.bound(_plain(objective)), reservation)
        for each in candidates
        if (reservation := each.nearest())
    ]
    return (min(found, key=lambda each: each[:2])[2],) if found else ()


@contextmanager
def _searches(
    demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None
) -> Iterator[Sequence[GangSearch]]:
    """The searches of a demand's gangs. They and their candidates refer to each other: what is cleared at the end is freed at once,
    and no garbage collection has to find it (3 ms each 70 choices).
    """
    asking, rejections = FilterSelection(demand), selector_of(demand, catalog)
    asked = (GangEvaluator(demand.only(gang), fleet, catalog, asking, rejections) for gang in demand.gangs)
    every: list[GangSearch] = []
    shared = SharedByGangs()
    every += (GangSearch(each, every, shared, only) for each in asked)
    try:
        yield every
    finally:
        for search in every:
            search.clear()
        every.clear()


def _objective(asked: Sequence[GangSearch], objective: Objective) -> Objective:
    """`score.objective_used` for the candidates with room: Cost if one has a price and no known speed."""
    if objective is not Objective.VALUE:
        return objective
    unknown = (each for search in asked for each in search.without_speed())
    return Objective.COST if any(each.fitting() for each in unknown) else objective


def _plain(objective: Objective) -> Aim:
    """The sort key of candidates that are not evaluated yet; under Value the one that finds the ceiling."""
    return Aim(objective, at_worst=objective is Objective.VALUE)


def _best(asked: Sequence[GangSearch], objective: Objective, demand: Demand) -> PoolResult | None:
    """The best result that fits. Under Value it first finds the result with the best worst case, then the cheapest of all results
    within the error of the speeds."""
    found = _first(asked, _plain(objective), demand)
    if found is None or objective is not Objective.VALUE:
        return found
    worth = score.worth(found.candidate)
    price, ceiling = worth.counted_price, worth.at_worst
    # A candidate that costs more than this one ranks after it.
    return _first(asked, Aim(objective, ceiling), demand, price if ceiling is not None else None)


def _first(asked: Sequence[GangSearch], aim: Aim, demand: Demand, price_limit: int | None = None) -> PoolResult | None:
    """The first result that fits, by best-first search. Heap key: the lower bound of a gang's remaining candidates, then the
    lower bound of one candidate, then its exact score.
    """
    for search in asked:
        search.begin()
    # Most of the pools before the first one that fits are full, and their bounds are not needed.
    streams = [filter(LazyCandidate.may_have_room, search.candidates(aim, price_limit=price_limit)) for search in asked]
    heap: list[tuple[Rank, int, LazyCandidate | PoolResult]] = []
    for number, stream in enumerate(streams):
        heap += ((each.floor(aim), number, each) for each in islice(stream, 1))
    heapify(heap)
    while heap:
        bound, number, found = heap[0]
        if isinstance(found, PoolResult):
            return found
        comes, found.is_next = found.is_next, False
        rank, trial = None, None
        if comes and found.risk:
            # Its own bound is above that of the pools after it.
            rank = found.bound(aim)
        elif (trial := found.fitting()) is not None:
            rank = score.rank_of(trial.candidate, aim, demand)
            if rank == bound:
                return trial
        following = next(streams[number], None) if comes else None
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (following.floor(aim), number, following))
        if rank is not None:
            heappush(heap, (rank, number, trial or found))
    return None


def _without_room(asked: Sequence[GangSearch], objective: Objective) -> Verdict:
    candidates = [each for search in asked for each in search.candidates(_plain(objective))]
    if any(each.is_busy() for each in candidates):
        return Verdict.WAITING
    return Verdict.MISCONFIGURED if any(each.is_misconfigured() for each in candidates) else Verdict.IMPOSSIBLE


def _better_that_are_busy(
    best: PoolResult, asked: Sequence[GangSearch], objective: Objective
) -> Iterator[LazyCandidate]:
    """The candidates that `waiting.worth_waiting_for` reads, from the pools that can have one."""
    candidate = best.candidate
    if objective is Objective.VALUE:
        unknown = candidate.price_per_hour is not None and not candidate.speed_of_job
        if unknown or any(each.may_become_free() for search in asked for each in search.without_speed()):
            objective = Objective.COST
    best_worth, judged = score.worth(candidate), objective

    danger = waiting.danger_of(candidate)

    def beats(worth: Worth) -> bool:
        return score.prefers(worth, best_worth, judged)

    # Candidates worse than the best one's value at worst are not preferred to it.
    aim = Aim(judged, best_worth.at_worst if judged is Objective.VALUE else None)
    better = (each for search in asked for each in search.candidates(aim, beats))
    yield from (each for each in better if each.is_wished_for(lambda its, worth: its == danger and beats(worth)))
    if any(danger):
        others = (each for search in asked for each in search.candidates(_plain(judged)))
        yield from (each for each in others if each.is_wished_for(lambda its, _: its < danger))
