"""Sentences about the values of Nodes and GPUPools in a cluster file that are ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Node
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import Label

TABLES: Final = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec",),
    ("status",),
    ("status", "allocatable"),
    ("status", "capacity"),
)
"""The parts of a Node that are tables."""

WRITTEN: Final = frozenset({"nodeSelector", "accelerator", "resourceName", "capacityType"})
"""The fields that the operator writes into the spec of its own GPUPools; it reads none of them."""


def ignored_values(nodes: Iterable[Node], raw: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each value of the nodes, and for each part of their objects, that is ignored."""
    for node in nodes:
        yield from (f"Node {node.name}: a value is ignored: {problem}" for problem in node.unread)
    for (_, name), item in raw.items():
        yield from (f"Node {name}: {part} is no table of keys and values; it is ignored" for part in _no_tables(item))


def ignored_specs(written: Set[str], raw: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each GPUPool of these names, which the operator wrote, that an admin changed: the change has no effect."""
    for (_, name), item in raw.items():
        added = sorted(table(item, "spec").keys() - WRITTEN)
        if added and name in written:
            fields = ", ".join(f"spec.{field}" for field in added)
            yield (
                f"GPUPool {name}: {fields}: the operator wrote this GPUPool from its nodes and does not read its spec; set "
                f"spec.nodeSelector and remove the label {Label.DISCOVERED} to make it yours, or create a GPUPool of your own"
            )


def _no_tables(node: Mapping[str, Any]) -> Iterator[str]:
    for path in TABLES:
        holder = node
        for part in path[:-1]:
            holder = table(holder, part)
        if holder.get(path[-1]) is not None and not isinstance(holder[path[-1]], dict):
            yield ".".join(path)
