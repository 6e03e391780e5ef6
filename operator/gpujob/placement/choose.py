"""choose(demand, fleet, catalog): the choice and the verdict of `decide`, without a word about the other candidates.

Looks at places (a pool and a gang) in the order of what they could be at best (`standing`), asks the rules of each until
one refuses, and ends at the first place that fits and that no later one can beat. What a rule says of a pool's facts and
an image alone is kept with the pool. A place that may win is tried by the same code as in `decide`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

from gpujob.catalog.records import Catalog
from gpujob.finding import Finding
from gpujob.fleet import quota
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement import capacity, image_rules, ranking, rules
from gpujob.placement.decide import MISCONFIGURING, choice_of, try_pool
from gpujob.placement.decision import Choice
from gpujob.placement.demand import Demand
from gpujob.placement.images import Image, Refusals, images_for, largest_size
from gpujob.placement.memory import lacks, memory_too_small, needed
from gpujob.placement.ranking import Rank, Trial
from gpujob.placement.sizing import estimated
from gpujob.placement.standing import Standing, standings
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
    asked = [_Wanted(demand.only(gang), fleet, catalog, refusals, only) for gang in demand.gangs]
    objective = _objective(asked, demand.objective)
    best = _best(asked, objective, demand)
    if best is None:
        return Pick(_without_room(asked, objective))
    if demand.wait_seconds and _better_is_busy(best, asked, objective):
        return Pick(Verdict.WAITING)
    return Pick(Verdict.PLACED, choice_of(best, demand))


def _objective(asked: Sequence[_Wanted], objective: Objective) -> Objective:
    """`ranking.objective_used` for the places with room: Cost, where one has a price and no known speed."""
    if objective is not Objective.VALUE:
        return objective
    unknown = (place for wanted in asked for place in wanted.without_speed())
    return Objective.COST if any(place.fitting() for place in unknown) else objective


def _best(asked: Sequence[_Wanted], objective: Objective, demand: Demand) -> Trial | None:
    """The best trial that fits. Of each gang the next place waits under the best that it could be; a place that was tried
    waits under what it is."""
    streams = [wanted.places(objective) for wanted in asked]
    waiting: list[tuple[Rank, int, _Place | Trial]] = []
    for number, stream in enumerate(streams):
        waiting += ((place.bound(objective), number, place) for place in islice(stream, 1))
    heapify(waiting)
    while waiting:
        bound, number, found = waiting[0]
        if isinstance(found, Trial):
            return found
        following = next(streams[number], None)
        if following is None:
            heappop(waiting)
        else:
            heapreplace(waiting, (following.bound(objective), number, following))
        trial = found.fitting()
        if trial is not None:
            rank = ranking.rank_of(trial.candidate, objective, demand)
            if rank == bound:
                return trial
            heappush(waiting, (rank, number, trial))
    return None


def _without_room(asked: Sequence[_Wanted], objective: Objective) -> Verdict:
    places = [place for wanted in asked for place in wanted.places(objective)]
    if any(place.is_busy() for place in places):
        return Verdict.WAITING
    return Verdict.MISCONFIGURED if any(place.is_misconfigured() for place in places) else Verdict.IMPOSSIBLE


def _better_is_busy(best: Trial, asked: Sequence[_Wanted], objective: Objective) -> bool:
    """Whether `ranking.worth_waiting_for` finds a candidate, asked of those places only that could be one."""
    candidate = best.candidate
    if objective is Objective.VALUE:
        unknown = candidate.price_per_hour is not None and not candidate.speed_of_job
        if unknown or any(place.may_become_free() for wanted in asked for place in wanted.without_speed()):
            objective = Objective.COST
    limit = ranking.wish(candidate, objective)
    better = (place for wanted in asked for place in wanted.places(objective, limit))
    return any(place.is_wished_for(objective, limit) for place in better)


class _Wanted:
    """A gang, and what is equal for all its places."""

    __slots__ = (
        "_allowed",
        "_known",
        "_least",
        "_only",
        "_pools",
        "catalog",
        "demand",
        "fleet",
        "gang",
        "refusals",
        "rules",
    )

    def __init__(
        self, demand: Demand, fleet: Fleet, catalog: Catalog, refusals: Refusals, only: str | None = None
    ) -> None:
        self.demand, self.gang, self.fleet, self.catalog, self.refusals = demand, demand.gang, fleet, catalog, refusals
        self._only, self._pools, self._least = only, demand.gang.pools, needed(demand)
        self.rules = [rule for rule in rules.rules_of(demand) if rule is not memory_too_small]
        self._allowed: dict[str, tuple[Finding | None, bool]] = {}
        self._known: dict[int, _Place | None] = {}

    def places(self, objective: Objective, limit: tuple[int, ...] | None = None) -> Iterator[_Place]:
        """The pools that are not refused for good, best first; those only that may be wished for more than a limit."""
        for each in standings(self.demand, objective, self.fleet, self.catalog).ordered:
            if not self._is_for(each):
                continue
            if limit is not None and each.wish(self.gang.gpus, objective) >= limit:
                if self.demand.trying is None:
                    return
                continue
            place = self._place(each)
            if place is not None:
                yield place

    def without_speed(self) -> Iterator[_Place]:
        """Of these places those of which nobody knows the value although they have a price."""
        unknown = standings(self.demand, Objective.VALUE, self.fleet, self.catalog).without_speed
        return filter(None, (self._place(each) for each in unknown if self._is_for(each)))

    def _is_for(self, standing: Standing) -> bool:
        return (self._pools is None or standing.pool in self._pools) and self._only in (None, standing.pool)

    def _place(self, standing: Standing) -> _Place | None:
        """The place; None where the gang is for other pools or is refused for good."""
        index = standing.index
        if index not in self._known:
            self._known[index] = self._asked(standing, self.fleet.pools[index])
        return self._known[index]

    def _asked(self, standing: Standing, pool: Pool) -> _Place | None:
        if lacks(pool, self._least):
            return None
        refusal = self.first_refusal(pool)
        if refusal is not None and refusal.reason not in MISCONFIGURING:
            return None
        return _Place(self, pool, standing, refusal)

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

    __slots__ = ("_fit", "_mendable", "_pool", "_refusal", "_rooms", "_standing", "_tried", "_wanted")

    def __init__(self, wanted: _Wanted, pool: Pool, standing: Standing, refusal: Finding | None) -> None:
        self._wanted, self._pool, self._standing = wanted, pool, standing
        self._refusal = refusal
        self._tried, self._mendable = False, False
        self._fit: Trial | None = None
        self._rooms: Sequence[tuple[Image, bool]] = ()

    def wish(self, objective: Objective) -> tuple[int, ...]:
        """The least that `ranking.wish` can be of it."""
        return self._standing.wish(self._wanted.gang.gpus, objective)

    def bound(self, objective: Objective) -> Rank:
        """The least that its rank can be: nodes that are there, no doubt but those about the pool."""
        gang = self._wanted.gang
        other = ranking.is_late(self._wanted.demand, self._pool, gang)
        ties = ranking.ties_of(self._pool, gang, self._standing.doubts)
        return (False, other, *self.wish(objective), False, *ties)

    def fitting(self) -> Trial | None:
        """The trial of its best image that fits now."""
        if not self._tried:
            self._tried = True
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
        if self._mendable:
            return True
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
        one_size = largest_size(demand, pool, self._wanted.catalog) <= untold
        for image in self._wanted.refusals.acceptable(demand, pool):
            size = capacity.telling_size(image.size, untold)
            if size not in seen:
                seen.add(size)
                yield image, capacity.has_room(demand, pool, size)
            if one_size:
                return
