"""What one attempt reported does not count for the next one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from builders import MI300X, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner import Runner
from gpujob.schedule.answers import Answer
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import Telemetry

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})


class Server:
    """Takes what is written, and keeps the status."""

    status: Any = None

    async def list_paged(self, path: str, params: Any) -> Any:
        yield {"items": []}

    async def create(self, path: str, body: Any, *, patience: Any = None) -> Any:
        return {**body, "metadata": {**body["metadata"], "uid": "c", "resourceVersion": "7"}}

    async def patch(self, path: str, body: Any, kind: str = "", *, params: Any = None, patience: Any = None) -> Any:
        self.status = body.get("status")
        return {**body, "metadata": {"name": "j", "namespace": "team", "uid": "u", "resourceVersion": "8"}}


async def test_what_the_last_attempt_reported_is_forgotten_when_the_next_one_is_made() -> None:
    server, cache = Server(), ObjectCache(mirrored(RUNNER.name))
    work = ControllerState(ClusterIndex(cache, load_catalog()))
    writer = Writer(server, cache, lambda: True, "here")  # type: ignore[arg-type]
    steps = JobActions(work, writer, RunnerConfigMaps(work, writer, RUNNER), ProfileUpdates(work, writer))
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1, "resourceVersion": "5"}
    spec = {"preflight": "Disabled"}
    for kind in cache.kinds:
        objects = [{"metadata": metadata, "spec": spec, "status": {"attempt": 1}}] if kind == "gpujobs" else []
        cache.replace(kind, objects, "5")
    work.index.take(cache.take_changes())
    job = work.index.jobs["u"]
    work.telemetry["u"] = Telemetry(Measured(at=datetime(2026, 1, 1, tzinfo=UTC), counters={"steps": 700.0}))
    wish, there = work.parsed_spec(job).demand, fleet(node("a", MI300X))
    assert wish is not None
    await steps.place(job, Answer(wish, there, load_catalog()).decision, there.runtime_classes)
    work.index.take(cache.take_changes())
    work.timings = Timings(placed=0.0)
    JobReconciler(work, steps).reconcile(job)
    await work.tasks["u"]
    assert (server.status["attempt"], "progress" in server.status) == (2, False)
    assert "u" not in work.telemetry
