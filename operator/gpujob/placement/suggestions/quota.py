"""Repairs for a ResourceQuota that never allows the gang: fewer pods, fewer GPUs, or less for each pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions.proposal import Proposal
from gpujob.placement.suggestions.requests import SIZES, fewer_gpus, fewer_nodes, smaller

_OF_PODS: Final = {
    "cpu": "millicores", "requests.cpu": "millicores", "limits.cpu": "millicores",
    "memory": "memory", "requests.memory": "memory", "limits.memory": "memory",
    "requests.ephemeral-storage": "storage", "limits.ephemeral-storage": "storage",
}  # fmt: skip
"""For each resource of a pod the name in a quota and in a demand."""


def within_quota(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """What the namespace's quotas allow of each resource that they count."""
    gang, resource = candidate.gang, candidate.pool.counted_as
    for quota in fleet.quotas_for(demand.namespace, demand.priority_class, candidate.pool):
        for name, most in quota.hard.items():
            attribute = _OF_PODS.get(name)
            if attribute is not None and most // gang.nodes > 0:
                asked = getattr(demand, attribute)
                size = SIZES[attribute]
                fits = size.most(asked or size.unit, most // gang.nodes)
                if attribute == "memory" and 0 < fits < (demand.shared_memory or 0):
                    # It counts as memory, so it is lowered first.
                    yield smaller(demand, "shared_memory", fits)
                elif 0 < fits < (asked or fits + 1):
                    # If the job requests none, the node's share is too large.
                    yield smaller(demand, attribute, fits, None if asked else 0.5)
            if demand.sized_by_model and not demand.nodes_said:
                continue
            if name == resource and 0 < most // gang.nodes < gang.gpus_per_node and not demand.sized_by_model:
                yield fewer_gpus(demand, candidate, most // gang.nodes)
            if name == resource and 0 < most // gang.gpus_per_node < gang.nodes:
                yield fewer_nodes(demand, candidate, most // gang.gpus_per_node)
            if name in ("pods", "count/pods") and 0 < most < gang.nodes:
                yield fewer_nodes(demand, candidate, most)
