"""Reconciles one job at a time: gathers its view, gets the next action from the lifecycle, performs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.queue.open_creations import OpenCreation
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.fleet.gpupools.selection import selects
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.pool import Pool
from gpujob.lifecycle import actions
from gpujob.lifecycle.actions import Action, Numbers
from gpujob.lifecycle.attempts import is_final, next_attempt
from gpujob.lifecycle.children import TERMINAL, current_child
from gpujob.lifecycle.next_action import next_action
from gpujob.lifecycle.view import JobView, Made
from gpujob.status.attempts.spending import gpus_of
from gpujob.status.attempts.waits import read_time
from gpujob.status.job.telemetry import RECENT, SILENT
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState


class JobReconciler:
    """Starts at most one step of a job, or puts the job into the queue."""

    def __init__(
        self, work: ControllerState, steps: JobActions, over_budget: Callable[[str], str | None] = lambda namespace: ""
    ) -> None:
        self._work, self._steps, self._over_budget = work, steps, over_budget
        self._pools: dict[str, list[Pool]] = {}
        """The pools with their parts, by the name of the GPUPool, and until when their prices are believed."""
        self._prices_until = -math.inf

    def reconcile(self, job: JobRecord) -> None:
        """Performs the next action of a job, unless a failed step waits for its repetition."""
        work = self._work
        if job.uid in work.passed_over:
            # Its write was in flight during the last decision about the queue, so that decision did not cover it.
            work.passed_over.discard(job.uid)
            work.decided_at = ()
        if job.uid not in work.queue:
            # This reconcile sets the time of the next one; the time that an earlier one set is void.
            work.due.pop(job.uid, None)
        action: Action = actions.Nothing()
        try:
            action = self._next_action(job)
        finally:
            # A waiting job stays in the queue; its reconcile changes nothing there.
            if not isinstance(action, actions.Schedule):
                work.queue.discard(job.uid)
        self._perform(job, action)

    def interrupt(self, job: JobRecord) -> None:
        """Ends the wait for the answer to a creation that the job needs no more, or while a Job of it is shown: the job goes on."""
        work, creation = self._work, self._work.open_creations.of(job.uid)
        if creation is None:
            return
        shown = any(not (child.ended or child.leaving) for child in work.index.children_of(job.uid))
        if job.leaving or job.generation != creation.generation or shown:
            if (wait := work.open_creations.seconds_to_answer(job.uid)) > 0:
                work.requeue_after(job.uid, wait)
            else:
                work.tasks[job.uid].cancel()

    def _next_action(self, job: JobRecord) -> Action:
        """The next action of a job; none while a failed step waits for its repetition."""
        work = self._work
        memory = work.remember(job.uid)
        if memory.retry_at > work.clock() and memory.failed_on in (job.generation, job.version):
            work.due[job.uid] = memory.retry_at
            return actions.Nothing()
        if (wait := work.outage.wait()) > 0:
            work.held.add(job.uid)
            work.requeue_after(job.uid, wait)
            return actions.Nothing()
        work.held.discard(job.uid)
        if memory.made is not None and (wait := self._seconds_to_start(job, memory.made)) > 0:
            work.requeue_after(job.uid, wait)
            return actions.Nothing()
        view = self._view(job)
        found = next_action(view, memory.sightings, work.moment(), work.timings)
        memory.sightings = found.sightings
        if not isinstance(found.action, actions.Schedule):
            work.settle(job.uid)
        if found.watches_nodes:
            work.awaiting.add(job.uid)
        else:
            work.awaiting.discard(job.uid)
        if found.requeue_after is not None:
            work.requeue_after(job.uid, found.requeue_after)
        if is_final(job) and isinstance(found.action, actions.Nothing) and all(child.ended for child in view.children):
            self._put_aside(job, goes=found.requeue_after is not None)
        return found.action

    def _put_aside(self, job: JobRecord, *, goes: bool) -> None:
        """Forgets all of an ended job but its record, once its figures are not exposed any more. `goes`: it has a time to live."""
        work, ended = self._work, read_time(job.status.get("completionTime"))
        if goes and ended is not None and ended > work.wall():
            # The server's clock was set back: only this process remembers how long ago that was.
            return
        left = (
            (ended + RECENT - work.wall()).total_seconds() if ended is not None and job.uid in work.telemetry else 0.0
        )
        if left > 0:
            work.requeue_after(job.uid, left)
        else:
            work.put_aside(job.uid)

    def _seconds_to_start(self, job: JobRecord, made: Made) -> float:
        """Seconds in which a new child has nothing to report, because its pods are being created and bound; 0 if it has something.

        Its pods change three times until they run, and reconciling the job costs more than reading its pods. Its waits count from
        its creation.
        """
        left = made.seconds_left(self._work.timings.placed, self._work.clock())
        if left <= 0 or job.leaving or job.generation != made.generation:
            return 0.0
        # Jobs and pods of attempts that have failed stay for their logs.
        children = self._work.index.children_of(job.uid)
        children = [child for child in children if child.uid == made.uid or not child.ended]
        if len(children) != 1 or not _only_starts(children[0], made) or job.status.get("jobName") == children[0].name:
            return 0.0
        if self._work.index.strays_of(job):
            return 0.0
        pods = self._work.index.pods_of(job)
        pods = [pod for pod in pods if pod.child_uid == made.uid or pod.phase not in TERMINAL]
        return left if all(map(_is_new, pods)) else 0.0

    def _view(self, job: JobRecord) -> JobView:
        index, children = self._work.index, self._work.index.children_of(job.uid)
        child, pods, memory = current_child(job, children), index.pods_of(job), self._work.remember(job.uid)
        if child and job.status.get("jobName") == child.name:
            memory.made = None
        if child is None:
            over_budget = "" if is_final(job) else self._over_budget(job.namespace)
            ready, error = index.nodes_ready(pods), self._spec_error(job)
            strays, left_out = index.strays_of(job), memory.excluded
            return JobView(job, children, pods, ready, error, over_budget=over_budget, strays=strays, left_out=left_out)
        departed = index.departed_of(child)
        # Pods of earlier attempts stay for their logs.
        unbound = not job.status.get("startTime") and sum(bool(pod.node) for pod in index.pods(child)) < child.pods
        return JobView(
            job,
            children,
            pods,
            index.nodes_ready(pods),
            lacks_service=index.lacks_service(child),
            made=memory.made,
            bare_node=self._newest_bare_node(child),
            faults=index.node_faults((*pods, *departed)),
            price_now=self._price_now(child),
            strays=index.strays_of(job),
            departed=departed,
            lost_rooms=index.lost_rooms(child) if unbound else {},
            refused=memory.refused_to(child),
            left_out=memory.excluded,
            pods_lag=bool(child.ended) and _lag(child, (*index.pods(child), *departed)),
            telemetry=self._work.telemetry.get(job.uid, SILENT),
        )

    def _price_now(self, child: ChildRecord) -> int | None:
        """What a child's placement costs an hour at the prices of now, which are read once a minute.

        None for nodes that were added for the job: it may pay for devices of theirs that it leaves idle.
        """
        now, placement = self._work.clock(), child.hint.placement
        if child.ended or placement.get("provision"):
            return None
        if now >= self._prices_until:
            self._pools = {}
            for pool in self._work.index.fleet().pools:
                self._pools.setdefault(pool.family, []).append(pool)
            self._prices_until = now + self._work.timings.prices
        price = _price_on(child.nodes, self._pools.get(str(placement.get("pool", "")), ()))
        gpus = gpus_of(placement)
        return price * gpus if price is not None and gpus else None

    def _spec_error(self, job: JobRecord) -> str:
        """Why the spec of a waiting job cannot be read; other jobs need no parsed spec."""
        if is_final(job) or job.leaving or job.status.get("jobName"):
            return ""
        parsed_spec = self._work.parsed_spec(job)
        return parsed_spec.problem if parsed_spec.demand is None else ""

    def _newest_bare_node(self, child: ChildRecord) -> Arriving | None:
        """The newest node of an admin's pool without devices, if pods wait for nodes of that pool."""
        placement, work = child.hint.placement, self._work
        if child.nodes or not placement.get("provision"):
            return None
        admin = next(
            (admin for admin in work.index.admin_pools() if admin.name == str(placement.get("pool", ""))), None
        )
        if admin is None:
            return None
        newcomers = work.index.newcomers(work.wall(), work.timings.provision)
        found = [arriving for node, arriving in newcomers if selects(admin.selector, node.labels)]
        return max(found, key=lambda arriving: arriving.since, default=None)

    def _perform(self, job: JobRecord, action: Action) -> None:
        steps = self._steps
        match action:
            case actions.Schedule():
                if (creation := self._to_repeat(job)) is not None:
                    steps.start(job, steps.place(job, creation.decision, creation.runtime_classes), urgent=True)
                else:
                    self._work.settle(job.uid)
                    self._work.queue.put(job.uid, job.generation)
            case actions.WriteStatus(status, numbers):
                steps.report(job, status, moved=numbers is not Numbers.SAME and self._has_turn(job, numbers))
            case actions.Finish(child, status):
                steps.start(job, steps.finish(job, child, status))
            case actions.GiveBack(child, status):
                steps.start(job, steps.give_back(job, child, status))
            case actions.EndProbe(child, result):
                steps.start(job, steps.end_trial(job, child, result))
            case actions.DeleteChild(child, pods_first):
                steps.start(job, steps.delete_child(child, pods_first=pods_first))
            case actions.CreateService(child):
                steps.start(job, steps.create_service(job, child))
            case actions.ReadRefusal(child, pod):
                steps.start(job, steps.read_refusal(job, child, pod))
            case actions.DeleteJob():
                steps.start(job, steps.delete_job(job))
            case actions.EndUnseen(name, uid):
                steps.start(job, steps.end_unseen(job, name, uid))
            case actions.ConfirmEnd(child):
                steps.start(job, steps.confirm_end(job, child))
            case actions.ConfirmLoss():
                steps.start(job, steps.confirm_loss(job))
            case actions.Nothing():
                pass

    def _to_repeat(self, job: JobRecord) -> OpenCreation | None:
        """The creation without an answer that is repeated, while its nodes are ready."""
        found = self._work.open_creations.to_repeat(job, next_attempt(job))
        return found if found is not None and self._work.index.are_ready(filter(None, found.nodes)) else None

    def _has_turn(self, job: JobRecord, numbers: Numbers) -> bool:
        """Whether progress, throughput and cost are due for a write now; otherwise the job is requeued for that time."""
        wait = self._work.progress.wait(job.uid, soon=numbers is Numbers.NEWS)
        if wait > 0:
            self._work.requeue_after(job.uid, wait)
        return wait <= 0


def _only_starts(child: ChildRecord, made: Made) -> bool:
    """Whether a child is the one that was made, pinned to its nodes, and goes on."""
    return child.uid == made.uid and bool(child.nodes) and not (child.ended or child.leaving or child.paused)


def _lag(child: ChildRecord, pods: Sequence[PodState]) -> bool:
    """Whether a child Job has ended and none of its pods as the watch shows them says how."""
    if child.ended == "Failed":
        return not any(pod.phase == "Failed" for pod in pods)
    return not all(pod.gone or pod.phase in TERMINAL for pod in pods)


def _is_new(pod: PodState) -> bool:
    """Whether a pod shows nothing but that it exists, or that it is bound."""
    return pod.phase == "Pending" and not (
        pod.leaving or pod.started or pod.waiting_reason or pod.check or pod.unhealthy
    )


def _price_on(nodes: Collection[str], family: Iterable[Pool]) -> int | None:
    """Micro-dollars an hour of a device of a pool, or of a part of it that has all these nodes; None if it is unknown."""
    has_them = (pool for pool in family if not pool.part_of or (nodes and pool.positions.keys() >= set(nodes)))
    return min((pool.price.per_gpu_hour for pool in has_them if pool.price is not None), default=None)
