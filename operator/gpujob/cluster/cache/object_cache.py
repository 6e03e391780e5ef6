"""The cluster as this process knows it: for each kind, what the last list said and every event since.

It exists so that a decision never waits for the network and never rests on a ghost: a list REPLACES a kind, so what
vanished while nobody watched is gone here too; an object that we wrote enters with the answer of the write, so nothing
is decided on a state older than our own writes. Filled by `watch`, read by the reconcile; it does no I/O.

How old news is told from new: resourceVersions of one kind are compared as integers (the API server promises that they
can be). `seen` is how far list and watch have come; whatever is at or before it is already in the mirror, or gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import structlog

from gpujob.cluster.cache.kind_store import KindStore, Refusal, Slim, slimmed
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

log = structlog.get_logger(__name__)


def whole(obj: JsonObject) -> JsonObject:
    """The object itself: the `slim` of a kind that is kept as it comes."""
    return obj


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind to mirror: its resource, the selectors that the server applies, and what to keep of each object.

    A kind with `versions` may be missing: the first of them that the server has is followed, else there are no objects.

    `trim` cuts out of the server's JSON, before it is decoded, what `slim` would leave out.
    """

    key: str
    resource: Resource
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    slim: Slim = whole
    versions: tuple[str, ...] = ()
    trim: Trim = untouched
    optional: bool = False
    """Whether the operator works without the right to read it: its objects are unknown then."""


class Listing:
    """A list as it comes in, page by page: objects are slimmed at once, so that no whole raw list is in memory."""

    def __init__(self, mirror: ObjectCache, kind: str) -> None:
        self._mirror, self._kind = mirror, kind
        self._slim = mirror.kinds[kind].slim
        self.objects: dict[Key, tuple[Identity, JsonObject | Refusal]] = {}

    def add(self, objects: Iterable[JsonObject]) -> None:
        """Takes one page."""
        for obj in objects:
            try:
                identity = identify(obj)
            except MalformedObject:
                self._mirror.malformed[self._kind] += 1
                continue
            self.objects[identity.key] = (identity, slimmed(self._slim, obj))

    def commit(self, resource_version: str) -> None:
        """Replaces the kind by what was added; `resource_version` is the list's own."""
        self._mirror.replace_by(self._kind, self, resource_version)


