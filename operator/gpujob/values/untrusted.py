"""Untrusted JSON: members of the wrong type read as absent, and nothing raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

Table = Mapping[str, Any]


def table(holder: Table, key: str) -> Table:
    """A member that should be an object; an empty one if it is not an object."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def tables(holder: Table, key: str) -> list[Table]:
    """A member that should be a list of objects; other items are left out."""
    value = holder.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """The object that a JSON text is; None for any other text."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def condition(status: Table, *kinds: str, now: str | None = None) -> Table:
    """The first condition of these types in an object's status, with the status `now` if that is given; empty if there is none."""
    found = (each for each in tables(status, "conditions") if each.get("type") in kinds)
    return next((each for each in found if now is None or each.get("status") == now), {})


def is_true(status: Table, kind: str) -> bool:
    """Whether a condition of the type is True."""
    return bool(condition(status, kind, now="True"))


def whole_number(value: Any) -> int | None:
    """A number of at least 0 that may be written as text (labels are); None for anything else or for ten digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


def one_line(text: str) -> str:
    """A text with line ends and terminal controls escaped (\\n), so that a message stays one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
