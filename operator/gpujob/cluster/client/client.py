"""A thin typed client of one Kubernetes API server: reads, watches and writes by their verbs.

The operator needs four things that larger clients hide: the bytes of a watch as they arrive (their age shows liveness), paged
lists, one shared rate limit for writes, and a clear error if the outcome of a write is unknown. Called by `reflector`, `election`,
and every step that creates or patches. It decides nothing. Below it, in this order: `paths`, `kubeconfig` and `bearer_token`,
`rate_limit`, `transport` (retries), `line_reader`, `api_errors`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping

import aiohttp
import orjson

from gpujob.cluster.client.api_errors import BrokenStream, JsonObject, Silent, Unreachable
from gpujob.cluster.client.rate_limit import ORDINARY, Patience
from gpujob.cluster.client.transport import Call, Transport, Trim, untouched, without_managed_fields

LINE_LIMIT = 16 * 1024 * 1024


class LineSplitter:
    """Splits a stream of chunks into lines; BrokenStream past `limit` bytes without an end of line."""

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
        """The rest after the last end of line."""
        return b"".join(self._parts)


MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MOST_PAGES = 5000
"""The most pages of a list: a server that gives ever another one is not asked without end."""
SILENT_AFTER = 65.0


class ApiClient(Transport):
    """The verbs of one API server; use it as `async with`."""

    async def get(self, path: str, *, patience: Patience = ORDINARY) -> JsonObject:
        """The object at a path."""
        return await self.send(Call("get", "GET", path, patience))

    async def list_paged(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        limit: int = 500,
        *,
        trim: Trim = untouched,
        fresh: bool = False,
    ) -> AsyncGenerator[JsonObject, None]:
        """The pages of one consistent list; raises Gone if the continue token expires: then start again. BrokenStream: it is no list,
        or has no last page.

        `trim` removes unneeded parts of a response before it is decoded. With `fresh`, each page has a connection of its own: for
        the list of a whole kind that follows a silent watch. A short list takes one from the pool.
        """
        query = {**(params or {}), "limit": str(limit)}
        for _ in range(MOST_PAGES):
            page = await self.send(Call("list", "GET", path, ORDINARY, query, trim=trim, fresh=fresh))
            metadata, items = page.get("metadata") or {}, page.get("items") or []
            if not isinstance(metadata, dict) or not isinstance(items, list):
                raise BrokenStream(0, "NoList", f"the answer to the list of {path} is no list")
            yield page
            token = str(metadata.get("continue") or "")
            if not token:
                return
            if token == query.get("continue"):
                break
            query["continue"] = token
        raise BrokenStream(0, "EndlessList", f"the list of {path} has no last page")

    async def watch(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        silence: float = SILENT_AFTER,
        on_bytes: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until the server ends it; raises Silent after `silence` seconds without a byte.

        Close it (`contextlib.aclosing`) when leaving early. Lines are not decoded: the caller handles malformed ones. `on_bytes`
        is called for the response's head and for each chunk, complete line or not.
        """
        call = Call("watch", "GET", path, ORDINARY, {**(params or {}), "watch": "true"}, fresh=True)
        lines = LineSplitter()
        response = await self.open_stream(call, silence)
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

    async def create(self, path: str, body: JsonObject, *, patience: Patience = ORDINARY) -> JsonObject:
        """The object as created; AlreadyExists if the name is taken, OutcomeUnknown without a response."""
        return await self.send(
            Call("create", "POST", path, patience, None, orjson.dumps(body), trim=without_managed_fields)
        )

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
        data, trim = orjson.dumps(body), without_managed_fields
        return await self.send(Call("patch", "PATCH", path, patience, params, data, content_type, trim))

    async def delete(self, path: str, *, uid: str, propagation: str = "Background") -> JsonObject:
        """The response: a Status if the object is gone, the object itself if its deletion only began.

        Without a propagation policy the API server orphans a Job's pods; without the uid it would delete a later object of the
        same name. Conflict if the uid differs.
        """
        if not uid:
            raise ValueError(f"a delete needs the uid of what it deletes: {path}")
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid},
        }
        return await self.send(Call("delete", "DELETE", path, ORDINARY, None, orjson.dumps(options)))
