"""Keeps the cache equal to the API server: list, watch, and list again whenever an event may have been missed.

A silent watch looks like a quiet cluster. Each kind has its own task. It detects by itself that its stream is dead (no byte for 65
s, though the server sends a bookmark about every minute), replaces it, and lists again if the server no longer has the version.
For optional kinds it first asks which version the server has. Metrics and the readiness probe read `WatchHealth`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

import orjson
import structlog

from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.object_key import MalformedObject
from gpujob.cluster.client.api_errors import (
    ApiError,
    BrokenStream,
    Forbidden,
    Gone,
    JsonObject,
    NotFound,
    Silent,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    error_from_status,
)
from gpujob.cluster.client.client import SILENT_AFTER, ApiClient
from gpujob.cluster.client.rate_limit import Clock, retry_after_of
from gpujob.cluster.client.transport import without_managed_fields
from gpujob.values.untrusted import tables

REFUSED_TRIES = 3
"""Refusals in a row after which an optional kind that was never read is unknown."""

ENDED_AT_ONCE = "EndedAtOnce"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchTimings:
    """Seconds and sizes of the list-and-watch; a silent watch is replaced within `silence` plus one connect."""

    silence: float = SILENT_AFTER
    watch_least: int = 270
    watch_most: int = 330
    backoff_least: float = 0.5
    backoff_most: float = 15.0
    hasty_end: float = 1.0  # a watch that ends sooner, without an event, counts as a failure
    page: int = 100  # objects: 500 pods decoded at once take 40 MB, which the process keeps
    absent: float = 120.0  # before the next check whether the server has a kind by now
    refused: float = 30.0  # errors of one kind alone pass this soon: a starting server refuses all kinds


@dataclass(frozen=True, slots=True)
class Failing:
    """A kind that cannot be listed or watched: since when, the last error, and since when other kinds can; None while none can."""

    since: float
    error: str
    alone: float | None


class WatchHealth:
    """The last byte of each kind, and the errors so far, by kind. Ages are seconds of `clock`."""

    def __init__(self, kinds: Iterable[str], clock: Clock = time.monotonic) -> None:
        self.clock = clock
        # A stream that never begins counts as dead from here on.
        started = clock()
        self.last_byte: dict[str, float] = dict.fromkeys(kinds, started)
        self.relists: Counter[str] = Counter()
        self.watches: Counter[str] = Counter()
        self.silences: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        """Kinds that the API server does not let this process read, with its message."""
        self._failing: dict[str, Failing] = {}

    def heard(self, kind: str) -> None:
        """Records that bytes came for a kind."""
        self.last_byte[kind] = self.clock()
        self.refused.pop(kind, None)

    def read(self, kind: str) -> None:
        """Records that a whole list, or bytes of a watch, came for a kind."""
        self.heard(kind)
        self._failing.pop(kind, None)

    def failed(self, kind: str, error: str) -> Failing:
        """Records an error of a list or watch."""
        now, held = self.clock(), self._failing.get(kind)
        others = any(times and other != kind and other not in self._failing for other, times in self.relists.items())
        alone = (held.alone if held and held.alone is not None else now) if others else None
        found = self._failing[kind] = Failing(held.since if held else now, error, alone)
        return found

    def failing_for(self, kind: str) -> tuple[float, str]:
        """Seconds for which a kind cannot be listed or watched, and the last error; 0 where it can."""
        held = self._failing.get(kind)
        return (self.clock() - held.since, held.error) if held else (0.0, "")

    def age(self, kind: str, now: float) -> float:
        """Seconds since the last byte for a kind."""
        return now - self.last_byte[kind]


class _UnknownLoss(Exception):
    """Records an unreadable line, whose event is lost."""


async def keep_mirrored(
    client: ApiClient,
    kind: Kind,
    cache: ObjectCache,
    health: WatchHealth,
    *,
    timings: WatchTimings | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> None:
    """Keeps one kind of the cache up to date until cancelled; raises only unforeseen errors."""
    await Reflector(client, kind, cache, health, timings or WatchTimings(), sleep, chance).run()


async def mirror_all(
    client: ApiClient,
    kinds: Iterable[Kind],
    cache: ObjectCache,
    health: WatchHealth,
    timings: WatchTimings | None = None,
) -> None:
    """Keeps all kinds up to date; if one task fails all end and this raises: the process must not run with a part of its kinds."""
    async with asyncio.TaskGroup() as tasks:
        for kind in kinds:
            tasks.create_task(keep_mirrored(client, kind, cache, health, timings=timings), name=f"watch {kind.scope}")


class Reflector:
    """One kind's list and watch, and the version up to which they have come (None: to be listed)."""

    def __init__(
        self,
        client: ApiClient,
        kind: Kind,
        cache: ObjectCache,
        health: WatchHealth,
        timings: WatchTimings,
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[], float],
    ) -> None:
        self.client, self.kind, self.cache, self.health = client, kind, cache, health
        self.timings, self.sleep, self.chance = timings, sleep, chance
        self.path = kind.path
        self.version: str | None = None
        self.failures = 0

    async def run(self) -> None:
        while True:
            try:
                if self.version is None:
                    if not await self.is_served():
                        await self.sleep(self.timings.absent)
                        continue
                    self.version = await self.list_all()
                await self.follow(self.version)
            except (ApiError, _UnknownLoss) as error:
                await self.recover(error)

    # Listing

    async def is_served(self) -> bool:
        """Whether the server has the kind; finds the version to follow. An absent kind has no objects."""
        kind = self.kind
        if not kind.versions:
            return True
        try:
            group = await self.client.get(f"/apis/{kind.resource.group}")
        except NotFound:
            group = {}
        served = {str(entry.get("version")) for entry in tables(group, "versions")}
        for version in kind.versions:
            if version in served and await self.is_in(version):
                self.path = replace(kind, resource=replace(kind.resource, version=version)).path
                return True
        self.cache.nothing(kind.scope)
        self.health.read(kind.scope)
        return False

    async def is_in(self, version: str) -> bool:
        """Whether a version of the group has the kind: a kind may be younger than its group."""
        resource = self.kind.resource
        try:
            found = await self.client.get(f"/apis/{resource.group}/{version}")
        except NotFound:
            return False
        self.health.heard(self.kind.scope)
        return any(entry.get("name") == resource.plural for entry in tables(found, "resources"))

    async def list_all(self) -> str:
        """Replaces the kind by a new list; returns its version."""
        listing = self.cache.listing(self.kind.scope)
        version = ""
        # No resourceVersion: the newest state, not that of some cache.
        kind = self.kind
        pages = self.client.list_paged(self.path, kind.params, self.timings.page, trim=kind.trim, fresh=True)
        async with aclosing(pages):
            async for page in pages:
                self.health.heard(kind.scope)
                listing.add(_items(page))
                version = (page.get("metadata") or {}).get("resourceVersion") or version
        if not version:
            raise BrokenStream(0, "NoVersion", f"the list of {self.path} has no resourceVersion")
        listing.commit(version)
        self.health.read(kind.scope)
        self.health.relists[kind.scope] += 1
        return version

    # Watching

    async def follow(self, version: str) -> None:
        """Applies events from `version` on until the server ends the watch, as it does every few minutes."""
        timings, key = self.timings, self.kind.scope
        spread = timings.watch_most - timings.watch_least
        params = {
            **self.kind.params,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timings.watch_least + round(spread * self.chance())),
        }
        began, events = self.health.clock(), 0
        self.health.watches[key] += 1
        stream = self.client.watch(self.path, params, silence=timings.silence, on_bytes=lambda: self.health.read(key))
        try:
            async with aclosing(stream) as lines:
                async for line in lines:
                    self.take(line)
                    self.failures = 0
                    events += 1
        finally:
            # A load balancer cuts idle connections each minute: a quiet kind would wait longer after each cut.
            if self.health.clock() - began >= timings.backoff_most:
                self.failures = 0
        if not events and self.health.clock() - began < timings.hasty_end:
            raise Unreachable(0, ENDED_AT_ONCE, f"the watch of {self.path} ended as soon as it began")
        self.failures = 0

    def take(self, line: bytes) -> None:
        """Applies one line; the version only moves past applied events."""
        try:
            event = orjson.loads(without_managed_fields(self.kind.trim(line)))
            event_type, obj = event["type"], event["object"]
            if event_type == "ERROR":
                raise error_from_status(obj)
            version = obj["metadata"]["resourceVersion"]
            if event_type == "BOOKMARK":
                self.cache.bookmark(self.kind.scope, version)
            else:
                self.cache.apply(self.kind.scope, event_type, obj)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, MalformedObject) as error:
            self.health.malformed[self.kind.scope] += 1
            raise _UnknownLoss(f"{type(error).__name__} in {line[:200]!r}") from error
        self.version = version

    # Recovering

    async def recover(self, error: ApiError | _UnknownLoss) -> None:
        """Decides whether the version is still good, and waits before the next try if an immediate one would do harm."""
        if not _version_survives(error):
            self.version = None
        if isinstance(error, Silent):
            self.health.silences[self.kind.scope] += 1
        else:
            self.health.failures[self.kind.scope] += 1
        delay, scope = self.delay(error), self.kind.scope
        failing = self.health.failed(scope, str(error))
        # The silence has lasted a minute already; counting it as failure would delay a quiet kind more each time.
        self.failures += not isinstance(error, Silent)
        if isinstance(error, Unauthorized | Forbidden):
            self.health.heard(scope)  # it is not the stream that is dead
            self.health.refused[scope] = str(error)
        if isinstance(error, ApiError) and self.kind.optional and self.is_unreadable(error, failing):
            await self.go_without(error)
            return
        # A healthy but quiet kind may be silent too: a restarted API server leaves out its first bookmarks.
        lasts = isinstance(error, Unauthorized) and self.failures >= REFUSED_TRIES
        lasts = lasts or self.health.clock() - failing.since >= self.timings.refused
        write = log.info if isinstance(error, Silent) else log.error if lasts else log.warning
        relist = self.version is None
        write("watch interrupted", kind=scope, error=str(error), relist=relist, delay=round(delay, 2))
        if delay > 0:
            await self.sleep(delay)

    def is_unreadable(self, error: ApiError, failing: Failing) -> bool:
        """Whether an optional kind's errors are its own and more than those of a server that is starting."""
        if self.failures < REFUSED_TRIES or isinstance(error, Unauthorized):
            return False
        now = self.health.clock()
        if isinstance(error, Forbidden):
            return not self.health.relists[self.kind.scope] or now - failing.since >= self.timings.refused
        # An object in the store that cannot be decoded fails each list of its kind, and a list may be too long for its time.
        return failing.alone is not None and now - failing.alone >= self.timings.refused

    async def go_without(self, error: ApiError) -> None:
        """An unreadable optional kind is unknown; it is tried again ever more rarely."""
        self.version = None
        if self.cache.unknown(self.kind.scope, str(error)):
            log.warning("kind is unknown, it cannot be read", kind=self.kind.scope, error=str(error))
        await self.sleep(self.backoff(self.timings.absent))

    def backoff(self, longest: float) -> float:
        """Seconds that double with each failure, spread, `longest` at most."""
        least = self.timings.backoff_least
        return max(least, min(longest, least * 2.0 ** min(self.failures, 16)) * (0.5 + 0.5 * self.chance()))

    def delay(self, error: ApiError | _UnknownLoss) -> float:
        """Seconds before the next try: none after a silence, a first 410 or bad line; else growing and spread."""
        if isinstance(error, Silent) or (isinstance(error, Gone | _UnknownLoss) and self.failures == 0):
            return 0.0
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return max(self.backoff(self.timings.backoff_most), retry_after_of(retry_after))


def _version_survives(error: ApiError | _UnknownLoss) -> bool:
    if isinstance(error, ApiError) and error.reason == ENDED_AT_ONCE:
        return False  # a proxy that ends every stream lets lists through
    # A response without a temporary cause may be about the version (too old, or of another history): list.
    if isinstance(error, Unreachable | TooManyRequests | Unauthorized | Forbidden):
        return True
    return not isinstance(error, _UnknownLoss | Gone | BrokenStream) and error.status == 503


def _items(page: JsonObject) -> Iterable[JsonObject]:
    """A page's objects with the apiVersion and kind that lists leave out, so that lists and watches give equal objects."""
    api_version, kind = page.get("apiVersion"), str(page.get("kind") or "").removesuffix("List")
    for item in page.get("items") or ():
        if isinstance(item, dict):
            item.setdefault("apiVersion", api_version)
            item.setdefault("kind", kind)
        yield item
