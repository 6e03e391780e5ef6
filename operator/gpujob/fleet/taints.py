"""Taints of GPU nodes: those that mean "only for GPU jobs", and those that tell a passing state."""

from __future__ import annotations

from typing import Final

from gpujob.fleet.objects import Taint

TOLERATED_KEYS: Final = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "cloud.google.com/gke-spot",
        "kubernetes.azure.com/scalesetpriority",
        "kubernetes.io/arch",
        "sku",
    }
)
"""Taint keys that mean "only for GPU jobs", "spot", or "only images for this CPU", which is asked of each image anyway (GKE's
arm64 nodes): tolerated where they are found on the chosen pool."""

PASSING_KEYS: Final = frozenset(
    {
        "amd-gpu-unhealthy",
        "amd-dcm",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        "cloud.google.com/impending-node-termination",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
    }
)
"""Taint keys that come and go with the node's state: the node is not ready while one is there, and never tolerated."""


PASSING_STARTS: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    *(f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("startup", "status", "ignore")),
)
"""What such keys begin with; the last are those that the cluster autoscaler takes for passing too (its FAQ, 1.34)."""

PASSING_END: Final = "/agent-not-ready"
"""How keys end with which agents keep pods away until they run: of Cilium, of AWS's CSI drivers."""


def is_passing(taint: Taint) -> bool:
    """Whether a taint tells a state of the node that will pass."""
    return taint.key in PASSING_KEYS or taint.key.startswith(PASSING_STARTS) or taint.key.endswith(PASSING_END)
