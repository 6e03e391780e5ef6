"""Since when this process has seen what of a job, by its own monotonic clock; a restart loses time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.values.vocabulary import State


@dataclass(frozen=True, slots=True)
class Sightings:
    """Times are seconds of the monotonic clock; None where the process does not see it now."""

    no_service: float | None = None
    """Its gang has no Service."""
    not_running: tuple[State, float] | None = None
    """Its pods are in this stage before running."""
    forged_end: float | None = None
    """Its status is final although its child Job goes on."""
    ran: tuple[str, float] = ("", 0.0)
    """The child whose pods were seen to run, and since when."""
    awaited: tuple[str, float] = ("", 0.0)
    """The child whose pods wait for nodes to be added."""
    unbound: tuple[str, float] = ("", 0.0)
    """The child of whose pods one is bound to no node."""
    probe: tuple[str, float, float] = ("", 0.0, 0.0)
    """The probe's child, and how old it was then by the API server's clock."""
    failed: tuple[str, float] = ("", 0.0)
    """The child Job that has failed, none of whose pods is seen to have failed or gone."""
    ending: float | None = None
    """Pods of an earlier attempt keep the next one waiting."""
    lingering: tuple[str, float] = ("", 0.0)
    """The deleted Job whose pods run on; after each request to delete them anew."""
    unready: tuple[tuple[str, float], ...] = ()
    """Nodes of such pods that are NotReady, by name."""
