"""The API client against a scripted server: paths that hold, errors that name, no blind repeats."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import structlog
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpujob.cluster.app import app
from gpujob.cluster.client import client, rate_limit, transport
from gpujob.cluster.client.api_errors import (
    AlreadyExists,
    ApiError,
    BrokenStream,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Silent,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    error_from_status,
)
from gpujob.cluster.client.client import ApiClient, LineSplitter
from gpujob.cluster.client.kubeconfig import (
    Connection,
    UnusableConnection,
    connection_from_kubeconfig,
    connection_in_cluster,
    tls_context,
    usable,
)
from gpujob.cluster.client.paths import Resource, resource_of
from gpujob.cluster.client.rate_limit import Patience, TokenBucket

PODS = Resource("", "v1", "pods")
JOBS = Resource("batch", "v1", "jobs")
NODES = Resource("", "v1", "nodes", namespaced=False)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def served(*answers: Answer, **options: Any) -> AsyncIterator[tuple[ApiClient, list[web.Request], Clock]]:
    """A client of a server that gives these answers, one a request, the last one again and again."""
    requests: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        requests.append(request)
        return await answers[min(len(requests), len(answers)) - 1](request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    clock = Clock()
    connection = options.pop("connection", None)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        connection = Connection(url, token_file=connection.token_file) if connection else Connection(url)
        options = {"clock": clock, "sleep": clock.sleep, "chance": lambda: 0.0, **options}
        async with ApiClient(connection, **options) as client:
            yield client, requests, clock


def says(status: int, body: Any = None, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers=named)
        return web.json_response(body if body is not None else {"ok": True}, status=status, headers=named)

    return answer


def refuses(status: int, reason: str = "Refused", **headers: str) -> Answer:
    return says(status, {"kind": "Status", "code": status, "reason": reason, "message": "because"}, **headers)


async def hangs_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def streams(*chunks: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if then is not None:
            await then()
        return response

    return answer


# --- Paths


def test_paths_are_those_of_the_api_server() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert NODES.path(name="n1") == "/api/v1/nodes/n1"
    assert NODES.path(name="system:n?1#") == "/api/v1/nodes/system%3An%3F1%23"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets", "a%2fb", "x" * 254])
def test_a_hostile_name_gives_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="not an object's name"):
        PODS.path("ns", name)


@pytest.mark.parametrize("namespace", ["", "a/b", "..", "A", "-a", "ns?x=1", "a.b", "x" * 64])
def test_a_hostile_namespace_gives_no_path(namespace: str) -> None:
    with pytest.raises(ValueError, match="not a namespace"):
        PODS.path(namespace, "p")


def test_a_name_needs_its_namespace_and_a_node_has_none() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(name="p")
    with pytest.raises(ValueError, match="have no namespace"):
        NODES.path("ns", "n1")
    with pytest.raises(ValueError, match="no subresource"):
        PODS.path("ns", "p", "status/../x")
    with pytest.raises(ValueError, match="no subresource"):
        PODS.path("ns", subresource="status")


def test_requests_are_counted_by_what_their_path_names() -> None:
    assert resource_of("/api/v1/namespaces/ns/pods/p/status") == "pods/status"
    assert resource_of("/apis/gpujob.dev/v1alpha1/namespaces/ns/gpujobs") == "gpujobs"
    assert resource_of("/api/v1/nodes/n1") == "nodes"
    assert resource_of("/api/v1/namespaces/ns") == "namespaces"
    assert resource_of("/version") == "version"


async def test_a_quoted_name_arrives_as_it_was_meant() -> None:
    async with served(says(200)) as (client, requests, _):
        await client.get(NODES.path(name="a b:c?d"))
    assert requests[0].path == "/api/v1/nodes/a b:c?d"
    assert requests[0].query_string == ""


# --- Errors


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (418, "Teapot", ApiError),
    ],
)
def test_one_place_maps_a_status_to_its_exception(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_from_status({"code": code, "reason": reason, "message": "why", "details": {"retryAfterSeconds": 3}})
    assert type(error) is kind
    assert str(error) == f"{code} {reason}: why"
    assert error.retry_after == 3


async def test_an_answer_in_plain_text_is_an_error_all_the_same() -> None:
    async with served(says(404, "404 page not found")) as (client, _, _):
        with pytest.raises(NotFound, match="404 NotFound: 404 page not found"):
            await client.get("/x")


async def test_a_redirect_is_not_followed_so_that_the_token_goes_nowhere_else() -> None:
    async with served(says(302, "", Location="/elsewhere")) as (client, requests, _):
        with pytest.raises(ApiError):
            await client.get("/x")
    assert len(requests) == 1


@pytest.mark.parametrize(
    "page", ['{"items": 7}', '{"items": {"a": 1}}', '{"metadata": [1]}', '{"metadata": 7, "items": []}']
)
async def test_a_page_that_is_no_list_is_an_error_of_its_kind(page: str) -> None:
    async with served(says(200, page)) as (client, _, _):
        with pytest.raises(BrokenStream, match="is no list"):
            await anext(client.list_paged("/x"))


async def test_a_list_without_a_last_page_is_not_asked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(says(200, '{"metadata": {"continue": "same"}, "items": []}')) as (client, requests, _):
        with pytest.raises(BrokenStream, match="no last page"):
            _ = [page async for page in client.list_paged("/x")]
        assert len(requests) == 2
    monkeypatch.setattr("gpujob.cluster.client.client.MOST_PAGES", 3)
    pages = [says(200, f'{{"metadata": {{"continue": "{number}"}}}}') for number in range(9)]
    async with served(*pages) as (client, requests, _):
        with pytest.raises(BrokenStream, match="no last page"):
            _ = [page async for page in client.list_paged("/x")]
        assert len(requests) == 3


# --- Retries and pace


async def test_429_is_repeated_after_the_time_that_the_server_names() -> None:
    throttled = refuses(429, Retry_After="2")
    async with served(throttled, throttled, says(201)) as (client, requests, clock):
        await client.create(PODS.path("ns"), {"a": 1})
    assert len(requests) == 3
    assert clock.slept == [2.0, 2.0]
    assert client.requests == {("create", "pods", 429): 2, ("create", "pods", 201): 1}
    assert client.writes == {("create", "pods"): 3}


VERBS: dict[str, Callable[[ApiClient], Awaitable[object]]] = {
    "get": lambda client: client.get(PODS.path("ns", "p")),
    "list": lambda client: anext(client.list_paged(PODS.path("ns"))),
    "create": lambda client: client.create(PODS.path("ns"), {}),
    "patch": lambda client: client.patch(PODS.path("ns", "p"), {}),
    "delete": lambda client: client.delete(PODS.path("ns", "p"), uid="u"),
}


@pytest.mark.parametrize(
    ("verb", "asked", "waited"),
    [
        *((verb, "2", 2.0) for verb in VERBS),
        *((verb, "9", 9.0) for verb in ("get", "list")),
        *((verb, "86400", 60.0) for verb in ("get", "list")),
    ],
)
async def test_every_verb_waits_as_long_as_the_server_asks_and_a_read_a_minute_at_most(
    verb: str, asked: str, waited: float
) -> None:
    """A write that is to wait for longer is its caller's to repeat."""
    async with served(refuses(429, Retry_After=asked), says(200)) as (client, requests, clock):
        await VERBS[verb](client)
    assert (len(requests), clock.slept) == (2, [waited])


