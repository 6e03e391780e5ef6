"""List and watch against a scripted server: nothing is missed, nothing hammers, and silence is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.reflector import Reflector, WatchHealth, WatchTimings, keep_mirrored, mirror_all
from gpujob.cluster.client.api_errors import Gone, Silent, TooManyRequests, Unreachable
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import Connection
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.client.transport import CONNECT_TIMEOUT

PODS = Kind("pods", Resource("", "v1", "pods"), {"labelSelector": "app=x"})
QUICK = WatchTimings(silence=60.0, backoff_least=0.01, backoff_most=0.04, hasty_end=0.0)


class Time:
    """The clock of a world: it stands still, except for the seconds that a stream lasts."""

    now = 0.0


TIME = web.AppKey("time", Time)

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(name: str, version: int, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error(code: int, reason: str = "Expired") -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "why"})


def page(version: int, *items: dict[str, Any], token: str = "") -> Step:
    async def answer(_: web.Request) -> web.Response:
        metadata = {"resourceVersion": str(version), "continue": token}
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})

    return answer


def refuses(status: int, **headers: str) -> Step:
    async def answer(_: web.Request) -> web.Response:
        body = {"kind": "Status", "code": status, "reason": "Refused", "message": "why"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return answer


def stream(*chunks: bytes, lasts: float = 0.0, stays: bool = False, breaks: bool = False) -> Step:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        request.app[TIME].now += lasts
        if stays:
            await asyncio.Event().wait()
        if breaks and request.transport is not None:
            request.transport.abort()
        return response

    return answer


@dataclass
class World:
    """A server that follows a script of lists and watches, and what the client made of it."""

    lists: list[Step]
    watches: list[Step]
    kind: Kind = PODS
    timings: WatchTimings = QUICK
    asked: list[web.Request] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = ObjectCache([self.kind])
        self.time = Time()
        self.health = WatchHealth(["pods"], clock=lambda: self.time.now)
        self.at_rest = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        steps = self.watches if "watch" in request.query else self.lists
        if not steps:
            # After the script, watches stay open and quiet: the test looks at a world at rest.
            self.at_rest = True
            return await stream(stays=True)(request)
        return await steps.pop(0)(request)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.cache.objects("pods")}

    def versions_asked(self) -> list[str]:
        return [request.query["resourceVersion"] for request in self.asked if "watch" in request.query]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app[TIME] = self.time
        app.router.add_get("/{path:.*}", self.answer)
        async with TestServer(app, shutdown_timeout=0) as server:
            connection = Connection(str(server.make_url("")).rstrip("/"))
            async with ApiClient(connection, sleep=self.sleep) as client:
                follower = keep_mirrored(
                    client,
                    self.kind,
                    self.cache,
                    self.health,
                    timings=self.timings,
                    sleep=self.sleep,
                    chance=lambda: 0.5,
                )
                task = asyncio.create_task(follower)
                try:
                    yield
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def until_at_rest(self) -> None:
        """Plays the script to its end: a watch beyond it was asked for, so everything before is applied."""
        async with self.running():
            await until(lambda: self.at_rest)
        assert not self.lists
        assert not self.watches


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what follows without a pause of its own; the minute ends a test that hangs."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_paged_list_then_a_watch_from_its_version() -> None:
    world = World([page(10, pod("a", 1), token="t"), page(10, pod("b", 2))], [])
    await world.until_at_rest()
    assert world.names == {"a", "b"}
    first, _, watch = (dict(request.query) for request in world.asked)
    assert "resourceVersion" not in first, "an unset version is the consistent read"
    assert first["labelSelector"] == "app=x"
    assert watch == {
        "labelSelector": "app=x",
        "resourceVersion": "10",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "watch": "true",
    }


async def test_listed_objects_have_the_kind_that_lists_leave_out() -> None:
    world = World([page(10, pod("a", 1))], [])
    await world.until_at_rest()
    held = world.cache.objects("pods")[("ns", "a")]
    assert (held["apiVersion"], held["kind"]) == ("v1", "Pod")


async def test_events_are_applied_and_the_next_watch_goes_on_behind_the_last_of_them() -> None:
    events = event("ADDED", pod("b", 11)) + event("MODIFIED", pod("a", 12, gpus=8)) + event("DELETED", pod("b", 13))
    world = World([page(10, pod("a", 1))], [stream(events)])
    await world.until_at_rest()
    assert world.names == {"a"}
    assert world.cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 8}
    assert world.versions_asked() == ["10", "13"]
    assert world.health.relists["pods"] == 1
    assert world.slept == []


async def test_an_event_that_is_cut_into_chunks_counts_once_it_is_whole() -> None:
    line = event("ADDED", pod("b", 11))
    world = World([page(10)], [stream(line[:7], line[7:30], line[30:])])
    await world.until_at_rest()
    assert world.names == {"b"}


async def test_a_bookmark_moves_the_place_to_go_on_from() -> None:
    world = World([page(10)], [stream(bookmark(50))])
    await world.until_at_rest()
    assert world.versions_asked() == ["10", "50"]
    assert world.cache.take_changes() == {}


@pytest.mark.parametrize("gone", [refuses(410), stream(error(410))], ids=["as an answer", "in the stream"])
async def test_410_in_either_form_lists_afresh_at_once_and_what_vanished_is_gone(gone: Step) -> None:
    world = World([page(10, pod("ghost", 1), pod("a", 2)), page(20, pod("a", 2), pod("new", 15))], [gone])
    await world.until_at_rest()
    assert world.names == {"a", "new"}
    assert world.versions_asked() == ["10", "20"]
    assert world.health.relists["pods"] == 2
    assert world.slept == []


async def test_410_again_and_again_is_not_answered_in_haste() -> None:
    world = World([page(10), page(20), page(30), page(40)], [refuses(410), refuses(410), refuses(410)])
    await world.until_at_rest()
    assert len(world.slept) == 2


async def test_410_between_two_pages_starts_the_list_again() -> None:
    world = World([page(10, pod("a", 1), token="t"), refuses(410), page(20, pod("b", 15))], [])
    await world.until_at_rest()
    assert world.names == {"b"}
    assert world.health.relists["pods"] == 1


async def test_a_connection_that_breaks_goes_on_from_the_last_version_after_a_pause() -> None:
    world = World([page(10)], [stream(event("ADDED", pod("a", 11)), breaks=True)])
    await world.until_at_rest()
    assert world.names == {"a"}
    assert world.versions_asked() == ["10", "11"]
    assert len(world.slept) == 1
    assert world.health.relists["pods"] == 1


async def test_another_error_in_the_stream_lists_afresh_after_a_pause() -> None:
    world = World([page(10, pod("ghost", 1)), page(20)], [stream(error(500, "InternalError"))])
    await world.until_at_rest()
    assert world.names == set()
    assert len(world.slept) == 1


async def test_a_malformed_line_is_counted_and_the_unknown_loss_is_made_good_by_a_list() -> None:
    lines = event("ADDED", pod("a", 11)) + b'{"type": "ADDED", "obj\n' + event("ADDED", pod("c", 13))
    world = World([page(10), page(20, pod("a", 11), pod("b", 12), pod("c", 13))], [stream(lines)])
    await world.until_at_rest()
    assert world.names == {"a", "b", "c"}
    assert world.health.malformed["pods"] == 1
    assert world.slept == []


@pytest.mark.parametrize(
    "line", [b"[]", b"7", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}']
)
async def test_any_line_that_is_no_event_is_a_loss(line: bytes) -> None:
    world = World([page(10), page(20, pod("a", 11))], [stream(line + b"\n")])
    await world.until_at_rest()
    assert world.names == {"a"}
    assert world.health.malformed["pods"] == 1


async def test_an_object_that_slim_cannot_digest_stops_no_other() -> None:
    def slim(obj: dict[str, Any]) -> dict[str, Any]:
        return {"gpus": obj["spec"]["gpus"]}

    lines = event("ADDED", pod("odd", 11)) + event("ADDED", pod("b", 12, gpus=2))
    world = World([page(10, pod("worse", 1), pod("a", 2, gpus=1))], [stream(lines)], kind=replace(PODS, slim=slim))
    await world.until_at_rest()
    assert world.names == {"a", "b"}
    assert set(world.cache.refused("pods")) == {("ns", "worse"), ("ns", "odd")}
    assert world.health.relists["pods"] == 1


async def test_a_silent_watch_is_replaced_without_a_list_and_without_a_pause() -> None:
    # On a busy machine a watch may be silent before its bookmark arrives: then the next one brings it.
    world = World([page(10)], [stream(bookmark(30), stays=True)] * 600, timings=replace(QUICK, silence=0.1))
    async with world.running():
        await until(lambda: world.versions_asked().count("30") >= 2)
    asked = world.versions_asked()
    assert asked == ["10"] * asked.count("10") + ["30"] * asked.count("30")
    assert world.health.relists["pods"] == 1
    assert world.health.silences["pods"] >= 2
    assert world.slept == []


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered() -> None:
    """Each time it lists again: a proxy that ends every stream lets lists through."""
    timings = replace(QUICK, hasty_end=1.0)
    lists = [page(10), page(20, pod("a", 1)), page(30), page(40, pod("b", 2))]
    world = World(lists, [stream(), stream(), stream()], timings=timings)
    await world.until_at_rest()
    assert len(world.slept) == 3
    assert world.versions_asked() == ["10", "20", "30", "40"]
    assert world.names == {"b"}


async def test_a_quiet_watch_that_is_cut_again_and_again_waits_no_longer_each_time() -> None:
    """As by a load balancer that ends connections on which nothing came for a while."""
    timings = replace(QUICK, backoff_least=0.01, backoff_most=0.2)
    at_once, after_a_while = stream(breaks=True), stream(lasts=0.25, breaks=True)
    world = World([page(10)], [at_once] * 4 + [after_a_while] * 4, timings=timings)
    await world.until_at_rest()
    growing, steady = world.slept[:4], world.slept[4:]
    assert max(growing) > 0.04
    assert len(steady) == 4
    assert max(steady) <= 0.01


async def test_a_list_that_fails_is_tried_again_and_nothing_is_complete_before() -> None:
    world = World([refuses(404), refuses(403), page(10, pod("a", 1))], [])
    await world.until_at_rest()
    assert world.cache.complete
    assert len(world.slept) == 2


async def test_one_dead_task_ends_all_of_them() -> None:
    class Broken(ObjectCache):
        def listing(self, kind: str) -> Any:
            raise ZeroDivisionError(kind)

    world = World([page(10)], [])
    app = web.Application()
    app.router.add_get("/{path:.*}", world.answer)
    kinds = [PODS, Kind("nodes", Resource("", "v1", "nodes", namespaced=False))]
    async with TestServer(app) as server, ApiClient(Connection(str(server.make_url("")).rstrip("/"))) as client:
        with pytest.raises(ExceptionGroup) as died:
            await mirror_all(client, kinds, Broken(kinds), WatchHealth(kind.key for kind in kinds))
    assert died.group_contains(ZeroDivisionError)


# --- Waiting


def follower(chance: float = 1.0) -> Reflector:
    async def never(_: float) -> None:
        raise AssertionError

    cache, health = ObjectCache([PODS]), WatchHealth(["pods"])
    client = ApiClient(Connection("http://x"))
    return Reflector(client, PODS, cache, health, WatchTimings(), never, lambda: chance)


def test_pauses_grow_from_half_a_second_to_a_quarter_of_a_minute() -> None:
    it = follower()
    pauses = []
    for failures in range(8):
        it.failures = failures
        pauses.append(it.delay(Unreachable(0, "x", "x")))
    assert pauses == [0.5, 1, 2, 4, 8, 15, 15, 15]


def test_pauses_are_spread_but_never_below_the_least() -> None:
    it = follower(chance=0.0)
    it.failures = 5
    assert it.delay(Unreachable(0, "x", "x")) == 7.5
    it.failures = 0
    assert it.delay(Unreachable(0, "x", "x")) == 0.5


def test_a_pause_is_never_shorter_than_the_server_asked_for() -> None:
    assert follower().delay(TooManyRequests(429, "x", "x", retry_after=40)) == 40
    assert follower().delay(TooManyRequests(429, "x", "x", retry_after=86400)) == 60


def test_silence_and_a_first_410_need_no_pause() -> None:
    it = follower()
    assert it.delay(Gone(410, "x", "x")) == 0
    it.failures = 3
    assert it.delay(Silent(0, "x", "x")) == 0
    assert it.delay(Gone(410, "x", "x")) > 0


# --- Health


def test_the_defaults_replace_a_silent_watch_within_75_s_and_give_up_the_process_after_180_s() -> None:
    timings = WatchTimings()
    assert timings.silence == 65
    assert timings.silence + CONNECT_TIMEOUT == 75
    assert (timings.watch_least, timings.watch_most) == (270, 330)


def test_each_kind_is_as_old_as_its_own_last_byte() -> None:
    now = 100.0
    health = WatchHealth(["pods", "nodes"], clock=lambda: now)
    now = 250.0
    health.heard("pods")
    assert health.age("pods", 260.0) == 10
    assert health.age("nodes", 260.0) == 160
    health.heard("nodes")
    assert health.age("nodes", 281.0) == 31
    assert health.age("pods", 281.0) == 31


async def test_every_byte_makes_a_kind_young_again() -> None:
    now = 0.0
    world = World([page(10)], [])
    world.health = WatchHealth(["pods"], clock=lambda: now)
    now = 500.0
    assert world.health.age("pods", now) == 500
    async with world.running():
        await until(lambda: world.health.age("pods", now) == 0)


def group(*versions: str) -> Step:
    """The answer to which versions of an API group there are; a group without any is not there."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if not versions:
            return await refuses(404)(request)
        return web.json_response({"kind": "APIGroup", "versions": [{"version": version} for version in versions]})

    return answer


