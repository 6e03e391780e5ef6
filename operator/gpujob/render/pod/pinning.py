"""The nodes of the pods: those of the decision, one each; kube-scheduler only binds them."""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.pod import host_devices


def affinity(attempt: Attempt) -> Manifest:
    """One term for each node, and for a gang never two pods on one.

    Terms are alternatives, and `metadata.name` takes exactly one value in each. A selector of the pool would not work: the
    scheduler would spread small jobs over nodes that a gang needs, and put two pods of a gang on one node. Only for new nodes
    there is nothing else.
    """
    architecture = {"key": "kubernetes.io/arch", "operator": "In", "values": [attempt.pool.host_architecture]}
    terms = [
        {
            "matchExpressions": [architecture],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }
        for node in filter(None, attempt.choice.nodes)
    ] or [{"matchExpressions": [architecture, *_any_of_the_pool(attempt)], **_not_on(attempt)}]
    rules: Manifest = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    mine = {"labelSelector": {"matchLabels": attempt.selector}}
    apart = [{"topologyKey": "kubernetes.io/hostname", **mine}] if attempt.gang else []
    apart += host_devices.apart(attempt)
    if apart:
        rules["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": apart}
    if attempt.fabric is not None and attempt.fabric.topology_key:
        together = {"topologyKey": attempt.fabric.topology_key, **mine}
        rules["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [together]}
    return rules


def _any_of_the_pool(attempt: Attempt) -> list[Manifest]:
    """The pool's selector: an autoscaler sees what kind of node the waiting pod needs."""
    return [
        {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        for key, operator, values in attempt.pool.selector
    ]


def _not_on(attempt: Attempt) -> Manifest:
    """The nodes that the job leaves out. A requirement of `metadata.name` has exactly one value."""
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in attempt.choice.not_on]
    return {"matchFields": fields} if fields else {}


def tolerations(attempt: Attempt) -> list[Manifest]:
    """The taints of the chosen nodes that placement found tolerable: well-known keys and the admin's."""
    found = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in attempt.choice.tolerations]
    if not attempt.choice.candidate.provision:
        return found
    more = (each for each in _of_new_nodes(attempt) if each not in found)
    return [*found, *more]


def _of_new_nodes(attempt: Attempt) -> Iterator[Manifest]:
    """The possible taints of new nodes: the device's key, and those that the admin tolerates."""
    yield {"key": attempt.pool.vendor.resource, "operator": "Exists", "effect": "NoSchedule"}
    for key, value, effect in attempt.pool.tolerated:
        entry: Manifest = {
            "key": key,
            "operator": "Exists" if value is None else "Equal",
            "value": value,
            "effect": effect,
        }
        yield {name: part for name, part in entry.items() if part is not None}
