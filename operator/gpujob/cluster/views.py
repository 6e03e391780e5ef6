"""What the metrics room shows, gathered from the running operator at each scrape."""

from __future__ import annotations

import math
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpujob.cluster.book import Book
from gpujob.cluster.client import ApiClient
from gpujob.fleet.pools import Pool
from gpujob.metrics.collector import JobView, PoolView, Snapshot
from gpujob.status import cost
from gpujob.status.patience import read_time
from gpujob.status.records import JobRecord
from gpujob.status.telemetry import SILENT, Telemetry
from gpujob.untrusted import table, whole_number
from gpujob.vocabulary import State

if TYPE_CHECKING:
    from gpujob.cluster.operator import Operator


def snapshot(operator: Operator, book: Book, client: ApiClient) -> Snapshot:
    """Everything that /metrics says, from one moment."""
    now = time.monotonic()
    desk = operator.reconciler.desk
    tally = desk.tally
    pools = book.fleet().pools if operator.mirror.complete else ()
    return Snapshot(
        leader=operator.leadership.is_leader(),
        jobs=Counter(_standing(job) for job in book.jobs.values()),
        ran=[_job(job, desk.telemetry.get(job.uid, SILENT)) for job in book.jobs.values() if _ran(job)],
        pools=[_pool(pool) for pool in pools],
        watch_age={kind: operator.health.age(kind, now) for kind in operator.health.last_byte},
        relists=operator.health.relists,
        malformed=operator.health.malformed + operator.mirror.malformed + operator.mirror.refusals,
        requests=client.requests,
        decisions=tally.decisions,
        queue_wait=tally.queue_wait,
        placing=tally.placing,
        scrapes=operator.scraper.results,
        rounds=tally.rounds,
        decide_seconds=tally.decide_seconds,
        retries=sum(tally.failures.values()),
    )


def _standing(job: JobRecord) -> tuple[str, str, str]:
    """State, vendor and pool of a job."""
    placement = table(job.status, "placement")
    state = str(job.status.get("state") or "New")
    return state, str(placement.get("vendor", "")), str(placement.get("pool", ""))


def _ran(job: JobRecord) -> bool:
    return bool(job.status.get("startTime"))


def _pool(pool: Pool) -> PoolView:
    price = pool.price.per_gpu_hour if pool.price else None
    held = sum(node.healthy - max(0, node.free) for node in pool.nodes)
    return PoolView(pool.name, pool.vendor.value, pool.accelerator_id, pool.total, pool.free, held, price)


def _job(job: JobRecord, telemetry: Telemetry) -> JobView:
    """What a status says of a job, and what was measured since it was written."""
    status, placement = job.status, table(job.status, "placement")
    state, vendor, pool = _standing(job)
    shape = (whole_number(placement.get(key)) or 1 for key in ("nodes", "gpusPerNode"))
    end = read_time(status.get("completionTime")) or datetime.now(UTC)
    running = state == State.RUNNING
    spent = cost.cost(status, placement, str(status.get("startTime")), end) if running else {}
    dollars = cost.dollars((spent or table(status, "cost")).get("accrued"))
    measured, percent = telemetry.measured, whole_number(table(status, "progress").get("percent"))
    progress = measured.fraction if measured else None if percent is None else percent / 100
    return JobView(
        namespace=job.namespace,
        name=job.name,
        pool=pool,
        vendor=vendor,
        accelerator=str(placement.get("accelerator", "")),
        profile=str(job.spec.get("profile") or ""),
        state=state,
        gpus=math.prod(shape),
        dollars=dollars,
        progress=progress,
        last_step_at=measured.last_step_at if measured and running else None,
        on_device=measured.on_device if measured and running else None,
        counters=measured.counters if measured else {},
        rates=measured.rates if measured and running else {},
    )