async def test_a_watch_that_is_refused_says_when_to_come_again() -> None:
    async with served(refuses(429, Retry_After="9")) as (client, requests, _):
        with pytest.raises(TooManyRequests) as refused:
            await anext(client.watch(PODS.path()))
        assert (len(requests), refused.value.retry_after) == (1, 9)


@pytest.mark.parametrize("text", ["soon", "-5", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
async def test_a_time_that_cannot_be_read_is_no_time(text: str) -> None:
    async with served(refuses(429, Retry_After=text), says(200), chance=lambda: 1.0) as (client, _, clock):
        await client.get("/x")
    assert clock.slept == [1.0]


async def test_429_without_a_time_is_repeated_ever_more_slowly_and_not_for_ever() -> None:
    async with served(refuses(429), chance=lambda: 1.0) as (client, requests, clock):
        with pytest.raises(TooManyRequests):
            await client.get("/x")
    assert len(requests) == 5
    assert clock.slept == [1.0, 2.0, 4.0, 8.0]


async def test_one_throttled_writer_makes_the_others_of_its_namespace_wait() -> None:
    patience = Patience(tries=1)
    async with served(refuses(429, Retry_After="1"), says(201)) as (client, _, clock):
        with pytest.raises(TooManyRequests) as refused:
            await client.create(PODS.path("ns"), {}, patience=patience)
        assert refused.value.retry_after == 1
        await client.patch(PODS.path("other", "p"), {})
        assert clock.slept == []
        await client.patch(PODS.path("ns", "p"), {})
    assert clock.slept == [1.0]


async def test_a_call_outside_the_queue_waits_for_nobody() -> None:
    async with served(refuses(429, Retry_After="7"), says(200), write_burst=1.0) as (client, _, clock):
        with pytest.raises(TooManyRequests):
            await client.create(PODS.path("ns"), {}, patience=Patience(tries=1))
        await client.patch(PODS.path("ns", "p"), {}, patience=Patience(queued=False))
    assert clock.slept == []


@pytest.mark.parametrize("asked", ["3", "10", "60"])
async def test_a_long_wait_for_one_write_is_its_callers_and_holds_its_namespace_for_2_seconds(asked: str) -> None:
    """A webhook of one namespace answers so; writes of another namespace go through, and the first that does ends the wait."""
    async with served(*[refuses(429, Retry_After=asked)] * 3, says(201)) as (client, requests, clock):
        for _ in range(3):
            with pytest.raises(TooManyRequests) as refused:
                await client.create(PODS.path("a"), {})
            assert refused.value.retry_after == int(asked)
        assert (len(requests), clock.slept) == (3, [pytest.approx(2.0, rel=0.21)] * 2)
        await client.create(PODS.path("b"), {})
        assert len(clock.slept) == 2
        await client.create(PODS.path("a"), {})
        await client.create(PODS.path("a"), {})
        assert len(clock.slept) == 3


async def test_a_server_that_asks_to_come_again_is_asked_again() -> None:
    async with served(refuses(503, Retry_After="1"), says(201)) as (client, _, clock):
        await client.create(PODS.path("ns"), {})
    assert clock.slept == [1.0]


def test_a_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(rate=10, burst=3, clock=clock)
    assert [round(bucket.take(), 6) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    clock.now += 100
    assert [round(bucket.take(), 6) for _ in range(4)] == [0, 0, 0, 0.1]


async def test_all_writes_share_one_bucket_and_reads_need_none() -> None:
    async with served(says(200), write_rate=2.0, write_burst=1.0) as (client, _, clock):
        await client.create(PODS.path("ns"), {})
        await client.get("/x")
        await client.patch(PODS.path("ns", "p"), {})
        await client.delete(PODS.path("ns", "p"), uid="u")
    assert clock.slept == [0.5, 0.5]


# --- Unknown outcomes


@pytest.mark.parametrize("answer", [hangs_up, refuses(500), refuses(504, Retry_After="1"), says(201, "no json")])
async def test_a_create_of_unknown_outcome_is_told_and_never_repeated(answer: Answer) -> None:
    async with served(answer) as (client, requests, _):
        with pytest.raises(OutcomeUnknown):
            await client.create(PODS.path("ns"), {})
    assert len(requests) == 1


async def test_a_create_that_times_out_has_an_unknown_outcome() -> None:
    forever = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        await forever.wait()
        return web.Response()

    async with served(never) as (client, _, _):
        with pytest.raises(OutcomeUnknown, match="create /api/v1/namespaces/ns/pods"):
            await client.create(PODS.path("ns"), {}, patience=Patience(timeout=0.05))
        forever.set()
    assert client.requests == {("create", "pods", 0): 1}


async def test_a_create_that_was_never_sent_is_only_unreachable() -> None:
    async with ApiClient(Connection("http://127.0.0.1:1")) as client:
        with pytest.raises(Unreachable):
            await client.create(PODS.path("ns"), {})


async def test_a_read_without_an_answer_is_unreachable() -> None:
    async with served(hangs_up) as (client, _, _):
        with pytest.raises(Unreachable):
            await client.get("/x")


async def test_a_delete_always_names_the_uid_and_the_propagation() -> None:
    bodies: list[Any] = []

    async def keep(request: web.Request) -> web.Response:
        bodies.append(orjson.loads(await request.read()))
        return web.json_response({"kind": "Status", "status": "Success"})

    async with served(keep) as (client, _, _):
        await client.delete(JOBS.path("ns", "j"), uid="u1")
        with pytest.raises(ValueError, match="needs the uid"):
            await client.delete(JOBS.path("ns", "j"), uid="")
    (body,) = bodies
    assert body["propagationPolicy"] == "Background"
    assert body["preconditions"] == {"uid": "u1"}


# --- Lists


async def test_a_list_comes_in_pages_with_the_selectors_on_each() -> None:
    first = says(200, {"items": [1], "metadata": {"continue": "t/1="}})
    async with served(first, says(200, {"items": [2], "metadata": {}})) as (client, requests, _):
        params = {"labelSelector": "a in (b,c)"}
        pages = [page["items"] async for page in client.list_paged(PODS.path(), params, limit=1)]
    assert pages == [[1], [2]]
    assert [dict(request.query) for request in requests] == [
        {"labelSelector": "a in (b,c)", "limit": "1"},
        {"labelSelector": "a in (b,c)", "limit": "1", "continue": "t/1="},
    ]


async def test_a_list_that_outlives_its_token_is_gone() -> None:
    first = says(200, {"items": [], "metadata": {"continue": "t"}})
    async with served(first, refuses(410, "Expired")) as (client, _, _):
        with pytest.raises(Gone):
            _ = [page async for page in client.list_paged(PODS.path())]


async def test_a_watch_and_its_list_take_no_pooled_connection_for_it_may_be_dead_and_short_lists_do() -> None:
    ports: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.json_response({"items": [], "metadata": {}})

    async with served(answer) as (client, _, _):
        await client.get("/x")
        await client.get("/x")
        _ = [page async for page in client.list_paged(PODS.path("ns"))]
        _ = [page async for page in client.list_paged(PODS.path(), fresh=True)]
        await watched(client)
    pooled, again, short, *fresh = ports
    assert pooled == again == short
    assert len({pooled, *fresh}) == 3


# --- Watches


async def watched(client: ApiClient, **options: Any) -> list[bytes]:
    return [line async for line in client.watch(PODS.path(), {"resourceVersion": "1"}, **options)]


async def test_a_line_may_come_in_many_chunks_and_a_chunk_may_hold_many_lines() -> None:
    async with served(streams(b'{"a"', b":1}", b'\n{"b":2}\n{"c":3}\n{"d', b'":4}\n')) as (client, requests, _):
        assert await watched(client) == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b'{"d":4}']
    assert dict(requests[0].query) == {"resourceVersion": "1", "watch": "true"}
    assert client.requests == {("watch", "pods", 200): 1}


async def test_bytes_count_before_their_line_is_complete() -> None:
    heard: list[int] = []
    async with served(streams(b"half", b" a line")) as (client, _, _):
        assert await watched(client, on_bytes=lambda: heard.append(1)) == [b"half a line"]
    assert len(heard) >= 2


async def test_a_watch_without_a_byte_is_silent() -> None:
    forever = asyncio.Event()

    async def wait() -> None:
        await forever.wait()

    async with served(streams(b"{}\n", then=wait)) as (client, _, _):
        lines = client.watch(PODS.path(), silence=0.05)
        assert await anext(lines) == b"{}"
        with pytest.raises(Silent, match=r"no byte for 0\.05 s"):
            await anext(lines)
        forever.set()


async def test_a_watch_that_breaks_off_is_unreachable_and_not_at_its_end() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        await asyncio.sleep(0)
        return await hangs_up(request)

    async with served(answer) as (client, _, _):
        with pytest.raises(Unreachable):
            await watched(client)


async def test_a_watch_that_is_refused_says_why() -> None:
    async with served(refuses(410, "Expired")) as (client, _, _):
        with pytest.raises(Gone):
            await watched(client)


def test_a_line_without_an_end_is_given_up() -> None:
    lines = LineSplitter(limit=10)
    assert lines.feed(b"12345\n12345") == [b"12345"]
    with pytest.raises(BrokenStream):
        lines.feed(b"123456")


def test_any_cutting_of_a_stream_gives_the_same_lines() -> None:
    text = b"one\n\ntwo\nthree three\nfour"
    for size in range(1, len(text) + 1):
        lines = LineSplitter()
        found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert [*found, lines.rest()] == [b"one", b"two", b"three three", b"four"]


# --- Connections and tokens


async def test_a_token_file_is_read_again_once_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with served(says(200), connection=Connection("", token_file=str(file))) as (client, requests, clock):
        await client.get("/x")
        file.write_text("second")
        await client.get("/x")
        clock.now += 61
        await client.get("/x")
    sent = [request.headers["Authorization"] for request in requests]
    assert sent == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_refused_token_is_read_again_at_once_and_only_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def answer(request: web.Request) -> web.Response:
        file.write_text("new")
        good = request.headers["Authorization"] == "Bearer new" and request.path == "/x"
        return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=200 if good else 401)

    async with served(answer, connection=Connection("", token_file=str(file))) as (client, requests, _):
        await client.get("/x")
        with pytest.raises(Unauthorized):
            await client.get("/never")
    assert len(requests) == 3


async def test_a_token_file_that_cannot_be_read_for_a_while_leaves_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("good")
    async with served(says(200), connection=Connection("", token_file=str(file))) as (client, requests, clock):
        await client.get("/x")
        file.unlink()
        clock.now += 61
        await client.get("/x")
    assert requests[1].headers["Authorization"] == "Bearer good"


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    file = folder / "config"
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "ctx",
    }
    file.write_text(yaml.safe_dump(config))
    return file


