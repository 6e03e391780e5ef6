"""The observations of a job and their times, by this process's monotonic clock; a restart loses time, never correctness."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle.failures.failure import Failure
from gpujob.lifecycle.failures.order import First
from gpujob.values.vocabulary import State

UNSEEN: Final = ("", 0.0)
"""No child and no time."""


class Lapse(NamedTuple):
    """How long ago something was."""

    since: str
    """When it was, as the status says it (RFC 3339)."""
    seen: float
    """When this process first saw that, by the monotonic clock."""
    age: float
    """The seconds that had passed then."""
    claimed: float
    """Those by the server's clock; more than `age` while the clock of this machine says less."""


NO_LAPSE: Final = Lapse("", 0.0, 0.0, 0.0)
"""Nothing was seen yet."""


class Sightings(NamedTuple):
    """Times are seconds of the monotonic clock; None if the process does not observe it now. A tuple, because each reconcile changes
    some of the fields: a copy of a dataclass of so many takes five times as long."""

    no_service: float | None = None
    """Its gang has no Service."""
    not_running: tuple[State, float] | None = None
    """Its pods are in this stage before running."""
    forged_end: float | None = None
    """Its status is final although its child Job goes on."""
    ran: tuple[str, float] = UNSEEN
    """The child whose pods ran, and since when."""
    awaited: tuple[str, float] = UNSEEN
    """The child whose pods wait for new nodes."""
    came: tuple[str, Arriving | None] = ("", None)
    """That child, and the last new node of its pool that was seen without devices."""
    control_plane_silent: tuple[str, float] = UNSEEN
    """The child with pods that no scheduler and no controller has reported on."""
    unbound: tuple[str, float] = UNSEEN
    """The child with a pod that is bound to no node."""
    taken: tuple[str, float] = UNSEEN
    """The child that has lost its room on a node: to pods of others, or with the node."""
    node_away: tuple[str, float] = UNSEEN
    """The child with a node that takes no pod for now."""
    refused: tuple[str, float, int] = ("", 0.0, 0)
    """The child that lacks pods, and how often it was asked why."""
    probe: tuple[str, float, float] = ("", 0.0, 0.0)
    """The probe's child, and its age then by the API server's clock."""
    failed: tuple[str, float] = UNSEEN
    """The child Job that has ended while none of its pods shows it."""
    stuck: tuple[str, float] = UNSEEN
    """The child with a container that does not start."""
    faulty: tuple[str, float] = UNSEEN
    """The child whose devices have a fault."""
    outlived: tuple[str, float] = UNSEEN
    """The child whose programs ended in pods that run on."""
    stalled: tuple[str, float] = UNSEEN
    """The child that stands still, by its reporter's readings."""
    stalled_reading: datetime | None = None
    """When the first of these readings was made; None where no reporter answers."""
    interrupted: tuple[str, float, Failure | None] = ("", 0.0, None)
    """The child with a pod that was asked to end while its program ran, and the failure if the program then ends with exit code 0."""
    first: tuple[str, First | None] = ("", None)
    """The child, and what was seen first of it: that a pod was asked to end, or that a program failed."""
    suspended: tuple[str, bool, str] = ("", False, "")
    """The child, whether it was suspended, and since when it goes on: with each change what was seen of its pods is over."""
    released: frozenset[str] = frozenset()
    """The pods of that child that end without their Job counting it."""
    before: frozenset[str] = frozenset()
    """The pods of that child that a suspension has ended: with each more what was seen of its pods is over."""
    ending: float | None = None
    """Pods of an earlier attempt delay the next one."""
    lingering: tuple[str, float] = UNSEEN
    """The deleted Job whose pods run on; restarts with each request to delete them."""
    unseen: tuple[str, float] = UNSEEN
    """The Job of such pods that no watch shows, and when the API server was last asked for it."""
    kept: tuple[str, float] = UNSEEN
    """The deleted child that no status names and that stays."""
    unready: tuple[tuple[str, float], ...] = ()
    """Nodes of such pods that are NotReady, by name."""
    looked: float | None = None
    """The time of the last evaluation of the job."""
    made: tuple[str, float] = UNSEEN
    """The child that this process created, and when."""
    running: Lapse = NO_LAPSE
    """Since the current attempt's startTime."""
    failing: Lapse = NO_LAPSE
    """Since the job's failingSince."""
    paused: Lapse = NO_LAPSE
    """Since the end of the last attempt."""
    over: Lapse = NO_LAPSE
    """Since the job ended."""

    def of_new_child(self, uid: str, now: float) -> Sightings:
        """The sightings of a child that was created now: it has no pods yet, and its waits begin."""
        return self._replace(
            made=(uid, now), unbound=(uid, now), refused=(uid, now, 0), not_running=(State.PLACED, now)
        )
