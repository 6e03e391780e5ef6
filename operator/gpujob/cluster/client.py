"""A thin typed client of one Kubernetes API server: paths, calls, watches, and one tree of errors.

It exists because the operator needs four things that larger clients hide: the bytes of a watch as they come (their age
is the liveness answer), paged lists, one shared budget for writes, and an honest answer when the outcome of a write is
unknown. Called by `watch`, `leader`, and by every step that creates or patches. It decides nothing.

    ApiError
    ├── Unauthorized 401, Forbidden 403, NotFound 404, Gone 410, Invalid 422
    ├── Conflict 409
    │   └── AlreadyExists         409 with that reason
    ├── TooManyRequests 429       carries retry_after
    ├── Unreachable               no answer, and the server has certainly not acted on it
    │   └── Silent                a watch brought no byte for too long
    ├── Fenced                    a write that was not sent, because this process may not write any more
    ├── BrokenStream              a watch or list that cannot be one
    └── OutcomeUnknown            a write was sent and nobody knows whether it happened: GET, then decide
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import ssl
import tempfile
import time
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import orjson
import structlog
import yaml
from yarl import URL

JsonObject = dict[str, Any]
Clock = Callable[[], float]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

REQUEST_TIMEOUT = 30.0
CONNECT_TIMEOUT = 10.0
SILENT_AFTER = 65.0
LINE_LIMIT = 16 * 1024 * 1024
TOKEN_REREAD_AFTER = 60.0
LONGEST_RETRY_DELAY = 60.0

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

log = structlog.get_logger(__name__)


# --- Errors -----------------------------------------------------------------------------------------------------------


class ApiError(Exception):
    """An answer of the API server that is not success; `status` is the HTTP code, 0 when there was no answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """401: the token or certificate is not accepted."""


class Forbidden(ApiError):
    """403: RBAC, a quota or an admission policy refuses."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: the precondition (uid or resourceVersion) does not hold."""


class AlreadyExists(Conflict):
    """409 on a create: an object of that name is there."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list afresh."""


class Invalid(ApiError):
    """422: the object breaks the schema or a validation rule; repeating it cannot help."""


class TooManyRequests(ApiError):
    """429: the server throttles; `retry_after` in seconds when it said so."""


class Unreachable(ApiError):
    """No answer, and the server has not acted: the connection was never made, or the request only reads."""


class Silent(Unreachable):
    """A watch brought no byte for longer than the API server's bookmarks allow."""


class Fenced(ApiError):
    """A write was not sent: by the time its turn came, another process may have become leader."""


class BrokenStream(ApiError):
    """A watch or a list brought what none can bring: an endless line, a list without a version."""


class OutcomeUnknown(ApiError):
    """A write was sent, and whether it happened is not known; the caller reads before it writes again."""