def test_a_kubeconfig_gives_its_connection_from_data_and_from_files_beside_it(tmp_path: Path) -> None:
    cluster = {"server": "https://x:6443", "certificate-authority-data": base64.b64encode(b"PEM").decode()}
    found = connection_from_kubeconfig(kubeconfig(tmp_path, cluster, {"tokenFile": "t", "client-key": "/abs/key"}))
    assert (found.server, found.ca_data) == ("https://x:6443", "PEM")
    assert (found.token_file, found.client_key_file) == (str(tmp_path / "t"), "/abs/key")


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": "s"}, {"exec": {"command": "aws"}}, r"users\[\]\.user\.exec: exec plugins are not run here; use a"),
        ({"server": "s"}, {"username": "me"}, r"users\[\]\.user\.username: .*use a token"),
        ({"server": "s", "proxy-url": "http://p"}, {}, "proxy-url: proxies are not supported"),
        ({"ca": "x"}, {}, r"clusters\[\]\.cluster\.server is missing"),
        ({"server": "s", "certificate-authority-data": "%"}, {}, "certificate-authority-data is not base64"),
        ({"server": "s"}, {"client-certificate-data": 5}, "client-certificate-data is not base64"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_by_field_and_with_a_remedy(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnusableConnection, match=message):
        connection_from_kubeconfig(kubeconfig(tmp_path, cluster, user))


def test_an_unknown_context_or_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableConnection, match="contexts has no entry named 'other'"):
        connection_from_kubeconfig(kubeconfig(tmp_path, {"server": "s"}, {}), "other")
    with pytest.raises(UnusableConnection, match="cannot read kubeconfig"):
        connection_from_kubeconfig(tmp_path / "none")
    (latin := tmp_path / "latin").write_bytes("current-context: größe".encode("latin-1"))
    with pytest.raises(UnusableConnection, match="cannot read kubeconfig"):
        connection_from_kubeconfig(latin)
    (odd := tmp_path / "odd").write_text("{current-context: c, contexts: 3}")
    with pytest.raises(UnusableConnection, match="contexts has no entry named 'c'"):
        connection_from_kubeconfig(odd)


