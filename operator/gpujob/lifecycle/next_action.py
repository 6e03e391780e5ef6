"""next_action: the next step of a job, from the cluster's state, the observations with their times, and the time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from gpujob.fleet.pools.arriving import Arriving
from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import (
    Action,
    ConfirmLoss,
    CreateService,
    DeleteChild,
    DeleteJob,
    EndProbe,
    Finish,
    GiveBack,
    Next,
    Nothing,
    Numbers,
    Schedule,
    WriteStatus,
)
from gpujob.lifecycle.attempts import (
    end_attempt,
    ended_at,
    failures,
    gone,
    has_failed,
    has_run,
    is_final,
    is_retired,
    is_too_late,
    larger_memory,
    last_attempt,
    may_retry,
    next_attempt,
    pause,
    pause_left,
    with_entry,
    with_failure,
)
from gpujob.lifecycle.children import TERMINAL, current_child, live_pods, pods_of, said_of, superfluous
from gpujob.lifecycle.device_faults import DeviceFault, device_faults
from gpujob.lifecycle.endings import Ending
from gpujob.lifecycle.failures import Blame, Failure, failure_of, lost_with_node
from gpujob.lifecycle.limits import nearest_limit, seconds_to_live
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.start_failures import start_failure
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Made, Moment
from gpujob.status.attempts import probe_runs, progress, waits
from gpujob.status.attempts.probe_runs import Course, Result
from gpujob.status.job import job_status, status_patch, telemetry
from gpujob.status.observe.child import Observation, held_in_vain, observe, waits_for_devices, why_not_bound
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.values.names import child_name
from gpujob.values.untrusted import table, tables, whole_number
from gpujob.values.vocabulary import ConditionType, Reason, State


def next_action(view: JobView, sightings: Sightings, now: Moment, timings: Timings) -> Next:
    """The next action for a job; the only state is `Next.sightings`."""
    step = _Step(view, sightings, now, timings)
    action = step.action()
    after = step.requeue_after if step.requeue_after < math.inf else None
    return Next(action, step.sightings, after, step.watches_nodes)


@dataclass(frozen=True, slots=True)
class _AwaitedNodes:
    """Nodes that pods wait for: the remaining time, and the new one without devices."""

    seconds_left: float
    bare: Arriving | None


@dataclass(frozen=True, slots=True)
class _Unbound:
    """Pods without a node: the remaining time with their GPUs, the reason, and the deadline."""

    seconds_left: float
    why: str
    until: str


def _failed_by_deadline(job: JobRecord) -> bool:
    """Whether the status says that the job failed at its deadline."""
    failed = (c for c in tables(job.status, "conditions") if c.get("type") == ConditionType.FAILED)
    return any(c.get("reason") == Reason.DEADLINE_EXCEEDED for c in failed)


class _Step:
    """One evaluation; its members are the results beside the action."""

    def __init__(self, view: JobView, sightings: Sightings, now: Moment, timings: Timings) -> None:
        self.sightings, self.requeue_after, self.watches_nodes = sightings, math.inf, False
        self._view, self._now, self._timings = view, now, timings
        job = view.job
        if job.leaving:
            # A deletion counts as a generation, and the job requests nothing new.
            job = replace(job, generation=whole_number(job.status.get("observedGeneration")) or job.generation)
        self._job = job
        self._child = self._as_made(current_child(job, view.children))
        self._pods = pods_of(self._child, view.pods) if self._child else []

    def action(self) -> Action:
        job, child = self._job, self._child
        if (extra := next(superfluous(job, self._view.children), None)) is not None:
            return DeleteChild(extra)
        if (lingering := self._lingering()) is not None:
            return DeleteChild(lingering, pods_first=True)
        if is_final(job):
            return self._after_the_end(child)
        if child is not None:
            return self._with_child(child)
        return self._leaving_without_child() if job.leaving else self._without_child()

    def _after_the_end(self, child: ChildRecord | None) -> Action:
        """What ended stays ended; a child that outlives its job's end is deleted, and later the job, if it has a time to live."""
        if child is not None and self._has_to_go(child):
            return DeleteChild(child)
        if child is not None and self._is_forged_end(child):
            return self._report_child(child)
        left = None if self._job.leaving else seconds_to_live(self._job, self._now.server)
        if left is not None and left <= 0 and not (child is not None and not child.ended):
            return DeleteJob()
        self._requeue(left or 0.0)
        return Nothing()

    # Without a child

    def _leaving_without_child(self) -> Action:
        """A deleted job stays while a finalizer holds it; that nothing of it runs is written once."""
        if self._job.status.get("jobName"):
            return ConfirmLoss()
        if self._job.status.get("state") == State.QUEUED:
            return WriteStatus(gone(self._job, self._now.text))
        return Nothing()

    def _without_child(self) -> Action:
        if self._job.status.get("jobName"):
            return ConfirmLoss()
        if error := self._view.spec_error:
            return WriteStatus(job_status.unreadable(self._job, Reason.INVALID_SPEC, error, self._now.text))
        if self._job.spec.get("suspend") is not True and (limited := self._at_limit()) is not None:
            return limited
        if self._job.spec.get("suspend") is True:
            # A plan starts nothing, so that it does not wait.
            return Schedule()
        if (left := pause_left(self._job, self._now.server, self._timings)) > 0:
            self._requeue(left)
            return Nothing()
        pods = self._pods_in_the_way()
        if pods:
            return self._wait_for(pods)
        return Schedule() if self._view.over_budget == "" else self._wait_for_budget(self._view.over_budget)

    def _wait_for_budget(self, message: str | None) -> Action:
        """The namespace has spent its monthly budget, or (None) what it has spent is not known yet."""
        self._requeue(self._timings.budgets if message else 1.0)
        if not message:
            return Nothing()
        return WriteStatus(job_status.queued(self._job, Reason.NAMESPACE_BUDGET_EXCEEDED, message, self._now.text))

    def _at_limit(self) -> Action | None:
        """The end, or the suspension, of a job whose attempts have reached a limit that may have been lowered since."""
        job, now = self._job, self._now
        limit = nearest_limit(job, job.status, now.server)
        if limit is None or limit.seconds_left > 0:
            return None
        if limit.reason is Reason.BUDGET_EXCEEDED:
            return WriteStatus(job_status.over_budget(job, limit.message, now.text))
        name = child_name(job.name, job.uid, last_attempt(job)) if last_attempt(job) else ""
        return WriteStatus(job_status.expired(job, job.status, limit.reason, limit.message, name, now.text))

    def _wait_for(self, pods: list[PodState]) -> Action:
        """Two attempts never overlap: the earlier one may be saving its checkpoint."""
        self.watches_nodes = True
        now = self._now.elapsed
        since = self.sightings.ending if self.sightings.ending is not None else now
        self._see(ending=since)
        left = since + self._timings.restarting - now
        if left > 0 and self._job.status.get("state") != State.RESTARTING:
            self._requeue(left)
            return Nothing()
        message = said_of(pods, next_attempt(self._job))
        return WriteStatus(job_status.restarting(self._job, message, self._now.text))

    def _pods_in_the_way(self) -> list[PodState]:
        """Pods of earlier attempts that may still run; none if their nodes are deleted or have been NotReady for long."""
        pods, now = live_pods(self._job, self._view.pods), self._now.elapsed
        ready = self._view.nodes_ready
        before = dict(self.sightings.unready)
        unready = {pod.node: before.get(pod.node, now) for pod in pods if ready.get(pod.node) is False}
        self._see(unready=tuple(sorted(unready.items())))
        for since in unready.values():
            self._requeue(since + self._timings.node_lost - now)
        lost = {node for node, since in unready.items() if now - since >= self._timings.node_lost}
        # Kubernetes has waited for these already.
        lost |= {pod.node for pod in lost_with_node(pods, ready)}
        found = [pod for pod in pods if not pod.node or (pod.node in ready and pod.node not in lost)]
        if not found:
            self._see(ending=None)
        return found

    def _lingering(self) -> ChildRecord | None:
        """A deleted Job whose pods run on, because a finalizer holds the Job and garbage collection waits for it."""
        now = self._now.elapsed
        for child in self._view.children:
            pods = pods_of(child, self._view.pods) if child.leaving and not child.ended else []
            if not any(pod.phase not in TERMINAL and not pod.leaving for pod in pods):
                continue
            if self.sightings.lingering[0] != child.uid:
                self._see(lingering=(child.uid, now))
            left = self.sightings.lingering[1] + self._timings.cascade - now
            if left <= 0:
                self._see(lingering=(child.uid, now))
                self._requeue(self._timings.cascade)
                return child
            self._requeue(left)
        return None

    # With a child

    def _with_child(self, child: ChildRecord) -> Action:
        job, retired, suspend = self._job, is_retired(self._job, child), self._job.spec.get("suspend") is True
        if not child.leaving and not suspend and (message := self._lacks_interpreter(child)):
            return DeleteChild(child) if retired else self._end(child, endings.no_interpreter(message))
        probe = probe_runs.steps_of(child) is not None
        if probe and not retired and (result := self._probe_result(child)):
            return EndProbe(child, result)
        if child.ended and not (probe and retired):
            return self._ended_child(child, follows=not (retired or probe))
        if child.leaving:
            return self._leaving_child(child)
        if retired:
            self._see(not_running=None)
            return DeleteChild(child)
        if suspend:
            return self._end(child, endings.suspension(child))
        if (made := self._unwritten(child)) and made.generation != job.generation:
            # Only a status that names the child forbids to change the spec.
            return DeleteChild(child)
        return self._starting_or_running(job, child)

    def _ended_child(self, child: ChildRecord, *, follows: bool) -> Action:
        """The end of the job, or of a failed attempt that another one follows."""
        job, seen = self._job, self._observe(child)
        if child.ended != "Failed":
            return self._finish(child, seen)
        if self._awaits_failed_pod(child):
            return Nothing()
        failure = failure_of(child, self._pods, seen, self._faults(child))
        if not may_retry(job, failure.blame, self._now.server) or not follows or job.leaving:
            return self._finish(child, self._at_last(seen, failure), failure.blame.value)
        return self._again(child, failure)

    def _again(self, child: ChildRecord, failure: Failure) -> Action:
        """The end of an attempt that failed; another one follows after a pause."""
        job = self._job
        members = with_failure(job, failure.blame, self._now.text)
        number = members["failures"][failure.blame.value.lower()]
        checkpoint = progress.after_failure(job.status, self._view.telemetry.measured)
        members["checkpoint"] = checkpoint
        if failure.fits and (memory := larger_memory(job, failure.fits)):
            members["gpuMemory"] = memory
        if failure.nodes:
            seconds, now = self._timings.node_excluded, self._now.server
            members["excludedNodes"] = waits.with_excluded(
                job.status, failure.nodes, child.attempt, failure.reason, now, seconds
            )
        ended = waits.read_time(ended_at(child, self._now.text)) or self._now.server
        until = waits.write_time(max(self._now.server, ended + timedelta(seconds=pause(number, self._timings))))
        return self._end(child, endings.failed(failure, members, until, child.attempt + 1))

    def _finish(self, child: ChildRecord, seen: Observation, blame: str = "") -> Action:
        """The end of the job: its measurement is recorded, then its status is final."""
        job = self._job
        status = job_status.placed(job, child, seen, self._now.text, self._view.telemetry)
        if blame and (checkpoint := progress.after_failure(job.status, self._view.telemetry.measured)):
            status |= {"checkpoint": checkpoint}
        status = with_entry(job, child, status, (seen.reason.value, blame, seen.message), seen.ended or self._now.text)
        new = not is_final(job) and status_patch.patch(job.status, status) is not None
        return Finish(child, status) if new else WriteStatus(status)

    def _awaits_failed_pod(self, child: ChildRecord) -> bool:
        """Whether the watch of Jobs is ahead of that of pods: only its pods show why a Job failed."""
        if len(self._pods) < child.pods or any(pod.phase == "Failed" or pod.leaving for pod in self._pods):
            return False
        return self._left("failed", child, self._timings.failed_pods) > 0

    def _starting_or_running(self, job: JobRecord, child: ChildRecord) -> Action:
        timings, now = self._timings, self._now.server
        moved = self._moved_by_fault(child) or self._moved_by_loss(child) or self._ended_by_start(child)
        if moved is not None:
            return moved
        awaited = self._awaited_nodes(child)
        if awaited and awaited.seconds_left <= 0:
            return self._end(child, endings.nodes_did_not_come(job, child, timings.provision, now, awaited.bare))
        unbound = self._unbound(child)
        if unbound and unbound.seconds_left <= 0:
            seconds = self._unbound_seconds(child)
            rest = seconds * timings.rest_factor
            ending = endings.not_bound(job, child, unbound.why, seconds, rest, now)
            return GiveBack(child, self._end(child, ending).status)
        if not job.leaving and self._lost_service():
            return CreateService(child)
        return self._report_child(child, awaited.bare if awaited else None, unbound)

    def _faults(self, child: ChildRecord) -> list[DeviceFault]:
        return list(device_faults(child, self._pods, self._view.faults))

    def _moved_by_fault(self, child: ChildRecord) -> Action | None:
        """The end of an attempt on broken devices: the program gets SIGTERM and goes on elsewhere. Where no attempt is left it runs
        on, since it may still end well."""
        faults = [] if self._job.leaving or probe_runs.steps_of(child) is not None else self._faults(child)
        if not faults:
            self._see(faulty=("", 0.0))
            return None
        if not may_retry(self._job, Blame.INFRASTRUCTURE, self._now.server):
            return None
        if self._left("faulty", child, self._timings.device_fault) > 0:
            return None
        nodes = tuple(sorted({fault.node for fault in faults}))
        failure = Failure(Blame.INFRASTRUCTURE, Reason.DEVICE_FAULT, faults[0].message, faults[0].node, nodes=nodes)
        return self._again(child, failure)

    def _moved_by_loss(self, child: ChildRecord) -> Action | None:
        """The end of an attempt whose node is dead: its pod is evicted and cannot end, so that its Job does not fail either."""
        lost = lost_with_node(self._pods, self._view.nodes_ready) if not self._job.leaving else []
        if not lost or probe_runs.steps_of(child) is not None:
            return None
        return self._failed(child, failure_of(child, lost, self._observe(child)))

    def _ended_by_start(self, child: ChildRecord) -> Action | None:
        """The end of an attempt of which a container does not start: nothing of it holds a GPU for longer."""
        seconds = self._timings.stuck
        failure = start_failure(self._pods, seconds) if not self._job.status.get("startTime") else None
        if failure is None or self._job.leaving or probe_runs.steps_of(child) is not None:
            self._see(stuck=("", 0.0))
            return None
        return self._failed(child, failure) if self._left("stuck", child, seconds) <= 0 else None

    def _failed(self, child: ChildRecord, failure: Failure) -> Action:
        """The end of an attempt whose child Job has not ended, and of the job where none is left."""
        if may_retry(self._job, failure.blame, self._now.server):
            return self._again(child, failure)
        seen = Observation(State.FAILED, failure.reason, failure.message, ended=self._now.text)
        return self._finish(child, self._at_last(seen, failure), failure.blame.value)

    def _at_last(self, seen: Observation, failure: Failure) -> Observation:
        """The last words of a job that is not tried again."""
        retried = failures(self._job).get(failure.blame.value.lower(), 0)
        return endings.seen_at_last(seen, failure, retried, too_late=is_too_late(self._job, self._now.server))

    def _has_to_go(self, child: ChildRecord) -> bool:
        """Whether a job has ended while this child runs: at its deadline, or with an attempt that cannot end by itself."""
        job = self._job
        if child.ended or child.leaving:
            return False
        if job.spec.get("activeDeadlineSeconds") is not None and _failed_by_deadline(job):
            return True
        if not has_failed(job, child.attempt):
            return False
        stuck = start_failure(self._pods, 0.0) is not None and not any(pod.started for pod in self._pods)
        return stuck or bool(lost_with_node(self._pods, self._view.nodes_ready))

    def _leaving_child(self, child: ChildRecord) -> Action:
        """A deleted Job creates no pods: without one it is lost, though a finalizer may keep the object."""
        if self._job.status.get("jobName") != child.name or self._pods:
            return Nothing()
        return WriteStatus(gone(self._job, self._now.text))

    def _end(self, child: ChildRecord, ending: Ending) -> WriteStatus:
        """Writes the end of an attempt before anything is deleted, so that a crash in between does not look like a loss."""
        return WriteStatus(end_attempt(self._job, child, ending, self._now.text, self._observe(child).started))

    def _lacks_interpreter(self, child: ChildRecord) -> str:
        """The preflight's message about an image that cannot run it; empty if it can or the job has run."""
        checked = observe(child, self._pods).checked if child.preflight else None
        if checked is None or checked.reason is not Reason.NO_INTERPRETER or self._job.status.get("startTime"):
            return ""
        return checked.message

    # A probe

    def _probe_result(self, child: ChildRecord) -> Result | None:
        """The result of a probe, once it is over; a probe whose program ends successfully was the whole job."""
        seen = self._observe(child)
        if child.ended == "Failed":
            return Result(str(child.hint.placement.get("pool", "")), failed=seen.message)
        if child.ended:
            return None
        course = self._course(child, seen)
        self._requeue(course.left)
        return probe_runs.result(child, self._view.telemetry.measured, course)

    def _course(self, child: ChildRecord, seen: Observation) -> Course:
        limits = self._timings.probe
        if self.sightings.probe[0] != child.uid:
            made = waits.read_time(child.created)
            age = max(0.0, (self._now.server - made).total_seconds()) if made else 0.0
            self._see(probe=(child.uid, self._now.elapsed, age))
        _, since, age = self.sightings.probe
        age += self._now.elapsed - since
        if seen.state is not State.RUNNING and not self._job.status.get("startTime"):
            return Course(age, None, seen.message, limits=limits)
        if self.sightings.ran[0] != child.name:
            self._see(ran=(child.name, self._now.elapsed))
        ran = self._now.elapsed - self.sightings.ran[1]
        return Course(age, ran, seen.message, self._view.telemetry.blocked, limits)

    # Bounded waits of an attempt

    def _awaited_nodes(self, child: ChildRecord) -> _AwaitedNodes | None:
        """What pods wait for that start on new nodes; None if no pod does.

        A new node without devices gets its own wait, once: another node would be one too many.
        """
        pods = self._pods
        if child.nodes or not child.hint.placement.get("provision") or self._job.status.get("startTime"):
            return None
        if len(pods) >= child.pods and all(pod.node for pod in pods):
            return None
        self.watches_nodes = True
        if self.sightings.awaited[0] != child.uid:
            self._see(awaited=(child.uid, self._now.elapsed))
        begun = self._server_time(self.sightings.awaited[1])
        bare = self._view.bare_node
        end = waits.end_of_wait(begun, bare, self._timings.provision)
        left = (end - self._now.server).total_seconds()
        self._requeue(left)
        return _AwaitedNodes(left, bare and replace(bare, until=waits.write_time(end)))

    def _unbound(self, child: ChildRecord) -> _Unbound | None:
        """What pods wait for that start on existing nodes; None if each is bound."""
        if not child.nodes or child.paused or self._job.status.get("startTime"):
            return None
        why = why_not_bound(child, self._pods)
        if not why:
            self._see(unbound=("", 0.0))
            return None
        if self.sightings.unbound[0] != child.uid:
            self._see(unbound=(child.uid, self._now.elapsed))
        end = self._server_time(self.sightings.unbound[1]) + timedelta(seconds=self._unbound_seconds(child))
        left = (end - self._now.server).total_seconds()
        self._requeue(left)
        return _Unbound(left, why, waits.write_time(end))

    def _unbound_seconds(self, child: ChildRecord) -> float:
        """How long pods hold the GPUs of nodes to which the scheduler does not bind all of them."""
        timings = self._timings
        return min(timings.unbound, timings.unbound_gang) if child.pods > 1 else timings.unbound

    def _lost_service(self) -> bool:
        """Whether a gang's Service has been missing for longer than two watches can differ."""
        if not self._view.lacks_service:
            self._see(no_service=None)
            return False
        now = self._now.elapsed
        since = self._see(no_service=now).no_service if self.sightings.no_service is None else self.sightings.no_service
        left = (since or 0.0) + self._timings.service - now
        self._requeue(left)
        if left <= 0:
            self._see(no_service=None)
        return left <= 0

    def _is_forged_end(self, child: ChildRecord) -> bool:
        """Whether a status is final although the child Job has run on for long: the operator did not write it."""
        if child.ended or child.leaving:
            self._see(forged_end=None)
            return False
        now = self._now.elapsed
        if self.sightings.forged_end is None:
            self._see(forged_end=now)
        left = (self.sightings.forged_end or 0.0) + self._timings.forged_end - now
        self._requeue(left)
        return left <= 0

    # What the status says of a child

    def _as_made(self, child: ChildRecord | None) -> ChildRecord | None:
        """The child with its original decision, if its annotations no longer contain it."""
        made = self._unwritten(child) if child else None
        return replace(child, hint=made.hint) if child and made else child

    def _unwritten(self, child: ChildRecord) -> Made | None:
        """What this process made the child of, while no status names it."""
        made = self._view.made
        return made if made and made.uid == child.uid and self._job.status.get("jobName") != child.name else None

    def _is_reported_later(self, child: ChildRecord, seen: Observation) -> bool:
        """Whether a child was made just now and may soon run, so that Placed and Running are one write."""
        made = self._unwritten(child)
        if made is None or not child.nodes or seen.state is not State.PLACED or seen.reason is not Reason.PLACED:
            return False
        left = made.since + self._timings.placed - self._now.elapsed
        self._requeue(left)
        return left > 0

    def _observe(self, child: ChildRecord) -> Observation:
        return observe(child, self._pods, ran=has_run(self._job))

    def _report_child(
        self, child: ChildRecord, bare: Arriving | None = None, unbound: _Unbound | None = None
    ) -> Action:
        job, seen = self._job, self._observe(child)
        if unbound and seen.stuck and seen.state is State.PLACED:
            seen = held_in_vain(seen, unbound.until)
        seen = waits_for_devices(bare) if bare and seen.state is State.PLACED else self._patiently(seen)
        if self._is_reported_later(child, seen):
            return Nothing()
        view = self._view
        status = job_status.placed(job, child, seen, self._now.text, view.telemetry, view.price_now)
        if not child.leaving and (limited := self._limited(child, status)) is not None:
            return limited
        numbers = self._numbers(status) if seen.state is State.RUNNING else Numbers.SAME
        return WriteStatus(status, numbers)

    def _limited(self, child: ChildRecord, status: Mapping[str, Any]) -> Action | None:
        """The end of an attempt whose job has reached a limit; `status` is what would be said otherwise."""
        limit = nearest_limit(self._job, status, self._now.server)
        if limit is None:
            return None
        if limit.seconds_left > 0:
            if status.get("startTime") and limit.seconds_left < math.inf:
                self._requeue(limit.seconds_left)
            return None
        if limit.reason is Reason.BUDGET_EXCEEDED:
            return self._end(child, endings.over_budget(limit.message))
        last = job_status.expired(self._job, status, limit.reason, limit.message, child.name, self._now.text)
        why = (limit.reason.value, "", limit.message)
        return Finish(child, with_entry(self._job, child, last, why, self._now.text))

    def _numbers(self, status: Mapping[str, Any]) -> Numbers:
        held = self._job.status
        if not progress.differs(held, status) and not telemetry.differs(held, status):
            self._requeue(self._timings.progress)
            return Numbers.SAME
        news_of_it = progress.is_worth_a_write(held, status) or telemetry.is_news(held, status)
        return Numbers.NEWS if news_of_it else Numbers.MOVED

    def _patiently(self, seen: Observation) -> Observation:
        """Pods that do not run yet are reported only after a delay: most run before a user could read it."""
        job, timings, now = self._job, self._timings, self._now.elapsed
        if seen.state not in (State.PLACED, State.STARTING):
            self._see(not_running=None)
            return seen
        known = job.status.get("startTime") or table(job.status, "display").get("reason") == seen.reason
        if seen.reason is Reason.CHILD_SUSPENDED and known:
            self._see(not_running=None)
            return seen
        if self.sightings.not_running is None or self.sightings.not_running[0] is not seen.state:
            self._see(not_running=(seen.state, now))
        since = self.sightings.not_running[1] if self.sightings.not_running else now
        starting = timings.checking if seen.checking else timings.starting
        ripe = since + (starting if seen.state is State.STARTING else timings.pending)
        if ripe <= now or job.status.get("state") == State.STARTING:
            return seen
        self._requeue(ripe - now)
        return Observation(State.PLACED, Reason.PLACED, seen.message)

    # Results beside the action

    def _server_time(self, elapsed: float) -> datetime:
        """The server's time of an observation by the monotonic clock; no jump of the server's clock makes a wait shorter."""
        return self._now.server - timedelta(seconds=self._now.elapsed - elapsed)

    def _left(self, name: str, child: ChildRecord, seconds: float) -> float:
        """Seconds left of a wait that began when the sighting `name` was first made of this child; requeues the job for its end."""
        if getattr(self.sightings, name)[0] != child.uid:
            self._see(**{name: (child.uid, self._now.elapsed)})
        left: float = getattr(self.sightings, name)[1] + seconds - self._now.elapsed
        self._requeue(left)
        return left

    def _see(self, **changes: Any) -> Sightings:
        self.sightings = replace(self.sightings, **changes)
        return self.sightings

    def _requeue(self, seconds: float) -> None:
        """Reconciles again after this number of seconds at the latest; a time in the past has no effect."""
        if seconds > 0:
            self.requeue_after = min(self.requeue_after, seconds)
