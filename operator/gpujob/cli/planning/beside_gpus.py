"""Who holds the CPU, memory, disk or number of pods that is short on nodes whose GPUs are free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from gpujob.placement.capacity.pod_resources import node_needs
from gpujob.values.finding import Cores, Size, listed

if TYPE_CHECKING:
    from gpujob.fleet.kubernetes.objects import Pod, Resources
    from gpujob.fleet.pools.pool import Pool
    from gpujob.placement.request.demand import Demand

SHOWN: Final[Mapping[str, tuple[str, Callable[[int], object]]]] = {
    "millicores": ("CPU", Cores),
    "memory": ("memory", Size),
    "storage": ("ephemeral-storage", Size),
    "pods": ("of the node's pods", int),
}
"""The resources of a pod beside its devices, with their names and their form in a sentence."""

Key = TypeVar("Key", bound=Hashable)

Short = Mapping[str, Collection[str]]
"""The resources that are short, by node."""


class Share(NamedTuple):
    """What one holder has of the resources that are short."""

    part: float
    """The largest part of what the job needs of one of them, by which holders are sorted."""
    said: str
    """Its amounts in words."""
    nodes: tuple[str, ...]


def short_on(demand: Demand, pool: Pool, nodes: Collection[str]) -> Short:
    """What is short on each of the nodes that has the GPUs free for a pod of the job but not the rest that it needs."""
    found: dict[str, Collection[str]] = {}
    for node in pool.nodes:
        if node.name in nodes and node.free >= demand.gpus_per_node:
            needs = node_needs(demand, node)
            lacking = [name for name in SHOWN if (getattr(node.left, name) or 0) < (getattr(needs, name) or 0)]
            if lacking:
                found[node.name] = lacking
    return found


def shares(short: Short, needs: Resources, held: Iterable[tuple[Key, str, Resources]]) -> Iterator[tuple[Key, Share]]:
    """The share of each holder; `held` are the requests of pods with their holder and their node."""
    amounts: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    where: dict[Key, set[str]] = defaultdict(set)
    for key, node, taken in held:
        for name in short.get(node, ()):
            if amount := getattr(taken, name) or 0:
                amounts[key][name] += amount
                where[key].add(node)
    for key, own in amounts.items():
        part = max(amount / max(getattr(needs, name) or 1, 1) for name, amount in own.items())
        said = listed(f"{SHOWN[name][1](own[name])} {SHOWN[name][0]}" for name in SHOWN if name in own)
        yield key, Share(part, said, tuple(sorted(where[key])))


def requests(pods: Iterable[Pod], short: Short) -> Iterator[tuple[Pod, str, Resources]]:
    """The requests of the pods that run on the nodes."""
    return ((pod, pod.node, pod.needs) for pod in pods if pod.node in short and not pod.terminal)
