"""Announced maintenance of nodes against the time by which a job has ended."""

from __future__ import annotations

from datetime import datetime

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.demand import Demand


def undisturbed(demand: Demand, fleet: Fleet, ends: datetime) -> Demand:
    """The demand of a job that has ended at a time (UTC) at the latest: maintenance that begins then or later does not count.

    It holds the first such beginning in place of the time, so that jobs which the same maintenance disturbs are equal.
    """
    later = [begins for pool in fleet.pools for begins in pool.maintenance if begins >= ends.timestamp()]
    return demand.but(ends_before=min(later)) if later else demand
