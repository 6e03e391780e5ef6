"""Nodes without devices yet: drivers and device plugins reach a new node minutes after it is Ready."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Node


@dataclass(frozen=True, slots=True)
class Arriving:
    """A node whose devices are pending: its age, and the deadline (RFC 3339)."""

    node: str
    since: str
    until: str


def is_bare(node: Node) -> bool:
    """Whether a node is Ready and offers no GPU by a resource name."""
    return node.ready and not node.leaving and not any(node.devices.values())
