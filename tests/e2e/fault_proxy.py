"""A proxy between one operator and the API server, in which tests play what goes wrong on the wire and in a busy server.

A `Rule` names the requests that meet a fault, and its effect: another answer, no answer, a late one, or the operator's death. Open
watches and connections are cut, frozen, or end because their version is too old. What no rule names is passed on.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, Self, TypeVar

import aiohttp
import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gpujob.cluster.client.kubeconfig import Connection
from gpujob.cluster.client.paths import resource_of

T = TypeVar("T")

VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
NO_JOB_NEEDS = ("leases", "gpupools", "gpupools/status")
"""Resources whose writes no job needs: the election and what pools show."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its verb and resource as the operator's metrics name them, the path of its object, and when it came (monotonic
    seconds)."""

    verb: str
    resource: str
    path: str
    at: float
    state: str = ""
    """What a write of a job's status changes its state to; empty where it leaves that, and for all other requests."""

    @property
    def writes(self) -> bool:
        """Whether it is a write that a job needs."""
        return self.verb in ("create", "patch", "delete") and self.resource not in NO_JOB_NEEDS


Meets = Callable[[Asked], bool]


def on(verbs: str, resource: str = "") -> Meets:
    """Requests of some verbs, separated by spaces, for a resource or for all."""
    return lambda asked: asked.verb in verbs.split() and resource in ("", asked.resource)


def nth_write(number: int) -> Meets:
    """The write of that number, from 1, of those that jobs need."""
    came = 0

    def meets(asked: Asked) -> bool:
        nonlocal came
        came += asked.writes
        return asked.writes and came == number

    return meets


def first_of_each_write() -> Meets:
    """The first request of each write that jobs need; its repetition passes."""
    seen: set[tuple[str, str]] = set()

    def meets(asked: Asked) -> bool:
        new = asked.writes and (asked.verb, asked.path) not in seen
        seen.add((asked.verb, asked.path))
        return new

    return meets


@dataclass(slots=True)
class Exchange:
    """A request that met a rule: it can be passed on, answered in the API server's place, or be left without an answer."""

    proxy: FaultProxy
    request: web.Request
    body: bytes

    async def forward(self) -> tuple[int, bytes]:
        """The API server's answer, which the operator does not get by this."""
        async with self.proxy.send(self.request, self.body) as answer:
            return answer.status, await answer.read()

    async def passed(self) -> web.StreamResponse:
        """The API server's answer, as if no rule had been met."""
        return await self.proxy.passed(self.request, self.body)

    def hang_up(self) -> web.Response:
        """Ends the connection without an answer."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response(status=500, text="not read")


Effect = Callable[[Exchange], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Rule:
    """Which requests meet a fault, what becomes of them, and of how many; `met`: those that did."""

    meets: Meets
    effect: Effect
    times: float = math.inf
    met: list[Asked] = field(default_factory=list)


def answered(code: int, words: str, retry_after: int | None = None) -> Effect:
    """Nothing is passed on; the answer is a Status of the API server."""

    async def effect(_: Exchange) -> web.StreamResponse:
        reason = {410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}.get(code, "")
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return web.Response(status=code, body=status(code, reason, words), headers=headers, content_type=JSON)

    return effect


def reply_lost(also: Callable[[], None] = lambda: None) -> Effect:
    """The API server gets the request and the operator no answer; `also` happens in between."""

    async def effect(exchange: Exchange) -> web.StreamResponse:
        await exchange.forward()
        also()
        return exchange.hang_up()

    return effect


def lost(also: Callable[[], None] = lambda: None) -> Effect:
    """The connection ends before the API server gets the request; `also` happens first."""

    async def effect(exchange: Exchange) -> web.StreamResponse:
        also()
        return exchange.hang_up()

    return effect


def delayed(seconds: float) -> Effect:
    """The API server gets the request at once and its answer takes that long."""

    async def effect(exchange: Exchange) -> web.StreamResponse:
        code, body = await exchange.forward()
        await asyncio.sleep(seconds)
        return web.Response(status=code, body=body, content_type=JSON)

    return effect


def late(seconds: float, came: list[int]) -> Effect:
    """The connection ends at once, and the API server gets the request that much later; `came` gets the code of its answer."""

    async def effect(exchange: Exchange) -> web.StreamResponse:
        async def afterwards() -> None:
            await asyncio.sleep(seconds)
            came.append((await exchange.forward())[0])

        exchange.proxy.later(afterwards())
        return exchange.hang_up()

    return effect


JSON = "application/json"


def status(code: int, reason: str, words: str) -> bytes:
    """A Status object of the API server."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return orjson.dumps({**head, "message": words, "reason": reason, "code": code})


