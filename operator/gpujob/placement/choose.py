"""choose(demand, fleet, catalog): the choice and the verdict of `decide`, without a word about the other candidates.

Looks at places (a pool and a gang) in the order of what they could be at best, asks the rules of each until one refuses,
and ends at the first place that fits and that no later one can beat. What a rule says of a pool's facts and an image
alone is kept with the pool. A place that may win is tried by the same code as in `decide`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import cast

from gpujob.catalog.records import Catalog
from gpujob.finding import Finding
from gpujob.fleet import quota
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement import capacity, image_rules, ranking, rules
from gpujob.placement.decide import MISCONFIGURING, choice_of, speed_of, try_pool
from gpujob.placement.decision import Choice
from gpujob.placement.demand import Demand
from gpujob.placement.images import Image, Refusals, images_for
from gpujob.placement.memory import memory_too_small
from gpujob.placement.ranking import Rank, Trial
from gpujob.placement.sizing import estimated
from gpujob.vocabulary import Objective, Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Pick:
    """What `decide` says first: the verdict and, where the job is placed, the choice."""

    verdict: Verdict
    choice: Choice | None = None


def choose(demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None) -> Pick:
    """The verdict and the choice of `decide(demand, fleet, catalog)`; `only`: as if all other pools refused the job."""
    demand = estimated(demand, fleet, catalog)
    if rules.job_problems(demand, fleet, catalog):
        return Pick(Verdict.MISCONFIGURED)
    refusals = Refusals(catalog)
    places = [
        _Place(wanted, pool)
        for wanted in (_Wanted(demand.only(gang), fleet, catalog, refusals) for gang in demand.gangs)
        for pool in fleet.pools
        if only in (None, pool.name)
        and wanted.gang.is_for(pool.name)
        and wanted.gang.accelerator in (None, pool.accelerator_id)
    ]
    best = _best(places, _objective(places, demand.objective), demand)
    if best is None:
        return Pick(_without_room(places))
    if demand.wait_seconds and _better_is_busy(best, places, demand.objective):
        return Pick(Verdict.WAITING)
    return Pick(Verdict.PLACED, choice_of(best, demand))


def _objective(places: Sequence[_Place], objective: Objective) -> Objective:
    """`ranking.objective_used` for the places with room: Cost, where one has a price and no known speed."""
    if objective is not Objective.VALUE:
        return objective
    return Objective.COST if any(place.fitting() for place in places if place.without_speed) else objective


def _best(places: Sequence[_Place], objective: Objective, demand: Demand) -> Trial | None:
    """The best trial that fits. A place waits under the best that it could be, and, once tried, under what it is."""
    waiting: list[tuple[Rank, int, Trial | None]] = []
    waiting += ((place.bound(objective), index, None) for index, place in enumerate(places))
    heapify(waiting)
    while waiting:
        bound, index, trial = heappop(waiting)
        if trial is not None:
            return trial
        trial = places[index].fitting()
        if trial is not None:
            rank = ranking.rank_of(trial.candidate, objective, demand)
            if rank == bound:
                return trial
            heappush(waiting, (rank, index, trial))
    return None


def _without_room(places: Sequence[_Place]) -> Verdict:
    if any(place.is_busy() for place in places):
        return Verdict.WAITING
    return Verdict.MISCONFIGURED if any(place.is_misconfigured() for place in places) else Verdict.IMPOSSIBLE


def _better_is_busy(best: Trial, places: Sequence[_Place], objective: Objective) -> bool:
    """Whether `ranking.worth_waiting_for` finds a candidate, asked of those places only that could be one."""
    candidate = best.candidate
    if objective is Objective.VALUE:
        unknown = candidate.price_per_hour is not None and not candidate.speed_of_job
        if unknown or any(place.may_become_free() for place in places if place.without_speed):
            objective = Objective.COST
    limit = ranking.wish(candidate, objective)
    return any(place.wish(objective) < limit and place.is_wished_for(objective, limit) for place in places)


class _Wanted:
    """A gang, and what is equal for all its places."""

    __slots__ = ("_allowed", "catalog", "demand", "fleet", "gang", "refusals", "rules", "work")

    def __init__(self, demand: Demand, fleet: Fleet, catalog: Catalog, refusals: Refusals) -> None:
        self.demand, self.gang, self.fleet, self.catalog, self.refusals = demand, demand.gang, fleet, catalog, refusals
        # One refusal is enough here, and memory refuses most.
        self.rules = sorted(rules.rules_of(demand), key=lambda rule: rule is not memory_too_small)
        self.work = (demand.work.kind.value, demand.work.precision.value)
        self._allowed: dict[str, tuple[Finding | None, bool]] = {}

    def over_quota(self, pool: Pool) -> tuple[Finding | None, bool]:
        """What the namespace's quotas say of the gang's GPUs alone, and whether they never allow them."""
        if self.demand.namespace not in self.fleet.quotas:
            return None, False
        if pool.counted_as not in self._allowed:
            gpus = {pool.counted_as: self.gang.gpus}
            self._allowed[pool.counted_as] = quota.refusal(self.fleet.quotas[self.demand.namespace], gpus)
        return self._allowed[pool.counted_as]

    def first_refusal(self, pool: Pool) -> Finding | None:
        """What refuses a pool whatever the image."""
        over, forever = self.over_quota(pool)
        if over is not None and forever:
            return over
        for rule in self.rules:
            found = rule(self.demand, pool, self.fleet)
            if found is not None:
                return found
        if not self.demand.requires:
            return None
        return next(image_rules.features_missing_on_device(self.demand, pool, self.catalog), None)


class _Place:
    """A pool for one gang: asked no more than is needed, and nothing twice."""

    __slots__ = (
        "_doubts",
        "_fit",
        "_mendable",
        "_pool",
        "_price",
        "_refusal",
        "_rooms",
        "_speed",
        "_tried",
        "_wanted",
    )

    def __init__(self, wanted: _Wanted, pool: Pool) -> None:
        self._wanted, self._pool = wanted, pool
        gpus = wanted.gang.gpus
        speed, self._doubts = _worth(wanted, pool)
        self._price = pool.price.per_gpu_hour * gpus if pool.price else None
        self._speed = None if speed is None else speed * gpus
        self._tried, self._mendable = False, False
        self._fit: Trial | None = None
        self._refusal: Finding | None = None
        self._rooms: Sequence[tuple[Image, bool]] = ()

    @property
    def without_speed(self) -> bool:
        """Whether nobody knows its value although it has a price."""
        return self._price is not None and not self._speed

    def wish(self, objective: Objective) -> tuple[int, ...]:
        """The least that `ranking.wish` can be of it."""
        return ranking.wish_of(self._price, self._speed, objective)

    def bound(self, objective: Objective) -> Rank:
        """The least that its rank can be: nodes that are there, no doubt but those about the pool."""
        wish = ranking.wish_of(self._price, self._speed, objective)
        other = ranking.is_late(self._wanted.demand, self._pool, self._wanted.gang)
        return (False, other, *wish, False, *ranking.ties_of(self._pool, self._wanted.gang, self._doubts))

    def fitting(self) -> Trial | None:
        """The trial of its best image that fits now."""
        if not self._tried:
            self._tried, self._refusal = True, self._wanted.first_refusal(self._pool)
            if self._refusal is not None:
                return None
            self._rooms = list(self._by_room())
            if self._wanted.over_quota(self._pool)[0] is not None:
                return None
            trials = (self._try(image) for image, room in self._rooms if room)
            self._fit = next((trial for trial in trials if trial.candidate.outcome is Outcome.FITS), None)
        return self._fit

    def is_busy(self) -> bool:
        """Whether it has a candidate that is busy."""
        self.fitting()
        return any(True for _ in self._busy())

    def may_become_free(self) -> bool:
        """Whether it has a busy candidate that does not wait in vain."""
        return any(trial is None or not ranking.in_vain(trial.candidate) for trial in self._busy())

    def is_wished_for(self, objective: Objective, limit: tuple[int, ...]) -> bool:
        """Whether it has a busy candidate, not in vain, that the objective prefers to a wish."""
        for trial in self._busy():
            if trial is None:
                if self.wish(objective) < limit:
                    return True
            elif not ranking.in_vain(trial.candidate) and ranking.wish(trial.candidate, objective) < limit:
                return True
        return False

    def is_misconfigured(self) -> bool:
        """Whether it has a candidate that somebody can mend; asked after `is_busy`."""
        if self._mendable or (self._refusal is not None and self._refusal.reason not in MISCONFIGURING):
            return self._mendable
        wanted, demand, pool = self._wanted, self._wanted.demand, self._pool
        if self._refusal is None and not wanted.refusals.may_say(MISCONFIGURING, demand, pool):
            return False
        images = []
        for image, found, _ in wanted.refusals.each(demand, pool, images_for(demand, pool, wanted.catalog)):
            if all(finding.reason in MISCONFIGURING for finding in found) and (found or self._refusal is not None):
                images.append(image)
        trials = try_pool(demand, pool, wanted.fleet, wanted.catalog, wanted.refusals, (), images)
        return any(trial.candidate.outcome is Outcome.MISCONFIGURED for trial in trials)

    def _busy(self) -> Iterator[Trial | None]:
        """Its busy candidates, one for each room; None where it is plain that pods have what there is."""
        self.fitting()
        demand, pool = self._wanted.demand, self._pool
        has_quota = demand.namespace in self._wanted.fleet.quotas
        for image, room in self._rooms:
            if not room and not has_quota and capacity.is_full(demand, pool, image.size):
                yield None
            elif room or not capacity.is_too_small(demand, pool, image.size):
                trial = self._try(image)
                self._mendable |= trial.candidate.outcome is Outcome.MISCONFIGURED
                if trial.candidate.outcome is Outcome.BUSY:
                    yield trial

    def _try(self, image: Image) -> Trial:
        wanted = self._wanted
        return next(try_pool(wanted.demand, self._pool, wanted.fleet, wanted.catalog, wanted.refusals, (), (image,)))

    def _by_room(self) -> Iterator[tuple[Image, bool]]:
        """The images that nothing refuses, best first, of those with equal room the first; and whether there is room."""
        demand, pool = self._wanted.demand, self._pool
        seen, untold = set(), capacity.untold_size(demand, pool)
        for image in self._wanted.refusals.acceptable(demand, pool):
            size = capacity.telling_size(image.size, untold)
            if size not in seen:
                seen.add(size)
                yield image, capacity.has_room(demand, pool, size)


def _worth(wanted: _Wanted, pool: Pool) -> tuple[int | None, int]:
    """Millionths of a B200 that a device is worth, and how many doubts there are about the pool; kept with it."""
    if wanted.demand.learned is not None:
        measured = speed_of(wanted.demand, pool, wanted.catalog)
        return None if measured is None else measured.millionths, ranking.telling(pool.doubts)
    kept = pool.answers.get(wanted.work)
    if kept is None or kept[0] is not wanted.catalog:
        speed = speed_of(wanted.demand, pool, wanted.catalog)
        worth = (None if speed is None else speed.millionths, ranking.telling(pool.doubts))
        kept = pool.answers[wanted.work] = (wanted.catalog, worth)
    return cast("tuple[int | None, int]", kept[1])