def test_a_pod_finds_its_server_and_anything_else_is_told_to_bring_a_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = connection_in_cluster(environ, tmp_path)
    assert (found.server, found.token_file) == ("https://[fd00::1]:443", str(tmp_path / "token"))
    with pytest.raises(UnusableConnection, match="give a kubeconfig"):
        connection_in_cluster({}, tmp_path)


def test_no_secret_shows_in_a_connections_repr() -> None:
    connection = Connection("https://x", token="hush", client_key_data="hush", client_cert_data="hush")
    assert "hush" not in repr(connection)


@pytest.mark.parametrize(
    ("file", "said"), [("ca.crt", "certificates for https://x cannot be loaded"), ("token", "token file")]
)
def test_a_service_account_whose_files_cannot_be_read_is_told_at_the_start(
    tmp_path: Path, file: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = ssl.create_default_context().get_ca_certs(binary_form=True)[0]
    (tmp_path / "ca.crt").write_text(ssl.DER_cert_to_PEM_cert(authority))
    (tmp_path / "token").write_text("t")
    connection = Connection("https://x", ca_file=str(tmp_path / "ca.crt"), token_file=str(tmp_path / "token"))
    monkeypatch.setattr(app, "connection_in_cluster", lambda: connection)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "x")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert app.find_connection() == connection
    (tmp_path / file).write_bytes(b"\xff\xfe")
    with pytest.raises(UnusableConnection, match=said):
        app.find_connection()


