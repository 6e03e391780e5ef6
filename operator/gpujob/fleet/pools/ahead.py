"""What jobs that go first take of a fleet, or have held for them: what those of lower priority are told to wait behind."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Resources


@dataclass(frozen=True, slots=True)
class Taking:
    """Devices of a resource taken on some nodes, with what one pod needs besides on each of them."""

    resource: str
    on: tuple[tuple[str, int], ...]
    """Nodes by name, and how many devices are taken there."""
    needs: Resources
    linked: bool = False
    """Whether each pod takes its devices of the pool's fabric, too."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A job of higher priority: what it asks, and the devices that it took in this round or that are held for it."""

    job: str
    namespace: str
    priority: int
    nodes: int
    gpus: int
    """On each of its nodes."""
    taking: Taking
    waits: bool
    """Whether it waits for more devices on these nodes; else it was placed on them."""
