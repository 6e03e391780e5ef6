"""The runner's ConfigMap in each namespace: created before a child needs it, verified each time, deleted with its last child.

Pods run its content as the job's own user, so the content is never trusted: every user who can write ConfigMaps in a namespace can
put another one under its name.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import cast

import structlog

from gpujob.cluster.cache.watched_kinds import RunnerMap
from gpujob.cluster.client.api_errors import ApiError, Forbidden
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused
from gpujob.cluster.writer.writes import NameConflict, NotLeader, Writer, foreign_runner
from gpujob.render.runner import Runner, digest_of, name_of
from gpujob.status.records.objects import ChildRecord
from gpujob.values.vocabulary import Label

log = structlog.get_logger(__name__)


class RunnerConfigMaps:
    """Keeps the ConfigMap where children need it; one write for a namespace's first job, none for the next ones."""

    def __init__(
        self, work: ControllerState, writer: Writer, runner: Runner, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._work, self._writer, self.runner, self._clock = work, writer, runner, clock
        self._digest = digest_of(runner.data)
        self._earlier = EarlierRunners(work, writer, runner.name)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unused_since: dict[str, float] = {}
        self._failed: dict[str, tuple[float, ChildNotCreated]] = {}
        """When the last apply in a namespace failed, and why."""

    async def ensure(self, namespace: str) -> None:
        """Returns when the namespace has the runner; raises NameConflict if another object has its name.

        Jobs that wait for the same write share its failure: one after the other they would wait for many times its length.
        """
        began = self._clock()
        async with self._locks[namespace]:
            self._unused_since.pop(namespace, None)
            held = self._held(namespace)
            if held is None:
                held = await self._apply(namespace, began)
            if held.digest != self._digest or not held.ready:
                raise NameConflict(foreign_runner(namespace, self.runner.name))

    async def _apply(self, namespace: str, asked: float) -> RunnerMap:
        at, failure = self._failed.get(namespace, (0.0, None))
        if failure is not None and asked < at:
            raise ChildNotCreated(str(failure), failure.retry_after)
        try:
            held = RunnerMap(await self._writer.apply_runner(self.runner.config_map(namespace)))
        except ChildNotCreated as error:
            self._failed[namespace] = self._clock(), error
            raise
        self._failed.pop(namespace, None)
        return held

    async def run(self, is_leader: Callable[[], bool]) -> None:
        """Deletes unneeded ConfigMaps and creates removed ones again, until cancelled."""
        while True:
            await asyncio.sleep(self._work.timings.runner_every)
            if is_leader() and self._work.index.cache.complete:
                await self.sweep()
                await self._earlier.sweep()

    async def sweep(self) -> None:
        """One pass over all namespaces."""
        needed = {child.namespace for child in self._work.index.children() if child.runner == self.runner.name}
        there = {namespace for namespace, _ in self._work.index.cache.objects("configmaps")}
        for namespace in sorted(needed - there):
            await self._guarded(namespace, self.ensure)
        for namespace in sorted(there):
            if namespace in needed:
                self._unused_since.pop(namespace, None)
            elif (
                self._clock() - self._unused_since.setdefault(namespace, self._clock())
                >= self._work.timings.runner_unused
            ):
                await self._guarded(namespace, self._remove)

    async def _remove(self, namespace: str) -> None:
        async with self._locks[namespace]:
            held = self._held(namespace)
            # A placement in flight may have seen it a moment ago; other objects are left alone.
            if held is None or held.digest != self._digest or self._under_way(namespace):
                return
            await self._writer.delete_runner(namespace, self.runner.name, held.uid)
            self._unused_since.pop(namespace, None)

    def _held(self, namespace: str) -> RunnerMap | None:
        return cast("RunnerMap | None", self._work.index.cache.get("configmaps", namespace, self.runner.name))

    def _under_way(self, namespace: str) -> bool:
        jobs = (self._work.index.jobs.get(uid) for uid in self._work.tasks)
        return any(job is None or job.namespace == namespace for job in jobs)

    async def _guarded(self, namespace: str, act: Callable[[str], object]) -> None:
        try:
            await act(namespace)  # type: ignore[misc]
        except (ApiError, NotLeader, NameConflict, ChildRefused, ChildNotCreated) as error:
            log.warning("runner not delivered or removed", namespace=namespace, error=str(error))


Location = tuple[str, str]
"""Namespace and name."""


class EarlierRunners:
    """Deletes the ConfigMaps of earlier versions once no child needs them, each with one read and one write.

    An upgrade changes the runner's content and so its name. Children of the earlier version keep using the old ConfigMap, whose
    name only they contain, because the operator has no right to list ConfigMaps. So every mounted name is recorded, and the
    ConfigMap is deleted when no running child mounts it any more. The chart's role grants that for the earlier names.
    """

    def __init__(self, work: ControllerState, writer: Writer, name: str) -> None:
        """`name` is that of this version's ConfigMap."""
        self._work, self._writer, self._name = work, writer, name
        self._noted: set[Location] = set()
        self._settled: set[Location] = set()

    async def sweep(self) -> None:
        """One pass over all children, including ended ones."""
        children = cast("list[ChildRecord]", list(self._work.index.cache.objects("jobs").values()))
        self._noted |= {(child.namespace, child.runner) for child in children if child.runner not in ("", self._name)}
        needed = {(child.namespace, child.runner) for child in children if not child.ended}
        # A ConfigMap that a new child mounts (an earlier version led again) is checked once more.
        self._settled -= needed
        for place in sorted(self._noted - needed - self._settled):
            try:
                await self._remove(*place)
            except NotLeader:
                return
            except Forbidden:
                log.warning(
                    "an earlier runner stays: the role does not name it",
                    namespace=place[0],
                    name=place[1],
                    remedy=f"kubectl delete configmap {place[1]} --namespace {place[0]}",
                )
            except ApiError as error:
                log.warning("earlier runner not removed", namespace=place[0], name=place[1], error=str(error))
                continue
            self._settled.add(place)

    async def _remove(self, namespace: str, name: str) -> None:
        """Deletes it if its content matches its name; keeps another ConfigMap of that name."""
        raw = await self._writer.find_runner(namespace, name)
        if raw is None:
            return
        held, labels = RunnerMap(raw), raw["metadata"].get("labels") or {}
        if Label.RUNNER in labels and name == name_of(held.digest):
            await self._writer.delete_earlier_runner(namespace, name, held.uid)
