"""Nodes that are there before their devices: drivers and device plugins come to a new node minutes after it is Ready."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Node


@dataclass(frozen=True, slots=True)
class Arriving:
    """A node whose devices are still to come: since when it is there, and until when they are waited for (RFC 3339)."""

    node: str
    since: str
    until: str


def is_bare(node: Node) -> bool:
    """Whether a node is Ready and offers no GPU by the name of a resource."""
    return node.ready and not node.leaving and not any(node.devices.values())