BAD_TOKENS: Final = {
    "nul": b"abc\0def",
    "all nul": b"\0" * 900,
    "two lines": b"abc\ndef\n",
    "carriage return": b"abc\rX: 1",
    "escape": b"abc\x1b[0m",
    "delete": b"abc\x7f",
    "latin-1": b"\xe9",
    "empty": b"",
    "blank": b" \n",
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
async def test_a_token_file_without_a_token_is_told_at_the_start_and_later_leaves_the_last_one(
    kind: str, tmp_path: Path
) -> None:
    (file := tmp_path / "token").write_bytes(BAD_TOKENS[kind])
    with pytest.raises(UnusableConnection, match=r"^cannot read token file .*/token: "):
        usable(Connection("http://x", token_file=str(file)))
    file.write_text("good")
    async with served(says(200), connection=Connection("", token_file=str(file))) as (client, requests, clock):
        await client.get("/x")
        file.write_bytes(BAD_TOKENS[kind])
        clock.now += 61
        with structlog.testing.capture_logs() as logs:
            await client.get("/x")
    assert [request.headers["Authorization"] for request in requests] == ["Bearer good"] * 2
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("warning", "token file unreadable, the last token is used")
    ]


@pytest.mark.parametrize("token", ["a\nb", "a\0b", "a\x7f", "\ud800", 5, ["a"], {"a": 1}, True], ids=ascii)
def test_a_token_of_a_kubeconfig_that_no_header_can_have_is_told_at_the_start(token: Any, tmp_path: Path) -> None:
    connection = connection_from_kubeconfig(kubeconfig(tmp_path, {"server": "http://x"}, {"token": token}))
    with pytest.raises(UnusableConnection, match=r"^the token for http://x cannot be sent: it (has a|is no)"):
        usable(connection)
    with pytest.raises(UnusableConnection, match="cannot read token file"):
        usable(connection_from_kubeconfig(kubeconfig(tmp_path, {"server": "http://x"}, {"tokenFile": "a\0b"})))


