"""Why a pool was not chosen, and what would make it win: for `kubectl gpujob explain --why-not POOL`.

Each "would" was decided before it is said: with the price, the room or the field changed, the pool really wins or fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpujob.catalog.records import Catalog
from gpujob.errors import BadInput
from gpujob.finding import Dollars, Finding, listed
from gpujob.fleet.pools import Fleet, Pool
from gpujob.fleet.pricing import PoolPrice
from gpujob.placement.choose import choose
from gpujob.placement.decision import Candidate, Decision, Fix
from gpujob.placement.demand import Demand
from gpujob.placement.fixes import fix_for_pool
from gpujob.quantity import MICRO
from gpujob.vocabulary import Outcome

CENT: Final = MICRO // 100


@dataclass(frozen=True, slots=True)
class WhyNot:
    """One pool of a decision: what became of it, why, and what would change that."""

    pool: Pool
    outcome: Outcome
    reasons: tuple[Finding, ...]
    change: str
    """What would make the pool win or fit, one sentence."""
    fix: Fix | None = None


def why_not(decision: Decision, name: str, fleet: Fleet, catalog: Catalog) -> WhyNot:
    """The answer for the pool of that name; BadInput when there is no such pool."""
    pool = fleet.pool(name)
    best = next((candidate for candidate in decision.candidates if candidate.pool.name == name), None)
    if pool is None or best is None:
        names = listed(sorted(pool.name for pool in fleet.pools))
        raise BadInput(f"--why-not: there is no pool {name}; known pools are {names or 'none'}")
    fix = fix_for_pool(decision, pool, fleet, catalog) if best.outcome is Outcome.REJECTED else None
    return WhyNot(pool, best.outcome, best.reasons, _change(decision, best, fix, fleet, catalog), fix)


def _change(decision: Decision, best: Candidate, fix: Fix | None, fleet: Fleet, catalog: Catalog) -> str:
    if best.outcome is Outcome.CHOSEN:
        return "it was chosen"
    if best.outcome is Outcome.FITS:
        return _winning_price(decision, best, fleet, catalog)
    if best.outcome is Outcome.BUSY:
        return _with_room(decision.demand, best, fleet, catalog)
    if best.outcome is Outcome.MISCONFIGURED:
        return "it can be decided about once that is mended"
    return fix.message if fix else "no single change of the job makes it fit"


def _winning_price(decision: Decision, best: Candidate, fleet: Fleet, catalog: Catalog) -> str:
    """The highest price a GPU-hour, in whole cents, with which the pool would win."""
    pool, demand = best.pool, decision.demand
    chosen = decision.candidates[0].pool.name
    ceiling = pool.price.per_gpu_hour if pool.price else 1_000 * MICRO
    low, high = 0, ceiling // CENT
    if not _wins(demand, pool, low, fleet, catalog):
        return f"it fits too, and would come after {chosen} at any price"
    while low < high:
        middle = (low + high + 1) // 2
        if _wins(demand, pool, middle, fleet, catalog):
            low = middle
        else:
            high = middle - 1
    now = f"now {Dollars(pool.price.per_gpu_hour)}" if pool.price else "now no price is known"
    if low == 0:
        return f"it fits too, and would win over {chosen} below {Dollars(CENT)} a GPU-hour ({now})"
    return f"it fits too, and would win over {chosen} at {Dollars(low * CENT)} a GPU-hour or less ({now})"


def _wins(demand: Demand, pool: Pool, cents: int, fleet: Fleet, catalog: Catalog) -> bool:
    priced = replace(pool, price=PoolPrice(cents * CENT, "what if"))
    return _chosen_pool(demand, _with(fleet, priced), catalog) == pool.name


def _with_room(demand: Demand, best: Candidate, fleet: Fleet, catalog: Catalog) -> str:
    nodes = tuple(
        replace(node, free=node.total or node.healthy, healthy=node.total or node.healthy, left=node.allocatable,
                unready=None)
        for node in best.pool.nodes
    )  # fmt: skip
    chosen = _chosen_pool(demand, _with(fleet, replace(best.pool, nodes=nodes)), catalog)
    if chosen == best.pool.name:
        return "with all its GPUs free it would be chosen"
    return f"even with all its GPUs free it would come after {chosen}"


def _with(fleet: Fleet, changed: Pool) -> Fleet:
    return replace(fleet, pools=tuple(changed if pool.name == changed.name else pool for pool in fleet.pools))


def _chosen_pool(demand: Demand, fleet: Fleet, catalog: Catalog) -> str | None:
    choice = choose(demand, fleet, catalog).choice
    return choice.candidate.pool.name if choice else None
