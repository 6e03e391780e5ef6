"""Where a node comes from and how it is paid for: cloud, instance type, region and capacity type from well-known labels.

Label forms and values: Karpenter, EKS, GKE and AKS documentation as of 2026-08 (docs/reference/labels.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpujob.fleet.objects import Labels, Node
from gpujob.vocabulary import CapacityType

PROVIDERS: Final = {"aws": "aws", "azure": "azure", "gce": "gcp", "oci": "oci"}

_CAPACITY_LABELS: Final[tuple[tuple[str, dict[str, CapacityType]], ...]] = (
    (
        "karpenter.sh/capacity-type",
        {"spot": CapacityType.SPOT, "on-demand": CapacityType.ON_DEMAND, "reserved": CapacityType.RESERVED},
    ),
    ("eks.amazonaws.com/capacityType", {"SPOT": CapacityType.SPOT, "ON_DEMAND": CapacityType.ON_DEMAND}),
    ("cloud.google.com/gke-spot", {"true": CapacityType.SPOT}),
    ("cloud.google.com/gke-preemptible", {"true": CapacityType.SPOT}),
    ("cloud.google.com/gke-provisioning", {"spot": CapacityType.SPOT, "preemptible": CapacityType.SPOT}),
    ("kubernetes.azure.com/priority", {"spot": CapacityType.SPOT}),
    ("kubernetes.azure.com/scalesetpriority", {"spot": CapacityType.SPOT}),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Cloud, instance type, region and capacity type; empty strings where nothing is said."""

    cloud: str
    instance_type: str
    region: str
    capacity_type: CapacityType
    cpu_architecture: str


def origin_of(node: Node) -> Origin:
    """Where a node comes from, by its labels and provider id; on demand unless a label says otherwise."""
    labels = node.labels
    return Origin(
        cloud=PROVIDERS.get(node.provider, node.provider),
        instance_type=labels.get("node.kubernetes.io/instance-type", ""),
        region=labels.get("topology.kubernetes.io/region", ""),
        capacity_type=_capacity_type(labels),
        cpu_architecture=labels.get("kubernetes.io/arch") or labels.get("beta.kubernetes.io/arch") or "amd64",
    )


def _capacity_type(labels: Labels) -> CapacityType:
    for key, meanings in _CAPACITY_LABELS:
        if labels.get(key) in meanings:
            return meanings[labels[key]]
    return CapacityType.ON_DEMAND
