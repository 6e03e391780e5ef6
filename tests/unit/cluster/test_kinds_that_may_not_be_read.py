"""Rights and outages are readiness, a metric and a log line; they restart nothing, and one odd object stops no other."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from builders import ANY_IMAGES, H100, node
from prometheus_client import CollectorRegistry

from gpujob.cluster.app.http_server import Endpoints, hindrances, unknowns
from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.reflector import REFUSED_TRIES, Reflector, WatchHealth, WatchTimings
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.api_errors import (
    ApiError,
    BrokenStream,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from gpujob.cluster.client.outage_gate import OutageGate
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.fleet.assembly.usage import reservations_of
from gpujob.fleet.kubernetes.objects import Resources

QUOTAS = Kind("resourcequotas", Resource("", "v1", "resourcequotas"), optional=True)
NODES = Kind("nodes", Resource("", "v1", "nodes", namespaced=False))
OPTIONAL = {kind.key for kind in mirrored("runner") if kind.optional}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def follower(kind: Kind) -> tuple[Reflector, ObjectCache, list[float]]:
    cache, health, slept = ObjectCache([kind]), WatchHealth([kind.key]), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    client: Any = None
    return Reflector(client, kind, cache, health, WatchTimings(), sleep, lambda: 1.0), cache, slept


def test_what_the_operator_can_work_without() -> None:
    assert {"resourcequotas", "limitranges", "resourceslices", "resourceclaims", "devicetaintrules"} <= OPTIONAL
    assert {
        "persistentvolumes",
        "persistentvolumeclaims",
        "priorityclasses",
        "storageclasses",
        "runtimeclasses",
    } <= OPTIONAL
    assert not OPTIONAL & {"nodes", "pods", "jobs", "gpujobs", "gpupools", "services", "configmaps"}


async def test_an_optional_kind_that_may_not_be_read_is_unknown_and_stops_nothing() -> None:
    it, cache, _ = follower(QUOTAS)
    for _ in range(REFUSED_TRIES - 1):
        await it.recover(Forbidden(403, "Forbidden", "no"))
    assert not cache.complete, "a server that starts refuses for a moment"
    await it.recover(Forbidden(403, "Forbidden", "no"))
    assert (cache.complete, cache.unread) == (True, {"resourcequotas": "403 Forbidden: no"})
    gate = OutageGate(Clock())
    assert hindrances(cache, it.health, gate) == []
    assert unknowns(cache) == ["resourcequotas is unknown, it cannot be read: 403 Forbidden: no"]
    version = cache.version("resourcequotas")
    cache.replace("resourcequotas", [], "7")
    assert (cache.unread, cache.version("resourcequotas") > version) == ({}, True)


async def test_an_unknown_kind_is_tried_again_soon_and_then_ever_more_rarely() -> None:
    it, cache, slept = follower(QUOTAS)
    for _ in range(9):
        await it.recover(Forbidden(403, "Forbidden", "no"))
    assert slept == [0.5, 1, 4, 8, 16, 32, 64, 120, 120]
    assert cache.unread


async def test_a_kind_that_was_read_stays_known_while_a_server_starts() -> None:
    """A starting API server refuses all kinds until it has read its roles, and a kind once given up is away for long."""
    it, cache, slept = follower(QUOTAS)
    clock = it.health.clock = Clock()
    cache.replace("resourcequotas", [], "7")
    it.health.relists["resourcequotas"] += 1
    for after in (0.0, 1.0, 10.0, 29.0):
        clock.now = 1000.0 + after
        await it.recover(Forbidden(403, "Forbidden", "no"))
        assert cache.unread == {}
    it.health.read("resourcequotas")
    clock.now = 1040.0
    await it.recover(Forbidden(403, "Forbidden", "no"))
    assert cache.unread == {}, "it was readable in between"
    clock.now = 1070.0
    await it.recover(Forbidden(403, "Forbidden", "no"))
    assert cache.unread == {"resourcequotas": "403 Forbidden: no"}
    assert max(slept[:-1]) <= WatchTimings().backoff_most


@pytest.mark.parametrize("was_read", [False, True])
@pytest.mark.parametrize(
    "broken",
    [
        ApiError(500, "InternalError", "unable to decode"),
        NotFound(404, "NotFound", "no such resource"),
        ApiError(405, "MethodNotAllowed", "no"),
        TooManyRequests(429, "TooManyRequests", "no"),
        Gone(410, "Expired", "too old"),
        Unreachable(0, "TimeoutError", "the list takes longer than 30 s"),
        BrokenStream(0, "NoVersion", "the list has no resourceVersion"),
    ],
    ids=lambda error: error.reason,
)
async def test_an_optional_kind_whose_list_alone_fails_is_unknown_after_a_while(
    broken: ApiError, was_read: bool
) -> None:
    """As by an object in the store that the API server cannot decode, or a server that does not have the kind."""
    it, cache, _ = follower(QUOTAS)
    clock = it.health.clock = Clock()
    if was_read:
        cache.replace("resourcequotas", [], "7")
        it.health.relists["resourcequotas"] += 1

    async def fails_for(seconds: float) -> None:
        for _ in range(4):
            clock.now += seconds / 4
            await it.recover(broken)

    await fails_for(60.0)
    assert cache.unread == {}, "in an outage no kind can be listed"
    it.health.relists["nodes"] += 1
    await fails_for(20.0)
    assert cache.unread == {}
    await fails_for(20.0)
    assert cache.unread == {"resourcequotas": str(broken)}


async def test_an_outage_makes_no_kind_unknown_that_was_read() -> None:
    it, cache, _ = follower(QUOTAS)
    clock = it.health.clock = Clock()
    it.health.relists.update(["resourcequotas", "nodes"])
    it.health.failed("nodes", "503")
    for _ in range(9):
        clock.now += 100.0
        await it.recover(ApiError(503, "ServiceUnavailable", "no"))
    assert cache.unread == {}


async def test_a_needed_kind_that_cannot_be_read_any_more_is_no_readiness(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator would place jobs on pods that it no longer sees."""
    it, cache, _ = follower(NODES)
    clock = it.health.clock = Clock()
    gate = OutageGate(clock)
    cache.replace("nodes", [], "7")
    it.health.read("nodes")
    error = ApiError(500, "InternalError", "unable to decode")
    for seconds in (0.0, 1.0, 29.0):
        clock.now = 1000.0 + seconds
        await it.recover(error)
        assert hindrances(cache, it.health, gate) == []
    assert "[error" not in capsys.readouterr().out
    clock.now = 1040.0
    await it.recover(error)
    assert "[error" in capsys.readouterr().out
    assert hindrances(cache, it.health, gate) == [f"nodes could not be read for 40 s, the last error: {error}"]
    it.health.read("nodes")
    assert hindrances(cache, it.health, gate) == []


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), Unauthorized(401, "Unauthorized", "no")])
async def test_a_kind_that_is_needed_and_may_not_be_read_is_no_readiness(error: ApiError) -> None:
    it, cache, _ = follower(NODES)
    for _ in range(2 * REFUSED_TRIES):
        await it.recover(error)
    assert (cache.complete, cache.unread) == (False, {})
    gate = OutageGate(Clock())
    assert hindrances(cache, it.health, gate) == [f"nodes may not be read: {error}"]
    it.health.read("nodes")
    assert hindrances(cache, it.health, gate) == ["nodes is not listed yet"]
    cache.replace("nodes", [], "7")
    assert hindrances(cache, it.health, gate) == []


