"""The data for the metrics, collected from the running operator at each scrape."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from gpujob.cluster.app.job_conditions import awaited_steps, failed_jobs, stalled_jobs, waiting_jobs
from gpujob.cluster.app.served_crds import ServedCrds
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.reflector import WatchHealth
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.controller.controller import Reconciler
from gpujob.cluster.election.election import Leadership
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.metrics.collector import JobView, PoolView, Snapshot
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.telemetry.scraper import Scraper
from gpujob.fleet.pools.pool import Pool
from gpujob.lifecycle.attempts import is_final
from gpujob.status.attempts import cost
from gpujob.status.attempts.waits import read_time
from gpujob.status.job.telemetry import RECENT, SILENT, Telemetry
from gpujob.status.records.objects import JobRecord
from gpujob.values.untrusted import table, tables, whole_number
from gpujob.values.vocabulary import ConditionType, State

FRESH: Final = timedelta(seconds=60)
"""How long a reporter's figures count as current: four readings."""


class Running(Protocol):
    """The parts of the running operator that metrics read."""

    reconciler: Reconciler
    leadership: Leadership
    crds: ServedCrds
    cache: ObjectCache
    health: WatchHealth
    scraper: Scraper


def snapshot(operator: Running, index: ClusterIndex, client: ApiClient) -> Callable[[], Snapshot]:
    """All data of /metrics at one moment, for a call that computes what is reported about jobs, in any thread.

    That takes microseconds for each job, and for thousands more than the loop may block. Records of jobs and readings never change,
    so that a list of them is a copy.
    """
    now = time.monotonic()
    work = operator.reconciler.work
    counters = work.counters
    # Only the leader exposes jobs and pods: several operators would count everything several times.
    leader = operator.leadership.is_leader()
    jobs = list(index.jobs.values()) if leader else []
    pools = index.fleet().whole_pools if leader and operator.cache.complete else ()
    kinds = {scope: entry.key for scope, entry in operator.cache.kinds.items()}
    refused = {kinds[scope] for scope in operator.health.refused}
    watch_age: dict[str, float] = {}
    for scope in operator.health.last_byte:
        watch_age[kinds[scope]] = max(operator.health.age(scope, now), watch_age.get(kinds[scope], 0.0))
    moment = Snapshot(
        leader=leader,
        pools=[_pool(pool) for pool in pools],
        watch_age=watch_age,
        # A counter that first appears with its first event loses it, so each watched kind starts at 0.
        relists=dict.fromkeys(watch_age, 0) | _by_kind(kinds, operator.health.relists),
        malformed=dict.fromkeys(watch_age, 0)
        | _by_kind(
            kinds, operator.health.malformed + operator.cache.malformed + operator.cache.refusals + index.set_aside
        ),
        unknown={kind: int(kind in operator.cache.unread or kind in refused) for kind in watch_age},
        crd_fields_missing=operator.crds.counts(),
        unanswered=operator.reconciler.work.outage.seconds(),
        requests=dict(client.requests),
        decisions=dict(counters.decisions),
        failed_attempts=dict(counters.failed_attempts),
        queue_wait=deepcopy(counters.queue_wait),
        placing=deepcopy(counters.placing),
        scrapes=dict(operator.scraper.results),
        rounds=counters.rounds,
        decide_seconds=counters.decide_seconds,
        retries=sum(counters.failures.values()),
    )
    return partial(_with_jobs, moment, work, jobs, dict(work.telemetry), work.wall())


def _with_jobs(
    moment: Snapshot,
    work: ControllerState,
    jobs: Sequence[JobRecord],
    readings: Mapping[str, Telemetry],
    wall: datetime,
) -> Snapshot:
    """The data of a moment with what is reported about the jobs of that moment."""
    read = lambda uid: readings.get(uid, SILENT)  # noqa: E731
    # One job after the other, because the status of an ended one is unpacked for it.
    seen = [(_state_of(job), _finding(job)) for job in jobs]
    return replace(
        moment,
        jobs=Counter(state for state, _ in seen),
        preflight_failed=Counter(finding for _, finding in seen if finding),
        ran=_jobs(work, jobs, read, wall),
        failed=tuple(failed_jobs(jobs, wall)),
        waiting=tuple(waiting_jobs(jobs)),
        awaited=tuple(awaited_steps(jobs, read, partial(_is_fresh, wall))),
        stalled=tuple(stalled_jobs(jobs)),
    )


