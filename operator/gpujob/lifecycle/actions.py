"""The next action for a job: values that `gpujob.cluster` performs, one at a time for each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gpujob.lifecycle.sightings import Sightings
from gpujob.status.attempts.probe_runs import Result
from gpujob.status.records.objects import ChildRecord


class Numbers(Enum):
    """Whether a status has other progress, throughput or cost than the stored one, or another sentence alone."""

    SAME = "same"
    MOVED = "moved"
    """The difference is written when the job is due."""
    NEWS = "news"
    """The difference is written before the job is due."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing to do now."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The job has no child and waits for a placement; the scheduling cycle decides."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status if it changed."""

    status: Mapping[str, Any]
    numbers: Numbers = Numbers.SAME


@dataclass(frozen=True, slots=True)
class Finish:
    """Record the attempt's measurement, then write the final status."""

    child: ChildRecord
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndProbe:
    """Record a probe's measurement, then write that its attempt is over."""

    child: ChildRecord
    result: Result


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Delete a Job with its Service and pods."""

    child: ChildRecord
    pods_first: bool = False
    """Delete the pods before the Job: a finalizer keeps the Job, and until it goes its pods would run on."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Write that an attempt gives its GPUs back because its pods are not bound, unless the API server shows them bound: a watch
    that is silent must not end a running gang."""

    child: ChildRecord
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the Service of a gang again."""

    child: ChildRecord


@dataclass(frozen=True, slots=True)
class ReadRefusal:
    """Read why the API server refuses pods of a child, or why a pod of it cannot start a container: only events say it."""

    child: ChildRecord
    pod: str = ""
    """The pod whose events are read; empty for those of the Job."""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the GPUJob, which has ended and was to stay only so long."""


@dataclass(frozen=True, slots=True)
class EndUnseen:
    """Delete the Job of pods that run on, which no status names, if no watch will ever show it: its label was taken off."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ConfirmEnd:
    """End the attempt of a Job that has ended by the pods that the API server has: the watch does not show how they ended."""

    child: ChildRecord


@dataclass(frozen=True, slots=True)
class ConfirmLoss:
    """Check with the API server whether the recorded child is gone, and end the job if it is."""


Action = (
    Nothing
    | Schedule
    | WriteStatus
    | Finish
    | GiveBack
    | EndProbe
    | DeleteChild
    | CreateService
    | ReadRefusal
    | DeleteJob
    | EndUnseen
    | ConfirmEnd
    | ConfirmLoss
)


@dataclass(frozen=True, slots=True)
class Next:
    """One action, the new state, and the time of the next reconcile."""

    action: Action
    sightings: Sightings
    requeue_after: float | None = None
    """Seconds until the next reconcile without changes."""
    watches_nodes: bool = False
    """Whether a change of any node starts a reconcile."""
