"""The writes of one job, each a step that runs alone and ends: render and create, end, confirm a loss, report.

Afterwards the job is reconciled again. An error of one step affects only that job, whose step is repeated with backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Mapping
from typing import Any, Final

import structlog

from gpujob.cluster.cache.watched_kinds import JOBS, SERVICES, claim_templates
from gpujob.cluster.client.api_errors import ApiError, Fenced
from gpujob.cluster.client.outage_gate import LONGEST_OUTAGE_DELAY, is_outage
from gpujob.cluster.client.rate_limit import retry_after_of
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.queue.creations import Creations
from gpujob.cluster.queue.step_slots import StepSlots
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused
from gpujob.cluster.writer.writes import NameConflict, NotLeader, Writer
from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import Action, EndProbe, Finish, GiveBack, WriteStatus
from gpujob.lifecycle.attempts import end_attempt, gone, newly_failed, next_attempt
from gpujob.lifecycle.children import live_pods, message_of_wait, without_owner
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.view import JobView, Made
from gpujob.placement.scoring.candidate import Decision
from gpujob.render.attempt import Numbered
from gpujob.render.children import render, rendezvous
from gpujob.status.attempts import probe_runs, waits
from gpujob.status.attempts.probe_runs import Result
from gpujob.status.job import job_status, status_patch
from gpujob.status.job.telemetry import SILENT
from gpujob.status.records.objects import ChildRecord, Hint, JobRecord, PodState
from gpujob.status.records.read_objects import is_followed, read_child
from gpujob.values.untrusted import table, whole_number
from gpujob.values.vocabulary import Reason

log = structlog.get_logger(__name__)

REFUSALS: Final = frozenset({Reason.NAME_CONFLICT.value, Reason.CHILD_REFUSED.value, Reason.CHILD_NOT_CREATED.value})
"""Reasons that a try found; a status with them is no progress."""

AT_ONCE: Final = 32
"""Jobs of one namespace with writes in flight at the same time."""

AT_ONCE_IN_ALL: Final = 96
"""Jobs of all namespaces with writes in flight: fewer than the client's connections, which the Lease needs too."""

LISTS_OF_EVENTS: Final = 2
"""Lists of events at the same time: the API server reads all events of a namespace for each."""


