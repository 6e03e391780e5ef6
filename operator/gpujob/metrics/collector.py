"""One collector: every series is read from a snapshot at the scrape, so none outlives what it tells of.

Series are few by design: jobs by state and vendor, devices by pool, never one for each pod or node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool as metrics show it; the price in micro-dollars an hour for each GPU."""

    name: str
    vendor: str
    accelerator: str
    total: int
    free: int
    price: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the operator knows at one moment."""

    leader: bool = False
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    pools: Sequence[PoolView] = ()
    watch_age: Mapping[str, float] = field(default_factory=dict)
    relists: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=Counter)
    rounds: int = 0
    decide_seconds: float = 0.0
    retries: int = 0


class FleetCollector(Collector):
    """Turns a snapshot into metric families."""

    def __init__(self, look: Callable[[], Snapshot]) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: a snapshot may not exist yet when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families of one snapshot."""
        seen = self._look()
        yield _gauge("gpujob_operator_leader", "Whether this process leads.", (), [((), float(seen.leader))])
        yield _gauge("gpujob_jobs", "GPUJobs by state and vendor.", ("state", "vendor"), list(seen.jobs.items()))
        yield from _pools(seen.pools)
        yield _gauge(
            "gpujob_watch_age_seconds", "Seconds since the last byte of a watch.", ("kind",), _by_word(seen.watch_age)
        )
        yield _counter("gpujob_watch_relists", "Lists after the first one.", ("kind",), _by_word(seen.relists))
        yield _counter("gpujob_objects_unread", "Objects and lines kept out.", ("kind",), _by_word(seen.malformed))
        requests = [((verb, resource, str(code)), float(n)) for (verb, resource, code), n in seen.requests.items()]
        yield _counter("gpujob_api_requests", "Requests to the API server.", ("verb", "resource", "code"), requests)
        yield _counter("gpujob_decisions", "Decisions by verdict.", ("verdict",), _by_word(seen.decisions))
        yield _counter("gpujob_rounds", "Rounds of the loop.", (), [((), float(seen.rounds))])
        yield _counter("gpujob_decide_seconds", "Seconds spent deciding.", (), [((), seen.decide_seconds)])
        yield _counter("gpujob_retries", "Steps of jobs that had to be tried again.", (), [((), float(seen.retries))])


def _pools(pools: Sequence[PoolView]) -> Iterator[Metric]:
    labels = ("pool", "vendor", "accelerator")
    totals = [((p.name, p.vendor, p.accelerator), float(p.total)) for p in pools]
    free = [((p.name, p.vendor, p.accelerator), float(p.free)) for p in pools]
    prices = [((p.name, p.vendor, p.accelerator), p.price / 10**6) for p in pools if p.price is not None]
    yield _gauge("gpujob_pool_gpus", "Devices of a pool.", labels, totals)
    yield _gauge("gpujob_pool_gpus_free", "Devices of a pool that no pod holds.", labels, free)
    yield _gauge("gpujob_pool_price_dollars_per_gpu_hour", "Price of a device; absent when unknown.", labels, prices)


Samples = Sequence[tuple[tuple[str, ...], float]]


def _gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _by_word(numbers: Mapping[str, float]) -> Samples:
    return [((word,), float(number)) for word, number in numbers.items()]
