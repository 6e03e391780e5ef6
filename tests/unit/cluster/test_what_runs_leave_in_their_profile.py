"""What a run measured is in its profile whatever else happens at that moment: other runs, conflicts, a new operator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import ApiError, Conflict, Forbidden, Unreachable
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.status.attempts.progress import Measured
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.status.records.read_objects import read_child, read_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLACED = {"pool": "p", "accelerator": "MI300X", "nodes": 1, "gpusPerNode": 8, "pricePerHour": "36.00"}
PATH = "/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobprofiles/llama"


class Server:
    """Applies profiles as an API server does, slowly; a version that is no longer there is a conflict."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}
        self.error: ApiError | None = None

    async def patch(self, path: str, body: Any, kind: str, *, params: Any = None) -> Any:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        version = self.held.get("metadata", {}).get("resourceVersion")
        assert path == PATH
        if body["metadata"].get("resourceVersion", version) != version:
            raise Conflict(409, "Conflict", "the object has been modified")
        number = str(int(version or "0") + 1)
        self.held = {**body, "metadata": {**body["metadata"], "resourceVersion": number, "uid": "u"}}
        return self.held


def learner(server: Server) -> tuple[ControllerState, ProfileUpdates]:
    cache = ObjectCache(mirrored("gpujob-runner-x"))
    work = ControllerState(ClusterIndex(cache, load_catalog()), clock=lambda: 0.0, wall=lambda: NOW)
    return work, ProfileUpdates(work, Writer(server, cache, lambda: True, "here"))  # type: ignore[arg-type]


def job(uid: str, **status: Any) -> JobRecord:
    metadata = {"name": uid, "namespace": "team", "uid": uid}
    held = {"startTime": "2026-01-01T11:00:00Z", "placement": PLACED, "jobName": f"{uid}-1", **status}
    return read_job({"metadata": metadata, "spec": {"profile": "llama"}, "status": held})


def child(uid: str) -> ChildRecord:
    end = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:30:00Z"}
    return read_child({"metadata": {"name": f"{uid}-1"}, "spec": {}, "status": {"conditions": [end]}})


def measured(tokens: float, seconds: float = 600.0) -> Telemetry:
    return Telemetry(Measured(at=NOW, overall={"tokens": tokens}, seconds=seconds))


def runs(server: Server) -> list[str]:
    return [run["job"] for each in server.held["status"]["measurements"] for run in each["runs"]]


async def test_jobs_that_end_at_the_same_time_all_count() -> None:
    server = Server()
    work, learning = learner(server)
    uids = [f"u{number}" for number in range(6)]
    work.telemetry |= {uid: measured(1000.0) for uid in uids}
    await asyncio.gather(*(learning.remember(job(uid), child(uid)) for uid in uids))
    assert sorted(runs(server)) == [f"{uid}.1" for uid in uids]
    assert server.held["status"]["runs"] == 6


async def test_what_somebody_wrote_meanwhile_is_not_undone() -> None:
    server = Server()
    work, learning = learner(server)
    work.telemetry |= {"a": measured(1000.0), "b": measured(1000.0)}
    await learning.remember(job("a"), child("a"))
    server.held["metadata"] = {**server.held["metadata"], "resourceVersion": "7"}
    with pytest.raises(Conflict):
        await learning.remember(job("b"), child("b"))
    work.index.cache.note_written("gpujobprofiles", server.held)
    await learning.remember(job("b"), child("b"))
    assert runs(server) == ["a.1", "b.1"]


async def test_an_operator_that_comes_after_the_end_takes_what_the_status_says() -> None:
    told = {"progress": {"updated": "2026-01-01T11:25:00Z"}, "throughput": {"tokensPerSecond": "2553"}}
    for late in (None, measured(2.0, seconds=6.0)):
        server = Server()
        work, learning = learner(server)
        work.telemetry |= {"a": late} if late else {}
        await learning.remember(job("a", **told), child("a"))
        (measurement,) = server.held["status"]["measurements"]
        (run,) = measurement["runs"]
        assert (measurement["unit"], measurement["shape"]) == ("tokens", "1x8")
        assert run == {
            "job": "a.1", "perSecond": "2553", "seconds": 1500, "time": "2026-01-01T11:30:00Z", "dollars": "18.00",
        }  # fmt: skip
        before = server.held
        await learning.remember(job("a", **told), child("a"))
        assert server.held is before


@pytest.mark.parametrize(
    "status",
    [
        {"throughput": {"tokensPerSecond": "nan"}}, {"throughput": {"tokensPerSecond": "-5"}}, {"throughput": "much"},
        {"throughput": {"tokensPerSecond": "1e300"}}, {"throughput": {"tokensPerSecond": "5"}, "progress": {}},
        {"throughput": {"tokensPerSecond": "5"}, "progress": {"updated": "2026-01-01T10:00:00Z"}},
    ],
)  # fmt: skip
async def test_a_status_that_does_not_say_it_teaches_nothing(status: dict[str, Any]) -> None:
    server = Server()
    await learner(server)[1].remember(
        job("a", **{"progress": {"updated": "2026-01-01T11:25:00Z"}, **status}), child("a")
    )
    assert server.held == {}


async def test_a_job_ends_without_its_profile_only_where_no_other_try_helps() -> None:
    server = Server()
    work, learning = learner(server)
    work.telemetry["a"] = measured(1000.0)
    server.error = Unreachable(0, "Timeout", "no answer")
    with pytest.raises(Unreachable):
        await learning.remember(job("a"), child("a"))
    work.remember("a").delay = work.timings.profile_patience
    await learning.remember(job("a"), child("a"))
    work.remember("a").delay, server.error = 0.0, Forbidden(403, "Forbidden", "no")
    await learning.remember(job("a"), child("a"))
    server.error = None
    await learning.remember(job("a"), child("a"))
    assert runs(server) == ["a.1"]
