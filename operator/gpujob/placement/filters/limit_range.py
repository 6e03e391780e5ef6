"""A job's pods against the LimitRanges of its namespace: requests must be within the bounds, defaults are clamped to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpujob.fleet.kubernetes.objects import HOST_DEVICES
from gpujob.fleet.policy.limit_range import OF_CLAIMS, Bound, tightest
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.pod_resources import ATTRIBUTES
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Cores, Finding, Need, Size
from gpujob.values.quantity import LEAST_MEMORY
from gpujob.values.vocabulary import Reason


def bounded(demand: Demand, fleet: Fleet, namespace: str) -> Demand:
    """The demand with the pod rules of its namespace: LimitRanges, the ids that the platform assigns, its node
    selector, and whether it is being deleted.
    """
    bounds, space = fleet.limits.get(namespace, ()), fleet.namespaces.get(namespace)
    if space is not None and space.ids is not None:
        demand = demand.but(ids=space.ids, namespace=namespace)
    if space is not None and space.selection is not None:
        demand = demand.but(selection=space.selection, namespace=namespace)
    if space is not None and space.terminating:
        demand = demand.but(terminating=namespace)
    return demand.but(limits=tightest(bounds)) if bounds else demand


def beyond_limits(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A LimitRange allows no pod with these requests."""
    for bound in demand.limits.bounds if demand.limits else ():
        if bound.kind == OF_CLAIMS:
            found = _of_claims(demand, bound)
            if found is not None:
                return found
            continue
        found = _unread(bound, pool) or (
            _of_amount(demand, bound) if bound.resource in ATTRIBUTES else _of_devices(demand, bound, pool)
        )
        if found is not None:
            return found
    return None


def _of_claims(demand: Demand, bound: Bound) -> Finding | None:
    """The volume claims that each pod creates (ephemeral volumes)."""
    if bound.resource != "storage" or not demand.new_claims:
        return None
    if bound.unread:
        sentence = "LimitRange {}: {} is {}, which is not a quantity; fix it"
        return Finding(Reason.INVALID_SPEC, sentence, (bound.name, bound.resource, bound.unread))
    return next(filter(None, (_outside(bound, size, "the job requests") for _, size in demand.new_claims)), None)


def _unread(bound: Bound, pool: Pool) -> Finding | None:
    if not bound.unread or bound.resource not in (*ATTRIBUTES, pool.resource):
        return None
    sentence = "LimitRange {}: {} is {}, which is not a quantity; fix it"
    return Finding(Reason.INVALID_SPEC, sentence, (bound.name, bound.resource, bound.unread))


def _of_amount(demand: Demand, bound: Bound) -> Finding | None:
    """CPU, memory or disk that the job requests. If it requests none, the bounds only must leave some."""
    attribute = ATTRIBUTES[bound.resource]
    asked: int | None = getattr(demand, attribute)
    if asked:
        return _outside(bound, asked, "the job requests")
    shared = demand.shared_memory or 0 if attribute == "memory" else 0
    if shared > bound.most:
        return _outside(bound, shared, "the job's shared memory needs")
    if attribute == "memory" and bound.most < LEAST_MEMORY:
        return _outside(bound, LEAST_MEMORY, "and no program runs in less than")
    least = getattr(demand.limits and demand.limits.least, attribute) or 0
    return _outside(bound, least, "others want at least") if least > bound.most else None


def _of_devices(demand: Demand, bound: Bound, pool: Pool) -> Finding | None:
    """Devices by the name of the pool's resource."""
    if bound.resource != pool.resource or pool.resource == HOST_DEVICES:
        return None
    asked = demand.gpus_per_node if pool.request is None else 0
    found = _outside(bound, asked, "the job requests") if asked else None
    if found is None and bound.given > asked and (demand.copies_code or not asked):
        sentence = (
            "LimitRange {} gives {} {} to each container that requests none (default, else max), so that the pod takes more "
            "than its {}; set default to at most that"
        )
        return Finding(Reason.LIMIT_RANGE, sentence, (bound.name, bound.given, bound.resource, asked))
    return found


def _outside(bound: Bound, amount: int, who: str) -> Finding | None:
    show = _SHOWN.get(bound.resource, (str, str))
    if amount > bound.most:
        sentence = "LimitRange {}: at most {} {} for each {}, {} {}"
        numbers = (bound.name, show[1](bound.most), bound.resource, bound.kind, who, show[0](amount))
    elif amount < bound.least:
        sentence = "LimitRange {}: at least {} {} for each {}, {} {}"
        numbers = (bound.name, show[0](bound.least), bound.resource, bound.kind, who, show[1](amount))
    else:
        return None
    return Finding(Reason.LIMIT_RANGE, sentence, numbers)


_SHOWN: Final[dict[str, tuple[Callable[[int], object], Callable[[int], object]]]] = {
    "cpu": (Cores, Cores),
    "memory": (Need, Size),
    "ephemeral-storage": (Need, Size),
    "storage": (Need, Size),
}
"""How the needed and the allowed amount are written."""
