"""Objects of JSON that are seldom read, as text: a third of what their tables take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

ABSENT: Final = object()
"""Stands for a member that is kept and not there."""

NOTHING: Final = b"{}"
"""The text where all members are kept."""

READ_LATELY: Final = 16
"""Texts whose tables are kept: who reads one member reads others."""


class Packed(Mapping[str, Any]):
    """The members of an object, equal to a dict of them; those that are named in `kept` cost nothing to read, there or not.

    Members that JSON has no text for (integers beyond 64 bits, text with half a surrogate) stay as they are.
    """

    __slots__ = ("_places", "_text", "_values")

    def __init__(self, members: Mapping[str, Any], kept: Iterable[str] = ()) -> None:
        self._places = _places(tuple(dict.fromkeys(kept)))
        """The position of each kept member in `_values`; one table for all that keep the same members."""
        self._values = tuple([members.get(key, ABSENT) for key in self._places])
        try:
            # A copy: what orjson gives keeps the room of its buffer, 4 KiB for 200 bytes.
            self._text = bytes(memoryview(orjson.dumps(dict(members))))
        except orjson.JSONEncodeError:
            self._text, self._places, self._values = NOTHING, _places(tuple(members)), tuple(members.values())

    @property
    def text(self) -> bytes | None:
        """The JSON of all members; None for members that JSON has no text for."""
        return self._text if self._text != NOTHING or ABSENT in self._values else None

    def __getitem__(self, key: str) -> Any:
        place = self._places.get(key)
        value = self._whole()[key] if place is None else self._values[place]
        if value is ABSENT:
            raise KeyError(key)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """A member; what is kept is read of thousands of jobs each second."""
        place = self._places.get(key)
        value = self._whole().get(key, default) if place is None else self._values[place]
        return default if value is ABSENT else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packed) and self._text == other._text and self._places is other._places:
            return self._values == other._values
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Packed({dict(self)!r})"

    def _members(self) -> Mapping[str, Any]:
        if self._text == NOTHING and ABSENT not in self._values:
            return dict(zip(self._places, self._values, strict=True))
        return self._whole()

    def _whole(self) -> dict[str, Any]:
        return _tables(self._text)


@lru_cache(READ_LATELY)  # one table for 10,000 jobs, by identity; 14 µs for twelve keys against 1
def _places(kept: tuple[str, ...]) -> dict[str, int]:
    return {key: place for place, key in enumerate(kept)}


@lru_cache(READ_LATELY)  # 0.5 µs for 80 bytes, more for a status; each reconcile reads many members of one
def _tables(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(text)
    return found
