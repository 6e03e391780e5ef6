"""What of a Node in a cluster file is ignored, in sentences: values that cannot be read, and parts that are no tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Node
from gpujob.values.untrusted import table

TABLES: Final = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec",),
    ("status",),
    ("status", "allocatable"),
    ("status", "capacity"),
)
"""The parts of a Node that are tables."""


def ignored_values(nodes: Iterable[Node], raw: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each value of the nodes, and for each part of their objects, that is ignored."""
    for node in nodes:
        yield from (f"Node {node.name}: a value is ignored: {problem}" for problem in node.unread)
    for (_, name), item in raw.items():
        yield from (f"Node {name}: {part} is no table of keys and values; it is ignored" for part in _no_tables(item))


def _no_tables(node: Mapping[str, Any]) -> Iterator[str]:
    for path in TABLES:
        holder = node
        for part in path[:-1]:
            holder = table(holder, part)
        if holder.get(path[-1]) is not None and not isinstance(holder[path[-1]], dict):
            yield ".".join(path)
