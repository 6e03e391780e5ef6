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
        """Listens on both ports, at all addresses of IPv4 and IPv6 where `host` is empty; a port of 0 is not served."""
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
        """Alive while the loop turns, which this answer shows: a restart mends no API server and no rights."""
        return web.Response(text="the loop turns\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        """Ready once every kind is listed and while the API server answers; what is unknown is told and hinders nothing."""
        hindrances = self._hindrances()
        lines = [*(hindrances or ["ready"]), *self._unknowns()]
        return web.Response(text="\n".join(lines) + "\n", status=503 if hindrances else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        # The values are taken here, the text is made beside the loop: of many jobs that takes longer than a turn may.
        body = await asyncio.to_thread(generate_latest, self._scrape())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
