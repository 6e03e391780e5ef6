"""Where the pods run: on the nodes that the decision names, one each; kube-scheduler only binds them."""

from __future__ import annotations

from gpujob.render.attempt import Attempt, Manifest


def affinity(attempt: Attempt) -> Manifest:
    """One term for each node, and for a gang never two pods on one.

    Terms are alternatives, and `metadata.name` takes exactly one value in each. A selector of the pool would not do:
    the scheduler then spreads small jobs over nodes that a gang needs, and puts two pods of a gang on one node.
    """
    architecture = {"key": "kubernetes.io/arch", "operator": "In", "values": [attempt.pool.cpu_architecture]}
    terms = [
        {
            "matchExpressions": [architecture],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }
        for node in attempt.choice.nodes
    ]
    rules: Manifest = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    if attempt.gang:
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": attempt.selector}}
        rules["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return rules


def tolerations(attempt: Attempt) -> list[Manifest]:
    """The taints of the chosen nodes that placement found tolerable: well-known keys and the admin's."""
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in attempt.choice.tolerations]
