"""Repairs for a ResourceQuota or a LimitRange that never allows the gang: fewer pods or GPUs, another amount for each, other claims."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.policy.limit_range import OF_CLAIMS, Bound
from gpujob.fleet.policy.resource_quota import OF_STORAGE_CLASS
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.capacity.node_filters import pod_request
from gpujob.placement.capacity.pod_resources import ATTRIBUTES
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.written import claim_size
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, proposed
from gpujob.placement.suggestions.requests import SIZES, fewer_gpus, fewer_nodes, first_that_divides, smaller
from gpujob.placement.suggestions.smaller_gang import MOST_GPUS
from gpujob.values.quantity import most_bytes, shortest_quantity

_OF_PODS: Final = {
    "cpu": "millicores", "requests.cpu": "millicores", "limits.cpu": "millicores",
    "memory": "memory", "requests.memory": "memory", "limits.memory": "memory",
    "requests.ephemeral-storage": "storage", "limits.ephemeral-storage": "storage", "ephemeral-storage": "storage",
}  # fmt: skip
"""For each resource of a pod the name in a quota and in a demand."""


def within_quota(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """What the namespace's quotas allow of each resource that they count."""
    nodes, pool = candidate.gang.nodes, candidate.pool
    for quota in fleet.quotas_for(demand.namespace, demand.priority_class, pool):
        for name, most in quota.hard.items():
            attribute = _OF_PODS.get(name)
            if attribute is not None:
                rest = most // nodes - (getattr(pool.overhead, attribute) or 0)
                yield from _less_for_each_pod(demand, attribute, rest)
            elif name.endswith(STORAGE):
                yield from within_storage(demand, name, most // nodes)
            if nodes > 1 and (demand.nodes_given or not demand.sized_by_model):
                yield from _fewer_pods(demand, candidate, name, most)
            if name in pool.all_counted_as and most > 0 and not demand.sized_by_model:
                yield from _fewer_devices(demand, candidate, most)


def other_priority(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """No PriorityClass, if a quota counts only pods of the job's."""
    named, pool = demand.priority_class, candidate.pool
    if named is None:
        return
    if set(fleet.quotas_for(demand.namespace, named, pool)) - set(fleet.quotas_for(demand.namespace, None, pool)):
        without = demand.but(priority_class=None)
        yield proposed(costs.PRIORITY_DROPPED, "spec.priorityClassName", named, None, without)


def _less_for_each_pod(demand: Demand, attribute: str, most: int) -> Iterator[Proposal]:
    """As much of one resource as a quota leaves each pod."""
    asked: int | None = getattr(demand, attribute)
    size = SIZES[attribute]
    fits = size.most(asked or size.unit, most) if most > 0 else 0
    if attribute == "memory" and 0 < fits < (demand.shared_memory or 0):
        # It counts as memory, so it is lowered first.
        yield smaller(demand, "shared_memory", fits)
    elif 0 < fits < (asked or fits + 1):
        # If the job requests none, the node's share is too large.
        yield smaller(demand, attribute, fits, None if asked else costs.AMOUNT_OF_A_SHARE)


def _fewer_pods(demand: Demand, candidate: Candidate, name: str, most: int) -> Iterator[Proposal]:
    """As many nodes as a quota allows; one node if it allows something but not one pod as it is, which must be smaller too."""
    gang, pool = candidate.gang, candidate.pool

    def taken(nodes: int) -> int:
        return pool.taken(gang.gpus_per_node, pod_request(demand), nodes, demand.new_claims).get(name, 0)

    if taken(gang.nodes) > most:
        allowed = bisect_right(range(1, gang.nodes), most, key=taken)
        if allowed or most > 0:
            yield fewer_nodes(demand, candidate, max(1, allowed))


def _fewer_devices(demand: Demand, candidate: Candidate, most: int) -> Iterator[Proposal]:
    """As many GPUs as a quota allows each node; one if it allows fewer than one each, so that the nodes must be fewer too."""
    gpus = max(1, most // candidate.gang.nodes)
    if gpus < candidate.gang.gpus_per_node:
        yield fewer_gpus(demand, candidate, gpus)


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
    shared, size = demand.shared_memory or 0, SIZES[attribute]
    if attribute == "memory" and shared > bound.most:
        if fits := size.most(shared, bound.most):
            yield smaller(demand, "shared_memory", fits)
        return
    asked: int | None = getattr(demand, attribute)
    if not asked:
        return
    if asked > bound.most:
        if fits := size.most(asked, bound.most):
            yield smaller(demand, attribute, fits)
    elif asked < bound.least:
        yield smaller(demand, attribute, bound.least, costs.UP_TO_A_MINIMUM)


STORAGE: Final = "requests.storage"
"""The name of the size of claims in a quota; of one StorageClass with its name in front."""


def within_storage(demand: Demand, name: str, most: int) -> Iterator[Proposal]:
    """Smaller claims for a quota's resource and the bytes that it leaves each pod: what the other claims leave, or an even share
    if they alone are too large.
    """
    storage_class, of_class, _ = name.rpartition(OF_STORAGE_CLASS)
    counted = [place for place, (own, _) in enumerate(demand.new_claims) if not of_class or own == storage_class]
    every = sum(demand.new_claims[place][1] for place in counted)
    for place in counted:
        size = demand.new_claims[place][1]
        rest = most - (every - size)
        yield from _shrunk(demand, place, rest if rest > 0 else most // len(counted))


def claims_within(demand: Demand, bound: Bound) -> Iterator[Proposal]:
    """The nearest size that a LimitRange allows each claim."""
    for place, (_, size) in enumerate(demand.new_claims):
        if size > bound.most:
            yield from _shrunk(demand, place, bound.most)
        elif size < bound.least:
            yield _sized(demand, place, bound.least, costs.UP_TO_A_MINIMUM)


def _shrunk(demand: Demand, place: int, most: int) -> Iterator[Proposal]:
    size = demand.new_claims[place][1]
    fits = most_bytes(size, most)
    if 0 < fits < size:
        yield _sized(demand, place, fits, 1 - (1 - costs.SMALLER_CLAIM) * fits / size)


def _sized(demand: Demand, place: int, amount: int, distance: float) -> Proposal:
    """The proposal of another size of one claim."""
    volume, (storage_class, size) = demand.claim_volumes[place], demand.new_claims[place]
    claims = (*demand.new_claims[:place], (storage_class, amount), *demand.new_claims[place + 1 :])
    field = f"spec.volumes[{volume}].ephemeral.volumeClaimTemplate.spec.resources.requests.storage"
    before = demand.as_written(claim_size(volume), shortest_quantity(size))
    return proposed(distance, field, before, shortest_quantity(amount), demand.but(new_claims=claims))
