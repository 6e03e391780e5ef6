"""decide(demand, fleet, catalog): an outcome for every pool × runtime × shape, the choice and the verdict.

Deterministic to the last tie: equal inputs give equal decisions on every machine, since ranking ends in names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.autoscaling import OF_KARPENTER
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_fit import NodeFit
from gpujob.placement.capacity.pod_resources import shared_memory
from gpujob.placement.engine.evaluate import GangEvaluator
from gpujob.placement.engine.gang_sizing import estimated, has_more_gangs
from gpujob.placement.engine.known_results import KnownResults
from gpujob.placement.engine.pieces import Pieces, finished
from gpujob.placement.filters.job_validation import job_problems
from gpujob.placement.filters.selection import FilterSelection
from gpujob.placement.images.selection import selector_of
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring import score, waiting
from gpujob.placement.scoring.candidate import Candidate, Choice, Decision
from gpujob.placement.scoring.equal_pools import without_needless
from gpujob.placement.scoring.score import PoolResult
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Outcome, Verdict


def decide(
    demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None, known: KnownResults | None = None
) -> Decision:
    """The decision for one demand. `fix` stays empty: `search.with_fix` adds it, because only impossible jobs need it.

    With `only`, the candidates of this pool alone. `known`: the results of this demand, whose gangs are not sized by a model.
    """
    return finished(decide_in_pieces(demand, fleet, catalog, only, known))


def decide_in_pieces(
    demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None = None, known: KnownResults | None = None
) -> Pieces[Decision]:
    """The same in pieces of a few pools for one gang."""
    sized = estimated(demand, fleet, catalog, only=only)
    decision = yield from _decided(sized, fleet, catalog, only, known)
    if not demand.sized_by_model or any(each.outcome in _WITH_ROOM for each in decision.candidates):
        return decision
    tight = estimated(demand, fleet, catalog, tight=True, only=only)
    if not has_more_gangs(tight, sized):
        return decision
    return (yield from _decided(tight, fleet, catalog, only))


POOLS_OF_A_PIECE: Final = 25
"""The pools that one piece of a decision evaluates for a gang: 2 to 10 ms."""


def _decided(
    demand: Demand, fleet: Fleet, catalog: Catalog, only: str | None, known: KnownResults | None = None
) -> Pieces[Decision]:
    problems, asking, rejections = (
        job_problems(demand, fleet, catalog),
        FilterSelection(demand),
        selector_of(demand, catalog),
    )
    trials_of = GangEvaluator.trials if known is None or problems else known.trials
    results: list[Sequence[PoolResult]] = []
    sized: dict[str, list[Sequence[PoolResult]]] = {}
    for asked in (
        GangEvaluator(demand.only(gang), fleet, catalog, asking, rejections, problems) for gang in demand.gangs
    ):
        gang = asked.demand.gang
        for number, pool in enumerate(fleet.pools):
            if number % POOLS_OF_A_PIECE == 0:
                yield
            if only in (None, pool.name) and gang.is_for(pool.name) and (gang.nodes > 1 or not pool.joins):
                (sized.setdefault(pool.name, []) if gang.has_rivals else results).append(trials_of(asked, pool))
    yield
    places = {name: _best_size(gangs) for name, gangs in sized.items()}
    fitting = {name for name, trials in places.items() if fleet.within and min(map(_outcome, trials)) <= _FITS}
    # As of one pool: a larger gang that waits counts for nothing where one that holds the model fits on some of the nodes.
    results += (
        trials for name, trials in places.items() if name in fitting or fitting.isdisjoint(fleet.within.get(name, ()))
    )
    every, best = score.ranked(results, demand)
    candidates = every if not fleet.joins else without_needless(every)
    if best is None or best.candidate.outcome is not Outcome.FITS:
        return Decision(demand, _verdict(every, problems), candidates, problems=problems)
    better = waiting.worth_waiting_for(best.candidate, every, demand) if demand.wait_seconds else None
    if better is not None:
        others = (candidate for candidate in candidates if candidate is not better)
        return Decision(demand, Verdict.WAITING, (better, *others))
    choice = choice_of(best, demand)
    return Decision(demand, Verdict.PLACED, (choice.candidate, *candidates[1:]), choice)


def _best_size(gangs: Sequence[Sequence[PoolResult]]) -> Sequence[PoolResult]:
    """One gang for each pool, among those that hold the model: the best outcome, then the least risk, then the smallest."""
    if len(gangs) == 1:
        return gangs[0]
    return min(gangs, key=lambda trials: (min(map(_outcome, trials)), trials[0].candidate.risk))


_FITS: Final = score.ORDER.index(Outcome.FITS)


def _outcome(trial: PoolResult) -> int:
    return score.ORDER.index(trial.candidate.outcome)


def choice_of(best: PoolResult, demand: Demand) -> Choice:
    """The choice of a result that fits."""
    chosen = best.candidate._replace(outcome=Outcome.CHOSEN)
    return Choice(
        candidate=chosen,
        # A pod that waits for a new node can go to any node of the pool, and so can the other pods of its gang.
        nodes=tuple("" if best.room.coming else node.name for node in best.room.nodes),
        needs=best.room.needs,
        shared_memory=shared_memory(demand, best.room.needs),
        ids=demand.ids,
        tolerations=_tolerations(best.room, chosen.pool),
        not_on=_not_on(demand, chosen.pool) if best.room.coming else (),
    )


_WITH_ROOM: Final = (Outcome.CHOSEN, Outcome.FITS)


def _verdict(candidates: Iterable[Candidate], problems: tuple[Finding, ...]) -> Verdict:
    outcomes = {candidate.outcome for candidate in candidates}
    if problems:
        return Verdict.MISCONFIGURED
    if Outcome.BUSY in outcomes:
        return Verdict.WAITING
    return Verdict.MISCONFIGURED if Outcome.MISCONFIGURED in outcomes else Verdict.IMPOSSIBLE


def _not_on(demand: Demand, pool: Pool) -> tuple[str, ...]:
    """Nodes of a pool that pods of the job keep off, where an autoscaler understands that."""
    excluded = (node for node in pool.nodes if demand.excludes(node.name))
    return tuple(sorted({*pool.beside, *(node.name for node in excluded if OF_KARPENTER not in node.labels)}))


def _tolerations(room: NodeFit, pool: Pool) -> tuple[tuple[str, str], ...]:
    taints = {(t.key, t.effect) for node in room.nodes for t in node.taints if t.effect != "PreferNoSchedule"}
    return tuple(sorted(taints))
