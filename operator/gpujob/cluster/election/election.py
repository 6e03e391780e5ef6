"""Which of several operator processes can write: one Lease, renewed every 5 s, valid for 15 s.

Two operators that both admit jobs would assign a GPU twice. `is_leader()` is the fence: it turns False by the process's own clock
10 s after the last renewal was SENT, while others wait 15 s after they last SAW it change. So the old leader stops before a new
one starts, even if it was frozen in between. Clocks of two machines are never compared. The Lease is the only object written here,
and at rest the only one written at all.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from gpujob.cluster.client.api_errors import AlreadyExists, ApiError, Conflict, JsonObject, NotFound
from gpujob.cluster.client.client import MERGE_PATCH, ApiClient
from gpujob.cluster.client.outage_gate import PATIENCE
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.client.rate_limit import LONGEST_RETRY_DELAY, Clock, Patience, retry_after_of

LEASES = Resource("coordination.k8s.io", "v1", "leases")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Seconds; `deadline` must leave the old leader silent well before `duration` lets a new one speak."""

    duration: int = 15
    deadline: float = 10.0
    renew_every: float = 5.0
    retry_every: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry_every < self.deadline < self.duration or self.renew_every >= self.deadline:
            raise ValueError("a lease needs retry and renewal < deadline < duration")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a Lease: its holder, and stamps; this process reads only CHANGES of the stamps."""

    holder: str
    duration: float
    acquired: str
    renewed: str
    transitions: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """A record (None: there is no Lease) and the time, by the process's own clock, at which it was first seen."""

    record: LeaseRecord | None
    since: float


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take the Lease: it has no holder, or its holder has not renewed it for its duration."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew the Lease, which this process holds."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Another process holds the Lease, for at least this number of seconds more."""

    seconds: float


def next_step(seen: Sighting, identity: str, now: float) -> Acquire | Renew | Wait:
    """The next step for a Lease that was just read."""
    record = seen.record
    if record is None or not record.holder:
        return Acquire()
    if record.holder == identity:
        return Renew()
    left = seen.since + record.duration - now
    return Wait(left) if left > 0 else Acquire()


def sight(seen: Sighting | None, record: LeaseRecord | None, now: float) -> Sighting:
    """The sighting after a read: an unchanged record keeps the time at which it was first seen."""
    return seen if seen is not None and seen.record == record else Sighting(record, now)


def record_of(lease: JsonObject) -> LeaseRecord:
    """The record in a Lease object; one without a duration gets the default, so that no holder is cut short."""
    spec = lease.get("spec") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or LeaseTimings().duration),
        acquired=spec.get("acquireTime") or "",
        renewed=spec.get("renewTime") or "",
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def checked(answer: JsonObject) -> JsonObject:
    """The API server's answer about a Lease; raises ApiError for one that is no Lease, as a proxy may give it."""
    try:
        record_of(answer)
        str(answer["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ApiError(0, "NoLease", f"the answer is no Lease: {type(error).__name__} {error}") from error
    return answer


def boot_clock() -> float:
    """Seconds that also pass while the machine sleeps, if the system supports that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class NoNamespace(Exception):
    """The Lease cannot be created because its namespace does not exist; an admin must fix that."""


class Leadership:
    """One process's part in the election; start `run()` and check `is_leader()` before every write."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_lost: Callable[[], None] = lambda: None,
        may_lead: Callable[[], bool] = lambda: True,
        timings: LeaseTimings | None = None,
        clock: Clock = boot_clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not identity:
            raise ValueError("a leader needs an identity that no other process has")
        self.acquired = asyncio.Event()
        self.transitions = 0
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._path = LEASES.path(namespace, name)
        self._on_lost, self._may_lead, self._timings = on_lost, may_lead, timings or LeaseTimings()
        self._clock, self._sleep, self._wall, self._chance = clock, sleep, wall, chance
        self._seen: Sighting | None = None
        self._lease: JsonObject | None = None  # as last read or written; None: read before the next step
        self._good_until: float | None = None
        self._without_namespace = 0
        self._failing_since: float | None = None
        self._failure = ""

    def is_leader(self) -> bool:
        """Whether this process can write now, by its own clock; False as soon as the renewal deadline passes."""
        return self._good_until is not None and self._clock() < self._good_until

    def failing(self) -> tuple[float, str]:
        """Seconds since the Lease could last be read and, where it is free, written; and the last error. 0 while it can."""
        since = self._failing_since
        return (0.0, "") if since is None else (self._clock() - since, self._failure)

    async def run(self) -> None:
        """Takes part until cancelled; then releases the Lease, so that another process takes over at once.

        Stop all writers before cancelling this: after the release another process is leader.
        """
        try:
            while True:
                await self._sleep(await self._round())
        finally:
            await self._release()

    async def _round(self) -> float:
        """One step of the election; gives the seconds until the next. Who may not lead lets the Lease run out."""
        self._notice_loss()
        if not self._may_lead():
            self._give_up("this process may not lead")
            self._lease = None
            return self._timings.retry_every / 2
        try:
            async with asyncio.timeout(self._time_for_a_round(self._clock())):
                delay = await self._step()
            self._without_namespace, self._failing_since = 0, None
        except NoNamespace as error:
            self._note_failure(error)
            delay = self._after_no_namespace(error)
        except (ApiError, TimeoutError) as error:
            self._note_failure(error)
            write = log.info if self.failing()[0] < PATIENCE else log.warning
            write("lease not renewed" if self.is_leader() else "lease not acquired", error=self._failure)
            delay = self._after_failure(error)
        self._notice_loss()
        return delay

    async def _step(self) -> float:
        if self._lease is None or not self.is_leader():
            # A candidate evaluates only what it has just read: it may have slept since the last read.
            self._lease = await self._read()
        record = record_of(self._lease) if self._lease else None
        self._seen = sight(self._seen, record, self._clock())
        step = next_step(self._seen, self._identity, self._clock())
        if isinstance(step, Wait):
            self._give_up("another process holds the lease")
            return min(step.seconds, self._timings.retry_every) * (1 + 0.2 * self._chance())
        sent = self._clock()
        await self._write(record, sent)
        # From the sending on: the answers of a slow server must not use up the time until the deadline.
        return max(0.0, sent + self._timings.renew_every - self._clock())

    def _note_failure(self, error: Exception) -> None:
        # After any error the next step begins with a read: the write may have happened all the same.
        self._lease = None
        self._failure = str(error) or "timeout"
        if self._failing_since is None:
            self._failing_since = self._clock()

    def _time_for_a_round(self, now: float) -> float:
        # A leader's round ends with its leadership, so that the loss is reported when it happens. Each request has half the deadline.
        left = self._good_until - now if self._good_until is not None else self._timings.deadline
        return max(0.1, left)

    def _after_failure(self, error: Exception) -> float:
        if isinstance(error, Conflict | NotFound):
            # Another process changed or removed it: read at once, this one may not be the holder any more.
            return 0.1 * (1 + self._chance())
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        wait = self._timings.retry_every * (0.5 + 0.5 * self._chance())
        if self._good_until is None:
            return max(wait, retry_after_of(retry_after))
        return max(0.0, min(wait, self._good_until - self._clock()))

    def _after_no_namespace(self, error: NoNamespace) -> float:
        """A wait that doubles up to a minute; logged at each try."""
        delay = float(min(self._timings.retry_every * 2**self._without_namespace, LONGEST_RETRY_DELAY))
        self._without_namespace = min(self._without_namespace + 1, 16)
        log.warning("lease not acquired", error=str(error), retried_in=f"{delay:g} s")
        return delay * (1 + 0.2 * self._chance())

    async def _read(self) -> JsonObject | None:
        try:
            return checked(await self._client.get(self._path, patience=self._patience()))
        except NotFound:
            return None

    async def _write(self, record: LeaseRecord | None, sent: float) -> None:
        body = self._body(record)
        try:
            if self._lease is None:
                made = await self._client.create(LEASES.path(self._namespace), body, patience=self._patience())
            else:
                body["metadata"] = {"resourceVersion": self._lease["metadata"]["resourceVersion"]}
                made = await self._client.patch(self._path, body, MERGE_PATCH, patience=self._patience())
            self._lease = checked(made)
        except AlreadyExists as error:
            raise Conflict(error.status, error.reason, error.message) from error
        except NotFound as error:
            if self._lease is not None:
                raise
            remedy = "create it, or name another one with GPUJOB_NAMESPACE"
            raise NoNamespace(f"namespace {self._namespace} does not exist; {remedy}") from error
        self._seen = sight(self._seen, record_of(self._lease), self._clock())
        # From the time of sending, not of the response: the earliest moment at which another process can have seen it.
        self._good_until = sent + self._timings.deadline
        if not self.acquired.is_set() and self.is_leader():
            self.transitions += 1
            self.acquired.set()
            log.info("lease acquired", lease=self._name, identity=self._identity)

    def _body(self, record: LeaseRecord | None) -> JsonObject:
        now = self._wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: JsonObject = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._timings.duration,
            "renewTime": now,
        }
        if record is None or record.holder != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = record.transitions + 1 if record else 0
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }

    def _patience(self) -> Patience:
        # Not behind the queue of writes: a busy leader must not lose its Lease because of it.
        return Patience(timeout=self._timings.deadline / 2, tries=1, queued=False)

    def _notice_loss(self) -> None:
        if self._good_until is not None and not self.is_leader():
            self._give_up("not renewed in time")

    def _give_up(self, why: str) -> None:
        self._good_until = None
        if self.acquired.is_set():
            self.acquired.clear()
            log.warning("lease lost", lease=self._name, identity=self._identity, why=why)
            self._on_lost()

    async def _release(self) -> None:
        held, self._good_until = self.is_leader(), None
        self.acquired.clear()
        if not held or self._lease is None:
            return
        body = {
            "metadata": {"resourceVersion": self._lease["metadata"]["resourceVersion"]},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        }
        # Best effort: if it fails, the others wait for the duration, as after a crash.
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._timings.deadline / 2):
                await self._client.patch(self._path, body, MERGE_PATCH, patience=self._patience())
                log.info("lease released", lease=self._name, identity=self._identity)
