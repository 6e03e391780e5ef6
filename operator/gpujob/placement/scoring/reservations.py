"""The devices that are reserved for a waiting job: the free ones on the nodes where the fewest devices are missing.

A reservation never exceeds what the job will use. Lower jobs leave these devices alone, so the number of missing devices only
decreases. Nodes without room for the job even after all pods with GPUs end are not reserved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_filters import pod_request, rejections
from gpujob.placement.capacity.node_fit import all_able
from gpujob.placement.capacity.pod_resources import node_needs, smallest
from gpujob.placement.capacity.topology import domain_of, in_one_place
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.score import PoolResult
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason

NOT_DEVICES: Final = frozenset(
    {Reason.QUOTA_EXCEEDED, Reason.MAY_GROW, Reason.NODES_DID_NOT_COME, Reason.UNSCHEDULABLE}
)
"""Reasons of an unavailable candidate that no released device resolves."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes of a pool by name, the devices that each keeps for one pod of a job, and the pod's other resources."""

    pool: Pool
    nodes: int
    gpus: int
    on: tuple[tuple[str, int], ...]
    needs: Resources
    lacking: int
    """Devices of these nodes that must become free before the job starts."""


def waits_for_more(reasons: Iterable[Finding]) -> bool:
    """Whether an unavailable candidate waits for more than devices."""
    return any(finding.reason in NOT_DEVICES for finding in reasons)


def nearest(demand: Demand, pool: Pool, image_size: int | None) -> Reservation | None:
    """The ready nodes of a pool that lack the fewest devices for the whole gang; None if released devices do not make room on
    enough of them.
    """
    asked = pod_request(demand)
    able, scattered = all_able(demand, pool, image_size), not in_one_place(demand, pool)
    domains: dict[str, list[PoolNode]] = defaultdict(list)
    for node in pool.stock.emptiest():
        if not node.name or demand.excludes(node.name) or not demand.attaches(node.name):
            continue
        if not _has_room_without_gpu_pods(demand, asked, node):
            continue
        if not able and rejections(demand, pool, node, image_size):
            continue
        chosen = domains["" if scattered else domain_of(node)]
        if len(chosen) < demand.nodes:
            chosen.append(node)
        if scattered and len(chosen) == demand.nodes:
            break
    whole = [_reservation(demand, pool, chosen) for chosen in domains.values() if len(chosen) == demand.nodes]
    return min(whole, key=lambda one: (one.lacking, one.on), default=None)


def reservations_of_room(trial: PoolResult) -> tuple[Reservation, ...]:
    """The room that a job has now; empty if nodes must be added first."""
    nodes, gang = trial.room.nodes, trial.candidate.gang
    if trial.room.coming or not all(node.name for node in nodes):
        return ()
    on = tuple((node.name, gang.gpus_per_node) for node in nodes)
    return (Reservation(trial.candidate.pool, gang.nodes, gang.gpus_per_node, on, trial.room.needs, 0),)


def _has_room_without_gpu_pods(demand: Demand, asked: Resources, node: PoolNode) -> bool:
    """Whether a pod fits beside the pods without GPUs, which have no known end."""
    if node.healthy < demand.gpus_per_node or not node.share_base.covers(asked):
        return False
    emptied = replace(node, free=node.healthy, left=node.share_base)
    return node.share_base.covers(node_needs(demand, emptied))


def _reservation(demand: Demand, pool: Pool, nodes: Iterable[PoolNode]) -> Reservation:
    gpus = demand.gpus_per_node
    nodes = sorted(nodes, key=lambda node: node.name)
    on = tuple((node.name, max(0, min(node.free, gpus))) for node in nodes)
    needs = smallest([node_needs(demand, node) for node in nodes])
    return Reservation(pool, demand.nodes, gpus, on, needs, sum(gpus - held for _, held in on))
