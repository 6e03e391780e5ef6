"""One collector: every series is read from a snapshot at the scrape, so none outlives its object.

Series are few by design: jobs by state, vendor and pool, devices by pool, a handful for each job that has run; never one for each
pod, node or device. docs/metrics.md lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpujob.cluster.metrics.durations import Durations
from gpujob.values.vocabulary import State

COUNTED: Final = ("steps", "samples", "tokens")
"""What jobs count."""

MICRO: Final = 1e6
"""Micro-dollars in a dollar."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool in the metrics; the price in micro-dollars an hour for each GPU."""

    name: str
    vendor: str
    accelerator: str
    total: int
    free: int
    held: int
    """Devices that pods use; those of unusable nodes are neither free nor in use."""
    price: int | None


@dataclass(frozen=True, slots=True)
class JobView:
    """One job that has run; counters since its first attempt, None if unknown."""

    namespace: str
    name: str
    pool: str
    vendor: str
    accelerator: str
    profile: str
    state: str
    gpus: int
    dollars: int | None
    """Micro-dollars."""
    progress: float | None
    """0 to 1."""
    saved_step: int | None = None
    """The step of the last checkpoint."""
    lost_steps: int | None = None
    """Steps that failed attempts made after their last checkpoint; None where no checkpoint is known."""
    last_step_at: float | None = None
    """Unix time in seconds."""
    on_device: bool | None = None
    """Whether it trains on its GPUs; False: on the CPU."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """steps, samples, tokens."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """The same for a second, by the last measurement."""


@dataclass(frozen=True, slots=True)
class JobAlert:
    """A job that may need a person."""

    namespace: str
    name: str
    pool: str
    """The pool on which it is or was placed, or the one that is nearest to taking it."""
    reason: str = ""
    """Why it failed or waits."""
    state: str = ""
    """Of a job that waits."""
    since: float = 0.0
    """Since when it waits, or runs without a step: Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The operator's data at one moment."""

    leader: bool = False
    jobs: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """By state, vendor and pool."""
    preflight_failed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Jobs whose preflight failed, by pool and reason."""
    ran: Sequence[JobView] = ()
    failed: Sequence[JobAlert] = ()
    """That failed lately."""
    waiting: Sequence[JobAlert] = ()
    """That are to run and do not."""
    awaited: Sequence[JobAlert] = ()
    """That run and have made no step."""
    stalled: Sequence[JobAlert] = ()
    """That run and stand still."""
    pools: Sequence[PoolView] = ()
    watch_age: Mapping[str, float] = field(default_factory=dict)
    relists: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    """1 for each kind that cannot be read."""
    crd_fields_missing: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By kind and part (spec, status)."""
    unanswered: float = 0.0
    """Seconds since the API server's last good response; 0 while it responds."""
    requests: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    decisions: Mapping[tuple[str, str], int] = field(default_factory=Counter)
    """By verdict and reason."""
    failed_attempts: Mapping[tuple[str, str, str], int] = field(default_factory=Counter)
    """By pool, fault and reason."""
    queue_wait: Durations = field(default_factory=Durations)
    """From a job's creation until its child exists."""
    placing: Durations = field(default_factory=Durations)
    """From a decision until its child exists and the status is written: the operator's own time."""
    scrapes: Mapping[str, int] = field(default_factory=Counter)
    """Readings of jobs' reporters, by their result."""
    rounds: int = 0
    decide_seconds: float = 0.0
    retries: int = 0


class FleetCollector(Collector):
    """Turns a snapshot into metric families."""

    def __init__(self, look: Callable[[], Snapshot]) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        """Empty: a snapshot may not exist yet when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families of one snapshot."""
        seen = self._look()
        yield _gauge("gpujob_operator_leader", "Whether this process leads.", (), [((), float(seen.leader))])
        states = ("state", "vendor", "pool")
        yield _gauge("gpujob_jobs", "GPUJobs by state, vendor and pool.", states, seen.jobs.items())
        failed = seen.preflight_failed.items()
        yield _gauge("gpujob_jobs_preflight_failed", "GPUJobs whose preflight failed.", ("pool", "reason"), failed)
        yield from _pools(seen.pools)
        yield from _jobs(seen.ran)
        yield from _of_alerts(seen)
        ages = _by_word(seen.watch_age)
        yield _gauge("gpujob_watch_age_seconds", "Seconds since the last byte of a watch.", ("kind",), ages)
        yield _counter("gpujob_watch_relists", "Lists after the first one.", ("kind",), _by_word(seen.relists))
        yield _counter("gpujob_objects_unread", "Objects and lines kept out.", ("kind",), _by_word(seen.malformed))
        yield _gauge("gpujob_kind_unknown", "1 if a kind cannot be read.", ("kind",), _by_word(seen.unknown))
        text = "Fields of this version that a served CRD lacks."
        yield _gauge("gpujob_crd_fields_missing", text, ("kind", "part"), seen.crd_fields_missing.items())
        text = "Seconds without a good answer of the API server."
        yield _gauge("gpujob_api_unanswered_seconds", text, (), [((), seen.unanswered)])
        requests = [((verb, resource, str(code)), number) for (verb, resource, code), number in seen.requests.items()]
        yield _counter("gpujob_api_requests", "Requests to the API server.", ("verb", "resource", "code"), requests)
        text = "Decisions by verdict and reason."
        yield _counter("gpujob_decisions", text, ("verdict", "reason"), seen.decisions.items())
        text = "Attempts that failed, by pool, fault and reason."
        yield _counter("gpujob_attempts_failed", text, ("pool", "blame", "reason"), seen.failed_attempts.items())
        yield _histogram("gpujob_queue_wait_seconds", "From a job's creation until its child exists.", seen.queue_wait)
        yield _histogram("gpujob_placement_seconds", "From a decision until the status write.", seen.placing)
        yield _counter("gpujob_reporter_reads", "Readings of jobs' reporters.", ("result",), _by_word(seen.scrapes))
        yield _counter("gpujob_rounds", "Rounds of the loop.", (), [((), seen.rounds)])
        yield _counter("gpujob_decide_seconds", "Seconds spent deciding.", (), [((), seen.decide_seconds)])
        yield _counter("gpujob_retries", "Steps of jobs that had to be tried again.", (), [((), seen.retries)])


