"""What a demand found on each pool, kept for equal demands on later snapshots: a burst of equal jobs changes one pool at a time."""

from __future__ import annotations

from collections.abc import Sequence

from gpujob.fleet.pools.pool import Pool
from gpujob.placement.engine.evaluate import GangEvaluator
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.score import PoolResult


class KnownResults:
    """The results of one demand by gang and pool. Those of a pool hold while it is the same object, which the caller must drop with
    the facts of the fleet that lie outside of its pools.
    """

    __slots__ = ("_trials",)

    def __init__(self) -> None:
        self._trials: dict[tuple[Gang, str], tuple[Pool, Sequence[PoolResult]]] = {}

    def __bool__(self) -> bool:
        return bool(self._trials)

    def trials(self, asked: GangEvaluator, pool: Pool) -> Sequence[PoolResult]:
        """Every image on one pool, for a demand that has no problem of its own."""
        if pool.ahead:
            # Its jobs come and go.
            return asked.trials(pool)
        key = asked.demand.gang, pool.name
        held = self._trials.get(key)
        if held is None or held[0] is not pool:
            held = self._trials[key] = pool, asked.trials(pool)
        return held[1]