async def test_a_401_without_end_is_an_error_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    it, _, _ = follower(NODES)
    await it.recover(Unauthorized(401, "Unauthorized", "no"))
    assert "[warning" in capsys.readouterr().out
    for _ in range(REFUSED_TRIES):
        await it.recover(Unauthorized(401, "Unauthorized", "no"))
    assert "[error" in capsys.readouterr().out


def test_an_outage_is_no_readiness_after_half_a_minute() -> None:
    clock = Clock()
    gate, cache, health = OutageGate(clock), ObjectCache([NODES]), WatchHealth(["nodes"])
    cache.replace("nodes", [], "7")
    gate.note(0)
    clock.now += 29.0
    assert hindrances(cache, health, gate) == []
    clock.now += 1.0
    assert hindrances(cache, health, gate) == ["no good answer of the API server for 30 s, the last: unreachable"]
    gate.note(401)
    assert hindrances(cache, health, gate) == ["no good answer of the API server for 30 s, the last: HTTP 401"]
    gate.note(200)
    assert (hindrances(cache, health, gate), gate.seconds()) == ([], 0.0)


async def test_liveness_is_that_the_loop_turns() -> None:
    endpoints = Endpoints(lambda: ["nodes may not be read"], lambda: ["quotas unknown"], CollectorRegistry)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    await endpoints.start("127.0.0.1", port, 0)
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                assert answer.status == 200
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "nodes may not be read\nquotas unknown\n")
    finally:
        await endpoints.close()


