"""The failure of an attempt: its reason, its message, the nodes at fault, and which count of retries it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from gpujob.values.vocabulary import Reason


@unique
class Blame(StrEnum):
    """Which count a failure belongs to; retries bound the first two."""

    USER = "User"
    """The program, its image or the job's spec: the same failure is likely anywhere."""
    INFRASTRUCTURE = "Infrastructure"
    """A node, a device, the network, or a preemption: the job can continue elsewhere."""
    SPOT = "Spot"
    """The cloud reclaimed spot nodes: counted, and bounded by pauses alone."""
    KUBERNETES = "Kubernetes"
    """The Job controller failed the Job by a pod that it had ended itself, or no scheduler processed the pods: in no count, and
    bounded by pauses alone."""


UNBOUNDED: Final = frozenset({Blame.SPOT, Blame.KUBERNETES})
"""The failures that no number of retries bounds."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    blame: Blame
    reason: Reason
    message: str
    node: str = ""
    """The node at fault; empty if none is."""
    fits: int | None = None
    """Bytes of GPU memory that the failed allocation needed; None if unknown."""
    nodes: tuple[str, ...] = ()
    """All nodes at fault: several nodes of a gang can fail together."""
