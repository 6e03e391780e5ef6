"""One operator process: client, cache, leader election, controller, pools, endpoints; started and stopped by `kopf_shell`."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.files.site import with_site
from gpujob.cluster.app.http_server import Certificate, Endpoints, everybody, hindrances, unknowns
from gpujob.cluster.app.metrics_access import MetricsAccess
from gpujob.cluster.app.metrics_snapshot import snapshot
from gpujob.cluster.app.served_crds import ServedCrds
from gpujob.cluster.app.settings import Settings
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.reflector import WatchHealth, WatchTimings, mirror_all
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import Connection, connection_from_kubeconfig, connection_in_cluster, usable
from gpujob.cluster.client.server_clock import ServerClock
from gpujob.cluster.controller.controller import Reconciler
from gpujob.cluster.controller.pools import PoolPublisher
from gpujob.cluster.election.election import LEASES, Leadership, LeaseTimings
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.metrics.collector import FleetCollector, Snapshot
from gpujob.cluster.telemetry.scraper import Scraper
from gpujob.cluster.writer.outdated_crds import OutdatedCrds
from gpujob.cluster.writer.writes import Writer
from gpujob.lifecycle.timings import Timings
from gpujob.render.runner_files import load_runner
from gpujob.values.errors import BadInput

log = structlog.get_logger(__name__)

LEASE = "gpujob-operator"


def find_connection() -> Connection:
    """The connection of the pod's service account, else of the file named by KUBECONFIG, else of ~/.kube/config."""
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        return usable(connection_in_cluster())
    # Not Path.expanduser, which raises where the user has no home.
    return usable(connection_from_kubeconfig(os.path.expanduser(os.environ.get("KUBECONFIG") or "~/.kube/config")))


def catalog_of(site: str) -> Catalog:
    """The shipped catalog with what the file `site` adds; rows that are left out of it are logged. Raises BadInput."""
    if not site:
        return replace(load_catalog(), service_accounts=frozenset())
    try:
        catalog = with_site(load_catalog(), Path(site).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"GPUJOB_SITE: {site} cannot be read: {error}") from error
    except BadInput as error:
        raise BadInput(f"GPUJOB_SITE: {error}") from error
    for name, sentence in catalog.refused:
        log.error("row of the installation left out", row=name, error=sentence)
    return catalog


class Operator:
    """Everything that one process runs; BadInput for a file of the installation that cannot be read."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        lease: LeaseTimings | None = None,
        watching: WatchTimings | None = None,
        timings: Timings | None = None,
    ) -> None:
        self.name = settings.pod_name
        runner = load_runner()
        kinds = mirrored(runner.name, settings.watch_namespaces)
        self._settings, self._kinds, self._watching = settings, kinds, watching
        self._client = ApiClient(connection, write_rate=settings.write_rate, write_burst=2 * settings.write_rate)
        self.cache = ObjectCache(kinds)
        self.health = WatchHealth(kind.scope for kind in kinds)
        # A name alone is not unique: a restarted container must not take its own stale Lease for a held one.
        identity = f"{settings.pod_name}_{uuid.uuid4().hex[:8]}"
        self.crds = ServedCrds(self._client)
        self.leadership = Leadership(
            self._client, settings.namespace, LEASE, identity, may_lead=self.crds.may_lead, timings=lease
        )
        self._client.may_write = self.leadership.is_leader
        self._outdated = OutdatedCrds(
            self._client, self.cache, LEASES.path(settings.namespace, LEASE), self.crds.hindrances
        )
        clock = ServerClock()
        self._client.on_date = clock.note
        index = ClusterIndex(self.cache, catalog_of(settings.site), wall=clock.now)
        writer = Writer(self._client, self.cache, self.leadership.is_leader, settings.pod_name, clock.now)
        self.reconciler = Reconciler(
            index,
            writer,
            self.leadership.is_leader,
            runner,
            replace(
                timings or Timings(),
                provision=settings.provision_seconds,
                unbound=settings.unbound_seconds,
                hold=settings.hold_seconds,
            ),
            wall=clock.now,
            home=settings.namespace,
        )
        self.reconciler.work.here, clock.on_set = clock.here, self.reconciler.clock_was_set
        self._client.on_answer = self.reconciler.work.outage.note
        self.scraper = Scraper(
            self.reconciler.work, self.leadership.is_leader, settings.namespace, settings.scrape_seconds
        )
        self._publisher = PoolPublisher(index, writer, self.leadership.is_leader, wall=clock.now)
        gate = self.reconciler.work.outage
        self._endpoints = Endpoints(
            lambda: [
                *self.crds.hindrances(),
                *hindrances(self.cache, self.health, gate, self.leadership.failing()),
            ],
            lambda: [*self.crds.warnings(), *unknowns(self.cache)],
            lambda: registry_of(snapshot(self, index, self._client)),
            MetricsAccess(self._client).refusal if settings.metrics_authentication else everybody,
            Certificate(Path(settings.metrics_tls)) if settings.metrics_tls else None,
        )

    async def run(self) -> None:
        """Runs until cancelled; raises if a task fails, because the process must not run without it."""
        settings = self._settings
        async with self._client:
            await self._endpoints.start(settings.listen, settings.health_port, settings.metrics_port)
            leadership = asyncio.create_task(self.leadership.run(), name="leadership")
            try:
                async with asyncio.TaskGroup() as tasks:
                    mirroring = mirror_all(self._client, self._kinds, self.cache, self.health, timings=self._watching)
                    tasks.create_task(mirroring, name="cache")
                    tasks.create_task(self.crds.run(), name="crds")
                    tasks.create_task(self._outdated.run(), name="outdated CRDs")
                    tasks.create_task(self.reconciler.run(), name="reconcile")
                    tasks.create_task(self._publisher.run(), name="pools")
                    tasks.create_task(self.scraper.run(), name="scraper")
                    tasks.create_task(self.reconciler.delivery.run(self.leadership.is_leader), name="runner")
                    tasks.create_task(self.reconciler.budgets.run(self.leadership.is_leader), name="budgets")
                    tasks.create_task(self.reconciler.orphans.run(self.leadership.is_leader), name="orphans")
                    tasks.create_task(_as_long_as(leadership), name="watch leadership")
                    log.info("operator started", identity=settings.pod_name, kinds=len(self._kinds))
            finally:
                # Last of all: while the Lease is held no other process acts, and everything that writes has ended by now.
                leadership.cancel()
                await asyncio.gather(leadership, return_exceptions=True)
                await self._endpoints.close()


def registry_of(look: Callable[[], Snapshot]) -> CollectorRegistry:
    """The data of one scrape: what `look` gives once it is rendered, and the process's own figures."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(FleetCollector(look))
    return registry


async def _as_long_as(task: asyncio.Task[None]) -> None:
    """Raises the error of a task that must not end."""
    await asyncio.shield(task)
