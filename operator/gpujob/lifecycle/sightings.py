"""Since when this process has seen what of a job, by its own monotonic clock; a restart loses time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass

from gpujob.vocabulary import State


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
