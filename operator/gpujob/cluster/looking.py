"""What the next step of one job is, from what the mirror shows: observe its child, or queue it where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gpujob.cluster.desk import Desk, is_final, last_attempt, ran
from gpujob.cluster.progress_pace import EVERY
from gpujob.cluster.steps import Steps
from gpujob.fleet.arriving import Arriving
from gpujob.fleet.claims import selects
from gpujob.status import news, patience, probing, progress, report, telemetry
from gpujob.status.observe import Observation, held_in_vain, observe, waits_for_devices, why_not_bound
from gpujob.status.probing import Course, Result
from gpujob.status.records import ChildRecord, JobRecord
from gpujob.status.telemetry import SILENT
from gpujob.untrusted import table, whole_number
from gpujob.vocabulary import Reason, State

STARTING_AFTER: Final = 5.0
"""Seconds that a pod may take to start before Starting is worth a status write of its own."""

CHECKED_AFTER: Final = 30.0
"""Seconds instead, where the preflight has begun: with torch to import it takes as long, and its end is told anyway."""

UNBOUND_AFTER: Final = 20.0
"""Seconds that pods may be missing or without a node before that is worth one: a busy cluster takes a while."""

SERVICE_AFTER: Final = 2.0
"""Seconds that a gang's Service may be missing before it is made again: when a job goes, it may be seen to go first."""


FORGED_AFTER: Final = 30.0
"""Seconds that a final status must contradict a running child before it is corrected: watches may be that far apart."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Nodes that pods wait for: how much longer, and the one that came and has no devices yet."""

    seconds_left: float
    bare: Arriving | None


@dataclass(frozen=True, slots=True)
class Unbound:
    """Pods that no node has taken yet: how much longer they may hold its GPUs, why, and the end of that."""

    seconds_left: float
    why: str
    until: str