class ObjectCache:
    """What is known of every kind; `complete` once each was listed. For one event loop, without locks."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.kinds: Mapping[str, Kind] = {kind.key: kind for kind in kinds}
        self.changed = asyncio.Event()
        self.refusals: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.unread: dict[str, str] = {}
        """Optional kinds that may not be read, with the API server's words: their objects are unknown, none is held."""
        self._shelves = {key: KindStore(kind.slim) for key, kind in self.kinds.items()}
        self._views = {key: MappingProxyType(shelf.objects) for key, shelf in self._shelves.items()}

    # Reading

    @property
    def complete(self) -> bool:
        """Whether every kind was listed at least once: nothing may be decided before."""
        return all(shelf.listed for shelf in self._shelves.values())

    def is_listed(self, kind: str) -> bool:
        """Whether the kind was listed at least once, or is unknown."""
        return self._shelves[kind].listed

    def objects(self, kind: str) -> Mapping[Key, JsonObject]:
        """A live view of a kind: it changes under whoever awaits while reading."""
        return self._views[kind]

    def get(self, kind: str, namespace: str | None, name: str) -> JsonObject | None:
        """One object, None when there is none (or `slim` could not digest it)."""
        return self._views[kind].get((namespace or "", name))

    def version(self, kind: str) -> int:
        """A number that grows with every change of the kind: the key of a cache made from it."""
        return self._shelves[kind].version

    def refused(self, kind: str) -> Mapping[Key, str]:
        """The objects kept out because `slim` failed on them, with its error."""
        return MappingProxyType(self._shelves[kind].refused)

    def take_changes(self) -> dict[str, set[Key]]:
        """The keys that changed since the last call, by kind; clears `changed`."""
        self.changed.clear()
        changes = {}
        for kind, shelf in self._shelves.items():
            if shelf.dirty:
                changes[kind], shelf.dirty = shelf.dirty, set()
        return changes

    def take_moved(self) -> dict[str, set[Key]]:
        """`take_changes` for a second reader, which is woken by nothing: an index that is brought up to date when asked."""
        moved = {}
        for kind, shelf in self._shelves.items():
            if shelf.moved:
                moved[kind], shelf.moved = shelf.moved, set()
        return moved

    # What the API server says

    def listing(self, kind: str) -> Listing:
        """An empty list to fill page by page and commit."""
        return Listing(self, kind)

    def replace(self, kind: str, objects: Iterable[JsonObject], resource_version: str) -> None:
        """Makes a kind equal to a list; only our own writes that are newer than the list stay."""
        listing = self.listing(kind)
        listing.add(objects)
        listing.commit(resource_version)

    def nothing(self, kind: str) -> None:
        """The server does not have the kind, so that there are no objects of it."""
        shelf = self._shelves[kind]
        self.unread.pop(kind, None)
        if shelf.objects or not shelf.listed:
            self.replace(kind, (), str(shelf.seen or 0))

    def unknown(self, kind: str, why: str) -> bool:
        """An optional kind may not be read: it stops nothing, and what was held of it is dropped. Whether that is new."""
        new = kind not in self.unread
        if new:
            self.nothing(kind)
            self._shelves[kind].version += 1
            self.changed.set()
        self.unread[kind] = why
        return new

    def replace_by(self, kind: str, listing: Listing, resource_version: str) -> None:
        """`replace` by a list whose pages are in already."""
        shelf = self._shelves[kind]
        listed_at = version_number(resource_version)
        if is_newer(shelf.seen, listed_at):
            # The store went back in time (restored from a backup): no version that we hold means anything any more.
            log.warning("resourceVersion went backwards, all that is held is dropped", kind=kind)
            shelf.tags = {key: tag._replace(written=False) for key, tag in shelf.tags.items()}
            shelf.ended.clear()
        uids = {identity.uid for identity, _ in listing.objects.values()}
        shelf.ended = {uid: lists + 1 for uid, lists in shelf.ended.items() if uid in uids and lists == 0}
        for identity, value in listing.objects.values():
            held = shelf.tags.get(identity.key)
            ours_is_newer = held is not None and held.written and is_newer(held.version, identity.version)
            if identity.uid not in shelf.ended and not ours_is_newer:
                self._put(kind, shelf, identity, value, written=False)
        for key in shelf.tags.keys() - listing.objects.keys():
            tag = shelf.tags[key]
            if not (tag.written and is_newer(tag.version, listed_at)):
                shelf.remove(key)
        shelf.seen = listed_at
        if self.unread.pop(kind, None) is not None:
            shelf.version += 1
        if not shelf.listed:
            shelf.listed = True
            shelf.version += 1
            self.changed.set()
        if shelf.dirty:
            self.changed.set()

    def apply(self, kind: str, event_type: str, obj: JsonObject) -> None:
        """Takes one event of a watch; older news than what is held changes nothing."""
        shelf = self._shelves[kind]
        identity = identify(obj)
        if event_type == "DELETED":
            self._delete(shelf, identity.key, identity.uid)
            shelf.ended.pop(identity.uid, None)
        elif event_type in {"ADDED", "MODIFIED"}:
            held = shelf.tags.get(identity.key)
            # Not newer whatever its uid: the echo of our own write, or the end of an object whose successor we made.
            old = held is not None and is_not_newer(identity.version, held.version)
            if not old and identity.uid not in shelf.ended:
                self._put(kind, shelf, identity, slimmed(shelf.slim, obj), written=False)
        else:
            raise MalformedObject(f"no event type {event_type!r}")
        shelf.advance(identity.version)
        if shelf.dirty:
            self.changed.set()

    def bookmark(self, kind: str, resource_version: str) -> None:
        """Takes the promise of a bookmark: everything up to this version has been told."""
        self._shelves[kind].advance(version_number(resource_version))

    # What we did ourselves

    def note_written(self, kind: str, obj: JsonObject) -> None:
        """Takes the answer of our own create or patch at once. Only for objects that the kind's selectors match."""
        shelf = self._shelves[kind]
        identity = identify(obj)
        held = shelf.tags.get(identity.key)
        # At or before `seen` the watch has told it already, and perhaps the deletion that followed: a late answer
        # must not bring the dead back.
        if identity.uid in shelf.ended or is_not_newer(identity.version, shelf.seen):
            return
        if held is not None and is_not_newer(identity.version, held.version):
            return
        self._put(kind, shelf, identity, slimmed(shelf.slim, obj), written=True)
        if shelf.dirty:
            self.changed.set()

    def note_deleted(
        self, kind: str, namespace: str | None, name: str, uid: str, answer: JsonObject | None = None
    ) -> None:
        """Takes our own delete, with the API server's answer to it.

        When the answer is the object itself, it is still there (finalizers, grace period): it enters with its
        deletionTimestamp and goes with its DELETED event. When the answer is a Status, or none is given because the
        server says NotFound, the uid is gone for good: it leaves at once, and events and lists that are older than
        the delete cannot bring it back. Two lists in a row that show it are believed all the same.
        """
        if answer is not None and isinstance(answer.get("metadata"), dict) and answer["metadata"].get("uid") == uid:
            self.note_written(kind, answer)
            return
        shelf = self._shelves[kind]
        if self._delete(shelf, (namespace or "", name), uid):
            # Only what was held: if its DELETED event came before the answer, no second one would clear this.
            shelf.ended[uid] = 0
        if shelf.dirty:
            self.changed.set()

    def _delete(self, shelf: KindStore, key: Key, uid: str) -> bool:
        held = shelf.tags.get(key)
        if held is None or (uid and held.uid and held.uid != uid):
            return False
        shelf.remove(key)
        return True

    def _put(
        self, kind: str, shelf: KindStore, identity: Identity, value: JsonObject | Refusal, *, written: bool
    ) -> None:
        first = shelf.put(identity, value, written)
        if isinstance(value, Refusal):
            self.refusals[kind] += 1
            if first:
                namespace, name = identity.key
                log.warning("object kept out", kind=kind, namespace=namespace, name=name, error=value.reason)
