"""The part of a manifest that is checked further although other fields of it cannot be read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from gpujob.api.suggestions import may_be
from gpujob.api.validation.rule import EVERY_FIELD, Rule, Unread, broken

Path = tuple[int | str, ...]


def further_problems(
    kind: type[BaseModel], rules: Sequence[Rule], text: str, faults: Iterable[tuple[Path, str]]
) -> list[str]:
    """The rules that a manifest (JSON) breaks in what can be read of it; `faults` as for `without`."""
    rest, unread = without(json.loads(text), faults, lambda path: may_be(kind, path))
    try:
        model = kind.model_validate_json(json.dumps(rest), strict=True, by_name=False)
    except ValidationError:
        return []
    return [f"{path}: {message}" for path, message in broken(model, rules, unread=unread)]


def without(
    document: Mapping[str, Any],
    faults: Iterable[tuple[Path, str]],
    meant: Callable[[Path], Container[str]] = lambda _: EVERY_FIELD,
) -> tuple[dict[str, Any], Unread]:
    """A copy of a document without the fields at fault, and what is unread: these fields, those that an unknown one may be, and in the
    table above the table itself.

    `faults`: the path of each and pydantic's word for it. Of a list the entry with a fault is left out, of a table that lacks a
    required field the whole table. `meant`: the fields of its table that an unknown field may be.
    """
    kept, fields, entries = (
        _copy(document),
        defaultdict[str, list[Container[str]]](list),
        defaultdict[Path, set[int]](set),
    )
    for path, word in faults:
        if word == "extra_forbidden":
            fields[_written(path[:-1])].append(meant(path))
            _leave_out(kept, path)
            continue
        field = path[:-1] if word == "missing" else path
        at = next((place for place, part in enumerate(field) if isinstance(part, int)), len(field))
        if at < len(field):
            entries[field[:at]].add(int(field[at]))
        else:
            _leave_out(kept, field)
        for end in (at, at - 1) if at > 1 else (at,):
            fields[_written(field[: end - 1])].append((str(field[end - 1]),) if end else ())
    left = {_written(path): _leave_out_entries(kept, path, numbers) for path, numbers in entries.items()}
    return kept, Unread(fields, left)


def _leave_out(document: Any, path: Path) -> None:
    """Removes a field from a document, if it is there."""
    table = _at(document, path[:-1])
    if isinstance(table, dict) and path:
        table.pop(path[-1], None)


def _leave_out_entries(document: Any, path: Path, numbers: Container[int]) -> list[int]:
    """Removes entries from a list; the places that the others had."""
    entries = _at(document, path)
    if not isinstance(entries, list):
        return []
    places = [place for place in range(len(entries)) if place not in numbers]
    entries[:] = [entries[place] for place in places]
    return places


def _at(document: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    found = document
    for part in path:
        if isinstance(part, int):
            found = found[part] if isinstance(found, list) and part < len(found) else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found


def _written(path: Path) -> str:
    """A path as `broken` writes it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