class Looking:
    """Looks at one job at a time; starts at most one step of it."""

    def __init__(
        self, desk: Desk, steps: Steps, provision_seconds: float, unbound_seconds: float = patience.UNBOUND_SECONDS
    ) -> None:
        self._desk, self._steps = desk, steps
        self._provision_seconds, self._unbound_seconds = provision_seconds, unbound_seconds

    def look(self, job: JobRecord) -> None:
        """What the next step of one job is: nothing, a write, or a place in the queue."""
        self._desk.queue.discard(job.uid)
        if job.uid in self._desk.passed_over:
            # Its write was under way when the queue was last decided, so that decision was not about it.
            self._desk.passed_over.discard(job.uid)
            self._desk.decided_at = ()
        if is_final(job) and not self._goes_on(job):
            return
        if job.leaving:
            # A deletion counts as a generation, of which there is nothing to tell.
            job = replace(job, generation=whole_number(job.status.get("observedGeneration")) or job.generation)
        memory = self._desk.remember(job.uid)
        if memory.retry_at > self._desk.clock() and memory.failed_on in (job.generation, job.version):
            self._desk.due[job.uid] = memory.retry_at
            return
        child = self._desk.book.child(job.uid)
        if child is None and job.leaving:
            self._look_at_what_is_left(job)
        elif child is None:
            self._look_without_child(job)
        else:
            self._look_at_child(job, child)

    def _goes_on(self, job: JobRecord) -> bool:
        """Whether a status is final although the child Job has long been seen to go on: not the operator's word."""
        memory, child = self._desk.remember(job.uid), self._desk.book.child(job.uid)
        if child is None or child.ended or child.leaving:
            memory.ended_since = None
            return False
        now = self._desk.clock()
        if memory.ended_since is None:
            memory.ended_since = now
        ripe = memory.ended_since + FORGED_AFTER
        if ripe > now:
            self._desk.due[job.uid] = ripe
        return ripe <= now

    def _look_at_what_is_left(self, job: JobRecord) -> None:
        """A deleted job stays while somebody's finalizer holds it: that nothing of it runs is told once."""
        if job.status.get("jobName"):
            self._steps.start(job, self._steps.confirm_loss(job))
        elif job.status.get("state") == State.QUEUED:
            self._steps.report(job, report.deleted(job, self._desk.now()))

    def _look_without_child(self, job: JobRecord) -> None:
        if job.status.get("jobName"):
            self._steps.start(job, self._steps.confirm_loss(job))
            return
        wish = self._desk.wish(job)
        if wish.demand is None:
            self._steps.report(job, report.unreadable(job, Reason.INVALID_SPEC, wish.problem, self._desk.now()))
        else:
            self._desk.queue.add(job.uid)

    def _look_at_child(self, job: JobRecord, child: ChildRecord) -> None:
        if is_final(job):
            # Somebody else wrote it: what the child shows is the truth.
            self._report_child(job, child)
            return
        retired = child.attempt <= last_attempt(job) and job.status.get("jobName") != child.name
        if (
            not child.leaving
            and job.spec.get("suspend") is not True
            and self._cannot_check(job, child, retired=retired)
        ):
            return
        trial = probing.steps_of(child) is not None
        result = self._trial_result(job, child) if trial and not retired else None
        if result is not None:
            self._steps.start(job, self._steps.end_trial(job, child, result))
        elif child.ended and not (trial and retired):
            self._report_child(job, child)
        elif child.leaving:
            self._look_at_leaving(job, child)
        elif retired:
            self._desk.remember(job.uid).not_running = None
            self._steps.start(job, self._steps.end(child))
        elif job.spec.get("suspend") is True:
            # Recorded before it is done: a crash, or a resume meanwhile, must not take the child's end for a loss.
            self._steps.report(job, report.suspending(job, child, self._desk.now()))
        elif (waiting := self._waits_for_nodes(job, child)) and waiting.seconds_left <= 0:
            self._steps.report(
                job, report.gave_up(job, child, self._provision_seconds, self._desk.wall(), waiting.bare)
            )
        elif (unbound := self._stays_unbound(job, child)) and unbound.seconds_left <= 0:
            seconds, now = self._unbound_seconds, self._desk.wall()
            self._steps.report(job, report.not_bound(job, child, unbound.why, seconds, now))
        elif not job.leaving and self._lost_service(job, child):
            self._steps.start(job, self._steps.serve(job, child))
        else:
            self._report_child(job, child, waiting.bare if waiting else None, unbound)

    def _look_at_leaving(self, job: JobRecord, child: ChildRecord) -> None:
        """A child that somebody deletes makes no pod any more: without one it is lost, though a finalizer may keep the object."""
        if job.status.get("jobName") == child.name and not self._desk.book.pods(child):
            end = report.deleted if job.leaving else report.lost
            self._steps.report(job, end(job, self._desk.now()))

    def _cannot_check(self, job: JobRecord, child: ChildRecord, *, retired: bool) -> bool:
        """Whether the image cannot run the preflight, so that the child gives way to an attempt without one.

        Recorded before it is done, as a suspension is: the status says what the next attempt must be.
        """
        checked = observe(child, self._desk.book.pods(child)).checked if child.preflight else None
        if checked is None or checked.reason is not Reason.NO_INTERPRETER or job.status.get("startTime"):
            return False
        if retired:
            self._steps.start(job, self._steps.end(child))
        else:
            self._steps.report(job, report.rechecked(job, child, checked.message, self._desk.now()))
        return True

    def _trial_result(self, job: JobRecord, child: ChildRecord) -> Result | None:
        """What a trial gave, once it is over; a trial whose program ends well was the whole job."""
        seen = observe(child, self._desk.book.pods(child), ran=ran(job))
        if child.ended == "Failed":
            return Result(str(child.hint.placement.get("pool", "")), failed=seen.message)
        if child.ended:
            return None
        said = self._desk.telemetry.get(job.uid, SILENT)
        course = self._course(job, child, seen, said.blocked)
        self._desk.look_again(job.uid, course.left)
        return probing.result(child, said.measured, course)

    def _course(self, job: JobRecord, child: ChildRecord, seen: Observation, blocked: str) -> Course:
        memory, now, made = self._desk.remember(job.uid), self._desk.clock(), patience.read_time(child.created)
        age = (self._desk.wall() - made).total_seconds() if made else 0.0
        if seen.state is not State.RUNNING and not job.status.get("startTime"):
            return Course(age, None, seen.message)
        if memory.ran_since[0] != child.name:
            memory.ran_since = child.name, now
        return Course(age, now - memory.ran_since[1], seen.message, blocked)

    def _waits_for_nodes(self, job: JobRecord, child: ChildRecord) -> Awaited | None:
        """What pods wait for that are to start on nodes to be added; None where none does.

        A node that came and has no devices yet is given its own time, once: a second node would be one too many.
        """
        self._desk.awaiting.discard(job.uid)
        if child.nodes or not child.hint.placement.get("provision") or job.status.get("startTime"):
            return None
        pods, begun = self._desk.book.pods(child), patience.read_time(child.created)
        if begun is None or (len(pods) >= child.pods and all(pod.node for pod in pods)):
            return None
        self._desk.awaiting.add(job.uid)
        now = self._desk.wall()
        bare = self._newest_without_devices(str(child.hint.placement.get("pool", "")), now)
        end = patience.end_of_wait(begun, bare, self._provision_seconds)
        left = (end - now).total_seconds()
        if left > 0:
            self._desk.look_again(job.uid, left)
        return Awaited(left, bare and replace(bare, until=patience.write_time(end)))

    def _stays_unbound(self, job: JobRecord, child: ChildRecord) -> Unbound | None:
        """What pods wait for that are to start on nodes that are there, while one of them is bound to none."""
        if not child.nodes or child.paused or job.status.get("startTime"):
            return None
        why, begun = why_not_bound(child, self._desk.book.pods(child)), patience.read_time(child.created)
        if not why or begun is None:
            return None
        end = begun + timedelta(seconds=self._unbound_seconds)
        left = (end - self._desk.wall()).total_seconds()
        if left > 0:
            self._desk.look_again(job.uid, left)
        return Unbound(left, why, patience.write_time(end))

    def _newest_without_devices(self, pool: str, now: datetime) -> Arriving | None:
        """The node of an admin's pool that came last and offers no devices."""
        admin = next((admin for admin in self._desk.book.admin_pools() if admin.name == pool), None)
        if admin is None:
            return None
        newcomers = self._desk.book.newcomers(now, self._provision_seconds)
        found = [arriving for node, arriving in newcomers if selects(admin.selector, node.labels)]
        return max(found, key=lambda arriving: arriving.since, default=None)

    def _lost_service(self, job: JobRecord, child: ChildRecord) -> bool:
        """Whether a gang's Service has been gone for longer than one watch may be ahead of another."""
        memory = self._desk.remember(job.uid)
        if not self._desk.book.lacks_service(child):
            memory.no_service_since = None
            return False
        now = self._desk.clock()
        if memory.no_service_since is None:
            memory.no_service_since = now
        self._desk.look_again(job.uid, memory.no_service_since + SERVICE_AFTER - now)
        return memory.no_service_since + SERVICE_AFTER <= now

    def _report_child(
        self, job: JobRecord, child: ChildRecord, bare: Arriving | None = None, unbound: Unbound | None = None
    ) -> None:
        seen = observe(child, self._desk.book.pods(child), ran=ran(job))
        if unbound and seen.stuck and seen.state is State.PLACED:
            seen = held_in_vain(seen, unbound.until)
        seen = waits_for_devices(bare) if bare and seen.state is State.PLACED else self._patiently(job, seen)
        said = self._desk.telemetry.get(job.uid, SILENT)
        status = report.placed(job, child, seen, None, self._desk.now(), said)
        if seen.state.final and not is_final(job) and news.patch(job.status, status) is not None:
            self._steps.start(job, self._steps.finish(job, child, status))
            return
        moved = seen.state is State.RUNNING and self._moved(job, status)
        self._steps.report(job, status, moved=moved)

    def _moved(self, job: JobRecord, status: Mapping[str, Any]) -> bool:
        """Whether progress, speed, cost and reading are to be written now; the job is looked at again when they will be."""
        if not progress.differs(job.status, status) and not telemetry.differs(job.status, status):
            self._desk.look_again(job.uid, EVERY)
            return False
        soon = progress.is_worth_a_write(job.status, status) or telemetry.is_news(job.status, status)
        wait = self._desk.progress.wait(job.uid, soon=soon)
        if wait > 0:
            self._desk.look_again(job.uid, wait)
        return wait <= 0

    def _patiently(self, job: JobRecord, seen: Observation) -> Observation:
        """That pods do not run yet is said only once it has lasted: most run before anyone could read it."""
        memory = self._desk.remember(job.uid)
        if seen.state not in (State.PLACED, State.STARTING):
            memory.not_running = None
            return seen
        known = job.status.get("startTime") or table(job.status, "display").get("reason") == seen.reason
        if seen.reason is Reason.CHILD_SUSPENDED and known:
            memory.not_running = None
            return seen
        now = self._desk.clock()
        if memory.not_running is None or memory.not_running[0] is not seen.state:
            memory.not_running = (seen.state, now)
        starting = CHECKED_AFTER if seen.checking else STARTING_AFTER
        ripe = memory.not_running[1] + (starting if seen.state is State.STARTING else UNBOUND_AFTER)
        if ripe <= now or job.status.get("state") == State.STARTING:
            return seen
        self._desk.look_again(job.uid, ripe - now)
        return Observation(State.PLACED, Reason.PLACED, seen.message)
