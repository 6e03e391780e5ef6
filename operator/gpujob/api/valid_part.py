"""The part of a manifest that is checked further although other fields of it cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from gpujob.api.validation.rule import Rule, broken

Path = tuple[int | str, ...]


def further_problems(
    kind: type[BaseModel], rules: Sequence[Rule], text: str, faults: Iterable[tuple[Path, str]]
) -> list[str]:
    """The rules that a manifest (JSON) breaks in its tables without a fault; `faults` as for `without`."""
    rest, lacking = without(json.loads(text), faults)
    try:
        model = kind.model_validate_json(json.dumps(rest), strict=True, by_name=False)
    except ValidationError:
        return []
    unread = {".".join(map(str, each)) for each in lacking}
    return [f"{path}: {message}" for path, message in broken(model, rules, unread=unread)]


def without(document: Mapping[str, Any], faults: Iterable[tuple[Path, str]]) -> tuple[dict[str, Any], set[Path]]:
    """A copy of a document without the fields at fault, and the paths of the tables that lack one of them, each with the table above,
    whose rules may read it.

    `faults`: the path of each and pydantic's word for it. Of a list that has a fault the whole list is left out, of a table that
    lacks a required field the whole table.
    """
    kept, lacking = _copy(document), set[Path]()
    for path, word in faults:
        field = path[:-1] if word == "missing" else path
        field = field[: next((at for at, part in enumerate(field) if isinstance(part, int)), len(field))]
        above: Any = kept
        for part in field[:-1]:
            above = above.get(part) if isinstance(above, dict) else None
        if isinstance(above, dict) and field:
            above.pop(field[-1], None)
            lacking |= {field[:-1], field[:-2]}
    return kept, lacking


def _copy(value: Any) -> Any:
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