class JobActions:
    """Starts steps and performs their writes, with bounded concurrency."""

    def __init__(
        self, controller_state: ControllerState, writer: Writer, delivery: RunnerConfigMaps, learning: ProfileUpdates
    ) -> None:
        self._work, self._writer, self._delivery = controller_state, writer, delivery
        self._learning = learning
        self._event_lists = asyncio.Semaphore(LISTS_OF_EVENTS)
        self._creations = Creations(controller_state.clock, controller_state.timings)
        self._slots = StepSlots(AT_ONCE, AT_ONCE_IN_ALL, self._creations.hanging, controller_state.clock)

    def start(self, job: JobRecord, step: Coroutine[Any, Any, None], *, urgent: bool = False) -> None:
        """Runs one step of a job; afterwards the job is reconciled again. `urgent`: it goes first where many wait."""
        task = asyncio.create_task(self._guarded(job, step, urgent), name=f"{job.namespace}/{job.name}")
        task.add_done_callback(lambda _: self._step_ended(job, step))
        self._work.tasks[job.uid] = task

    def report(self, job: JobRecord, status: Mapping[str, Any], *, moved: bool = False) -> None:
        """Writes a status that changed; `moved`: its progress is worth a write too."""
        if (changes := status_patch.patch(job.status, status, moved=moved)) is not None:
            self.start(job, self._write_changes(job, status, changes))

    async def end_tasks(self) -> None:
        """Cancels the steps in flight, so that nothing is written after the Lease is released."""
        tasks = list(self._work.tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def place(self, job: JobRecord, decision: Decision, runtime_classes: Container[str]) -> None:
        """Creates the children of a placed job: the objects that its pods need first, then the Job. Later rounds write its status.

        `runtime_classes`: the names of those that existed at the decision.
        """
        manifest, choice = self._work.manifest(job), decision.choice
        if manifest is None or choice is None or not self._is_current(job):
            return
        began, attempt = self._work.clock(), next_attempt(job)
        if attempt > 1 and (left := await self._earlier_pods(job)):
            self._work.requeue_with_backoff(job, message_of_wait(left, attempt), job.version)
            return
        hint, runner = job_status.hint(decision), None if job_status.runs_unchecked(job) else self._delivery.runner
        saves = whole_number(table(job.status, "checkpoint").get("saveSeconds"))
        mirrors, spec = self._work.index.catalog.mirrors, job.spec_digest
        children = render(
            manifest, choice, attempt, runtime_classes, decision.digest, hint, runner, saves, mirrors, spec
        )
        with self._creations.one(job.namespace), self._work.open_creations.one(job, attempt, decision, runtime_classes):
            if children.runner:
                await self._delivery.ensure(job.namespace)
            if children.service is not None:
                await self._writer.ensure_child(SERVICES, children.service, job)
            if children.claims is not None:
                await self._writer.ensure_child(claim_templates(children.claims), children.claims, job)
            raw, created = await self._writer.ensure_child(JOBS, children.job, job)
        if not created and not is_followed(raw, job):
            await self._end_unseen(job, raw)
            return
        self._work.queue.discard(job.uid)
        # The previous attempt's report says nothing about this one.
        self._work.telemetry.pop(job.uid, None)
        # A job that is gone by now leaves nothing behind.
        if (memory := self._work.memory.get(job.uid)) is not None:
            self._work.succeeded(job.uid)
            uid, now = str(table(raw, "metadata").get("uid", "")), self._work.clock()
            memory.made = None
            if created:
                memory.made = Made(uid, job.generation, spec, now, Hint(hint), self._creations.burst(now))
                memory.sightings = memory.sightings.of_new_child(uid, now)
        if created:
            self._work.counters.placing.observe(self._work.clock() - began)
            waited = (self._work.wall() - asked).total_seconds() if (asked := waits.read_time(job.created)) else 0.0
            self._work.counters.queue_wait.observe(waited)

    def _is_current(self, job: JobRecord) -> bool:
        """Whether a job is still the one that was decided: it may have been deleted or edited while its step waited for a slot."""
        newest = self._work.index.jobs.get(job.uid)
        return newest is not None and not newest.leaving and newest.generation == job.generation

    async def _pods_of(self, job: JobRecord) -> tuple[PodState, ...]:
        """The pods of all attempts by the API server itself, because the watch may lag behind."""
        return tuple(await self._writer.find_pods(job, self._work.index.pods_of(job)))

    async def _earlier_pods(self, job: JobRecord) -> list[PodState]:
        """The pods of earlier attempts on nodes that are ready."""
        pods = live_pods(job, await self._pods_of(job))
        ready = self._work.index.nodes_ready(pods)
        return [pod for pod in pods if not pod.node or ready.get(pod.node)]

    async def create_service(self, job: JobRecord, child: ChildRecord) -> None:
        """Creates a gang's Service again after its deletion; a running gang continues whatever the result."""
        if (manifest := self._work.manifest(job)) is None:
            return
        try:
            service = rendezvous(Numbered(manifest, child.attempt))
            held, created = await self._writer.ensure_child(SERVICES, service, job)
            if not created:
                self._work.requeue_with_backoff(job, "the watch does not show the Service of its child", job.version)
                if not is_followed(held, job):
                    await self._writer.delete_service(child, str(table(held, "metadata").get("uid")))
        except ChildNotCreated as error:
            self._work.requeue_after_outage(job, error)
        except (NameConflict, ChildRefused) as error:
            self._work.requeue_with_backoff(job, error, job.version)

    async def read_refusal(self, job: JobRecord, child: ChildRecord, pod: str = "") -> None:
        """Reads why the API server refuses pods of a child, or why `pod` of it does not start; without an answer nothing changes."""
        try:
            async with self._event_lists:
                words = await self._writer.find_refusal(child, pod)
        except ApiError as error:
            log.warning("events not read", job=f"{job.namespace}/{job.name}", error=str(error))
            return
        if (memory := self._work.memory.get(job.uid)) and (words or not (pod or memory.refused_to(child))):
            memory.refused = child.uid, words

    async def delete_child(self, child: ChildRecord, *, pods_first: bool = False) -> None:
        """Deletes a child, its Service first: while the Job exists this is repeated."""
        service = self._work.index.service(child)
        if service is not None and service.uid:
            await self._writer.delete_service(child, service.uid)
        await self._writer.delete_child(child, pods_first=pods_first)

    async def delete_job(self, job: JobRecord) -> None:
        """Deletes a GPUJob that has ended (ttlSecondsAfterFinished); its Job, Service and pods go with it."""
        await self._writer.delete_job(job)

    async def finish(self, job: JobRecord, child: ChildRecord, status: Mapping[str, Any]) -> None:
        """Writes how a job ended, and before that its measurement: after a crash between the two both are repeated."""
        if not status.get("startTime"):
            status = await self._by_the_api_server(job, child) or status
        await self._learning.remember(job, child)
        await self.write(job, status)

    async def give_back(self, job: JobRecord, child: ChildRecord, status: Mapping[str, Any]) -> None:
        """Ends an attempt whose pods are not bound, if the API server shows it too."""
        held = await self._writer.find_child(job, child.name)
        pods, lost = await self._pods_of(job), self._work.index.lost_rooms(child)
        if held is not None and isinstance(self._action_by(job, read_child(held), pods, lost_rooms=lost), GiveBack):
            await self.write(job, status)
        else:
            self._work.requeue_with_backoff(job, "the watch does not show what became of its pods", job.version)

    async def _by_the_api_server(self, job: JobRecord, child: ChildRecord) -> Mapping[str, Any] | None:
        """The final status by the pods that the API server has: the watch may not have shown yet that they ran."""
        pods = await self._pods_of(job)
        action = self._action_by(job, child, pods) if any(pod.started for pod in pods) else None
        return action.status if isinstance(action, Finish | WriteStatus) else None

    def _action_by(self, job: JobRecord, child: ChildRecord, pods: tuple[PodState, ...], **others: Any) -> Action:
        """The next action by pods that the API server has, whatever the watch shows; `others`: more of the view."""
        index, memory = self._work.index, self._work.remember(job.uid)
        departed, refused = index.departed_of(child), memory.refused_to(child)
        read, ready = self._work.telemetry.get(job.uid, SILENT), index.nodes_ready(pods)
        faults = index.node_faults((*pods, *departed))
        known = {"made": memory.made, "left_out": memory.excluded, "departed": departed, "refused": refused, **others}
        view = JobView(job, (child,), pods, ready, faults=faults, telemetry=read, **known)
        return next_action(view, memory.sightings, self._work.moment(), self._work.timings).action

    async def end_trial(self, job: JobRecord, child: ChildRecord, result: Result) -> None:
        """Writes the result of a probe; its child, which the status then no longer names, is deleted at the next reconcile."""
        parsed_spec, now = self._work.parsed_spec(job), self._work.wall()
        precision = parsed_spec.demand.work.precision.value if parsed_spec.demand else ""
        if not result.failed:
            await self._learning.remember(job, child)
        probes = probe_runs.with_result({"probes": probe_runs.kept(job)}, child, result, precision, now)
        self._work.telemetry.pop(job.uid, None)
        await self.write(job, end_attempt(job, child, endings.probe_over(result.sentence, probes), self._work.now()))

    async def confirm_loss(self, job: JobRecord) -> None:
        """A child that the cache lacks is lost only if the API server confirms it. One that lost its label is deleted: its attempt is
        over once nothing of it can be made any more."""
        name, memory = str(job.status["jobName"]), self._work.remember(job.uid)
        held = await self._writer.find_child(job, name)
        if held is None and (deleted := memory.unlabelled) is not None and deleted.name == name:
            await self._end_unlabelled(job, deleted)
            return
        if held is None:
            found = await self._pods_of(job)
            mine = [pod for pod in found if pod.child_name == name]
            began = max((pod.started for pod in mine), default="") if all(pod.started for pod in mine) else ""
            await self.write(job, gone(job, self._work.now(), began, without_owner(found)))
            return
        child = read_child(held)
        if child.ended:
            await self.confirm_end(job, child)
        elif not is_followed(held, job):
            memory.unlabelled = child
            await self._end_unlabelled(job, child)
            return
        self._work.requeue_with_backoff(job, "the watch does not show its child Job", job.version)

    async def confirm_end(self, job: JobRecord, child: ChildRecord) -> None:
        """Ends an attempt whose Job has ended by the pods that the API server has."""
        await self._end_by(job, child, self._action_by(job, child, await self._pods_of(job)))

    async def _end_unlabelled(self, job: JobRecord, child: ChildRecord) -> None:
        pods = await self._pods_of(job)
        await self._writer.delete_child(child, pods_first=True)
        await self._end_by(job, child, self._action_by(job, child, pods, disowned=True))

    async def _end_by(self, job: JobRecord, child: ChildRecord, action: Action) -> None:
        """Performs the end of an attempt whose child no watch shows."""
        match action:
            case Finish(status=status):
                await self.finish(job, child, status)
            case WriteStatus(status=status):
                await self.write(job, status)
            case EndProbe(result=result):
                await self.end_trial(job, child, result)
            case _:
                self._work.requeue_with_backoff(job, "its pods do not show how its child ended", job.version)

    async def end_unseen(self, job: JobRecord, name: str, uid: str) -> None:
        """Deletes a Job that no watch shows and no status names; keeps one that the watch will show."""
        held = await self._writer.find_named(job, name)
        if held is not None and read_child(held).uid == uid and not is_followed(held, job):
            await self._end_unseen(job, held)

    async def _end_unseen(self, job: JobRecord, held: Any) -> None:
        """Its label was taken off, so that the operator would never see its end. Its pods go first: a finalizer can keep the Job."""
        self._work.requeue_with_backoff(job, "its child lost its label and is deleted", job.version)
        await self._writer.delete_child(read_child(held), pods_first=True)

    async def write(self, job: JobRecord, status: Mapping[str, Any], *, moved: bool = False) -> None:
        """Writes the changed part of a status; a write that no longer fits is repeated later."""
        if (changes := status_patch.patch(job.status, status, moved=moved)) is not None:
            await self._write_changes(job, status, changes)

    async def _write_changes(self, job: JobRecord, status: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        if not await self._writer.write_status(job, changes, status):
            # Gone or changed; the watch will show it, and until then the same write would fail again.
            self._work.requeue_with_backoff(job, "the job changed meanwhile", job.version)
            return
        self._work.counters.failed_attempts.update(newly_failed(job, status))
        if job.uid in self._work.memory and status.get("display", {}).get("reason") not in REFUSALS:
            self._work.succeeded(job.uid)

    async def _guarded(self, job: JobRecord, step: Coroutine[Any, Any, None], urgent: bool) -> None:
        try:
            async with self._slots.slot(job.namespace, urgent=urgent):
                await step
        except (NotLeader, Fenced):
            # This process may lead again, and the status still lacks what was not written.
            self._work.remember(job.uid).explained_for = None
            log.info("step dropped, another process leads", job=f"{job.namespace}/{job.name}")
        except NameConflict as error:
            await self._refused_write(job, error, Reason.NAME_CONFLICT, str(error))
        except ChildRefused as error:
            await self._refused_write(job, error, Reason.CHILD_REFUSED, f"the API server refuses its child: {error}")
        except ChildNotCreated as error:
            await self._not_created(job, error)
        except ApiError as error:
            if is_outage(error.status):
                self._work.requeue_after_outage(job, error, error.retry_after)
            else:
                self._work.requeue_with_backoff(job, error, job.version)
        except Exception as error:  # an error of one job does not stop the others
            self._work.requeue_with_backoff(job, error, job.version)
            log.exception("step failed", job=f"{job.namespace}/{job.name}")

    def _step_ended(self, job: JobRecord, step: Coroutine[Any, Any, None]) -> None:
        """The job is reconciled again. A task that is cancelled before the step has a slot never begins it."""
        step.close()
        self._work.tasks.pop(job.uid, None)
        if self._work.open_creations.of(job.uid) is None:
            self._work.reserved.pop(job.uid, None)
        self._learning.step_ended(job.uid)
        self._work.dirty.add(job.uid)
        self._work.index.cache.changed.set()

    async def _refused_write(self, job: JobRecord, error: Exception, reason: Reason, message: str) -> None:
        """The job must be changed if the API server rejects its child: one condition, and another try later."""
        self._work.requeue_with_backoff(job, error, job.generation)
        await self._write_why(job, job_status.unreadable(job, reason, message[:1024], self._work.now()))

    async def _not_created(self, job: JobRecord, error: ChildNotCreated) -> None:
        """A child that can be created later: reported after two tries, because most such errors pass in a second; or at once if the
        creation hung, or the API server asks for a long wait. A request that was lost in an outage says nothing of the child."""
        within = max(LONGEST_OUTAGE_DELAY, retry_after_of(error.retry_after))
        failures = self._work.requeue_after_outage(job, error, error.retry_after)
        early = failures < 2 and within <= LONGEST_OUTAGE_DELAY and not self._creations.hanging.hangs(job.namespace)
        if early or self._work.open_creations.is_older(job.uid, self._work.outage.ended):
            return
        message = f"the API server did not create a child: {str(error)[:900]}; it is tried again within {within:g} s"
        await self._write_why(job, job_status.queued(job, Reason.CHILD_NOT_CREATED, message, self._work.now()))

    async def _write_why(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        try:
            await self.write(job, status)
        except (ApiError, NotLeader) as unwritten:
            log.warning("status not written", job=f"{job.namespace}/{job.name}", error=str(unwritten))
