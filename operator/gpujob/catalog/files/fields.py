"""One row of a catalog file: each field typed, each mistake one CatalogInvalid with row, field and remedy.

Values arrive as the text of the file (2.10 stays 2.10); the field decides their type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from gpujob.catalog.devices import identity
from gpujob.catalog.images.versions import release
from gpujob.values.errors import BadQuantity, CatalogInvalid
from gpujob.values.quantity import parse_bytes

T = TypeVar("T")

SOURCE_FIELDS: Final = ("source", "checkedOn")


class Sources:
    """The sources of a file by the short key that its rows use, with the day that each was read."""

    def __init__(self, raw: Any) -> None:
        self._known: dict[str, tuple[str, str]] = {}
        for key, value in mapping("sources", raw or {}).items():
            row = Row(f"source {key}", value)
            row.only("text", "checkedOn")
            self._known[key] = (row.text("text"), row.text("checkedOn", ""))

    def of(self, row: Row) -> tuple[str, str]:
        """Source and day of a row: the text of its key, or its own; its own day wins."""
        found = [self._known.get(key, (key, "")) for key in row.words("source")]
        day = next((day for _, day in found if day), "")
        return "; ".join(text for text, _ in found), row.text("checkedOn", day)


class Row:
    """One row's fields."""

    __slots__ = ("_fields", "label")

    def __init__(self, label: str, fields: Any) -> None:
        self.label = label
        self._fields = mapping(label, fields)

    def only(self, *known: str) -> None:
        """Rejects fields that do not exist."""
        for name in self._fields:
            if name not in known:
                meant = identity.nearest(name, known)
                hint = f"; did you mean {meant}?" if meant else f"; the fields are {', '.join(known)}"
                raise CatalogInvalid(f"{self.label}: there is no field {name}{hint}")

    def text(self, name: str, default: str | None = None) -> str:
        """A field's text; required unless it has a default."""
        value = self._fields.get(name)
        if value is None:
            if default is None:
                raise CatalogInvalid(f"{self.label}: {name} is missing")
            return default
        if not isinstance(value, str):
            raise CatalogInvalid(f"{self.label}: {name} is a {_kind(value)}; one word or number is wanted")
        return value

    def maybe(self, name: str) -> str | None:
        """A field's text, None when it is absent."""
        return None if self._fields.get(name) is None else self.text(name)

    def words(self, name: str) -> tuple[str, ...]:
        """A field's list of texts; a single text is a list of one."""
        value = self._fields.get(name)
        if value is None:
            return ()
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in values):
            raise CatalogInvalid(f"{self.label}: {name} is no list of words")
        return tuple(values)

    def number(self, name: str) -> float | None:
        """A positive number."""
        return self._typed(name, _positive, "a positive number")

    def release(self, name: str) -> str | None:
        """A version, None when it is absent."""
        text = self.maybe(name)
        if text is not None and not release(text):
            raise CatalogInvalid(f"{self.label}: {name} is {text!r}; a version such as 580.65.06 is wanted")
        return text

    def releases(self, name: str) -> tuple[str, ...]:
        """A list of versions."""
        wrong = [text for text in self.words(name) if not release(text)]
        if wrong:
            raise CatalogInvalid(f"{self.label}: {name} has {wrong[0]!r}; versions such as 580.65.06 are wanted")
        return self.words(name)

    def whole(self, name: str) -> int | None:
        """A positive whole number."""
        return self._typed(name, _positive_whole, "a positive whole number")

    def needed(self, name: str, most: int = 10**9) -> int:
        """A positive whole number; required."""
        text = self.text(name)
        if not text.isascii() or not text.isdecimal() or len(text) > 16 or not 0 < int(text) <= most:
            raise CatalogInvalid(f"{self.label}: {name} is {text!r}; a positive whole number is wanted")
        return int(text)

    def truth(self, name: str) -> bool:
        """true or false; false when absent."""
        return self.one_of(name, ("true", "false"), "false") == "true"

    def memory(self, name: str) -> int | None:
        """Bytes of a quantity such as 81559Mi."""
        return self._typed(name, parse_bytes, "a memory size such as 192Gi")

    def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """A member of a closed set."""
        word = self.text(name, default)
        if word not in choices:
            raise CatalogInvalid(f"{self.label}: {name} is {word!r}; one of {', '.join(choices)} is wanted")
        return word

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that is itself a table, empty when it is absent."""
        return mapping(f"{self.label}: {name}", self._fields.get(name) or {})

    def rows(self, name: str) -> list[Any]:
        """A field that is a list of rows, empty when it is absent."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, list):
            raise CatalogInvalid(f"{self.label}: {name} is a {_kind(value)}; a list of rows is wanted")
        return value or []

    def _typed(self, name: str, read: Callable[[str], T], wanted: str) -> T | None:
        text = self.maybe(name)
        if text is None:
            return None
        try:
            return read(text)
        except (ValueError, BadQuantity) as error:
            raise CatalogInvalid(f"{self.label}: {name} is {text!r}; {wanted} is wanted") from error


def mapping(label: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise CatalogInvalid(f"{label} is a {_kind(value)}; a table of fields is wanted")
    return value


def _kind(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = ((dict, "table"), (list, "list"), (str, "word"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "void")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


def _positive_whole(text: str) -> int:
    value = int(text)
    if not 0 < value < 10**9:
        raise ValueError(text)
    return value
