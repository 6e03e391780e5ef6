"""The HTTP endpoints of a process: /healthz (liveness), /readyz (readiness) and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


class Endpoints:
    """Serves probes and metrics until closed."""

    def __init__(
        self,
        hindrances: Callable[[], list[str]],
        unknowns: Callable[[], list[str]],
        scrape: Callable[[], CollectorRegistry],
    ) -> None:
        self._hindrances, self._unknowns, self._scrape = hindrances, unknowns, scrape
        self._runners: list[web.AppRunner] = []

    async def start(self, host: str, health_port: int, metrics_port: int) -> None:
        """Listens on both ports, at all addresses of IPv4 and IPv6 if `host` is empty; a port of 0 is not served."""
        probes = [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz)]
        for port, routes in ((health_port, probes), (metrics_port, [web.get("/metrics", self._metrics)])):
            if port:
                app = web.Application()
                app.add_routes(routes)
                runner = web.AppRunner(app, access_log=None)
                await runner.setup()
                await web.TCPSite(runner, host or None, port).start()
                self._runners.append(runner)

    async def close(self) -> None:
        """Stops listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        """Alive while the event loop runs, which this response shows: a restart repairs neither an API server nor missing rights."""
        return web.Response(text="the loop turns\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        """Ready once every kind is listed and while the API server answers; kinds that are unknown are named and do not count."""
        hindrances = self._hindrances()
        lines = [*(hindrances or ["ready"]), *self._unknowns()]
        return web.Response(text="\n".join(lines) + "\n", status=503 if hindrances else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        # The values are collected here and rendered in a thread: for many jobs rendering takes longer than the loop may block.
        body = await asyncio.to_thread(generate_latest, self._scrape())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
