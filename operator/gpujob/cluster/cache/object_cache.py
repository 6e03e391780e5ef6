"""The cluster as this process knows it: for each kind, the last list and every event since.

A decision never waits for the network and never uses a deleted object: a list REPLACES a kind, so objects that vanished between
two watches are gone here too. The response to an own write enters at once, so no decision uses a state older than the operator's
own writes. Filled by `reflector`, read by the controller; it does no I/O.

Order of versions: resourceVersions of one kind compare as integers (an API server guarantee). `seen` is the version of list and
watch; everything up to it is in the cache already, or gone.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import structlog

from gpujob.cluster.cache.kind_store import Joins, Keeps, KindStore, Refusal, Slim, slimmed
from gpujob.cluster.cache.object_key import (
    Identity,
    Key,
    MalformedObject,
    identify,
    is_newer,
    is_not_newer,
    version_number,
)
from gpujob.cluster.client.api_errors import JsonObject
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.client.transport import Trim, untouched

Value = TypeVar("Value")

log = structlog.get_logger(__name__)


def whole(obj: JsonObject) -> JsonObject:
    """The object itself: the `slim` of a kind that is stored whole."""
    return obj


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind to cache: its resource, the selectors that the server applies, and the record of each object.

    A kind with `versions` is optional: the first version that the server has is followed, else there are no objects.

    `trim` removes from the server's JSON, before it is decoded, what `slim` would leave out.

    `keeps` says which records are kept when their object is gone, until `take_departed`.

    `joins` makes the record of a changed object from its last record and the new one.
    """

    key: str
    resource: Resource
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    slim: Slim = whole
    versions: tuple[str, ...] = ()
    trim: Trim = untouched
    optional: bool = False
    """Whether the operator works without the right to read it; its objects are unknown then."""
    keeps: Keeps | None = None
    joins: Joins | None = None
    namespace: str = ""
    """The only namespace that is followed; empty for all. A kind has one entry for each namespace that is followed alone."""

    @property
    def scope(self) -> str:
        """The name of what this entry follows: the kind's, with the namespace where that is one of several."""
        return f"{self.key} of {self.namespace}" if self.namespace else self.key

    @property
    def path(self) -> str:
        """Where the API server lists it."""
        return self.resource.path(self.namespace or None)


class Listing:
    """A list under construction, page by page: objects become records at once, so that no whole list is in memory."""

    def __init__(self, cache: ObjectCache, scope: str) -> None:
        self._cache, self._scope = cache, scope
        self._slim = cache.kinds[scope].slim
        self.objects: dict[Key, tuple[Identity, JsonObject | Refusal]] = {}

    def add(self, objects: Iterable[JsonObject]) -> None:
        """Adds one page."""
        for obj in objects:
            try:
                identity = identify(obj)
            except MalformedObject:
                self._cache.malformed[self._scope] += 1
                continue
            self.objects[identity.key] = (identity, slimmed(self._slim, obj))

    def commit(self, resource_version: str) -> None:
        """Replaces the scope by the added objects; `resource_version` is the list's own."""
        self._cache.replace_by(self._scope, self, resource_version)


