"""One kind's objects in the mirror: what is held of each, what was refused, what we deleted, and what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpujob.cluster.cache.object_key import Identity, Key, is_newer
from gpujob.cluster.client.api_errors import JsonObject

Slim = Callable[[JsonObject], JsonObject]


class Tag(NamedTuple):
    """Which object is held, and how new it is."""

    uid: str
    version: int | None
    written: bool  # the answer of our own write, not yet seen in a list or a watch


class Refusal(NamedTuple):
    """In place of an object on which `slim` failed."""

    reason: str


def slimmed(slim: Slim, obj: JsonObject) -> JsonObject | Refusal:
    """What is kept of an object; a Refusal where nothing can be."""
    try:
        return slim(obj)
    except Exception as error:  # whatever an odd object does to a caller's function, the others must live
        return Refusal(f"{type(error).__name__}: {error}")


class KindStore:
    """One kind's objects."""

    __slots__ = ("dirty", "ended", "listed", "moved", "objects", "refused", "seen", "slim", "tags", "version")

    def __init__(self, slim: Slim) -> None:
        self.slim = slim
        self.objects: dict[Key, JsonObject] = {}
        self.refused: dict[Key, str] = {}
        self.tags: dict[Key, Tag] = {}
        self.ended: dict[str, int] = {}  # uid of what we deleted -> lists that still showed it
        self.seen: int | None = None
        self.listed = False
        self.version = 0
        self.dirty: set[Key] = set()
        self.moved: set[Key] = set()

    def mark(self, key: Key) -> None:
        """Something changed."""
        self.version += 1
        self.dirty.add(key)
        self.moved.add(key)

    def advance(self, version: int | None) -> None:
        """List or watch have come so far."""
        if self.seen is None or is_newer(version, self.seen):
            self.seen = version

    def put(self, identity: Identity, value: JsonObject | Refusal, written: bool) -> bool:
        """Whether the object was refused for the first time."""
        key = identity.key
        self.tags[key] = Tag(identity.uid, identity.version, written)
        if isinstance(value, Refusal):
            first = key not in self.refused
            self.refused[key] = value.reason
            if self.objects.pop(key, None) is not None:
                self.mark(key)
            return first
        if self.refused:
            self.refused.pop(key, None)
        # An update of what `slim` leaves out (a heartbeat) is no change: it must wake nobody.
        if self.objects.get(key) != value:
            self.objects[key] = value
            self.mark(key)
        return False

    def remove(self, key: Key) -> None:
        """An object is gone."""
        del self.tags[key]
        self.refused.pop(key, None)
        if self.objects.pop(key, None) is not None:
            self.mark(key)