class Cluster:
    """An index of two nodes."""

    def __init__(self) -> None:
        self.cache = ObjectCache(mirrored("gpujob-runner-x"))
        for kind in self.cache.kinds:
            self.cache.replace(kind, [], "1")
        self.index = ClusterIndex(self.cache, ANY_IMAGES, Clock())
        for number, name in enumerate(("bad", "good")):
            raw = node(name, H100)
            raw["metadata"] |= {"uid": name, "resourceVersion": str(number + 2)}
            self.cache.apply("nodes", "ADDED", raw)

    def nodes(self) -> list[str]:
        self.index.take(self.cache.take_changes())
        return sorted(each.name for pool in self.index.fleet().pools for each in pool.nodes)


@pytest.mark.parametrize("part", ["_index", "_newcomers"])
def test_a_node_on_which_the_index_fails_is_set_aside_and_the_others_go_on(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    held = getattr(cluster.index, part)
    put = held.put_node if part == "_index" else held.put

    def fails(first: Any, *rest: Any) -> None:
        if "bad" in (first, getattr(first, "name", "")) and rest[0] is not None:
            raise RecursionError("odd")
        put(first, *rest)

    monkeypatch.setattr(held, "put_node" if part == "_index" else "put", fails)
    assert "good" in cluster.nodes()
    assert cluster.index.set_aside == {"nodes": 1}


@pytest.mark.parametrize("kind", ["gpujobs", "jobs", "pods", "services", "resourceclaims", "deviceclasses"])
def test_one_object_of_any_kind_on_which_the_index_fails_stops_no_other(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    taken: list[str] = []

    def take(key: tuple[str, str], held: object | None) -> None:
        if key[1] == "bad" and held is not None:
            raise ValueError("odd")
        taken.append(key[1] if held is not None else f"without {key[1]}")

    objects = {("ns", "bad"): object(), ("ns", "good"): object()}
    monkeypatch.setattr(cluster.cache, "objects", lambda _: objects)
    assert len(list(cluster.index._each(kind, {kind: sorted(objects)}, take))) == 2, "two pieces"
    assert taken == ["without bad", "good"]
    assert cluster.index.set_aside == {kind: 1}


def test_without_the_claims_no_device_of_dra_is_offered_and_other_nodes_stay() -> None:
    cluster = Cluster()
    assert cluster.nodes() == ["bad", "good"]
    cluster.cache.unknown("resourceclaims", "403 Forbidden: no")
    cluster.cache.unknown("persistentvolumeclaims", "403 Forbidden: no")
    assert cluster.nodes() == ["bad", "good"]
    volumes = cluster.index.fleet().volumes
    assert not volumes.knows("team"), "a claim that is not known may be there"


def test_who_only_looks_at_the_fleet_leaves_what_placements_under_way_will_take() -> None:
    """/metrics and the pools that are published ask without knowing the placements under way."""
    cluster = Cluster()
    cluster.nodes()
    reservation = reservations_of("j", 1, "team", ("good",), "p", "nvidia.com/gpu", 8, Resources())
    free = lambda fleet: sum(pool.free for pool in fleet.pools)  # noqa: E731
    before = free(cluster.index.fleet(()))
    work = ControllerState(cluster.index)
    work.reserved["j"] = reservation
    assert free(cluster.index.fleet()) == before - 8
    assert free(cluster.index.fleet()) == before - 8
    del work.reserved["j"]
    assert free(cluster.index.fleet()) == before, "a placement that has ended takes nothing, decision or not"
