"""A job of the queue, as a scheduling cycle takes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gpujob.placement.request.demand import Demand


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job in the queue: its uid, its creation time (RFC 3339), its demand; plan_only reserves nothing."""

    uid: str
    created: str
    demand: Demand
    plan_only: bool = False
    namespace: str = ""
    name: str = ""
    reserves_until: datetime | None = None
    """Devices are reserved for it until then (UTC); None where that has no end."""
    runs_for: int | None = None
    """The most seconds that it runs; None where that has no end."""