class FaultProxy:
    """Plain HTTP on 127.0.0.1:`port`, TLS to the API server; use it as `with`. Runs in a thread of its own.

    `ahead`: seconds by which the Date of its answers is ahead of the API server's.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._rules: list[Rule] = []
        self._watches: list[_Watch] = []
        self._watched: set[str] = set()
        self._frozen = False
        self._dead: set[RequestHandler] = set()
        self._later: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.ahead = 0.0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    # What tests do

    def play(self, meets: Meets, effect: Effect, times: float = math.inf) -> Rule:
        """From now on requests meet this fault, so many of them; gives the rule, which notes them."""
        rule = Rule(meets, effect, times)
        self._rules = [*self._rules, rule]
        return rule

    def heal(self) -> float:
        """Ends every rule; frozen connections stay dead, as half-open ones do, and new ones work. Gives the monotonic time."""
        self._rules, self._frozen = [], False
        return time.monotonic()

    def begin(self) -> None:
        """Forgets the requests so far."""
        self.asked = []

    @property
    def writes(self) -> list[Asked]:
        """The writes that jobs need, in the order in which they came."""
        return [each for each in self.asked if each.writes]

    def freeze(self) -> None:
        """From now on no connection brings anything; new ones are taken and bring nothing either."""
        self._do(self._freeze())

    def freeze_watches(self, resource: str) -> int:
        """The open watches on a resource bring nothing more, and stay open; gives their number."""
        return self._do(self._freeze_watches(resource))

    def watches_are_open(self) -> bool:
        """Whether each path that was ever watched is watched again: after many faults it takes up to 15 s."""
        return self._watched <= {watch.request.path for watch in self._watches if watch.has_reader}

    def cut_watches(self, last: bytes = b"") -> int:
        """Ends every open watch, after a last line where one is given, else without an end; gives their number."""
        return self._do(self._cut_watches(last))

    # What happens

    def later(self, what: Coroutine[Any, Any, None]) -> None:
        """Does something beside the requests."""
        task = self._loop.create_task(what)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(20)

    async def _open(self) -> None:
        tls = ssl.create_default_context(cafile=self._connection.ca_file, cadata=self._connection.ca_data)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        assert self._session is not None
        assert self._runner is not None
        await self._session.close()
        await self._runner.cleanup()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _freeze(self) -> None:
        assert self._runner is not None
        assert self._runner.server is not None
        self._frozen = True
        self._dead.update(self._runner.server.connections)

    async def _freeze_watches(self, resource: str) -> int:
        found = [watch for watch in self._watches if watch.resource == resource and watch.has_reader]
        for watch in found:
            watch.frozen = True
        return len(found)

    async def _cut_watches(self, last: bytes) -> int:
        found = list(self._watches)
        for watch in found:
            watch.cut(last)
        return len(found)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        if self._frozen:
            self._dead.add(request.protocol)
        body = await request.read()
        await self._unless_dead(request)
        asked = _asked(request, body)
        self.asked.append(asked)
        for rule in self._rules:
            if rule.meets(asked) and len(rule.met) < rule.times:
                rule.met.append(asked)
                return await rule.effect(Exchange(self, request, body))
        return await self.passed(request, body)

    async def passed(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Passes a request on, and the answer back as it comes, for a watch is an answer without an end."""
        try:
            async with self.send(request, body) as answer:
                return await self._relayed(request, answer)
        except aiohttp.ClientConnectionError:
            # The API server is down: so is its address.
            return Exchange(self, request, body).hang_up()

    def send(self, request: web.Request, body: bytes) -> Any:
        """A request to the API server as the operator made it."""
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key not in ("Host", "Content-Length")}
        url = self._connection.server.rstrip("/") + request.path_qs
        return self._session.request(request.method, url, data=body or None, headers=headers)

    async def _relayed(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        kept = {key: answer.headers[key] for key in ("Content-Type", "Retry-After", "Date") if key in answer.headers}
        if self.ahead and "Date" in kept:
            date = parsedate_to_datetime(kept["Date"]) + timedelta(seconds=self.ahead)
            kept["Date"] = format_datetime(date, usegmt=True)
        response = web.StreamResponse(status=answer.status, headers=kept)
        if _verb(request) != "watch" or answer.status != 200:
            whole = await answer.read()
            await self._unless_dead(request)
            return web.Response(status=answer.status, body=whole, headers=kept)
        await response.prepare(request)
        watch = _Watch(resource_of(request.path), request, response)
        self._watches.append(watch)
        self._watched.add(request.path)
        watch.task = self._loop.create_task(self._pumped(watch, answer))
        try:
            await asyncio.wait((watch.task,))
            await watch.end()
        finally:
            watch.task.cancel()
            self._watches.remove(watch)
        return response

    async def _pumped(self, watch: _Watch, answer: aiohttp.ClientResponse) -> None:
        """Brings the chunks of a watch as they come, until it ends or its reader has left."""
        async for chunk in answer.content.iter_any():
            if not watch.frozen and watch.request.protocol not in self._dead:
                watch.whole = chunk.endswith(b"\n")
                await watch.response.write(chunk)
        if watch.frozen or watch.request.protocol in self._dead:
            await _forever()

    async def _unless_dead(self, request: web.Request) -> None:
        if request.protocol in self._dead:
            await _forever()


@dataclass(slots=True, eq=False)
class _Watch:
    """An open watch of the operator."""

    resource: str
    request: web.Request
    response: web.StreamResponse
    task: asyncio.Task[None] | None = None
    frozen: bool = False
    last: bytes | None = None
    """What a test that ends it lets it say last."""
    whole: bool = True
    """Whether what came so far ends with a line."""

    @property
    def has_reader(self) -> bool:
        """Whether the operator still reads it; this server notices only at the next event that it has left."""
        return self.request.transport is not None and not self.request.transport.is_closing()

    def cut(self, last: bytes) -> None:
        self.last = last
        assert self.task is not None
        self.task.cancel()

    async def end(self) -> None:
        """Ends the answer as the API server does, or the connection where a test wants that."""
        if self.last == b"" and self.request.transport is not None:
            self.request.transport.abort()
        with suppress(ConnectionResetError):  # the operator is dead or has left: no one reads it
            if self.last and self.whole:
                await self.response.write(self.last)
            await self.response.write_eof()


async def _forever() -> None:
    await asyncio.Event().wait()


def _verb(request: web.Request) -> str:
    if request.method != "GET":
        return VERBS.get(request.method, request.method.lower())
    if "watch" in request.query:
        return "watch"
    return "list" if "limit" in request.query else "get"


def _asked(request: web.Request, body: bytes) -> Asked:
    resource, path, state = resource_of(request.path), request.path, ""
    if request.method == "POST":
        path = f"{path}/{orjson.loads(body)['metadata'].get('name', '')}"
    if resource == "gpujobs/status":
        state = orjson.loads(body)["status"].get("state", "")
    return Asked(_verb(request), resource, path, time.monotonic(), state)
