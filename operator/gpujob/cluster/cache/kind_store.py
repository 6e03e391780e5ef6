"""One kind's objects in the cache: the record of each, unreadable ones, own deletions, and changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gpujob.cluster.cache.object_key import Identity, Key, is_newer
from gpujob.cluster.client.api_errors import JsonObject

Slim = Callable[[JsonObject], JsonObject]
Keeps = Callable[[JsonObject], bool]
Joins = Callable[[JsonObject, JsonObject], JsonObject]

MOST_DEPARTED: Final = 4096
"""Objects of a kind that are gone and not taken yet; of more, the last ones are kept."""


class Tag(NamedTuple):
    """The key of an object, and its version."""

    uid: str
    version: int | None
    written: bool  # the response to an own write, not seen yet in a list or a watch


class Refusal(NamedTuple):
    """Stands for an object on which `slim` failed."""

    reason: str


def slimmed(slim: Slim, obj: JsonObject) -> JsonObject | Refusal:
    """The record of an object; a Refusal if `slim` fails."""
    try:
        return slim(obj)
    except Exception as error:  # one malformed object must not stop the others
        return Refusal(f"{type(error).__name__}: {error}")


class KindStore:
    """One kind's objects."""

    __slots__ = (
        "departed", "dirty", "ended", "joins", "keeps", "listed", "moved", "objects", "refused", "seen", "slim", "tags",
        "version",
    )  # fmt: skip

    def __init__(self, slim: Slim, keeps: Keeps | None = None, joins: Joins | None = None) -> None:
        self.slim, self.keeps, self.joins = slim, keeps, joins
        self.departed: dict[Key, JsonObject] = {}
        """The last records of objects that are gone, as far as `keeps` wants them."""
        self.objects: dict[Key, JsonObject] = {}
        self.refused: dict[Key, str] = {}
        self.tags: dict[Key, Tag] = {}
        self.ended: dict[str, int] = {}  # uid of an own deletion -> lists that still showed it
        self.seen: int | None = None
        self.listed = False
        self.version = 0
        self.dirty: set[Key] = set()
        self.moved: set[Key] = set()

    def mark(self, key: Key) -> None:
        """Records a change."""
        self.version += 1
        self.dirty.add(key)
        self.moved.add(key)

    def advance(self, version: int | None) -> None:
        """Records the version of a list or watch."""
        if self.seen is None or is_newer(version, self.seen):
            self.seen = version

    def put(self, identity: Identity, value: JsonObject | Refusal, written: bool) -> bool:
        """Whether the object is refused for the first time."""
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
        held = self.objects.get(key)
        if held is not None and self.joins is not None:
            value = self.joins(held, value)
        # An update of fields that `slim` leaves out (a heartbeat) is no change and wakes no reader.
        if held != value:
            self.objects[key] = value
            self.mark(key)
        return False

    def remove(self, key: Key) -> None:
        """An object is gone."""
        del self.tags[key]
        self.refused.pop(key, None)
        held = self.objects.pop(key, None)
        if held is None:
            return
        self.mark(key)
        if self.keeps is not None and self.keeps(held):
            self.departed[key] = held
            if len(self.departed) > MOST_DEPARTED:
                del self.departed[next(iter(self.departed))]
