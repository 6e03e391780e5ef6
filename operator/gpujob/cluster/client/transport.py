"""Sends requests and reports their outcome: retries, the rate limit of writes, timeouts, counts.

A request is repeated only if the server has certainly not acted on it, never sooner than it says (Retry-After), and a slow-down
for one write applies to those of its namespace. After a write without a response the outcome is unknown, which is an error of its own.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlencode

import aiohttp
import orjson
import structlog
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from gpujob.cluster.client.api_errors import (
    ApiError,
    Fenced,
    JsonObject,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
    error_from_answer,
)
from gpujob.cluster.client.kubeconfig import Connection, Token, tls_context
from gpujob.cluster.client.paths import namespace_of, resource_of
from gpujob.cluster.client.rate_limit import LONGEST_PAUSE, LONGEST_RETRY_DELAY, Clock, Patience, Pauses, TokenBucket

CONNECT_TIMEOUT = 10.0
KEEP_ALIVE = 75.0
"""Seconds that an idle connection is kept; the API server closes its own after 90."""

READ_BUFFER: Final = 64 * 1024
"""Bytes that a TLS connection keeps for what it reads: four records of TLS, after which aiohttp pauses anyway. asyncio's own 256 KiB
of each watch and of 100 connections for writes were 30 MiB."""

log = structlog.get_logger(__name__)

Trim = Callable[[bytes], bytes]


def untouched(body: bytes) -> bytes:
    """The JSON as the server sent it: the `trim` of a list that is read whole."""
    return body


_FIELDS: Final = b',"managedFields":['
_SPEC: Final = b'"spec":{'
_ENDS: Final = (b'}]},"spec":{', b'}],"name":"')
"""Their end with what follows: in an object of Kubernetes' own kinds, or in one of a custom kind, whose members are sorted."""
_END: Final = re.compile(b"|".join(map(re.escape, _ENDS)))


def without_managed_fields(body: bytes) -> bytes:
    """JSON of one object without its managed fields: half of a pod, which nothing here reads.

    No other text matches: a quote inside a string is escaped, and managed fields contain no list. A user may clear them and write
    such members below the spec (parameters of a ResourceClaim), so only those before it count.
    """
    start = body.find(_FIELDS)
    if start < 0 or body.find(_SPEC, 0, start) >= 0:
        return body
    # One character is found twenty times as fast as a pattern; it is the end unless the name of a field has it.
    end = body.find(b"]", start) - 1
    if not body.startswith(_ENDS, end):
        found = _END.search(body, start)
        end = found.start() if found else -1
    return body[: start + len(_FIELDS)] + body[end + 1 :] if end >= 0 and body.find(_SPEC, end) >= 0 else body


@dataclass(frozen=True, slots=True)
class Call:
    verb: str
    method: str
    path: str
    patience: Patience
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"
    trim: Trim = untouched
    fresh: bool = False
    """Whether it opens a connection of its own instead of one from the pool."""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def fenced(self) -> bool:
        """Whether it uses the queue of writes, which only the leader makes; the Lease's own writes do not."""
        return self.writes and self.patience.queued


