"""Queue order on a pool: jobs of higher priority take the nodes that they wait for first; lower jobs report them."""

from __future__ import annotations

from collections.abc import Iterable

from gpujob.fleet.pools.ahead import Ahead
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding, counted
from gpujob.values.vocabulary import Reason


def has_nothing_else(demand: Demand, pool: Pool, able: Iterable[PoolNode]) -> bool:
    """Whether the nodes that jobs of higher priority do not wait for are too few for the gang."""
    awaited = {name for each in pool.ahead if each.waits for name, _ in each.taking.on}
    return bool(awaited) and sum(node.name not in awaited for node in able) < demand.nodes


def queued_behind(demand: Demand, pool: Pool) -> Finding:
    """Which jobs go first on a pool: the next job if it is in the same namespace, else only that one of another namespace does."""
    mine = [each for each in pool.ahead if each.namespace == demand.namespace]
    first = (mine or pool.ahead)[0]
    others = len(pool.ahead) - 1
    # Names of other namespaces stay private.
    who = f"job {first.job}" if mine else "a job of another namespace"
    and_others = f" and {others} more" if others else ""
    on = f"on each of {first.nodes} nodes" if first.nodes > 1 else "on one node"
    gpus = counted(first.gpus, "GPU")
    if not first.waits:
        sentence = "queued behind {} of priority {}{}, which takes {} {} now"
        return Finding(Reason.QUEUED_BEHIND, sentence, (who, first.priority, and_others, gpus, on))
    sentence = "queued behind {} of priority {}{}, which waits for {} {}; {} reserved for it"
    return Finding(Reason.QUEUED_BEHIND, sentence, (who, first.priority, and_others, gpus, on, _held(first)))


def _held(ahead: Ahead) -> str:
    held = sum(gpus for _, gpus in ahead.taking.on)
    return f"{counted(held, 'free GPU')} {'is' if held == 1 else 'are'}" if held else "none is free to be"
