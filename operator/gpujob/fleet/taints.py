"""Taints of GPU nodes: those that mean "only for GPU jobs", and those that tell a passing state."""

from __future__ import annotations

from typing import Final

from gpujob.fleet.objects import Taint

TOLERATED_KEYS: Final = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority", "sku"}
)
"""Taint keys that mean "only for GPU jobs" or "spot": tolerated where they are found on the chosen pool."""


PASSING_KEYS: Final = frozenset(
    {
        "amd-gpu-unhealthy",
        "amd-dcm",
        "karpenter.sh/disrupted",
        "karpenter.sh/unregistered",
        "cloud.google.com/impending-node-termination",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
    }
)
"""Taint keys that come and go with the node's state: the node is not ready while one is there, and never tolerated."""


def is_passing(taint: Taint) -> bool:
    """Whether a taint tells a state of the node that will pass."""
    prefixes = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
    return taint.key in PASSING_KEYS or taint.key.startswith(prefixes)