def _pools(pools: Sequence[PoolView]) -> Iterator[Metric]:
    def of(figure: Callable[[PoolView], float | None]) -> Samples:
        return [((p.name, p.vendor, p.accelerator), n) for p in pools if (n := figure(p)) is not None]

    labels = ("pool", "vendor", "accelerator")
    yield _gauge("gpujob_pool_gpus", "Devices of a pool.", labels, of(lambda p: p.total))
    yield _gauge("gpujob_pool_gpus_free", "Devices of a pool that a job could take now.", labels, of(lambda p: p.free))
    yield _gauge("gpujob_pool_gpus_held", "Devices of a pool that pods use.", labels, of(lambda p: p.held))
    prices = of(lambda p: p.price and p.price / MICRO)
    yield _gauge("gpujob_pool_price_dollars_per_gpu_hour", "Price of a device; absent when unknown.", labels, prices)


def _jobs(jobs: Sequence[JobView]) -> Iterator[Metric]:
    """Work and cost of each job that has run; its other facts are labels of one series, for joins."""

    def of(figure: Callable[[JobView], float | None]) -> Samples:
        return [((j.namespace, j.name), n) for j in jobs if (n := figure(j)) is not None]

    labels = ("namespace", "job")
    facts = [((j.namespace, j.name, j.pool, j.vendor, j.accelerator, j.profile, j.state), 1.0) for j in jobs]
    more = ("pool", "vendor", "accelerator", "profile", "state")
    yield _gauge("gpujob_job_info", "Where a job runs or ran; always 1.", (*labels, *more), facts)
    running = of(lambda j: j.gpus if j.state == State.RUNNING else None)
    yield _gauge("gpujob_job_gpus", "Devices of a job that runs.", labels, running)
    dollars = of(lambda j: j.dollars and j.dollars / MICRO)
    text = "What a job's devices have cost; absent without a price."
    yield _counter("gpujob_job_cost_dollars", text, labels, dollars)
    text = "How much of a job is done, 0 to 1, where it says so."
    yield _gauge("gpujob_job_progress_ratio", text, labels, of(lambda j: j.progress))
    text = "Step of a job's last checkpoint, where it says so."
    yield _gauge("gpujob_job_saved_step", text, labels, of(lambda j: j.saved_step))
    text = "Steps that failed attempts made after their last checkpoint."
    yield _counter("gpujob_job_lost_steps", text, labels, of(lambda j: j.lost_steps))
    text = "Unix time of a running job's last step."
    yield _gauge("gpujob_job_last_step_timestamp_seconds", text, labels, of(lambda j: j.last_step_at))
    text = "1 if a running job trains on its GPUs, 0 if on the CPU."
    yield _gauge("gpujob_job_on_device", text, labels, of(lambda j: j.on_device))
    for what in COUNTED:
        counted = [((j.namespace, j.name), j.counters[what]) for j in jobs if what in j.counters]
        yield _counter(f"gpujob_job_{what}", f"{what.capitalize()} of a job over all its processes.", labels, counted)
        rates = [((j.namespace, j.name), j.rates[what]) for j in jobs if what in j.rates]
        text = f"{what.capitalize()} a second of a job, as lately measured."
        yield _gauge(f"gpujob_job_{what}_per_second", text, labels, rates)


def _of_alerts(seen: Snapshot) -> Iterator[Metric]:
    """Jobs that may need a person."""
    labels = ("namespace", "job", "pool")
    failed = [((j.namespace, j.name, j.pool, j.reason), 1.0) for j in seen.failed]
    yield _gauge("gpujob_job_failed", "1 for a job that failed in the last ten minutes.", (*labels, "reason"), failed)
    waiting = [((j.namespace, j.name, j.pool, j.state, j.reason), j.since) for j in seen.waiting]
    text = "Unix time since when a job is to run and does not."
    yield _gauge("gpujob_job_waiting_since_timestamp_seconds", text, (*labels, "state", "reason"), waiting)
    awaited = [((j.namespace, j.name, j.pool), j.since) for j in seen.awaited]
    text = "Unix time since when a job runs that has made no step."
    yield _gauge("gpujob_job_first_step_awaited_since_timestamp_seconds", text, labels, awaited)
    stalled = [((j.namespace, j.name, j.pool), 1.0) for j in seen.stalled]
    text = "1 for a running job that makes no step for longer than its bound."
    yield _gauge("gpujob_job_stalled", text, labels, stalled)


Samples = Iterable[tuple[tuple[str, ...], float]]
F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


def _filled(family: F, samples: Samples) -> F:
    for values, number in samples:
        family.add_metric(values, float(number))
    return family


def _gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def _counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _histogram(name: str, text: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(name, text)
    family.add_metric((), durations.buckets(), durations.total)
    return family


def _by_word(numbers: Mapping[str, float]) -> Samples:
    return [((word,), number) for word, number in numbers.items()]
