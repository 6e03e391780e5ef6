"""Ports of pods in the host network: such a port belongs to the node, so every attempt of a job has its own.

They follow from the name of the attempt's child Job, which is immutable, so that readers of a pod compute them again and trust no
field of it. Two attempts on one node can collide on a port, but rarely.
"""

from __future__ import annotations

import hashlib
from typing import Final

RENDEZVOUS: Final = range(20_000, 29_500)
"""Below torchrun's own port, those of NodePort Services (from 30000 on) and Linux's for clients (32768 to 60999)."""

REPORTS: Final = range(62_000, 65_000)
"""Above Linux's ports for clients, and above 61678, where Amazon's VPC CNI serves its metrics on every node."""


def rendezvous_port(child: str) -> int:
    """The rendezvous port of the pods of the child Job of that name."""
    return _one_of(RENDEZVOUS, child)


def report_port(child: str) -> int:
    """The port of their reporters, whatever port the job names: a user's value could name a service of the node."""
    return _one_of(REPORTS, child)


def _one_of(ports: range, child: str) -> int:
    return ports[int(hashlib.sha256(child.encode()).hexdigest(), 16) % len(ports)]