class UnusableConnection(ValueError):
    """The kubeconfig or the pod's environment gives no connection that this client can make; says which field."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(status: JsonObject, code: int | None = None, retry_after: float | None = None) -> ApiError:
    """The exception for a `Status` object, of an HTTP answer or of an ERROR event: the only place that maps codes."""
    number = code or _as_int(status.get("code")) or 500
    reason = str(status.get("reason") or "Unknown")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(_as_int(details["retryAfterSeconds"]) or 0) or None
    kind = _BY_STATUS.get(number, ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(number, reason, str(status.get("message") or ""), details, retry_after)


def _error_from_answer(code: int, phrase: str, headers: Mapping[str, str], body: bytes) -> ApiError:
    retry_after = headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        # Proxies, and the API server's own throttle, answer in plain text.
        status = {"reason": phrase.replace(" ", ""), "message": body[:512].decode(errors="replace").strip()}
    return error_from_status(status, code, seconds)


def _as_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- Paths ------------------------------------------------------------------------------------------------------------

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBRESOURCE = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Resource:
    """One REST resource; `path` is the only way to a URL, so that no name can leave its place in it."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection (no name), an object or its subresource; ValueError for a name that is none."""
        self._check_scope(namespace, name)
        parts = ["api" if not self.group else f"apis/{self.group}", self.version]
        if namespace is not None:
            parts += ["namespaces", _checked_namespace(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_checked_name(name))
        if subresource is not None:
            if name is None or not _SUBRESOURCE.fullmatch(subresource):
                raise ValueError(f"no subresource {subresource!r} of {self.plural} {name!r}")
            parts.append(subresource)
        return "/" + "/".join(parts)

    def _check_scope(self, namespace: str | None, name: str | None) -> None:
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace, got {namespace!r}")
        if namespace is None and name is not None and self.namespaced:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")


def _checked_namespace(namespace: str) -> str:
    if not _DNS_LABEL.fullmatch(namespace):
        raise ValueError(f"not a namespace: {namespace!r}")
    return namespace


def _checked_name(name: str) -> str:
    # The API server's own rule for a path segment; quoting alone would let "." and ".." be resolved on the way.
    if name in {"", ".", ".."} or "/" in name or "%" in name or len(name) > 253:
        raise ValueError(f"not an object's name: {name!r}")
    return quote(name, safe="")


def resource_of(path: str) -> str:
    """The plural (and subresource) that a path names, for counting: `pods`, `gpujobs/status`."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts[:1]
    if parts[:1] == ["namespaces"] and len(parts) > 2 and parts[2] not in {"status", "finalize"}:
        parts = parts[2:]
    return "/".join(parts[0::2][:2]) if parts else ""


# --- Connections ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one API server; data fields hold PEM text, and no secret shows in its repr."""

    server: str
    ca_file: str | None = None
    ca_data: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    client_cert_file: str | None = None
    client_cert_data: str | None = field(default=None, repr=False)
    client_key_file: str | None = None
    client_key_data: str | None = field(default=None, repr=False)
    server_name: str | None = None
    insecure: bool = False


def connection_in_cluster(
    environ: Mapping[str, str] | None = None, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod by its service account; UnusableConnection outside a pod."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = service_account / "token"
    if not host or not token_file.exists():
        raise UnusableConnection(
            f"not in a pod: KUBERNETES_SERVICE_HOST or {token_file} is missing; give a kubeconfig instead"
        )
    address = f"[{host}]" if ":" in host else host
    return Connection(f"https://{address}:{port}", ca_file=str(service_account / "ca.crt"), token_file=str(token_file))


def connection_from_kubeconfig(path: str | Path, context: str | None = None) -> Connection:
    """The connection that a kubeconfig names (its current context unless given); relative files are beside it."""
    file = Path(path)
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UnusableConnection(f"cannot read kubeconfig {file}: {error}") from error
    if not isinstance(config, dict):
        raise UnusableConnection(f"kubeconfig {file} is not a mapping")
    chosen = context or config.get("current-context")
    if not chosen:
        raise UnusableConnection(f"kubeconfig {file} has no current-context; set it or name a context")
    pair = _entry(config, "contexts", "context", chosen, file)
    cluster = _entry(config, "clusters", "cluster", pair.get("cluster"), file)
    user = _entry(config, "users", "user", pair.get("user"), file) if pair.get("user") else {}
    _refuse_unsupported(cluster, user, file)
    return _connection(cluster, user, file)


def _entry(config: JsonObject, section: str, field_name: str, name: object, file: Path) -> JsonObject:
    for entry in config.get(section) or ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(field_name), dict):
            found: JsonObject = entry[field_name]
            return found
    raise UnusableConnection(f"kubeconfig {file}: {section} has no entry named {name!r}")


_UNSUPPORTED_USER_FIELDS: Mapping[str, str] = {
    "exec": "exec plugins are not run here; use a token, for example of `kubectl create token`",
    "auth-provider": "auth providers left Kubernetes in 1.26; use a token or a client certificate",
    "username": "basic authentication left Kubernetes in 1.19; use a token or a client certificate",
    "as": "impersonation is not supported; use a token of the account itself",
}


def _refuse_unsupported(cluster: JsonObject, user: JsonObject, file: Path) -> None:
    for field_name, remedy in _UNSUPPORTED_USER_FIELDS.items():
        if user.get(field_name):
            raise UnusableConnection(f"kubeconfig {file}: users[].user.{field_name}: {remedy}")
    if cluster.get("proxy-url"):
        raise UnusableConnection(
            f"kubeconfig {file}: clusters[].cluster.proxy-url: proxies are not supported; give the server's own address"
        )
    if not cluster.get("server"):
        raise UnusableConnection(f"kubeconfig {file}: clusters[].cluster.server is missing")


def _connection(cluster: JsonObject, user: JsonObject, file: Path) -> Connection:
    def beside(value: object) -> str | None:
        return str(file.parent / str(value)) if value else None

    def decoded(section: JsonObject, field_name: str) -> str | None:
        if not section.get(field_name):
            return None
        try:
            return b64decode(section[field_name], validate=True).decode()
        except ValueError as error:
            raise UnusableConnection(f"kubeconfig {file}: {field_name} is not base64 of PEM text") from error

    return Connection(
        server=str(cluster["server"]),
        ca_file=beside(cluster.get("certificate-authority")),
        ca_data=decoded(cluster, "certificate-authority-data"),
        token=user.get("token"),
        token_file=beside(user.get("tokenFile")),
        client_cert_file=beside(user.get("client-certificate")),
        client_cert_data=decoded(user, "client-certificate-data"),
        client_key_file=beside(user.get("client-key")),
        client_key_data=decoded(user, "client-key-data"),
        server_name=cluster.get("tls-server-name"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def _tls_context(connection: Connection) -> ssl.SSLContext | bool:
    if not connection.server.startswith("https:"):
        return True
    try:
        cafile = None if connection.ca_data else connection.ca_file
        context = ssl.create_default_context(cafile=cafile, cadata=connection.ca_data)
        if connection.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, connection)
    except (OSError, ValueError) as error:
        raise UnusableConnection(f"certificates for {connection.server} cannot be loaded: {error}") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, connection: Connection) -> None:
    # The ssl module reads certificates from files only; the folder is private to us and gone when this returns.
    with tempfile.TemporaryDirectory() as folder:

        def as_file(data: str | None, name: str | None) -> str | None:
            if data is None:
                return name
            file = Path(folder) / ("key" if data is connection.client_key_data else "certificate")
            file.touch(mode=0o600)
            file.write_text(data, encoding="utf-8")
            return str(file)

        certificate = as_file(connection.client_cert_data, connection.client_cert_file)
        if certificate is not None:
            context.load_cert_chain(certificate, as_file(connection.client_key_data, connection.client_key_file))


class _Token:
    """The bearer token of a connection; a token file is read again every minute, since bound tokens rotate."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._value = connection.token
        self._file = Path(connection.token_file) if connection.token_file else None
        self._clock = clock
        self._read_at: float | None = None

    def header(self) -> dict[str, str]:
        """The Authorization header, empty when certificates are all there is."""
        if self._file and (self._read_at is None or self._clock() - self._read_at >= TOKEN_REREAD_AFTER):
            self._reread(self._file)
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def _reread(self, file: Path) -> None:
        try:
            self._value = file.read_text(encoding="utf-8").strip()
        except OSError as error:
            if self._value is None:
                raise UnusableConnection(f"cannot read token file {file}: {error}") from error
            log.warning("token file unreadable, the last token is used", file=str(file), error=str(error))
        self._read_at = self._clock()

    def renewed(self) -> bool:
        """Whether reading the file now gives another token than the one that was just refused."""
        if self._file is None:
            return False
        refused, self._read_at = self._value, None
        self.header()
        return self._value != refused


# --- Pace -------------------------------------------------------------------------------------------------------------


class TokenBucket:
    """Hands out `rate` permits a second, `burst` at once, in the order asked."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._permits, self._at = float(burst), clock()

    def take(self) -> float:
        """The seconds to wait before the permit that this call takes is good."""
        now = self._clock()
        self._permits = min(self._burst, self._permits + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._permits / self._rate)


@dataclass(frozen=True, slots=True)
class Patience:
    """How a call waits: seconds for one try, how many tries, and whether it stands in the queue of writes."""

    timeout: float = REQUEST_TIMEOUT
    tries: int = 5
    queued: bool = True


ORDINARY = Patience()


@dataclass(frozen=True, slots=True)
class _Call:
    verb: str
    method: str
    path: str
    patience: Patience
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"

    @property
    def writes(self) -> bool:
        return self.method != "GET"


# --- The client -------------------------------------------------------------------------------------------------------


class ApiClient:
    """Calls one API server; use it as `async with`. Counts every request by (verb, resource, HTTP code or 0)."""

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
        """Asked before every try of a write that stands in the queue: it may have waited there for a minute."""
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._token = _Token(connection, clock)
        self._bucket = TokenBucket(write_rate, write_burst, clock)
        self._quiet_until = float("-inf")
        self._agent = user_agent
        self._connect_timeout = connect_timeout
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        tls = _tls_context(self._connection)
        self._pooled = self._session(aiohttp.TCPConnector(ssl=tls, limit=128))
        # A list or watch never takes a connection from the pool: after a network fault the pooled ones may be dead, and
        # what is to replace a silent stream must not inherit its silence. Both are rare, so connecting costs little.
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
        # Unpacking costs both sides more than the wire does inside a cluster, hence no compression.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self._agent}
        return aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar())

    # Reading

    async def get(self, path: str, *, patience: Patience = ORDINARY) -> JsonObject:
        """The object at a path."""
        return await self._send(_Call("get", "GET", path, patience))

    async def list_paged(
        self, path: str, params: Mapping[str, str] | None = None, limit: int = 500, *, patience: Patience = ORDINARY
    ) -> AsyncGenerator[JsonObject, None]:
        """The pages of one consistent list; raises Gone when it outlives its continue token: start again then."""
        query = {**(params or {}), "limit": str(limit)}
        while True:
            page = await self._send(_Call("list", "GET", path, patience, query))
            yield page
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    async def watch(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        silence: float = SILENT_AFTER,
        on_bytes: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until the server ends it; raises Silent after `silence` seconds without a byte.

        Close it (`contextlib.aclosing`) when leaving early. Lines are not decoded: what one bad line means is the
        caller's to say. `on_bytes` is called for the answer's head and for each chunk, complete line or not.
        """
        call = _Call("watch", "GET", path, ORDINARY, {**(params or {}), "watch": "true"})
        lines = LineSplitter()
        response = await self._open_stream(call, silence)
        try:
            on_bytes()
            async for chunk in response.content.iter_any():
                on_bytes()
                for line in lines.feed(chunk):
                    yield line
            if rest := lines.rest():
                yield rest
        except TimeoutError as error:
            raise Silent(0, "Silent", f"no byte for {silence:g} s from {path}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(0, type(error).__name__, f"watch of {path}: {error}") from error
        finally:
            response.close()

    async def _open_stream(self, call: _Call, silence: float) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout, sock_read=silence)
        key = (call.verb, resource_of(call.path))
        try:
            # The head of the answer comes at once, so it gets an ordinary call's time and not a stream's.
            async with asyncio.timeout(min(silence, call.patience.timeout)):
                response = await self._request(call, timeout)
                if response.status == 200:
                    self.requests[(*key, 200)] += 1
                    return response
                body = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            self.requests[(*key, 0)] += 1
            raise Unreachable(0, type(error).__name__, f"watch of {call.path}: {error}") from error
        self.requests[(*key, response.status)] += 1
        if response.status == 401:
            self._token.renewed()  # the caller's next try has the rotated token
        raise _error_from_answer(response.status, response.reason or "", response.headers, body)

    # Writing

    async def create(
        self, path: str, body: JsonObject, *, params: Mapping[str, str] | None = None, patience: Patience = ORDINARY
    ) -> JsonObject:
        """The object as created; AlreadyExists when the name is taken, OutcomeUnknown when no answer came."""
        return await self._send(_Call("create", "POST", path, patience, params, orjson.dumps(body)))

    async def patch(
        self,
        path: str,
        body: JsonObject | list[JsonObject],
        content_type: str = MERGE_PATCH,
        *,
        params: Mapping[str, str] | None = None,
        patience: Patience = ORDINARY,
    ) -> JsonObject:
        """The object as patched; put metadata.resourceVersion in the body to make it a precondition."""
        return await self._send(_Call("patch", "PATCH", path, patience, params, orjson.dumps(body), content_type))

    async def delete(
        self, path: str, *, uid: str, propagation: str = "Background", patience: Patience = ORDINARY
    ) -> JsonObject:
        """The answer: a Status when the object is gone, the object itself when it only began to go.

        Without a propagation policy the API server orphans a Job's pods; without the uid a later object of the same
        name would be deleted. Conflict when the uid is another.
        """
        if not uid:
            raise ValueError(f"a delete needs the uid of what it deletes: {path}")
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid},
        }
        return await self._send(_Call("delete", "DELETE", path, patience, None, orjson.dumps(options)))

    # Sending

    async def _send(self, call: _Call) -> JsonObject:
        attempt = 0
        while True:
            attempt += 1
            await self._wait_for_turn(call)
            if call.writes and call.patience.queued and not self.may_write():
                raise Fenced(0, "Fenced", f"{call.verb} {call.path}: this process may not write any more")
            try:
                return await self._send_once(call)
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

    async def _wait_for_turn(self, call: _Call) -> None:
        if not (call.writes and call.patience.queued):
            return
        if (wait := self._bucket.take()) > 0:
            await self._sleep(wait)
        # One writer that is told to slow down speaks for all: else each of them floods the server once more.
        while (wait := self._quiet_until - self._clock()) > 0:
            await self._sleep(wait * (1 + 0.2 * self._chance()))

    def _delay_before_retry(self, call: _Call, error: ApiError, attempt: int) -> float | None:
        if isinstance(error, Unauthorized):
            return 0.0 if attempt == 1 and self._token.renewed() else None
        if not _worth_repeating(call, error):
            return None
        told = error.retry_after
        base = min(LONGEST_RETRY_DELAY, told if told is not None else 2.0 ** (attempt - 1))
        # Never sooner than told; only a delay that we chose ourselves is spread downwards too.
        delay = base * (1 + 0.2 * self._chance()) if told is not None else base * (0.5 + 0.5 * self._chance())
        if call.writes and call.patience.queued:
            self._quiet_until = max(self._quiet_until, self._clock() + base)
        return delay if attempt < call.patience.tries else None

    async def _send_once(self, call: _Call) -> JsonObject:
        resource = resource_of(call.path)
        if call.writes:
            self.writes[(call.verb, resource)] += 1
        timeout = aiohttp.ClientTimeout(total=call.patience.timeout, sock_connect=self._connect_timeout)
        try:
            response = await self._request(call, timeout)
            async with response:
                body = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            self.requests[(call.verb, resource, 0)] += 1
            raise _error_without_answer(call, error) from error
        self.requests[(call.verb, resource, response.status)] += 1
        if response.status >= 300:
            raise _error_from_answer(response.status, response.reason or "", response.headers, body)
        return _decoded(call, body)

    async def _request(self, call: _Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        session = self._fresh if call.verb in {"list", "watch"} else self._pooled
        if session is None:
            raise RuntimeError("ApiClient is used outside `async with`")
        query = f"?{urlencode(call.params)}" if call.params else ""
        headers = self._token.header()
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return await session.request(
            call.method,
            URL(self._server + call.path + query, encoded=True),
            data=call.body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,  # a token goes to no other server
            server_hostname=self._connection.server_name,
        )


def _worth_repeating(call: _Call, error: ApiError) -> bool:
    if error.status == 429:
        return True
    if error.status < 500 or error.retry_after is None:
        return False
    # 503 is said before a request is handled; after other 5xx a create or patch may have happened all the same.
    return error.status == 503 or call.method in {"GET", "DELETE"}


def _error_without_answer(call: _Call, error: Exception) -> ApiError:
    message = f"{call.verb} {call.path}: {error or 'timeout'}"
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    kind = OutcomeUnknown if call.writes and not never_sent else Unreachable
    return kind(0, type(error).__name__, message)


def _outcome_unknown(error: ApiError) -> bool:
    # etcd may have taken a write before it timed out; only "503, come again" says that nothing was begun.
    return error.status >= 500 and not (error.status == 503 and error.retry_after is not None)


def _decoded(call: _Call, body: bytes) -> JsonObject:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict):
        return answer
    kind = OutcomeUnknown if call.writes else ApiError
    raise kind(0, "NotJson", f"{call.verb} {call.path}: the answer is no JSON object: {body[:128]!r}")


class LineSplitter:
    """Cuts a stream of chunks into lines; BrokenStream past `limit` bytes without an end of line."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends and without empty ones."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            # Parts are joined once, not chunk by chunk: a large object would cost the square of its size.
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > self._limit:
            raise BrokenStream(0, "LineTooLong", f"a line of a watch is longer than {self._limit} bytes")
        return [line for line in lines if line]

    def rest(self) -> bytes:
        """What came after the last end of line."""
        return b"".join(self._parts)
