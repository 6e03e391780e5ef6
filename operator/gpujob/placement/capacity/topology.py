"""The fabric of a pool in placement: which nodes can form a gang, and which have its devices free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Reason


def in_one_place(demand: Demand, pool: Pool) -> bool:
    """Whether all nodes of the gang must share a label's value (fabric.topologyKey)."""
    return demand.nodes > 1 and pool.fabric is not None and pool.fabric.topology_key != ""


def domain_of(node: PoolNode) -> str:
    """The topology domain of a node; a node without the label is a domain of its own."""
    return node.domain or f"/{node.name}"


def largest_place(demand: Demand, pool: Pool, nodes: Iterable[PoolNode]) -> list[PoolNode]:
    """The nodes of the largest topology domain; nodes that can be added may share one domain."""
    domains: dict[str, list[PoolNode]] = defaultdict(list)
    together = in_one_place(demand, pool)
    for node in nodes:
        domains[domain_of(node) if together and not node.coming else ""].append(node)
    return max(domains.values(), key=len, default=[])


def has_links(demand: Demand, node: PoolNode) -> bool:
    """Whether the fabric's devices are free for one more pod of a gang."""
    return node.links is None or node.links > 0 or demand.nodes == 1


def too_scattered(demand: Demand, pool: Pool, able: Sequence[PoolNode]) -> Iterator[Finding]:
    """No topology domain has as many nodes as the gang; `able` are the nodes that can run its pods."""
    if not in_one_place(demand, pool) or pool.fabric is None or len(able) < demand.nodes:
        return
    most = len(largest_place(demand, pool, able))
    if most < demand.nodes:
        sentence = "needs {} with one value of the label {} (spec.fabric.topologyKey), the most that share one are {}"
        numbers = (counted(demand.nodes, "node"), pool.fabric.topology_key, most)
        yield Finding(Reason.POOL_TOO_SMALL, sentence, numbers)


def out_of_links(demand: Demand, pool: Pool, ready: Sequence[PoolNode]) -> Finding | None:
    """Nodes have free GPUs for the gang, but too few of them have the fabric's devices free."""
    open_nodes = [node for node in ready if node.free >= demand.gpus_per_node]
    linked = sum(has_links(demand, node) for node in open_nodes)
    if pool.fabric is None or len(open_nodes) < demand.nodes or linked >= demand.nodes:
        return None
    wanted = listed(f"{count} {resource}" for resource, count in pool.fabric.resources)
    sentence = "needs {} on each of {} nodes (spec.fabric), {} of {} with free GPUs have that free"
    return Finding(Reason.NOT_ENOUGH_FREE, sentence, (wanted, demand.nodes, linked, counted(len(open_nodes), "node")))
