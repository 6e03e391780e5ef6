"""The fast network between nodes of an admin's pool: what pods of a gang need to use it. Jobs of one node get none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Node


@dataclass(frozen=True, slots=True)
class Fabric:
    """What each pod of a gang gets, all of it by the admin's word."""

    resources: tuple[tuple[str, int], ...] = ()
    """Devices of the fabric, by the names under which nodes list them."""
    lock_memory: bool = False
    """Whether it may lock memory (IPC_LOCK), as RDMA does."""
    annotations: tuple[tuple[str, str], ...] = ()
    host_network: bool = False
    topology_key: str = ""
    """The node label whose value all nodes of a gang must share; empty: any nodes."""

    def room(self, node: Node, taken: Mapping[tuple[str, str], int]) -> int | None:
        """For how many more pods a node has the fabric's devices; None where it has none that could run out."""
        if not self.resources:
            return None
        return min(
            max(0, node.others.get(resource, 0) - taken.get((node.name, resource), 0)) // count
            for resource, count in self.resources
        )

    def domain(self, node: Node) -> str:
        """The node's place in the fabric: nodes of one place can form a gang; empty where no label says it."""
        return node.labels.get(self.topology_key, "") if self.topology_key else ""
