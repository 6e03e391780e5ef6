"""Ports of pods on the network of their nodes: there a port is the node's, so every attempt of a job has its own.

They follow from the name of the attempt's child Job, which nobody can change, so that whoever reads a pod works them out
again and believes nothing that was written into it. Two attempts that share a node may meet at one port, seldom.
"""

from __future__ import annotations

import hashlib
from typing import Final

RENDEZVOUS: Final = range(20_000, 29_500)
"""Below torchrun's own port, those of NodePort Services (from 30000 on) and Linux's for clients (32768 to 60999)."""

REPORTS: Final = range(62_000, 65_000)
"""Above Linux's ports for clients, and above 61678, where Amazon's VPC CNI serves its metrics on every node."""


def rendezvous_port(child: str) -> int:
    """Where the pods of the child Job of that name meet."""
    return _one_of(RENDEZVOUS, child)


def report_port(child: str) -> int:
    """Where their reporters serve, whatever port the job asks for: a user's word could name a service of the node."""
    return _one_of(REPORTS, child)


def _one_of(ports: range, child: str) -> int:
    return ports[int(hashlib.sha256(child.encode()).hexdigest(), 16) % len(ports)]