def having(*plurals: str) -> Step:
    """The answer to which kinds a version of a group has."""

    async def answer(request: web.Request) -> web.StreamResponse:
        resources = [{"name": plural, "kind": "Any", "verbs": ["list", "watch"]} for plural in plurals]
        return web.json_response({"kind": "APIResourceList", "resources": resources})

    return answer


MAYBE = Kind("pods", Resource("resource.k8s.io", "v1", "pods"), {}, versions=("v1", "v1beta2", "v1beta1"))


@pytest.mark.parametrize(
    ("served", "followed"), [(["v1beta1", "v1"], "v1"), (["v1alpha3", "v1beta1", "v1beta2"], "v1beta2")]
)
async def test_of_a_kind_that_may_be_missing_the_newest_known_version_is_followed(
    served: list[str], followed: str
) -> None:
    world = World([group(*served), having("pods", "pods/status"), page(10, pod("a", 1))], [], MAYBE)
    await world.until_at_rest()
    group_path, version_path, *paths = [request.path for request in world.asked]
    assert (group_path, version_path) == ("/apis/resource.k8s.io", f"/apis/resource.k8s.io/{followed}")
    assert paths == [f"/apis/resource.k8s.io/{followed}/pods"] * 2
    assert world.names == {"a"}


@pytest.mark.parametrize("newest", [having("claims"), having(), refuses(404)])
async def test_a_version_without_the_kind_is_passed_over(newest: Step) -> None:
    world = World([group("v1", "v1beta2"), newest, having("pods"), page(10, pod("a", 1))], [], MAYBE)
    await world.until_at_rest()
    assert world.asked[-1].path == "/apis/resource.k8s.io/v1beta2/pods"
    assert world.names == {"a"}


@pytest.mark.parametrize("missing", [group(), group("v1alpha3")])
async def test_a_kind_that_the_server_lacks_has_no_objects_and_is_asked_for_now_and_then(missing: Step) -> None:
    world = World([missing, missing, group("v1"), having("pods"), page(10, pod("a", 1))], [], MAYBE)
    seen: list[tuple[bool, set[str]]] = []
    sleep = world.sleep

    async def look(seconds: float) -> None:
        seen.append((world.cache.complete, world.names))
        await sleep(seconds)

    world.sleep = look  # type: ignore[method-assign]
    await world.until_at_rest()
    assert seen == [(True, set())] * 2
    assert world.slept == [QUICK.absent] * 2
    assert (world.names, world.health.failures["pods"]) == ({"a"}, 0)


async def test_a_version_that_goes_away_is_replaced_by_another() -> None:
    first = [group("v1beta1"), having("pods"), page(10, pod("a", 1))]
    world = World([*first, group("v1"), having("pods"), page(12, pod("b", 11))], [refuses(404)], MAYBE)
    await world.until_at_rest()
    assert world.asked[-1].path == "/apis/resource.k8s.io/v1/pods"
    assert world.names == {"b"}
