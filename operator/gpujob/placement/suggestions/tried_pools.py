"""The joined pools that a decision leaves out, from which a fix search of a model starts again."""

from __future__ import annotations

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.decide import decide
from gpujob.placement.engine.pieces import Pieces
from gpujob.placement.scoring.candidate import Candidate, Decision


def left_out(decision: Decision, fleet: Fleet, catalog: Catalog) -> Pieces[tuple[Candidate, ...]]:
    """In pieces: the candidates of joined pools that a decision does not show, if the model gives the number of GPUs. Such a pool is
    no nearer for the gang of now, and may hold the smaller gang that a changed model needs.
    """
    there, found = {candidate.pool.name for candidate in decision.candidates}, list[Candidate]()
    for name in sorted(fleet.joins - there) if decision.demand.sized_by_model else ():
        yield
        found += decide(decision.demand, fleet, catalog, only=name).candidates
    return tuple(found)
