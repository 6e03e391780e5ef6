"""Labels of nodes and namespaces by which other objects select them."""

from __future__ import annotations

from collections.abc import Iterable

from gpujob.fleet.kubernetes.namespaces import read_selection
from gpujob.fleet.storage.volume_ties import Tie, read_tie, read_topologies
from gpujob.values.untrusted import Table, table, tables


def selected_labels(item: Table) -> Iterable[str]:
    """Label keys that a GPUPool, a PersistentVolume, a StorageClass or a Namespace selects nodes by."""
    if item["kind"] == "GPUPool":
        yield from _selected_by_pool(item)
    elif item["kind"] == "PersistentVolume":
        yield from _keys(read_tie(item))
    elif item["kind"] == "StorageClass":
        yield from _keys(read_topologies(item))
    elif item["kind"] == "Namespace" and (selection := read_selection(item)):
        yield from dict(selection.labels)


def _keys(tie: Tie) -> Iterable[str]:
    return (expression.key for term in tie.terms for expression in term)


def _selected_by_pool(pool: Table) -> Iterable[str]:
    selector = table(table(pool, "spec"), "nodeSelector")
    yield from table(selector, "matchLabels")
    yield from table(table(table(pool, "spec"), "namespaceSelector"), "matchLabels")
    yield str(table(table(pool, "spec"), "fabric").get("topologyKey"))
    yield from (str(rule.get("key")) for rule in tables(selector, "matchExpressions"))
