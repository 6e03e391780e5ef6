"""The fast network between nodes of an admin's pool: what pods of a gang need to use it. Jobs of one node do not use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Node


@dataclass(frozen=True, slots=True)
class Fabric:
    """The privileges and devices of each pod of a gang, all from the GPUPool."""

    resources: tuple[tuple[str, int], ...] = ()
    """Devices of the fabric, by the names under which nodes list them."""
    lock_memory: bool = False
    """Whether it may lock memory (IPC_LOCK), as RDMA does."""
    annotations: tuple[tuple[str, str], ...] = ()
    host_network: bool = False
    topology_key: str = ""
    """The node label whose value all nodes of a gang must share; empty: any nodes."""

    def room(self, node: Node, taken: Mapping[tuple[str, str], int]) -> int | None:
        """The number of further pods for which a node has the fabric's devices; None if it has no countable ones."""
        if not self.resources:
            return None
        return min(
            max(0, node.others.get(resource, 0) - taken.get((node.name, resource), 0)) // count
            for resource, count in self.resources
        )

    def domain(self, node: Node) -> str:
        """The node's topology domain in the fabric: nodes of one domain can form a gang; empty without the label."""
        return node.labels.get(self.topology_key, "") if self.topology_key else ""
