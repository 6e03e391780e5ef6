"""What jobs that go first use of a fleet, or have reserved; jobs of lower priority wait behind them."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.fleet.kubernetes.objects import Resources


@dataclass(frozen=True, slots=True)
class Taking:
    """Devices of a resource on some nodes, with the other resources of one pod on each of them."""

    resource: str
    on: tuple[tuple[str, int], ...]
    """Nodes by name, and the number of devices on each."""
    needs: Resources
    linked: bool = False
    """Whether each pod uses its devices of the pool's fabric, too."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A job of higher priority: its demand, and the devices that it got in this round or has reserved."""

    job: str
    namespace: str
    priority: int
    nodes: int
    gpus: int
    """On each of its nodes."""
    taking: Taking
    waits: bool
    """Whether it waits for more devices on these nodes; else it is placed on them."""
