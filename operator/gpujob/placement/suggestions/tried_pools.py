"""The candidates that a fix search starts from: one pool of each kind, for a model also joined pools that the decision leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.scoring.equal_pools import one_of_each_kind


def of_each_kind(
    candidates: Sequence[Candidate], demand: Demand, fleet: Fleet, catalog: Catalog
) -> tuple[Candidate, ...]:
    """One pool of each kind among the candidates, and among the joined pools if the model gives the number of GPUs.

    A joined pool that is no nearer for the gang of now may hold the smaller gang that a changed model needs.
    """
    every = one_of_each_kind(candidates)
    if not demand.sized_by_model or not fleet.joins:
        return every
    return every + one_of_each_kind(_left_out(candidates, demand, fleet, catalog))


def _left_out(candidates: Iterable[Candidate], demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Candidate]:
    """The candidates of joined pools that the decision does not show."""
    there = {candidate.pool.name for candidate in candidates}
    for name in sorted(fleet.joins - there):
        yield from decide(demand, fleet, catalog, only=name).candidates