@pytest.mark.parametrize("port", ["https", "-1", "99999", "tcp://10.0.0.1:443", "44 3", "4\n3"])
def test_a_port_that_is_none_is_told_at_the_start(port: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(UnusableConnection, match=r"KUBERNETES_SERVICE_PORT of the pod\) is 'https://10\.0\.0\.1:"):
        usable(connection_in_cluster(environ, tmp_path))
    with pytest.raises(UnusableConnection, match=r"^the server \(clusters\[\]\.cluster\.server "):
        usable(connection_from_kubeconfig(kubeconfig(tmp_path, {"server": f"http://x:{port}"}, {})))


@pytest.mark.parametrize(
    "host", ["[::1]", ".", "a..b", "a\0b", "a\nb", "ü" * 70, "u:p@h", "\ud800", "x" * 64], ids=ascii
)
def test_a_host_that_is_none_is_told_at_the_start(host: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with pytest.raises(UnusableConnection, match=r"KUBERNETES_SERVICE_HOST .* is 'https://"):
        usable(connection_in_cluster({"KUBERNETES_SERVICE_HOST": host}, tmp_path))


@pytest.mark.parametrize("server", ["127.0.0.1:6443", "ftp://x", ["a"], 5, "https://", "https://x?y=1", "https://x#z"])
def test_a_server_that_is_no_address_is_told_at_the_start(server: Any, tmp_path: Path) -> None:
    with pytest.raises(UnusableConnection, match=r"it is not of the form https://HOST:PORT$"):
        usable(connection_from_kubeconfig(kubeconfig(tmp_path, {"server": server}, {})))


@pytest.mark.parametrize("name", [5, ["a"], {"a": 1}, True, "a..b", ".local", "a\0b", "ü" * 80], ids=ascii)
def test_a_name_for_tls_that_is_none_is_told_at_the_start(name: Any, tmp_path: Path) -> None:
    cluster = {"server": "https://x", "tls-server-name": name}
    with pytest.raises(UnusableConnection, match=r"^clusters\[\]\.cluster\.tls-server-name is "):
        usable(connection_from_kubeconfig(kubeconfig(tmp_path, cluster, {})))


@pytest.mark.parametrize(
    "server", ["https://x", "https://x:6443/k8s/c-1/", "http://localhost:8001", "https://[::1]:443", "https://x.y.:0"]
)
def test_a_server_by_name_address_port_and_path_is_taken(server: str, tmp_path: Path) -> None:
    cluster = {"server": server, "tls-server-name": "kubernetes.default.svc"}
    assert usable(connection_from_kubeconfig(kubeconfig(tmp_path, cluster, {"token": "t"}))).server == server


def test_https_in_capitals_and_a_flag_in_quotes_are_verified(tmp_path: Path) -> None:
    cluster = {"server": "HTTPS://x", "insecure-skip-tls-verify": "false"}
    context = tls_context(connection_from_kubeconfig(kubeconfig(tmp_path, cluster, {})))
    assert isinstance(context, ssl.SSLContext)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


async def test_certificates_that_cannot_be_loaded_are_told_before_any_call() -> None:
    with pytest.raises(UnusableConnection, match="certificates for https://x"):
        async with ApiClient(Connection("https://x", ca_data="no pem")):
            pass


def test_the_defaults_are_those_that_were_promised() -> None:
    promised = (rate_limit.REQUEST_TIMEOUT, transport.CONNECT_TIMEOUT, client.SILENT_AFTER, client.LINE_LIMIT)
    assert promised == (30, 10, 65, 16 * 1024 * 1024)
