"""The input of `next_action`: one job, the Jobs and pods of its attempts, and the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.labels.faults import Fault
from gpujob.fleet.pools.arriving import Arriving
from gpujob.status.attempts.exclusions import NOTHING, Seen
from gpujob.status.attempts.waits import write_time
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.records.objects import ChildRecord, Hint, JobRecord, PodState


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by clocks that are never compared with each other."""

    elapsed: float
    """Seconds of this process's monotonic clock: for durations."""
    server: datetime
    """The API server's time: for written times, and for comparisons with times that the API server wrote."""
    here: datetime | None = None
    """The time of the clock of this process's machine, as a second witness; None where it is not asked."""

    @property
    def text(self) -> str:
        """The server's time as RFC 3339."""
        return write_time(self.server)


@dataclass(frozen=True, slots=True)
class Made:
    """A child created by this process, and its decision; valid until the status names the child, whatever its annotations say."""

    uid: str
    """The child's uid."""
    generation: int
    """The job's generation, whose spec it was rendered from."""
    spec_digest: str
    """The digest of that spec (`JobRecord.spec_digest`)."""
    since: float
    """When it was created, by the monotonic clock."""
    hint: Hint
    """The decision."""
    burst: float = 0.0
    """Seconds that its pods get to run besides `Timings.placed`, because many children were created at the same time."""

    def seconds_left(self, placed: float, now: float) -> float:
        """Seconds until Placed is written by itself; `placed` is that of Timings, `now` the monotonic clock."""
        return self.since + placed + self.burst - now


@dataclass(frozen=True, slots=True)
class JobView:
    """One job in the cluster."""

    job: JobRecord
    children: Sequence[ChildRecord] = ()
    """The existing Jobs of its attempts."""
    pods: Sequence[PodState] = ()
    """The pods of all its attempts, sorted by name."""
    nodes_ready: Mapping[str, bool] = field(default_factory=dict)
    """Whether a node of these pods is ready, by name; an absent node is deleted."""
    spec_error: str = ""
    """Why its spec cannot be read; empty if it can, and for a job with a child."""
    made: Made | None = None
    """The child created last; None if another process created it."""
    over_budget: str | None = ""
    """Why no job of its namespace may start now; empty if it may, None while that is not known yet."""
    lacks_service: bool = False
    """Whether its gang has no Service."""
    bare_node: Arriving | None = None
    """The newest node of the pool that its pods wait for, if it offers no devices yet."""
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    """The device faults that the nodes of these pods report, by node."""
    price_now: int | None = None
    """The price of its placement for an hour at the prices of now, in micro-dollars; None if that is not known."""
    strays: Sequence[ChildRecord] = ()
    """Jobs under the names of its children that are not its children (`status.attempts.ownership`)."""
    departed: Sequence[PodState] = ()
    """The pods of its child that are gone, as they were last: those that said why they end."""
    refused: str | None = None
    """What events reported about pods of its child that are refused or cannot start; None while they were not read."""
    left_out: Seen = field(default_factory=lambda: NOTHING)
    """Until when this process leaves out the pools and nodes of its status, as far as it saw them."""
    telemetry: Telemetry = SILENT
    """Its reporter's last report."""
    lost_rooms: Mapping[str, LostRoom] = field(default_factory=dict)
    """The nodes of its child that have no room for its pod, which is not bound yet, and why."""
    pods_lag: bool = False
    """Whether its child Job has ended and the watch does not show how its pods did."""
    disowned: bool = False
    """Whether its child lost the label that the watch selects by: nothing would show its end, so that the attempt ends."""
