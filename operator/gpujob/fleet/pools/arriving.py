"""Nodes without devices yet: drivers and device plugins reach a new node minutes after it came, and often before it is Ready."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class Arriving:
    """A node whose devices are pending: its age, and the deadline (RFC 3339)."""

    node: str
    since: str
    until: str

    @property
    def finding(self) -> Finding:
        """The finding that pods wait for its devices."""
        sentence = "node {} came at {} and offers no GPUs yet; they are waited for until {}"
        return Finding(Reason.WAITING_FOR_DEVICES, sentence, (self.node, self.since, self.until))


def is_bare(node: Node) -> bool:
    """Whether a node offers no GPU by a resource name, nor parts of one; a new one need not be Ready. One that is being deleted
    will offer none.
    """
    return not node.leaving and not node.split_as and not any(node.devices.values())


def with_arriving(fleet: Fleet, arriving: Iterable[Arriving]) -> Fleet:
    """The fleet in which nodes with pending devices are marked as such, and do not count as without a device plugin."""
    coming = {each.node: each.finding for each in arriving}
    return replace(fleet, pools=tuple(_with_arriving(pool, coming) for pool in fleet.pools)) if coming else fleet


def _with_arriving(pool: Pool, coming: dict[str, Finding]) -> Pool:
    new = [node for node in pool.nodes if node.name in coming]
    lacks_plugin = pool.problem is not None and pool.problem.reason is Reason.NO_DEVICE_PLUGIN
    nodes = tuple(
        replace(node, unready=coming[node.name])
        if node in new and node.unready and node.unready.reason is Reason.NO_ALLOCATABLE
        else node
        for node in pool.nodes
    )
    return replace(pool, nodes=nodes, problem=None if lacks_plugin and len(new) == len(nodes) else pool.problem)
