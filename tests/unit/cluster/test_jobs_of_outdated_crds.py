"""An operator that may not act for its CRDs says so on jobs that ran nowhere, once, and only while no other one leads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import ApiError, Conflict, NotFound
from gpujob.cluster.writer.outdated_crds import OutdatedCrds

LACKS = (
    "the CRD gpujobs.gpujob.dev lacks status.attempts, which this version writes, so it does not act: upgrade the chart"
)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LEASE = "/lease"


def job(name: str, *, deleted: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-29T11:00:00Z"
    return {"metadata": metadata, "spec": {}, "status": status}


class World:
    """An API server with some jobs and a Lease."""

    def __init__(self, *jobs: dict[str, Any], holder: str = "", refuses: ApiError | None = None) -> None:
        # As the cache stores them.
        slim = next(kind.slim for kind in mirrored("runner", ()) if kind.key == "gpujobs")
        self.jobs = {("team", each["metadata"]["name"]): slim(each) for each in jobs}
        self.holder, self.refuses, self.now = holder, refuses, 0.0
        self.hindrances = [LACKS]
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.outdated = OutdatedCrds(
            self, self, LEASE, lambda: self.hindrances, clock=lambda: self.now, wall=lambda: NOW  # type: ignore[arg-type]
        )  # fmt: skip

    def objects(self, kind: str) -> dict[Any, Any]:
        assert kind == "gpujobs"
        return self.jobs

    async def get(self, path: str, *, patience: Any) -> Any:
        assert (path, patience.queued) == (LEASE, False)
        if not self.holder:
            raise NotFound(404, "NotFound", "no Lease")
        return {"spec": {"holderIdentity": self.holder, "leaseDurationSeconds": 15, "renewTime": "x"}}

    async def patch(self, path: str, body: dict[str, Any], *, patience: Any) -> Any:
        assert patience.queued is False, "a queued write is for who leads"
        if self.refuses is not None:
            raise self.refuses
        self.written.append((path, body))
        return {}

    async def told(self) -> list[str]:
        self.written.clear()
        await self.outdated.check()
        return [path.rsplit("/", 2)[1] for path, _ in self.written]


async def test_a_job_that_ran_nowhere_is_told_the_sentence_of_readyz() -> None:
    world = World(job("new"))
    assert await world.told() == ["new"]
    ((path, body),) = world.written
    assert path == "/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobs/new/status"
    assert body["metadata"] == {"uid": "uid-new", "resourceVersion": "7"}
    assert body["status"]["state"] == "Misconfigured"
    (placed,) = [each for each in body["status"]["conditions"] if each["type"] == "Placed"]
    assert (placed["status"], placed["reason"], placed["message"]) == ("False", "CRDsOutdated", LACKS)


async def test_it_is_told_once_also_where_the_condition_is_dropped() -> None:
    world = World(job("new"))
    assert [await world.told(), await world.told()] == [["new"], []]
    world.hindrances = ["another sentence"]
    assert await world.told() == ["new"]


@pytest.mark.parametrize("held", [{}, {"state": "Queued"}, {"state": "Misconfigured"}, {"state": "Impossible"}])
async def test_what_waits_is_told(held: dict[str, Any]) -> None:
    assert await World(job("a", **held)).told() == ["a"]


@pytest.mark.parametrize(
    "held",
    [
        {"state": "Running", "jobName": "a-1", "attempt": 1},
        {"state": "Restarting", "attempt": 1},
        {"state": "Queued", "attempt": 2},
        {"state": "Queued", "jobName": "a-1"},
        {"state": "Suspended"},
        {"state": "Succeeded"},
        {"state": "Failed"},
        {"state": ["odd"]},
    ],
)
async def test_what_ran_or_is_wanted_so_keeps_its_status(held: dict[str, Any]) -> None:
    assert await World(job("a", **held)).told() == []


async def test_a_job_that_goes_is_left_alone() -> None:
    assert await World(job("a", deleted=True)).told() == []


async def test_who_may_act_says_nothing() -> None:
    world = World(job("a"))
    world.hindrances = []
    assert await world.told() == []


async def test_while_another_one_leads_nothing_is_said_and_after_its_lease_ran_out_it_is() -> None:
    world = World(job("a"), holder="earlier_1")
    assert await world.told() == []
    world.now = 14.0
    assert await world.told() == []
    world.now = 16.0
    assert await world.told() == ["a"]


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), Conflict(409, "Conflict", "newer")])
async def test_a_job_that_changed_meanwhile_does_not_stop_the_others(error: ApiError) -> None:
    world = World(job("a"), job("b"), refuses=error)
    assert await world.told() == []
    world.refuses = None
    assert await world.told() == ["a", "b"], "they are written when the cache has them as they are"


async def test_several_hindrances_are_one_sentence() -> None:
    world = World(job("a"))
    world.hindrances = ["one", "two"]
    await world.told()
    assert world.written[0][1]["status"]["conditions"][0]["message"] == "one; two"