class ObjectCache:
    """The objects of every kind; `complete` once each was listed. For one event loop, without locks."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.kinds: Mapping[str, Kind] = {kind.scope: kind for kind in kinds}
        """What is followed, by scope; the lists and watches of two namespaces say nothing of each other's versions."""
        self.changed = asyncio.Event()
        self.refusals: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self._unread: dict[str, str] = {}
        self._complete = False
        self._stores = {scope: KindStore(kind.slim, kind.keeps, kind.joins) for scope, kind in self.kinds.items()}
        self._parts: dict[str, list[KindStore]] = {}
        for scope, kind in self.kinds.items():
            self._parts.setdefault(kind.key, []).append(self._stores[scope])
        self._views = {key: _view([part.objects for part in parts]) for key, parts in self._parts.items()}

    # Reading

    @property
    def complete(self) -> bool:
        """Whether every kind was listed at least once; no decision is made before."""
        self._complete = self._complete or all(store.listed for store in self._stores.values())
        return self._complete

    def is_listed(self, scope: str) -> bool:
        """Whether the scope was listed at least once, or is unknown."""
        return self._stores[scope].listed

    @property
    def unread(self) -> Mapping[str, str]:
        """Optional kinds that cannot be read, with the API server's message: their objects are unknown, none is stored."""
        return {self.kinds[scope].key: why for scope, why in self._unread.items()}

    def follows(self, kind: str, namespace: str | None) -> bool:
        """Whether objects of this kind and namespace are cached."""
        return self._scope_of(kind, namespace or "") in self._stores

    def objects(self, kind: str) -> Mapping[Key, JsonObject]:
        """A live view of a kind: it changes during an `await` of its reader."""
        return self._views[kind]

    def get(self, kind: str, namespace: str | None, name: str) -> JsonObject | None:
        """One object, None if there is none (or `slim` failed on it)."""
        return self._views[kind].get((namespace or "", name))

    def version(self, kind: str) -> int:
        """A number that grows with every change of the kind: a cache key for derived results."""
        return sum([part.version for part in self._parts[kind]])

    def refused(self, kind: str) -> Mapping[Key, str]:
        """The objects on which `slim` failed, with its error."""
        return _view([part.refused for part in self._parts[kind]])

    def take_changes(self) -> dict[str, set[Key]]:
        """The keys that changed since the last call, by kind; clears `changed`."""
        self.changed.clear()
        changes: dict[str, set[Key]] = {}
        for kind, parts in self._parts.items():
            for part in parts:
                if part.dirty:
                    changes.setdefault(kind, set()).update(part.dirty)
                    part.dirty = set()
        return changes

    def take_moved(self) -> dict[str, set[Key]]:
        """`take_changes` for a second reader that no change wakes: an index that is updated on demand."""
        moved: dict[str, set[Key]] = {}
        for kind, parts in self._parts.items():
            for part in parts:
                if part.moved:
                    moved.setdefault(kind, set()).update(part.moved)
                    part.moved = set()
        return moved

    def take_departed(self, kind: str) -> dict[Key, JsonObject]:
        """The last records of objects that are gone since the last call, as far as the kind keeps them: a reader that comes late does
        not miss them."""
        departed: dict[Key, JsonObject] = {}
        for part in self._parts[kind]:
            departed |= part.departed
            part.departed = {}
        return departed

    # What the API server reports about a scope

    def listing(self, scope: str) -> Listing:
        """An empty list, to fill page by page and commit."""
        return Listing(self, scope)

    def replace(self, scope: str, objects: Iterable[JsonObject], resource_version: str) -> None:
        """Makes a scope equal to a list; only own writes that are newer than the list stay."""
        listing = self.listing(scope)
        listing.add(objects)
        listing.commit(resource_version)

    def nothing(self, scope: str) -> None:
        """The server does not have the kind, so there are no objects of it."""
        store = self._stores[scope]
        self._unread.pop(scope, None)
        if store.objects or not store.listed:
            self.replace(scope, (), str(store.seen or 0))

    def unknown(self, scope: str, why: str) -> bool:
        """Records that an optional kind cannot be read and drops its objects; returns whether that is new."""
        new = scope not in self._unread
        if new:
            self.nothing(scope)
            self._stores[scope].version += 1
            self.changed.set()
        self._unread[scope] = why
        return new

    def replace_by(self, scope: str, listing: Listing, resource_version: str) -> None:
        """`replace` by a list whose pages are complete."""
        store = self._stores[scope]
        listed_at = version_number(resource_version)
        if is_newer(store.seen, listed_at):
            # The server's store went back in time (restored from a backup), so stored versions mean nothing any more.
            log.warning("resourceVersion went backwards; the cached objects are dropped", kind=scope)
            store.tags = {key: tag._replace(written=False) for key, tag in store.tags.items()}
            store.ended.clear()
        uids = {identity.uid for identity, _ in listing.objects.values()}
        store.ended = {uid: lists + 1 for uid, lists in store.ended.items() if uid in uids and lists == 0}
        for identity, value in listing.objects.values():
            held = store.tags.get(identity.key)
            ours_is_newer = held is not None and held.written and is_newer(held.version, identity.version)
            if identity.uid not in store.ended and not ours_is_newer:
                self._put(scope, store, identity, value, written=False)
        for key in store.tags.keys() - listing.objects.keys():
            tag = store.tags[key]
            if not (tag.written and is_newer(tag.version, listed_at)):
                store.remove(key)
        store.seen = listed_at
        if self._unread.pop(scope, None) is not None:
            store.version += 1
        if not store.listed:
            store.listed = True
            store.version += 1
            self.changed.set()
        if store.dirty:
            self.changed.set()

    def apply(self, scope: str, event_type: str, obj: JsonObject) -> None:
        """Applies one event of a watch; an outdated event changes nothing."""
        store = self._stores[scope]
        identity = identify(obj)
        if event_type == "DELETED":
            self._delete(store, identity.key, identity.uid)
            store.ended.pop(identity.uid, None)
        elif event_type in {"ADDED", "MODIFIED"}:
            held = store.tags.get(identity.key)
            # Outdated whatever its uid: the echo of an own write, or the deletion of an object that an own write replaced.
            old = held is not None and is_not_newer(identity.version, held.version)
            if not old and identity.uid not in store.ended:
                self._put(scope, store, identity, slimmed(store.slim, obj), written=False)
        else:
            raise MalformedObject(f"no event type {event_type!r}")
        store.advance(identity.version)
        if store.dirty:
            self.changed.set()

    def bookmark(self, scope: str, resource_version: str) -> None:
        """Applies a bookmark: everything up to this version has been received."""
        self._stores[scope].advance(version_number(resource_version))

    # What we did ourselves

    def note_written(self, kind: str, obj: JsonObject) -> None:
        """Applies the response to an own create or patch at once. Only for objects that the kind's selectors match."""
        identity = identify(obj)
        scope = self._scope_of(kind, identity.key[0])
        store = self._stores[scope]
        held = store.tags.get(identity.key)
        # Up to `seen` the watch has reported it already, and perhaps the deletion after it: a late response
        # must not restore a deleted object.
        if identity.uid in store.ended or is_not_newer(identity.version, store.seen):
            return
        if held is not None and is_not_newer(identity.version, held.version):
            return
        self._put(scope, store, identity, slimmed(store.slim, obj), written=True)
        if store.dirty:
            self.changed.set()

    def note_deleted(
        self, kind: str, namespace: str | None, name: str, uid: str, answer: JsonObject | None = None
    ) -> None:
        """Applies an own deletion, with the API server's response to it.

        If the response is the object itself, it still exists (finalizers, grace period): it enters with its deletionTimestamp and
        leaves with its DELETED event. If the response is a Status, or absent because the server says NotFound, the uid is gone for
        good: it leaves at once, and older events and lists cannot restore it. Two lists in a row that show it are trusted all the
        same.
        """
        if answer is not None and isinstance(answer.get("metadata"), dict) and answer["metadata"].get("uid") == uid:
            self.note_written(kind, answer)
            return
        store = self._stores[self._scope_of(kind, namespace or "")]
        if self._delete(store, (namespace or "", name), uid):
            # Only for stored objects: if its DELETED event came before the response, no second one would clear this.
            store.ended[uid] = 0
        if store.dirty:
            self.changed.set()

    def _scope_of(self, kind: str, namespace: str) -> str:
        """The scope that has the objects of a kind and namespace."""
        alone = f"{kind} of {namespace}"
        return alone if alone in self._stores else kind

    def _delete(self, store: KindStore, key: Key, uid: str) -> bool:
        held = store.tags.get(key)
        if held is None or (uid and held.uid and held.uid != uid):
            return False
        store.remove(key)
        return True

    def _put(
        self, scope: str, store: KindStore, identity: Identity, value: JsonObject | Refusal, *, written: bool
    ) -> None:
        first = store.put(identity, value, written)
        if isinstance(value, Refusal):
            self.refusals[scope] += 1
            if first:
                namespace, name = identity.key
                log.warning("object kept out", kind=scope, namespace=namespace, name=name, error=value.reason)


def _view(parts: list[dict[Key, Value]]) -> Mapping[Key, Value]:
    """A live view of dictionaries without common keys."""
    return MappingProxyType(parts[0] if len(parts) == 1 else ChainMap(*parts))
