"""A proxy between an operator and the API server that kills the operator at one exact write.

A crash at random finds nothing that lasts a millisecond. Here each write is a place of its own: the operator dies before
the API server gets it, or after the API server has done it and before the operator hears of that.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import aiohttp
from aiohttp import web

from gpujob.cluster.client.kubeconfig import Connection

OWN_RULES = ("/leases", "/gpupools")
"""Writes that no job needs: the election and what pools show."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Kill the operator at write number `write` (from 1), before or after the API server has it."""

    write: int
    before: bool

    def __str__(self) -> str:
        return f"killed {'before' if self.before else 'after'} write {self.write}"


class KillingProxy:
    """Plain HTTP on 127.0.0.1:`port`, TLS to the API server; use it as `with`. Runs in a thread of its own."""

    def __init__(self, connection: Connection, kill: Callable[[], None]) -> None:
        self._connection, self._kill = connection, kill
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._plan: Plan | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.writes: list[str] = []
        self.killed = threading.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    def arm(self, plan: Plan | None) -> None:
        """Counts writes from 1 again, and kills at the one that the plan names."""
        self.writes.clear()
        self.killed.clear()
        self._plan = plan

    async def _open(self) -> None:
        tls = ssl.create_default_context(cafile=self._connection.ca_file, cadata=self._connection.ca_data)
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._pass)
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

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        body = await request.read()
        number = self._counted(request)
        plan = self._plan if self._plan is not None and self._plan.write == number else None
        if plan is not None and plan.before:
            return self._strike(request)
        headers = {key: value for key, value in request.headers.items() if key not in ("Host", "Content-Length")}
        url = self._connection.server.rstrip("/") + request.path_qs
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if plan is not None:
                await answer.read()
                return self._strike(request)
            return await _relayed(request, answer)

    def _counted(self, request: web.Request) -> int:
        """The number of a write, 0 for everything else."""
        if request.method == "GET" or any(part in request.path for part in OWN_RULES):
            return 0
        self.writes.append(f"{request.method} {request.path}")
        return len(self.writes)

    def _strike(self, request: web.Request) -> web.Response:
        self._plan = None
        self._kill()
        self.killed.set()
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500, text="not read")


async def _relayed(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """The answer, chunk by chunk as it comes, for a watch is an answer without an end."""
    kept = ("Content-Type", "Retry-After")
    response = web.StreamResponse(
        status=answer.status, headers={key: answer.headers[key] for key in kept if key in answer.headers}
    )
    await response.prepare(request)
    with suppress(ConnectionResetError):  # the operator is dead or has left: no one reads the reply
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    return response
