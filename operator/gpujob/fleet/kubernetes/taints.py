"""Taints of GPU nodes that mean "only for GPU jobs"; those of temporary states are in `health.signals`."""

from __future__ import annotations

from typing import Final

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
"""Taint keys that mean "only for GPU jobs", "spot", or "only images for this CPU", which each image is checked for anyway (GKE's
arm64 nodes). Pods tolerate them if the chosen pool has them.
"""
