"""Lazy evaluation of one pool for one gang, for the best-first search of `choose`.

Filters that cannot reject are skipped, the rest run until one rejects. If a pool certainly has no room now, its images are not
evaluated. Results that depend only on a pool's facts and an image are cached with the pool. A candidate that may win is
evaluated by the same code as in `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity import node_fit
from gpujob.placement.capacity.node_fit import NodeFit
from gpujob.placement.engine.evaluate import GangEvaluator
from gpujob.placement.engine.shared_by_gangs import SharedByGangs
from gpujob.placement.filters.memory import needed, risk
from gpujob.placement.filters.selection import PoolClass
from gpujob.placement.images.image import Image
from gpujob.placement.scoring import score, waiting
from gpujob.placement.scoring.pool_order import PoolOrder, PoolScore, order_pools
from gpujob.placement.scoring.reservations import Reservation, nearest, waits_for_more
from gpujob.placement.scoring.score import Aim, PoolResult, Rank, Worth
from gpujob.placement.scoring.waiting import Danger
from gpujob.values.finding import Finding
from gpujob.values.quantity import most_within
from gpujob.values.vocabulary import FIXABLE_REASONS, Objective, Outcome


class GangSearch:
    """A gang, and what is equal for all pools."""

    __slots__ = (
        "_accepted",
        "_but",
        "_every",
        "_known",
        "_least",
        "_listed",
        "_pools",
        "_price_limit",
        "_refused",
        "_shared",
        "asked",
        "catalog",
        "demand",
        "fleet",
        "gang",
        "rejections",
    )

    def __init__(
        self, asked: GangEvaluator, every: Sequence[GangSearch], shared: SharedByGangs, only: str | None = None
    ) -> None:
        self.asked, self.demand, self.gang, self.fleet = asked, asked.demand, asked.demand.gang, asked.fleet
        self.catalog, self.rejections = asked.catalog, asked.rejections
        self._pools, self._least = self.gang.pools, needed(self.demand) or 0
        if only is not None:
            self._pools = frozenset({only}) & (self._pools if self._pools is not None else {only})
        self._every, self._shared = every, shared
        self._but = self.fleet.joins if self.gang.nodes == 1 else frozenset[str]()
        limit = self.demand.max_price
        # The highest price of one GPU in micro-dollars.
        self._price_limit = inf if limit is None else most_within(limit) // self.gang.gpus
        self._known: dict[int, LazyCandidate | None] = {}
        self._listed: dict[tuple[Objective, bool], Sequence[PoolScore]] = {}
        self._accepted, self._refused = shared.classes(self.gang)

    def worth(self, pool_score: PoolScore) -> Worth:
        """The value of the gang on existing nodes of a pool; a node that is started for it costs more."""
        return pool_score.worth(self.gang.gpus, scales=self.asked.scales)

    def candidates(
        self, aim: Aim, beats: Callable[[Worth], bool] | None = None, price_limit: int | None = None
    ) -> Iterator[LazyCandidate]:
        """The pools that are not infeasible, best first; only those that can beat the bound, within the aim's ceiling and, if ordered
        by price, at most `price_limit` micro-dollars."""
        gpus, scales = self.gang.gpus, self.asked.scales
        # Where the speed grows with the number of GPUs, the value of one is that of the gang.
        ceiling = aim.ceiling if scales else None
        for each in self._prefiltered(self._in_order(aim)):
            if price_limit is not None and each.price is not None and each.price * gpus > price_limit:
                if self.demand.trying is None:
                    return  # The order is that of the prices.
                continue
            if (each.at_best or 0) > ceiling if ceiling is not None else each.is_beyond(gpus, aim, scales=scales):
                continue
            if beats is not None and not beats(self.worth(each)):
                if aim.objective is not Objective.VALUE and self.demand.trying is None:
                    return  # Neither do the pools after it.
                continue
            if (candidate := self._candidate(each)) is not None:
                yield candidate

    def begin(self) -> None:
        """Makes each evaluated candidate wait again; its results are kept."""
        for candidate in filter(None, self._known.values()):
            candidate.is_next = True

    def clear(self) -> None:
        """Forgets all candidates, which refer to this search."""
        self._known.clear()

    def sizes(self, pool_score: PoolScore) -> Sequence[LazyCandidate]:
        """The candidates of one pool, one for each gang that holds the model there, the smallest first."""
        if not self.gang.has_rivals:
            return ()
        sized = (each for each in self._every if each.gang.is_for(pool_score.pool) and each._has_enough(pool_score))
        return tuple(filter(None, (each._candidate(pool_score) for each in sized)))

    def sizes_within(self, pool: Pool) -> Iterator[LazyCandidate]:
        """The candidates that hold the model on pools that have only nodes of this one."""
        if names := self.fleet.within.get(pool.name):
            for each in order_pools(self.demand, Aim(Objective.COST), self.fleet, self.catalog).only(names):
                yield from self.sizes(each)

    def without_speed(self) -> Iterator[LazyCandidate]:
        """The candidates with a price and an unknown value."""
        unknown: Iterable[PoolScore] = self._order(Aim(Objective.VALUE)).without_speed
        if self._pools is not None:
            unknown = (each for each in unknown if each.pool in self._pools)
        return filter(None, map(self._candidate, self._prefiltered(unknown)))

    def _order(self, aim: Aim) -> PoolOrder:
        return self._shared.order(self.demand, aim, self.fleet, self.catalog)

    def _in_order(self, aim: Aim) -> Sequence[PoolScore]:
        """The pools that the gang is for, best first, cached: a gang of a model has few of them, and a choice asks often."""
        if self._pools is None:
            return self._order(aim).ordered
        if (key := (aim.objective, aim.at_worst)) not in self._listed:
            self._listed[key] = self._order(aim).only(self._pools)
        return self._listed[key]

    def _prefiltered(self, found: Iterable[PoolScore]) -> Iterator[PoolScore]:
        """Those of the gang's pools that have the memory and the price; these numbers exclude most pools."""
        least, most, refused = self._least, self._price_limit, self._refused
        if self._but:
            found = (each for each in found if each.pool not in self._but)
        for each in found:
            memory, price = each.memory, each.price
            if (
                (memory is None or memory >= least)
                and (price is None or price <= most)
                and each.pool_class not in refused
            ):
                yield each

    def _has_enough(self, pool_score: PoolScore) -> bool:
        """Whether a pool has the memory and the price for the gang."""
        memory, price = pool_score.memory, pool_score.price
        return (memory is None or memory >= self._least) and (price is None or price <= self._price_limit)

    def _candidate(self, pool_score: PoolScore) -> LazyCandidate | None:
        """The candidate; None if the gang is infeasible."""
        index = pool_score.position
        if index not in self._known:
            pool = self.fleet.pools[index]
            refusal = self._first_refusal(pool, pool_score.pool_class)
            refused = refusal is not None and refusal.reason not in FIXABLE_REASONS
            self._known[index] = None if refused else LazyCandidate(self, pool, pool_score, refusal)
        return self._known[index]

    def _first_refusal(self, pool: Pool, pool_class: PoolClass) -> Finding | None:
        """What rejects a pool whatever the image. If it makes all equivalent pools infeasible, these are not evaluated."""
        if self.asked.allowance.is_limited:
            over, forever = self.asked.allowance.shortages_of_gpus(pool)
            if over and forever:
                return over[0]
        if pool_class in self._accepted:
            return None
        of_rules, shared = self.asked.asking.first_refusal(self.demand, pool, self.fleet)
        found = of_rules or next(iter(self.rejections.of_device(pool)), None)
        if shared and found is None:
            self._accepted.add(pool_class)
        elif shared and found is not None and found.reason not in FIXABLE_REASONS:
            self._refused.add(pool_class)
        return found