def _by_kind(kinds: Mapping[str, str], counts: Mapping[str, int]) -> Counter[str]:
    """Counts of scopes as counts of their kinds."""
    found: Counter[str] = Counter()
    for scope, count in counts.items():
        found[kinds.get(scope, scope)] += count
    return found


def _state_of(job: JobRecord) -> tuple[str, str, str]:
    """State, vendor and pool of a job."""
    placement = table(job.status, "placement")
    state = str(job.status.get("state") or "New")
    return state, str(placement.get("vendor", "")), str(placement.get("pool", ""))


def _is_shown(job: JobRecord, now: datetime) -> bool:
    """Whether an attempt of the job has begun, even if it is suspended now, and the job has not ended long ago."""
    ended = read_time(job.status.get("completionTime")) if is_final(job) else None
    if ended is not None and now - ended > RECENT:
        return False
    return bool(job.status.get("startTime") or table(job.status, "cost").get("accrued"))


def _finding(job: JobRecord) -> tuple[str, str] | None:
    """Pool and reason of a failed preflight."""
    for condition in tables(job.status, "conditions"):
        if condition.get("type") == ConditionType.PREFLIGHT_PASSED and condition.get("status") == "False":
            return str(table(job.status, "placement").get("pool", "")), str(condition.get("reason", ""))
    return None


def _pool(pool: Pool) -> PoolView:
    price = pool.price.per_gpu_hour if pool.price else None
    held = sum(node.healthy - max(0, node.free) for node in pool.nodes)
    return PoolView(pool.name, pool.vendor_text, pool.accelerator_id, pool.total, pool.free, held, price)


def _jobs(
    work: ControllerState, jobs: Iterable[JobRecord], read: Callable[[str], Telemetry], now: datetime
) -> list[JobView]:
    """The jobs that have run, without those that ended more than RECENT ago.

    Dollars never decrease, which would count as a reset of the counter: the recorded end of a job is earlier than the last reading
    while it ran.
    """
    views = {job.uid: _job(job, read(job.uid), now) for job in jobs if _is_shown(job, now)}
    for uid, view in views.items():
        counted = work.counted_dollars.get(uid, 0)
        if view.dollars is not None and view.dollars < counted:
            views[uid] = replace(view, dollars=counted)
    work.counted_dollars = {uid: view.dollars for uid, view in views.items() if view.dollars is not None}
    return list(views.values())


def _is_fresh(now: datetime, telemetry: Telemetry) -> bool:
    """Whether a job's reading still counts as current."""
    return telemetry.measured is not None and now - telemetry.measured.at <= FRESH


def _job(job: JobRecord, telemetry: Telemetry, now: datetime) -> JobView:
    """A job's figures from its status, and its measurements since the last write."""
    status, placement = job.status, table(job.status, "placement")
    state, vendor, pool = _state_of(job)
    shape = (whole_number(placement.get(key)) or 1 for key in ("nodes", "gpusPerNode"))
    end = read_time(status.get("completionTime")) or now
    running = state == State.RUNNING
    # A suspended child holds its devices like a running one.
    live = state in (State.PLACED, State.STARTING, State.RUNNING)
    spent = cost.cost(status, placement, str(status.get("startTime")), end) if live else {}
    dollars = cost.dollars((spent or table(status, "cost")).get("accrued"))
    saved = table(status, "checkpoint")
    measured, percent = telemetry.measured, whole_number(table(status, "progress").get("percent"))
    # Old readings say nothing about now: an unreachable job would look stalled.
    fresh = measured if running and _is_fresh(now, telemetry) else None
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
        saved_step=whole_number(saved.get("step")),
        lost_steps=(whole_number(saved.get("lostSteps")) or 0) if saved else None,
        last_step_at=fresh.last_step_at if fresh else None,
        on_device=fresh.on_device if fresh else None,
        counters=measured.counters if measured else {},
        rates=fresh.rates if fresh else {},
    )
