"""Why a pool was not chosen, and what would make it win: for `kubectl gpujob explain --why-not POOL`.

Each "would" is verified by a decision: with the price, the room or the field changed, the pool really wins or fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.naming import short_names
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.engine.exploration import is_to_be_probed
from gpujob.placement.report.behind import counted_as_one
from gpujob.placement.report.passed_over import warning_against
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate, Decision, Fix
from gpujob.placement.scoring.waiting import state_now
from gpujob.placement.suggestions.search import fix_for_pool
from gpujob.values.errors import BadInput
from gpujob.values.finding import Dollars, Finding, listed, nearest
from gpujob.values.quantity import MAX_PRICE, MICRO
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import Objective, Outcome, Reason, Verdict

CENT: Final = MICRO // 100

GIVE_A_PRICE: Final = "give it one in a GPUPool (spec.price)"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """One pool of a decision: its outcome, the reason, and what would change it."""

    pool: Pool
    outcome: Outcome
    reasons: tuple[Finding, ...]
    change: str
    """What would make the pool win or fit, one sentence."""
    fix: Fix | None = None


def why_not(decision: Decision, name: str, fleet: Fleet, catalog: Catalog) -> WhyNot:
    """The answer for the named pool; BadInput with the closest name if there is none."""
    inputs = _Inputs(decision, fleet, catalog)
    called = {pool.name: pool.name != name for pool in fleet.pools if pool.is_called(name)}
    asked_about = (candidate for candidate in decision.candidates if candidate.pool.name in called)
    best = min(asked_about, key=lambda each: (called[each.pool.name], each.pool.name), default=None)
    if best is None:
        names, found = short_names(fleet.whole_pools), fleet.nearest_pool(name)
        near = nearest(found and names.get(found, found)) or f"; known pools are {listed(sorted(names.values()))}"
        raise BadInput(f"--why-not: there is no pool {one_line(name)}{near}")
    pool = best.pool
    fix = fix_for_pool(decision, pool, fleet, catalog) if best.outcome is Outcome.REJECTED else ""
    change = _change(inputs, best, fix)
    return WhyNot(pool, best.outcome, best.reasons, change, fix if isinstance(fix, Fix) else None)


def best_losers(decision: Decision, count: int, fleet: Fleet, catalog: Catalog) -> tuple[WhyNot, ...]:
    """The answers for the pools after the chosen one, or for the best ones if none was chosen."""
    chosen = decision.choice.candidate.pool.name if decision.choice else None
    # Of a pool and its parts the best one is shown.
    best = {candidate.pool.family: candidate.pool.name for candidate in reversed(decision.candidates)}
    names = (best[family] for family in dict.fromkeys(each.pool.family for each in decision.candidates))
    others = [name for name in names if name != chosen][:count]
    return tuple(why_not(decision, name, fleet, catalog) for name in others)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """A decision and its inputs, to decide again with one of them changed."""

    decision: Decision
    fleet: Fleet
    catalog: Catalog

    @property
    def chosen(self) -> str:
        """The pool that wins now."""
        return self.decision.candidates[0].pool.name

    def winner(self, demand: Demand | None = None, pool: Pool | None = None) -> str | None:
        """The chosen pool for another demand or another state of one pool."""
        fleet = self.fleet if pool is None else _with(self.fleet, pool)
        choice = choose(demand or self.decision.demand, fleet, self.catalog).choice
        return choice.candidate.pool.name if choice else None


def _change(inputs: _Inputs, best: Candidate, fix: Fix | str) -> str:
    if best.outcome is Outcome.CHOSEN:
        return "it was chosen"
    if best.outcome is Outcome.FITS:
        if _is_probed_later(inputs.decision, best):
            return f"it fits too, and is probed after {inputs.chosen}; the job itself goes where the probes say"
        if best.suspected and not inputs.decision.candidates[0].suspected:
            warning = next(found.message for found in best.warnings if found.reason is Reason.NODE_DOUBTED)
            return f"it fits too, and comes after pools whose nodes are healthy: {warning}"
        if best.risk > inputs.decision.candidates[0].risk:
            warning = warning_against(best, inputs.decision.candidates[0])
            return f"it fits too, and comes after pools that hold the model without such a warning: {warning}"
        one = f"; {counted_as_one(best)}" if best.counts_as_one else ""
        return f"it fits too, and {_winning_price(inputs, best)}{one}"
    if best.outcome is Outcome.BUSY:
        return _with_room(inputs, best)
    if best.outcome is Outcome.MISCONFIGURED:
        return "it can be decided about once that is fixed"
    if isinstance(fix, str):
        return fix
    return f"{fix.message}{_after_fix(inputs, best, fix)}"


def _after_fix(inputs: _Inputs, best: Candidate, fix: Fix) -> str:
    """The choice once the fix makes the pool fit: that pool, the one chosen now, or another that the fix makes fit too."""
    choice = choose(fix.demand, inputs.fleet, inputs.catalog).choice
    if choice is None:
        return f", {state_now(decide(fix.demand, inputs.fleet, inputs.catalog, best.pool.name).candidates[0])}"
    winner = choice.candidate
    if winner.pool.name == best.pool.name:
        return " and be chosen"
    first = decide(fix.demand, inputs.fleet, inputs.catalog, best.pool.name).candidates[0]
    busy = f", {state_now(first)}" if first.outcome is Outcome.BUSY else ""
    return f"{busy}{_other_winner(inputs, winner)}"


def _other_winner(inputs: _Inputs, winner: Candidate) -> str:
    """The clause about a pool that a fix makes another one fit for, and that is chosen all the same."""
    now = inputs.decision.choice
    if now is not None and winner.pool.name == now.candidate.pool.name:
        return f", and {winner.pool.name} would still be chosen"
    price = "" if winner.price_per_hour is None else f" at {Dollars(winner.price_per_hour)} an hour"
    return f", and {winner.pool.name} would be chosen{price}"


def _is_probed_later(decision: Decision, best: Candidate) -> bool:
    """Whether the decision is about a probe and this candidate is not probed yet."""
    trying, demand = decision.demand.trying, decision.demand
    return trying is not None and trying.probe and is_to_be_probed(demand, best)


def _winning_price(inputs: _Inputs, best: Candidate) -> str:
    """The highest price of a GPU-hour, in whole cents, at which the pool would win; or the objective with which it would.

    Of a pool whose nodes must be added first: for a job that waits for them, as free nodes come first for others.
    """
    pool, chosen, demand = best.pool, inputs.chosen, inputs.decision.demand
    if best.provision and not demand.wait_seconds:
        waiting = replace(inputs, decision=replace(inputs.decision, demand=replace(demand, wait_seconds=1)))
        if waiting.winner() == pool.name:
            return f"would win over {chosen} if the job waited for its new nodes (placement.waitSeconds)"
        return f"{_winning_price(waiting, best)}, if the job waited for its new nodes (placement.waitSeconds)"
    of_one = pool.price_of(best.gang.nodes, best.gang.gpus_per_node)
    of_one = None if of_one is None else -(-of_one // best.gang.gpus)
    ceiling = MAX_PRICE if of_one is None else of_one
    low, high = 0, ceiling // CENT
    if not _wins(inputs, pool, low):
        other = _winning_objective(inputs, best)
        also = f"; with placement.objective {other} it would be chosen" if other else ""
        return f"would come after {chosen} at any price{also}"
    while low < high:
        middle = (low + high + 1) // 2
        if _wins(inputs, pool, middle):
            low = middle
        else:
            high = middle - 1
    if pool.price is None and 0 < low < MAX_PRICE // CENT:
        return f"would win over {chosen} at {Dollars(low * CENT)} a GPU-hour or less, but no price of it is known; {GIVE_A_PRICE}"
    now = f"now {Dollars(of_one)}" if of_one is not None else "now no price is known"
    if low == 0:
        return f"would win over {chosen} below {Dollars(CENT)} a GPU-hour ({now})"
    if pool.price is None and low == MAX_PRICE // CENT:
        return f"would win over {chosen} with any price ({now}); {GIVE_A_PRICE}"
    if of_one is not None and str(Dollars(of_one)) == str(Dollars(low * CENT)):
        return f"would win over {chosen} at any lower price ({now})"
    return f"would win over {chosen} at {Dollars(low * CENT)} a GPU-hour or less ({now})"


def _winning_objective(inputs: _Inputs, best: Candidate) -> Objective | None:
    demand = inputs.decision.demand
    others = (objective for objective in Objective if objective is not demand.objective)
    return next((each for each in others if inputs.winner(replace(demand, objective=each)) == best.pool.name), None)


def _wins(inputs: _Inputs, pool: Pool, cents: int) -> bool:
    return inputs.winner(pool=replace(pool, price=PoolPrice(cents * CENT, "what if"), node_prices=())) == pool.name


def _with_room(inputs: _Inputs, best: Candidate) -> str:
    """What of the things that are in the way must change for the pool to be chosen, the fewest of them; and whether the job could
    wait for that.
    """
    ways = _in_the_way(inputs, best)
    for count in range(1, len(ways) + 1):
        for chosen in combinations(ways, count):
            if _without(inputs, best, chosen) == best.pool.name:
                free = f"with {listed(way.otherwise for way in chosen)} it would be chosen"
                return f"{free}; placement.waitSeconds makes the job wait for it" if _waits(inputs, best) else free
    winner = _without(inputs, best, ways)
    outcome = f"come after {winner}" if winner else "have no room"
    return f"even with {listed(way.otherwise for way in ways)} it would {outcome}"


@dataclass(frozen=True, slots=True)
class _Way:
    """One kind of thing that keeps a job off a busy pool."""

    otherwise: str
    """How it would be without it, after "with"."""
    quotas: tuple[str, ...] = ()
    """Names of quotas that leave too little."""
    node: Callable[[PoolNode], PoolNode] | None = None
    """A node of the pool without it."""


def _in_the_way(inputs: _Inputs, best: Candidate) -> tuple[_Way, ...]:
    """Quotas, nodes that are not ready, and devices that others hold; every busy pool may have the last."""
    quotas = _short_quotas(inputs, best)
    unready = {node.unready.reason for node in best.pool.nodes if node.unready and not _offers_none(node)}
    states = {
        frozenset({Reason.CORDONED}): "its nodes uncordoned",
        frozenset({Reason.NOT_READY, Reason.CORDONED}): "its nodes ready and uncordoned",
    }
    ways = [_Way("all its GPUs free", node=_freed)]
    if unready:
        ways.insert(0, _Way(states.get(frozenset(unready), "its nodes ready"), node=_ready))
    if quotas:
        ways.insert(0, _Way(f"room in ResourceQuota {listed(quotas)}", quotas))
    return tuple(ways)


def _short_quotas(inputs: _Inputs, best: Candidate) -> tuple[str, ...]:
    """The quotas that leave too little for a candidate. A decision names the first one, so the next is that without it."""
    names: list[str] = []
    reasons = best.reasons
    while name := next((str(each.numbers[0]) for each in reasons if each.reason is Reason.QUOTA_EXCEEDED), ""):
        names.append(name)
        fleet = _without_quotas(inputs.fleet, inputs.decision.demand.namespace, names)
        again = decide(inputs.decision.demand, fleet, inputs.catalog, only=best.pool.name)
        reasons = again.candidates[0].reasons if again.candidates else ()
        if str(next((each.numbers[0] for each in reasons if each.reason is Reason.QUOTA_EXCEEDED), "")) in names:
            break
    return tuple(names)


def _without(inputs: _Inputs, best: Candidate, ways: Sequence[_Way]) -> str | None:
    """The pool that wins without some of what is in the way."""
    pool, quotas = best.pool, [name for way in ways for name in way.quotas]
    for way in ways:
        if way.node is not None:
            pool = replace(pool, nodes=tuple(map(way.node, pool.nodes)))
        if way.node is _freed and pool.growth is not None:
            # No other pod waits for the nodes that can be added.
            pool = replace(pool, growth=replace(pool.growth, count=pool.growth.addable, started=()))
    fleet = _with(inputs.fleet, pool)
    if quotas:
        fleet = _without_quotas(fleet, inputs.decision.demand.namespace, quotas)
    return replace(inputs, fleet=fleet).winner()


def _without_quotas(fleet: Fleet, namespace: str, names: Collection[str]) -> Fleet:
    left = tuple(quota for quota in fleet.quotas.get(namespace, ()) if quota.name not in names)
    return replace(fleet, quotas={**fleet.quotas, namespace: left})


def _freed(node: PoolNode) -> PoolNode:
    count, unready = node.total or node.healthy, None if _offers_none(node) else node.unready
    return replace(node, free=count, healthy=count, left=node.allocatable, unready=unready)


def _offers_none(node: PoolNode) -> bool:
    """Whether a node is out of use only because no device of it is allocatable."""
    return node.unready is not None and node.unready.reason is Reason.NO_ALLOCATABLE


def _ready(node: PoolNode) -> PoolNode:
    return replace(node, unready=None)


def _waits(inputs: _Inputs, best: Candidate) -> bool:
    """Whether a job that is placed now would wait for the pool if it could."""
    decision = inputs.decision
    if decision.choice is None or decision.demand.wait_seconds:
        return False
    waiting = decide(replace(decision.demand, wait_seconds=1), inputs.fleet, inputs.catalog)
    return waiting.verdict is Verdict.WAITING and waiting.candidates[0].pool.name == best.pool.name


def _with(fleet: Fleet, changed: Pool) -> Fleet:
    return replace(fleet, pools=tuple(changed if pool.name == changed.name else pool for pool in fleet.pools))
