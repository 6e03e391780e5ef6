"""The real controller on the simulated API server: it may be killed, lose requests and answers, see late, or lead beside another."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any

from gpujob.catalog.catalog import Catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.server_clock import ServerClock
from gpujob.cluster.controller.controller import Reconciler
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner import Runner
from tests.simulation.api_server import ApiServer, Object

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})
LATENCY = 0.01
WATCH = 0.03

Call = Callable[[], Object]
Fault = Callable[["OperatorProcess", Call], Coroutine[Any, Any, Object]]
"""What becomes of one write: makes it, or not, or later, and gives or raises the answer."""


Trouble = Callable[[str, str], ApiError | None]
"""What the API server answers to a verb on a path instead of doing it; None: nothing is wrong."""


def _selected(plural: str, objects: Iterable[Object]) -> list[Object]:
    """What lists and watches of a kind show: Jobs and Services by the label."""
    return [obj for obj in objects if plural not in ("jobs", "services") or obj["metadata"].get("labels")]


class OperatorProcess:
    """One process, leading until it is killed. `skew`: seconds by which the clock of its machine is ahead."""

    def __init__(self, server: ApiServer, catalog: Catalog, timings: Timings | None = None, skew: float = 0.0) -> None:
        self.server, self.loop, self.leads, self.skew = server, server.loop, True, skew
        self.writes, self.faults = 0, dict[int, Fault]()
        self.frozen_until = 0.0
        self.trouble: Trouble = lambda verb, path: None
        self.delay: Callable[[str, str], float] = lambda verb, path: 0.0
        """Seconds that a write takes beside the latency."""
        self.refused_calls = 0
        self.cache = ObjectCache(mirrored(RUNNER.name))
        self.clock = ServerClock(self.loop.time, lambda: server.time() + timedelta(seconds=self.skew))
        self.clock.note(server.date())
        for kind in self.cache.kinds:
            self.cache.replace(kind, _selected(kind, server.objects[kind].values()), str(server.version))
        server.on_change.append(self._changed)
        leader = lambda: self.leads  # noqa: E731
        writer = Writer(self, self.cache, leader, "here", self.clock.now)  # type: ignore[arg-type]
        self.index = ClusterIndex(self.cache, catalog, self.loop.time, self.clock.now)
        self.reconciler = Reconciler(
            self.index,
            writer,
            leader,
            RUNNER,
            timings or Timings(),
            self.loop.time,
            self.clock.now,
            # Runs of one seed are alike, and two processes of one run draw other numbers.
            chance=random.Random(server.version).random,
        )
        self.reconciler.work.here, self.clock.on_set = self.clock.here, self.reconciler.clock_was_set
        self._events: deque[tuple[str, str, Object]] = deque()
        self.late: dict[str, float] = {}
        """Kinds whose watch lags: what happens before this second is seen then, in its order."""
        self._late: dict[str, deque[tuple[str, Object]]] = defaultdict(deque)
        self._tasks = [
            self.loop.create_task(self.reconciler.run()),
            self.loop.create_task(self.reconciler.budgets.run(leader)),
            self.loop.create_task(self.reconciler.orphans.run(leader)),
        ]

    def kill(self) -> None:
        """kill -9: nothing that it does after this moment reaches the server."""
        self.leads = False
        if self._changed in self.server.on_change:
            self.server.on_change.remove(self._changed)
        for task in self._tasks:
            task.cancel()

    def rests(self) -> bool:
        """Whether nothing of a job is under way or due; looks that are repeated without end do not count."""
        work = self.reconciler.work
        quiet = not (self._events or work.tasks or work.dirty or self.cache.changed.is_set())
        return not self.leads or (quiet and self.reconciler.seconds_to_next() is None)

    async def ended(self) -> None:
        """Waits until a killed one is gone."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Its watch

    def _changed(self, plural: str, event: str, obj: Object) -> None:
        if plural in self.cache.kinds and self.loop.time() < (until := self.late.get(plural, 0.0)):
            self._late[plural].append((event if _selected(plural, [obj]) else "DELETED", obj))
            self.loop.call_at(until, lambda: self.cache.apply(plural, *self._late[plural].popleft()))
        elif plural in self.cache.kinds:
            self._events.append((plural, event if _selected(plural, [obj]) else "DELETED", obj))
            self.loop.call_at(max(self.loop.time() + WATCH, self.frozen_until), self._deliver)

    def _deliver(self) -> None:
        """The next event in their order; one for each call, so that each takes its time."""
        if self.loop.time() < self.frozen_until:
            self.loop.call_at(self.frozen_until, self._deliver)
        else:
            self.cache.apply(*self._events.popleft())

    # Its client: what `ApiClient` offers

    async def get(self, path: str) -> Object:
        return await self._read(path, lambda: self.server.get(path))

    async def list_paged(self, path: str, params: Any = None) -> AsyncGenerator[Object, None]:
        namespace = path.split("/")[-2]
        await asyncio.sleep(LATENCY)
        self._meet_trouble("list", path)
        if "fieldSelector" in params:
            plural = path.rpartition("/")[2]
            named = self.server.objects[plural].get((namespace, params["fieldSelector"].partition("=")[2]))
            yield {"items": [named] if named else []}
            return
        wanted = params["labelSelector"].partition("=")[2]
        found = [
            pod
            for (where, _), pod in self.server.objects["pods"].items()
            if where == namespace and pod["metadata"]["labels"].get("gpujob.dev/job-uid") == wanted
        ]
        yield {"items": found}

    async def create(self, path: str, body: Object, *, patience: Any = None) -> Object:
        return await self._write("create", path, lambda: self.server.create(path, body))

    async def patch(
        self, path: str, body: Object, kind: str = "", *, params: Any = None, patience: Any = None
    ) -> Object:
        return await self._write("patch", path, lambda: self.server.patch(path, body))

    async def delete(self, path: str, *, uid: str, propagation: str = "Background") -> Object:
        return await self._write("delete", path, lambda: self.server.delete(path, uid, propagation))

    async def _read(self, path: str, call: Call) -> Object:
        await asyncio.sleep(LATENCY)
        self._meet_trouble("get", path)
        return self._answer(call)

    def _answer(self, call: Call) -> Object:
        self.clock.note(self.server.date())
        try:
            answer = call()
        except ApiError as error:
            self.reconciler.work.outage.note(error.status)
            raise
        self.reconciler.work.outage.note(200)
        return answer

    def _meet_trouble(self, verb: str, path: str) -> None:
        error = self.trouble(verb, path)
        if error is not None:
            self.refused_calls += 1
            self.reconciler.work.outage.note(error.status)
            raise error

    async def _write(self, verb: str, path: str, call: Call) -> Object:
        self.writes += 1
        await asyncio.sleep(LATENCY + self.delay(verb, path))
        self._meet_trouble(verb, path)
        fault = self.faults.get(self.writes)
        if fault is None:
            return self._answer(call)
        return await fault(self, lambda: self._answer(call))