class LazyCandidate:
    """A pool for one gang, evaluated on demand and never twice."""

    __slots__ = (
        "_by_size",
        "_fit",
        "_fixable",
        "_pool",
        "_pool_score",
        "_refusal",
        "_search",
        "_tried",
        "is_next",
        "risk",
    )

    def __init__(self, search: GangSearch, pool: Pool, pool_score: PoolScore, refusal: Finding | None) -> None:
        self._search, self._pool, self._pool_score, self._refusal = search, pool, pool_score, refusal
        self.risk = risk(search.demand, search.gang, pool)
        self.is_next, self._tried, self._fixable = True, False, False
        self._fit: PoolResult | None = None
        self._by_size: Sequence[tuple[Image, NodeFit | None]] | None = None

    def floor(self, aim: Aim) -> Rank:
        """The lower bound of its rank, and the ranks of the next ones in their order: existing nodes, no warnings except those
        about the pool.
        """
        return self._least(aim, 0)

    def bound(self, aim: Aim) -> Rank:
        """The lower bound of its rank."""
        return self._least(aim, self.risk)

    def _least(self, aim: Aim, least_risk: int) -> Rank:
        gang, scales = self._search.gang, self._search.asked.scales
        other = score.is_late(self._search.demand, self._pool, gang)
        return (
            False,
            other,
            least_risk,
            False,
            *self._pool_score.objective_key(gang.gpus, aim, scales=scales),
            False,
            *self._pool_score.ties(self._pool, gang, self._pool_score.warnings + (least_risk > 0), scales=scales),
        )

    def fitting(self) -> PoolResult | None:
        """The result of its best image that fits now; None if a nearer gang that holds the model fits the pool."""
        found = self._fitting()
        if found is None or not self._search.gang.has_rivals:
            return found
        return None if any(other._fitting() for other in self._nearer()) else found

    def _nearer(self) -> Iterator[LazyCandidate]:
        """The pool's candidates of other gangs that hold the model and that `decide` shows first if the outcome is equal: those with
        less risk, then the smaller ones."""
        sizes = self._search.sizes(self._pool_score)
        mine = sizes.index(self)
        return (other for rank, other in enumerate(sizes) if (other.risk, rank) < (self.risk, mine))

    def may_have_room(self) -> bool:
        """Whether nothing rejects the pool, and enough devices are free or can be added and are within the quotas."""
        if self._refusal is not None or not node_fit.may_have_room(self._search.gang, self._pool):
            return False
        allowance = self._search.asked.allowance
        return not (allowance.is_limited and allowance.shortages_of_gpus(self._pool)[0])

    def _fitting(self) -> PoolResult | None:
        if not self._tried:
            self._tried = True
            rooms = self._rooms() if self.may_have_room() else ()
            trials = (self._try(image, room) for image, room in rooms if room is not None)
            self._fit = next((trial for trial in trials if trial.candidate.outcome is Outcome.FITS), None)
        return self._fit

    def is_busy(self) -> bool:
        """Whether it has an unavailable candidate."""
        return any(True for _ in self._busy())

    def may_become_free(self) -> bool:
        """Whether it has an unavailable candidate that can become free."""
        return self._counts() and any(trial is None or not waiting.in_vain(trial.candidate) for trial in self._busy())

    def _counts(self) -> bool:
        """Whether its unavailable candidates count: no gang that holds the model fits the pool, and no nearer one is unavailable."""
        if not self._search.gang.has_rivals:
            return True
        if any(other._fitting() for other in self._search.sizes(self._pool_score)):
            return False
        if any(other._fitting() for other in self._search.sizes_within(self._pool)):
            return False
        return not any(other.is_busy() for other in self._nearer())

    def is_wished_for(self, beats: Callable[[Danger, Worth], bool]) -> bool:
        """Whether it has an unavailable candidate that can become free and beats the bound."""
        for trial in self._busy() if self._counts() else ():
            if trial is None:
                if beats((False, self.risk), self._search.worth(self._pool_score)):
                    return True
            elif not waiting.in_vain(found := trial.candidate) and beats(waiting.danger_of(found), score.worth(found)):
                return True
        return False

    def nearest(self) -> Reservation | None:
        """The nodes that lack the fewest devices; None if more than devices is missing."""
        for image, trial in self._busy_images():
            if trial is None or not waits_for_more(trial.candidate.reasons):
                return nearest(self._search.demand, self._pool, image.size)
        return None

    def is_misconfigured(self) -> bool:
        """Whether it has a fixable candidate; evaluated after `is_busy`."""
        if self._fixable:
            return True
        search, pool = self._search, self._pool
        if self._refusal is None and not search.rejections.may_reject(FIXABLE_REASONS, pool):
            return False
        images = [
            alike
            for alike in search.rejections.alike(pool)
            if alike.mendable and (alike.rejections[0] or self._refusal is not None)
        ]
        trials = search.asked.some(pool, images)
        return any(trial.candidate.outcome is Outcome.MISCONFIGURED for trial in trials)

    def _busy(self) -> Iterator[PoolResult | None]:
        """Its unavailable candidates, one for each room; None if pods certainly use all that the pool has, and no node is in
        trouble.
        """
        return (trial for _, trial in self._busy_images())

    def _busy_images(self) -> Iterator[tuple[Image, PoolResult | None]]:
        demand, pool = self._search.demand, self._pool
        has_quota = demand.namespace in self._search.fleet.quotas
        for image, room in self._rooms():
            if room is None and not has_quota and not pool.troubled and node_fit.is_full(demand, pool, image.size):
                yield image, None
            elif room is not None or not node_fit.is_too_small(demand, pool, image.size):
                trial = self._try(image, room)
                self._fixable |= trial.candidate.outcome is Outcome.MISCONFIGURED
                if trial.candidate.outcome is Outcome.BUSY:
                    yield image, trial

    def _try(self, image: Image, room: NodeFit | None) -> PoolResult:
        alike = self._search.rejections.accepted(self._pool, image)
        return next(self._search.asked.some(self._pool, (alike,), room, rejections=()))

    def _rooms(self) -> Sequence[tuple[Image, NodeFit | None]]:
        """`_by_room`, cached; None if the pool is rejected whatever the image."""
        if self._by_size is None:
            self._by_size = () if self._refusal is not None else tuple(self._by_room())
        return self._by_size

    def _by_room(self) -> Iterator[tuple[Image, NodeFit | None]]:
        """The images that nothing rejects, best first, one for each equal room; and the room now."""
        demand, pool, rejections = self._search.demand, self._pool, self._search.rejections
        seen, one_size = set(), False
        uniform: int | None = None
        for image in rejections.acceptable(pool):
            if uniform is None:
                uniform = node_fit.uniform_size(demand, pool)
                one_size = rejections.suited(pool).largest <= uniform
            size = node_fit.relevant_size(image.size, uniform)
            if size not in seen:
                seen.add(size)
                yield image, node_fit.room_now(demand, pool, size)
            if one_size:
                return
