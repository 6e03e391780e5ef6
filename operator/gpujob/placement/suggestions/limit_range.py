"""Repairs for a LimitRange that rejects the pods: the nearest amount that it allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.policy.limit_range import OF_CLAIMS, Bound
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.capacity.pod_resources import ATTRIBUTES
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, proposed
from gpujob.placement.suggestions.requests import SIZES, first_that_divides, smaller
from gpujob.placement.suggestions.smaller_gang import MOST_GPUS
from gpujob.placement.suggestions.volume_claims import claims_within


def within_limits(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """What LimitRanges allow of each thing that they bound."""
    gang = candidate.gang
    for bound in demand.limits.bounds if demand.limits else ():
        attribute = ATTRIBUTES.get(bound.resource)
        if bound.kind == OF_CLAIMS:
            if bound.resource == "storage":
                yield from claims_within(demand, bound)
        elif attribute is not None:
            yield from _other_amount(demand, attribute, bound)
        elif bound.resource == candidate.pool.resource and not demand.sized_by_model:
            nearest = min(max(gang.gpus_per_node, bound.least), bound.most)
            fewer, more = range(nearest, max(bound.least, 1) - 1, -1), range(nearest, min(bound.most, MOST_GPUS) + 1)
            counts = fewer if nearest < gang.gpus_per_node else more
            count = first_that_divides(demand, gang, counts) or nearest
            if 0 < count != gang.gpus_per_node:
                changed = demand.changed(gang, replace(gang, gpus_per_node=count))
                distance = abs(count / gang.gpus_per_node - 1)
                yield proposed(distance, gang.field("gpusPerNode"), gang.gpus_per_node, count, changed)


def _other_amount(demand: Demand, attribute: str, bound: Bound) -> Iterator[Proposal]:
    """The nearest amount that the bound allows; shared memory first, because it counts as memory."""
    shared = demand.shared_memory or 0
    if attribute == "memory" and shared > bound.most > 0:
        yield smaller(demand, "shared_memory", bound.most)
        return
    asked: int | None = getattr(demand, attribute)
    if not asked:
        return
    if asked > bound.most > 0:
        yield smaller(demand, attribute, SIZES[attribute].most(asked, bound.most))
    elif asked < bound.least:
        yield smaller(demand, attribute, bound.least, costs.UP_TO_A_MINIMUM)
