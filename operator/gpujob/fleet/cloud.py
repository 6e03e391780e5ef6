"""Where a node comes from and how it is paid for: cloud, instance type, region and capacity type from well-known labels.

Label forms and values: Karpenter, EKS, GKE and AKS documentation as of 2026-08 (docs/reference/labels.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpujob.fleet.objects import Labels, Node
from gpujob.untrusted import whole_number
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


def machine_device(labels: Labels) -> tuple[str, int | None]:
    """The cloud's own name for the machine's devices, empty where it says none, and their MiB by its figures."""
    for prefix in ("karpenter.k8s.aws", "eks.amazonaws.com"):
        name = labels.get(f"{prefix}/instance-gpu-name")
        if name:
            return name, whole_number(labels.get(f"{prefix}/instance-gpu-memory"))
    return labels.get("karpenter.azure.com/sku-gpu-name", "").lower(), None


def machine_maker(labels: Labels) -> str:
    """Who makes the machine's devices by the cloud's labels, in lower case; empty where it says nothing."""
    keys = ("karpenter.k8s.aws/instance-gpu", "eks.amazonaws.com/instance-gpu", "karpenter.azure.com/sku-gpu")
    return next((labels[f"{key}-manufacturer"].lower() for key in keys if f"{key}-manufacturer" in labels), "")


def origin_of(node: Node) -> Origin:
    """Where a node comes from, by its labels and provider id; on demand unless a label says otherwise."""
    return origin_of_labels(node.labels, node.provider)


def origin_of_labels(labels: Labels, provider: str = "") -> Origin:
    """Where a node with these labels comes from; a node pool's selector says as much of nodes that are not there yet."""
    return Origin(
        cloud=PROVIDERS.get(provider, provider),
        instance_type=_first(labels, "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
        region=_first(labels, "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
        capacity_type=_capacity_type(labels),
        cpu_architecture=_first(labels, "kubernetes.io/arch", "beta.kubernetes.io/arch") or "amd64",
    )


def _first(labels: Labels, *keys: str) -> str:
    """The first value that is said: old clusters know the beta keys only."""
    return next((labels[key] for key in keys if labels.get(key)), "")


def _capacity_type(labels: Labels) -> CapacityType:
    for key, meanings in _CAPACITY_LABELS:
        if labels.get(key) in meanings:
            return meanings[labels[key]]
    return CapacityType.ON_DEMAND
