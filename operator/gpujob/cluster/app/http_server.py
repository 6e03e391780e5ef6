"""The HTTP endpoints of a process: /healthz (liveness), /readyz (readiness) and /metrics."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.reflector import WatchHealth
from gpujob.cluster.client.outage_gate import PATIENCE, OutageGate
from gpujob.values.errors import BadInput

CERTIFICATE_READ_EVERY: Final = 60.0
"""Seconds between two checks for a renewed certificate."""

log = structlog.get_logger(__name__)

Access = Callable[[web.Request], Awaitable[web.Response | None]]


async def everybody(_: web.Request) -> None:
    """Refuses no request."""


class Certificate:
    """The certificate of a folder with tls.crt and tls.key, which may be renewed; BadInput if it cannot be read at first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise BadInput(f"GPUJOB_METRICS_TLS: tls.crt and tls.key of {folder} cannot be read: {error}") from error

    def _load(self) -> None:
        text = (self._folder / "tls.crt").read_bytes()
        if text != self._read:
            self.context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
            self._read = text

    def reload(self) -> None:
        """Takes a renewed certificate for new connections; one that cannot be read leaves the old one."""
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            log.error(
                "the renewed certificate of the metrics cannot be read", folder=str(self._folder), error=str(error)
            )

    async def renew(self) -> None:
        """Reloads it until cancelled."""
        while True:
            await asyncio.sleep(CERTIFICATE_READ_EVERY)
            self.reload()


class Endpoints:
    """Serves probes and metrics until closed."""

    def __init__(
        self,
        hindrances: Callable[[], list[str]],
        unknowns: Callable[[], list[str]],
        scrape: Callable[[], CollectorRegistry],
        access: Access = everybody,
        certificate: Certificate | None = None,
    ) -> None:
        self._hindrances, self._unknowns, self._scrape, self._access = hindrances, unknowns, scrape, access
        self._certificate = certificate
        self._scraping = asyncio.Lock()
        self._runners: list[web.AppRunner] = []
        self._renewal: asyncio.Task[None] | None = None

    async def start(self, host: str, health_port: int, metrics_port: int) -> None:
        """Listens on both ports, at all addresses of IPv4 and IPv6 if `host` is empty; a port of 0 is not served."""
        certificate = self._certificate
        if certificate is not None:
            self._renewal = asyncio.create_task(certificate.renew(), name="certificate")
        probes = [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz)]
        for port, routes in ((health_port, probes), (metrics_port, [web.get("/metrics", self._metrics)])):
            if port:
                app = web.Application()
                app.add_routes(routes)
                runner = web.AppRunner(app, access_log=None)
                await runner.setup()
                context = certificate.context if certificate is not None and port == metrics_port else None
                await web.TCPSite(runner, host or None, port, ssl_context=context).start()
                self._runners.append(runner)

    async def close(self) -> None:
        """Stops listening."""
        if self._renewal is not None:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewal
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

    async def _metrics(self, request: web.Request) -> web.Response:
        refused = await self._access(request)
        if refused is not None:
            return refused
        # What is reported about jobs is computed and rendered in a thread: for many jobs that takes longer than the loop may block. One
        # scrape at a time, for what a job has cost is compared with the scrape before.
        async with self._scraping:
            body = await asyncio.to_thread(generate_latest, self._scrape())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def hindrances(
    cache: ObjectCache, health: WatchHealth, gate: OutageGate, lease: tuple[float, str] = (0.0, "")
) -> list[str]:
    """What prevents the operator from working, a line each; empty: it is ready. `lease`: `Leadership.failing`."""
    found = []
    seconds, error = lease
    if seconds >= PATIENCE:
        found.append(f"the Lease could not be read or written for {seconds:.0f} s, the last error: {error}")
    if gate.seconds() >= PATIENCE:
        what = f"HTTP {gate.last_status}" if gate.last_status else "unreachable"
        found.append(f"no good answer of the API server for {gate.seconds():.0f} s, the last: {what}")
    for key, kind in cache.kinds.items():
        refused = health.refused.get(key, "")
        if refused and not kind.optional:
            found.append(f"{key} may not be read: {refused}")
        elif not cache.is_listed(key):
            found.append(f"{key} is not listed yet" + (f": {refused}" if refused else ""))
        elif not kind.optional and health.failing_for(key)[0] >= PATIENCE > gate.seconds():
            seconds, error = health.failing_for(key)
            found.append(f"{key} could not be read for {seconds:.0f} s, the last error: {error}")
    return found


def unknowns(cache: ObjectCache) -> list[str]:
    """The kinds that the operator runs without, a line each."""
    return [f"{kind} is unknown, it cannot be read: {why}" for kind, why in sorted(cache.unread.items())]
