"""The HTTP endpoints of a process: /healthz (liveness), /readyz (readiness) and /metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gpujob.cluster.cache.reflector import DEAD_AFTER, WatchHealth


class Endpoints:
    """Serves probes and metrics until closed."""

    def __init__(self, health: WatchHealth, ready: Callable[[], bool], scrape: Callable[[], CollectorRegistry]) -> None:
        self._health, self._ready, self._scrape = health, ready, scrape
        self._runners: list[web.AppRunner] = []

    async def start(self, host: str, health_port: int, metrics_port: int) -> None:
        """Listens on both ports; a port of 0 is not served."""
        probes = [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz)]
        for port, routes in ((health_port, probes), (metrics_port, [web.get("/metrics", self._metrics)])):
            if port:
                app = web.Application()
                app.add_routes(routes)
                runner = web.AppRunner(app, access_log=None)
                await runner.setup()
                await web.TCPSite(runner, host, port).start()
                self._runners.append(runner)

    async def close(self) -> None:
        """Stops listening."""
        for runner in self._runners:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        """Alive while every watch was heard of within three minutes."""
        silent = self._health.silent_for(time.monotonic())
        text = f"last byte of the quietest watch {silent:.0f} s ago, limit {DEAD_AFTER:.0f} s\n"
        return web.Response(text=text, status=200 if silent <= DEAD_AFTER else 503)

    async def _readyz(self, _: web.Request) -> web.Response:
        """Ready once every kind was listed."""
        ready = self._ready()
        return web.Response(text="ready\n" if ready else "not every kind is listed yet\n", status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        # The values are taken here, the text is made beside the loop: of many jobs that takes longer than a turn may.
        body = await asyncio.to_thread(generate_latest, self._scrape())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