class FencedBody(aiohttp.BytesPayload):
    """The body of a write that is not sent if the process may no longer write when its bytes are due.

    A connection, a TLS handshake and another task of aiohttp lie between the decision to send and the bytes: a process that was
    frozen there would send whole requests when it wakes up. aiohttp holds the head back until the body is written, so nothing is
    sent at all. What no process can rule out is a freeze between this check and the system call that sends, which follows without
    another turn of the loop: then one request arrives late. The API server refuses it, because a status names its version, a
    deletion its uid, and a child has the name of its attempt.
    """

    def __init__(self, value: bytes, may_write: Callable[[], bool]) -> None:
        super().__init__(value)
        self.withheld = False
        """Whether the last try to write it was refused."""
        self._may_write = may_write

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Writes the body with the head of its request; raises RuntimeError if the process may not write any more."""
        self.withheld = not self._may_write()
        if self.withheld:
            raise RuntimeError("another process may lead")
        await super().write_with_length(writer, content_length)


class Transport:
    """Sends calls to one API server; use it as `async with`. Counts every request by (verb, resource, HTTP code or 0)."""

    def __init__(
        self,
        connection: Connection,
        *,
        write_rate: float = 200.0,
        write_burst: float = 400.0,
        user_agent: str = "gpujob-operator",
        connect_timeout: float = CONNECT_TIMEOUT,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.writes: Counter[tuple[str, str]] = Counter()
        self.may_write: Callable[[], bool] = lambda: True
        """Checked before every try of a queued write, and again when its bytes are written: it may have waited for a minute, or
        the process may have been frozen in between.
        """
        self.on_date: Callable[[str | None], None] = lambda _: None
        """Called with the Date header of each response."""
        self.on_answer: Callable[[int], None] = lambda _: None
        """Called with the HTTP code of each response, 0 without a response."""
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._token = Token(connection, clock)
        self._bucket = TokenBucket(write_rate, write_burst, clock)
        self._pauses = Pauses(clock)
        self._agent = user_agent
        self._connect_timeout = connect_timeout
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        tls = tls_context(self._connection)
        sslproto.SSLProtocol.max_size = READ_BUFFER
        self._pooled = self._session(aiohttp.TCPConnector(ssl=tls, limit=128, keepalive_timeout=KEEP_ALIVE))
        # A watch and the list before it never take a connection from the pool: after a network fault the pooled ones may be
        # dead, and the replacement of a silent stream must not reuse its connection. Both are rare, so connecting costs little.
        self._fresh = self._session(aiohttp.TCPConnector(ssl=tls, limit=0, force_close=True))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection, watches included."""
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        # Inside a cluster decompression costs both sides more than the wire does, hence no compression.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self._agent}
        return aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar())

    async def send(self, call: Call) -> JsonObject:
        attempt = 0
        while True:
            attempt += 1
            await self._wait_for_turn(call)
            if call.fenced and not self.may_write():
                raise _fenced(call)
            try:
                answer = await self._send_once(call)
            except ApiError as error:
                delay = self._delay_before_retry(call, error, attempt)
                if delay is None and call.writes and _outcome_unknown(error):
                    raise OutcomeUnknown(
                        error.status, error.reason, error.message, error.details, error.retry_after
                    ) from error
                if delay is None:
                    raise
                log.debug("request is repeated", verb=call.verb, path=call.path, error=str(error), delay=delay)
                await self._sleep(delay)
            else:
                if call.fenced:
                    self._pauses.end(namespace_of(call.path))
                return answer

    async def _wait_for_turn(self, call: Call) -> None:
        if not call.fenced:
            return
        if (wait := self._bucket.take()) > 0:
            await self._sleep(wait)
        if (wait := self._pauses.left(namespace_of(call.path))) > 0:
            await self._sleep(wait * (1 + 0.2 * self._chance()))

    def _delay_before_retry(self, call: Call, error: ApiError, attempt: int) -> float | None:
        if isinstance(error, Unauthorized):
            return 0.0 if attempt == 1 and self._token.renewed() else None
        if not _worth_repeating(call, error):
            return None
        retry_after = error.retry_after
        base = min(LONGEST_RETRY_DELAY, retry_after if retry_after is not None else 2.0 ** (attempt - 1))
        # Never sooner than the server says; only delays of the operator's own choice are spread downwards too.
        delay = base * (1 + 0.2 * self._chance()) if retry_after is not None else base * (0.5 + 0.5 * self._chance())
        if call.fenced:
            self._pauses.begin(namespace_of(call.path), min(base, LONGEST_PAUSE))
            if base > LONGEST_PAUSE:
                return None  # the job waits, and not its step in a slot
        return delay if attempt < call.patience.tries else None

    async def _send_once(self, call: Call) -> JsonObject:
        resource = resource_of(call.path)
        if call.writes:
            self.writes[(call.verb, resource)] += 1
        timeout = aiohttp.ClientTimeout(total=call.patience.timeout, sock_connect=self._connect_timeout)
        data = FencedBody(call.body, self.may_write) if call.fenced and call.body is not None else call.body
        try:
            response = await self._request(call, timeout, data)
            async with response:
                body = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            if isinstance(data, FencedBody) and data.withheld:
                raise _fenced(call) from error
            self._count(call.verb, resource, 0)
            raise _error_without_answer(call, error) from error
        self._count(call.verb, resource, response.status)
        self.on_date(response.headers.get("Date"))
        if response.status >= 300:
            raise error_from_answer(response.status, response.reason or "", response.headers, body)
        return _decoded(call, body)

    async def open_stream(self, call: Call, silence: float) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout, sock_read=silence)
        key = (call.verb, resource_of(call.path))
        try:
            # The head of the response comes at once, so it gets an ordinary call's time and not a stream's.
            async with asyncio.timeout(min(silence, call.patience.timeout)):
                response = await self._request(call, timeout)
                if response.status == 200:
                    self._count(*key, 200)
                    return response
                body = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            self._count(*key, 0)
            raise Unreachable(0, type(error).__name__, f"watch of {call.path}: {error}") from error
        self._count(*key, response.status)
        if response.status == 401:
            self._token.renewed()  # the caller's next try has the rotated token
        raise error_from_answer(response.status, response.reason or "", response.headers, body)

    def _count(self, verb: str, resource: str, code: int) -> None:
        self.requests[(verb, resource, code)] += 1
        self.on_answer(code)

    async def _request(
        self, call: Call, timeout: aiohttp.ClientTimeout, data: bytes | FencedBody | None = None
    ) -> aiohttp.ClientResponse:
        session = self._fresh if call.fresh else self._pooled
        if session is None:
            raise RuntimeError("ApiClient is used outside `async with`")
        query = f"?{urlencode(call.params)}" if call.params else ""
        headers = self._token.header()
        if data is not None:
            headers["Content-Type"] = call.content_type
        return await session.request(
            call.method,
            URL(self._server + call.path + query, encoded=True),
            data=data,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,  # a token is sent to no other server
            server_hostname=self._connection.server_name,
        )


def _fenced(call: Call) -> Fenced:
    return Fenced(0, "Fenced", f"{call.verb} {call.path}: this process may not write any more")


def _worth_repeating(call: Call, error: ApiError) -> bool:
    if error.status == 429:
        return True
    if error.status < 500 or error.retry_after is None:
        return False
    # The server sends 503 before it handles a request; after other 5xx a create or patch may have happened.
    return error.status == 503 or call.method in {"GET", "DELETE"}


def _error_without_answer(call: Call, error: Exception) -> ApiError:
    message = f"{call.verb} {call.path}: {error or 'timeout'}"
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    kind = OutcomeUnknown if call.writes and not never_sent else Unreachable
    return kind(0, type(error).__name__, message)


def _outcome_unknown(error: ApiError) -> bool:
    # etcd may have accepted a write before it timed out; only "503, come again" means that nothing was begun.
    return error.status >= 500 and not (error.status == 503 and error.retry_after is not None)


def _decoded(call: Call, body: bytes) -> JsonObject:
    try:
        answer = orjson.loads(call.trim(body))
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict):
        return answer
    kind = OutcomeUnknown if call.writes else ApiError
    raise kind(0, "NotJson", f"{call.verb} {call.path}: the answer is no JSON object: {body[:128]!r}")
