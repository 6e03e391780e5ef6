"""One evaluation of one job: what it reads, the sightings and the time of the next reconcile that it leaves, and its waits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpujob.lifecycle.attempts import has_run
from gpujob.lifecycle.children import TERMINAL, current_child, pods_of
from gpujob.lifecycle.failures.failure import Failure
from gpujob.lifecycle.failures.order import First, seen_first
from gpujob.lifecycle.failures.suspensions import fails_job_in_vain, may_fail_job_in_vain, of_before, released, replaced
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Made, Moment
from gpujob.status.attempts.exclusions import Clocks, by_own_clock, with_right_times
from gpujob.status.observe.child import Observation, observe
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.values.untrusted import whole_number


class Evaluation:
    """The job with its child and the child's pods; `sightings`, `requeue_after` and `watches_nodes` are the results beside the
    action."""

    def __init__(self, view: JobView, sightings: Sightings, now: Moment, timings: Timings) -> None:
        self.view, self.now, self.timings = view, now, timings
        self.sightings, self.requeue_after, self.watches_nodes = sightings, math.inf, False
        self.job = _as_observed(view.job)
        self.child = self._as_made(current_child(self.job, view.children))
        self.all_pods = pods_of(self.child, view.pods) if self.child else []
        """The child's pods, including pods that an earlier suspension has ended or still ends."""
        self._departed = self._gone() if self.child else []
        self._before = self._note_suspension(self.child) if self.child else frozenset[str]()
        self.pods = self._without_suspended(self.all_pods)
        """The child's pods."""
        self._observed: tuple[ChildRecord, Observation] | None = None

    @property
    def job_as_left_out(self) -> JobRecord:
        """The job with the pools and nodes that count as left out now, whatever the server's clock says: what one more is added to."""
        status, _, _ = by_own_clock(self.job.status, self.view.left_out, self._clocks, self.timings.exclusions)
        return replace(self.job, status=status)

    @property
    def _clocks(self) -> Clocks:
        return Clocks(self.now.elapsed, self.now.server, self.now.here)

    def with_right_exclusions(self) -> Mapping[str, Any] | None:
        """The status with pools and nodes left out until the right times, where a wrong clock wrote them; None where they are right."""
        lasts = self.timings.exclusions
        if not any(self.job.status.get(member) for member in lasts):
            return None
        self.requeue(self.timings.clocks)
        return with_right_times(self.job.status, self.view.left_out, self._clocks, lasts)

    def observe(self, child: ChildRecord) -> Observation:
        """The state of the child and its pods; several steps of one evaluation read it."""
        if self._observed is None or self._observed[0] is not child:
            pods = self.known_pods if child.ended else self.pods
            seen = observe(child, pods, ran=has_run(self.job), refused=self.refused, ending=self.ending)
            self._observed = child, seen
        return self._observed[1]

    @property
    def refused(self) -> str:
        """What events reported about the child's pods; empty if nothing, or if they were not read."""
        return self.view.refused or ""

    @property
    def ending(self) -> int:
        """The number of pods from before the child's resumption that have not ended: the Job controller creates no others until
        then."""
        return sum(pod.phase not in TERMINAL for pod in self.all_pods if pod not in self.pods)

    def _gone(self) -> list[PodState]:
        """The child's pods that are gone, in their last known state."""
        there = {pod.name for pod in self.all_pods}
        return [pod for pod in pods_of(self.child, self.view.departed) if pod.name not in there] if self.child else []

    def _without_suspended(self, pods: Iterable[PodState]) -> list[PodState]:
        """The pods without those that a suspension has ended."""
        return [pod for pod in pods if pod.name not in self._before]

    @property
    def known_pods(self) -> list[PodState]:
        """The child's pods, including gone ones in their last known state, sorted by name: for a Job that has ended."""
        return sorted((*self.pods, *self._without_suspended(self._departed)), key=lambda pod: pod.name)

    def unwritten(self, child: ChildRecord) -> Made | None:
        """The placement of a child that this process created, while no status names it."""
        made = self.view.made
        return made if made and made.uid == child.uid and self.job.status.get("jobName") != child.name else None

    def see(self, **changes: Any) -> None:
        """Changes sightings, by name; most evaluations see what the one before saw."""
        if any(getattr(self.sightings, name) != value for name, value in changes.items()):
            self.sightings = self.sightings._replace(**changes)

    def requeue(self, seconds: float) -> None:
        """Reconciles again after this number of seconds at the latest; a time in the past has no effect."""
        if seconds > 0:
            self.requeue_after = min(self.requeue_after, seconds)

    def seconds_left(self, name: str, child: ChildRecord, seconds: float) -> float:
        """Seconds left of a wait that began when the sighting `name` was first made of this child; requeues the job for its end."""
        self.sighted_at(name, child)
        left: float = getattr(self.sightings, name)[1] + seconds - self.now.elapsed
        self.requeue(left)
        return left

    def sighted_at(self, name: str, child: ChildRecord) -> datetime:
        """The server's time of the first sighting `name` of this child; no jump of the server's clock makes a wait shorter."""
        if getattr(self.sightings, name)[0] != child.uid:
            self.see(**{name: (child.uid, self.now.elapsed)})
        elapsed: float = getattr(self.sightings, name)[1]
        return self.now.server - timedelta(seconds=self.now.elapsed - elapsed)

    def first_of(self, child: ChildRecord) -> First | None:
        """The first event of a child: a request to end one of its pods, or a failed program."""
        held, first = self.sightings.first
        if held == child.uid:
            return first
        if (found := seen_first(child, self.known_pods)) is not None:
            self.see(first=(child.uid, found))
        return found

    def _note_suspension(self, child: ChildRecord) -> frozenset[str]:
        """The pods from before a suspension of the child. The sightings of its pods are void when the child is suspended or
        resumed, and with each such pod, since the watch of Jobs may be behind that of pods."""
        turn, held, pods = (child.uid, child.paused, child.resumed), self.sightings, [*self.all_pods, *self._departed]
        same = held.suspended[0] == child.uid
        let_go = released(child, pods, held.released if same else ())
        before = of_before(child, pods, let_go)
        if same and (held.suspended != turn or before - held.before):
            self.see(first=("", None), interrupted=("", 0.0, None))
        self.see(suspended=turn, released=let_go | before, before=before)
        return before

    def failure_in_vain(self, child: ChildRecord) -> Failure | None:
        """The failure of a child that Kubernetes failed, or may have failed, because of a pod that it had ended itself; None if it
        did not."""
        pods = [*self.all_pods, *self._departed]
        if pod := fails_job_in_vain(child, pods, self.sightings.released):
            return replaced(child, pod)
        pod = may_fail_job_in_vain(child, pods, self.first_of(child))
        return replaced(child, pod, certain=False) if pod else None

    def _as_made(self, child: ChildRecord | None) -> ChildRecord | None:
        """The child with its original decision, if its annotations no longer contain it."""
        made = self.unwritten(child) if child else None
        return replace(child, hint=made.hint) if child and made and child.hint != made.hint else child


def _as_observed(job: JobRecord) -> JobRecord:
    """The job as if it had its earlier generation: a deletion counts as a generation, and the job requests nothing new."""
    if not job.leaving:
        return job
    return replace(job, generation=whole_number(job.status.get("observedGeneration")) or job.generation)
