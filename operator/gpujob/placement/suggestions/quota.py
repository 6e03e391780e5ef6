"""Repairs for a ResourceQuota that never allows the gang: fewer pods, fewer GPUs, or less for each pod."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.capacity.node_filters import asked_of
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, proposed
from gpujob.placement.suggestions.requests import SIZES, fewer_gpus, fewer_nodes, smaller
from gpujob.placement.suggestions.volume_claims import STORAGE, within_storage

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
            if nodes > 1 and (demand.nodes_said or not demand.sized_by_model):
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
        return pool.taken(gang.gpus_per_node, asked_of(demand), nodes, demand.new_claims).get(name, 0)

    if taken(gang.nodes) > most:
        allowed = bisect_right(range(1, gang.nodes), most, key=taken)
        if allowed or most > 0:
            yield fewer_nodes(demand, candidate, max(1, allowed))


def _fewer_devices(demand: Demand, candidate: Candidate, most: int) -> Iterator[Proposal]:
    """As many GPUs as a quota allows each node; one if it allows fewer than one each, so that the nodes must be fewer too."""
    gpus = max(1, most // candidate.gang.nodes)
    if gpus < candidate.gang.gpus_per_node:
        yield fewer_gpus(demand, candidate, gpus)
