"""Which nodes can mount a PersistentVolumeClaim: those that its PersistentVolume's affinity and zone labels allow.

A claim that is not bound yet waits for its first pod and hinders nobody. The terms are Kubernetes' own: terms are
alternatives, the expressions of one hold together; zone labels of old volumes name several zones with __ between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.fleet.objects import Labels, Node
from gpujob.untrusted import one_line, table, tables, whole_number

ZONES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
                "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")  # fmt: skip
"""Labels of a PersistentVolume that a node must have too."""

OF_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes that let one node at a time mount a volume."""

Volumes = Mapping[str, Mapping[str, "Volume"]]
"""The claims of each namespace by name; a namespace of which no claim is described is not there."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim: the nodes that can mount it (None: any), what ties it, whether one node at a time can."""

    claim: str
    nodes: frozenset[str] | None = None
    tie: str = ""
    one_node: bool = False


def volumes_of(claims: Iterable[Any], volumes: Iterable[Any], nodes: Iterable[Node]) -> Volumes:
    """The claims of a cluster description, held against its PersistentVolumes and nodes."""
    by_name = {str(table(raw, "metadata").get("name")): raw for raw in volumes}
    nodes, found = tuple(nodes), defaultdict[str, dict[str, Volume]](dict)
    for raw in claims:
        metadata, spec = table(raw, "metadata"), table(raw, "spec")
        modes = spec.get("accessModes")
        one_node = (
            isinstance(modes, list)
            and bool(modes)
            and all(mode in OF_ONE_NODE for mode in modes if isinstance(mode, str))
        )
        name = str(metadata.get("name"))
        bound = by_name.get(str(spec.get("volumeName") or ""))
        allowed, tie = _nodes_for(bound, nodes) if bound else (None, "")
        found[str(metadata.get("namespace") or "default")][name] = Volume(name, allowed, tie, one_node)
    return found


def _nodes_for(raw: Mapping[str, Any], nodes: tuple[Node, ...]) -> tuple[frozenset[str] | None, str]:
    """The names of the nodes that a PersistentVolume allows, and what ties it in words; None where nothing does."""
    terms = tables(table(table(table(raw, "spec"), "nodeAffinity"), "required"), "nodeSelectorTerms")
    zones = {key: value.split("__") for key, value in table(table(raw, "metadata"), "labels").items()
             if key in ZONES and isinstance(value, str)}  # fmt: skip
    if not terms and not zones:
        return None, ""
    allowed = frozenset(
        node.name
        for node in nodes
        if all(node.labels.get(key) in values for key, values in zones.items())
        and (not terms or any(_matches(term, node) for term in terms))
    )
    rules = [rule for term in terms for rule in (*tables(term, "matchExpressions"), *tables(term, "matchFields"))]
    words = [" ".join(map(str, (rule.get("key"), rule.get("operator"), *_values(rule)))) for rule in rules]
    words += [f"{key} In {' '.join(values)}" for key, values in zones.items()]
    return allowed, one_line(", ".join(words)[:120])


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    """Whether a node meets one term; an empty one matches nothing, as Kubernetes says."""
    labels, fields = tables(term, "matchExpressions"), tables(term, "matchFields")
    if not labels and not fields:
        return False
    return all(_holds(rule, node.labels) for rule in labels) and all(
        _holds(rule, {"metadata.name": node.name}) for rule in fields
    )


def _holds(rule: Mapping[str, Any], labels: Labels) -> bool:
    value, values, operator = labels.get(str(rule.get("key"))), _values(rule), rule.get("operator")
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    if operator in ("Gt", "Lt") and len(values) == 1:
        mine, theirs = whole_number(value), whole_number(values[0])
        if mine is not None and theirs is not None:
            return mine > theirs if operator == "Gt" else mine < theirs
    return False


def _values(rule: Mapping[str, Any]) -> list[str]:
    values = rule.get("values")
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
