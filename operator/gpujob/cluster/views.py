"""What the metrics room shows, gathered from the running operator at each scrape."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from gpujob.cluster.book import Book
from gpujob.cluster.client import ApiClient
from gpujob.metrics.collector import PoolView, Snapshot

if TYPE_CHECKING:
    from gpujob.cluster.operator import Operator


def snapshot(operator: Operator, book: Book, client: ApiClient) -> Snapshot:
    """Everything that /metrics says, from one moment."""
    now = time.monotonic()
    tally = operator.reconciler.tally
    pools = book.fleet().pools if operator.mirror.complete else ()
    states = Counter(
        (str(j.status.get("state") or "New"), _vendor(j.status.get("placement"))) for j in book.jobs.values()
    )
    return Snapshot(
        leader=operator.leadership.is_leader(),
        jobs=states,
        pools=[
            PoolView(
                p.name, p.vendor.value, p.accelerator_id, p.total, p.free, p.price.per_gpu_hour if p.price else None
            )
            for p in pools
        ],
        watch_age={kind: operator.health.age(kind, now) for kind in operator.health.last_byte},
        relists=operator.health.relists,
        malformed=operator.health.malformed + operator.mirror.malformed + operator.mirror.refusals,
        requests=client.requests,
        decisions=Counter({verdict: count for (verdict, _), count in tally.decisions.items()}),
        rounds=tally.rounds,
        decide_seconds=tally.decide_seconds,
        retries=sum(tally.failures.values()),
    )


def _vendor(placement: object) -> str:
    return str(placement.get("vendor", "")) if isinstance(placement, dict) else ""
