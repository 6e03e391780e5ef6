"""A chart's values.yaml as a tree: each value with its default, its comment and what `@schema` adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

SCHEMA: Final = "@schema "


class Undescribed(ValueError):
    """A value without a comment, or with an annotation that is no JSON object."""


@dataclass(frozen=True, slots=True)
class Value:
    """One key of values.yaml.

    `path` is dotted, `description` one line without the comment marks, `schema` the annotation. A group (`children` not empty)
    is an object that admits no other keys.
    """

    path: str
    default: Any
    description: str
    schema: dict[str, Any]
    children: tuple[Value, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def read_values(text: str) -> tuple[Value, ...]:
    """The values of a file in its order; Undescribed names the path of one that lacks its comment."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise Undescribed("values.yaml holds no values")
    return tuple(_children(root, yaml.safe_load(text), "", text.splitlines()))


def leaves(values: tuple[Value, ...]) -> Iterator[Value]:
    """Values that are no groups."""
    for value in values:
        yield from leaves(value.children) if value.children else (value,)


def _children(node: yaml.MappingNode, defaults: dict[str, Any], prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, child in node.value:
        path = f"{prefix}{key.value}"
        comment = list(_comment_above(lines, key.start_mark.line))
        words = [line for line in comment if not line.startswith(SCHEMA)]
        schema = _annotation(path, [line.removeprefix(SCHEMA) for line in comment if line.startswith(SCHEMA)])
        if not words:
            raise Undescribed(f"values.yaml: {path} has no comment: write what it is above it")
        default = defaults[key.value]
        group = isinstance(default, dict) and not schema
        children = tuple(_children(child, default, f"{path}.", lines)) if group else ()
        if group and not children:
            raise Undescribed(f"values.yaml: {path} is empty: say with @schema which keys it admits")
        yield Value(path, default, " ".join(words), schema, children)


def _comment_above(lines: list[str], at: int) -> Iterator[str]:
    """The comment lines directly above line `at`, in order, without marks."""
    first = at
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    for line in lines[first:at]:
        yield line.lstrip().removeprefix("#").strip()


def _annotation(path: str, written: list[str]) -> dict[str, Any]:
    if len(written) > 1:
        raise Undescribed(f"values.yaml: {path} has two lines @schema: write one")
    try:
        found = json.loads(written[0]) if written else {}
    except ValueError as error:
        raise Undescribed(f"values.yaml: @schema of {path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Undescribed(f"values.yaml: @schema of {path} is no JSON object")
    return found
