"""The origin and capacity type of a node: cloud, instance type, region and capacity type from well-known labels.

Label forms and values: Karpenter, EKS, GKE and AKS documentation as of 2026-08.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gpujob.fleet.kubernetes.objects import Labels, Node, Selector, Taint
from gpujob.values.untrusted import whole_number
from gpujob.values.vocabulary import CapacityType

PROVIDERS: Final = {"aws": "aws", "azure": "azure", "gce": "gcp", "oci": "oci"}
"""Clouds by the scheme of a node's provider id, for schemes that differ from the name or are in the table of prices."""

LINUX: Final = "linux"

UNREPORTED: Final = ("", "")
"""The platform of a node whose kubelet reports none."""

_CAPACITY_LABELS: Final[tuple[tuple[str, dict[str, CapacityType]], ...]] = (
    (
        "karpenter.sh/capacity-type",
        {"spot": CapacityType.SPOT, "on-demand": CapacityType.ON_DEMAND, "reserved": CapacityType.RESERVED},
    ),
    (
        "eks.amazonaws.com/capacitytype",
        {"spot": CapacityType.SPOT, "on_demand": CapacityType.ON_DEMAND, "capacity_block": CapacityType.RESERVED},
    ),
    ("cloud.google.com/gke-spot", {"true": CapacityType.SPOT}),
    ("cloud.google.com/gke-preemptible", {"true": CapacityType.SPOT}),
    ("cloud.google.com/gke-provisioning", {"spot": CapacityType.SPOT, "preemptible": CapacityType.SPOT}),
    ("kubernetes.azure.com/priority", {"spot": CapacityType.SPOT}),
    ("kubernetes.azure.com/scalesetpriority", {"spot": CapacityType.SPOT}),
    ("oci.oraclecloud.com/oke-is-preemptible", {"true": CapacityType.SPOT, "present": CapacityType.SPOT}),
    ("nebius.com/preemptible", {"true": CapacityType.SPOT}),
    ("machine.openshift.io/interruptible-instance", {"": CapacityType.SPOT, "true": CapacityType.SPOT}),
    ("spotinst.io/node-lifecycle", {"spot": CapacityType.SPOT, "od": CapacityType.ON_DEMAND}),
    ("scheduling.cast.ai/spot", {"true": CapacityType.SPOT}),
    ("node.kubernetes.io/lifecycle", {"spot": CapacityType.SPOT, "preemptible": CapacityType.SPOT}),
    ("lifecycle", {"ec2spot": CapacityType.SPOT}),
)
"""Keys and values of labels and taints in lower case, because they are also written by hand. Sources besides the clouds' own
documentation: OpenShift's spot MachineSets (machine-api-operator), Spot Ocean, CAST AI. The last two are conventions of clusters
without a cloud's own (AWS node termination handler, kOps, EKS's first spot nodes).
"""

CAPACITY_KEYS: Final = tuple(key for key, _ in _CAPACITY_LABELS)
_MEANINGS: Final = dict(_CAPACITY_LABELS)

_INSTANCE_TYPES: Final = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.azure.com/sku-name",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Cloud, instance type, region and capacity type; empty if unknown."""

    cloud: str
    instance_type: str
    region: str
    capacity_type: CapacityType
    cpu_architecture: str
    """amd64 or arm64 on Linux, windows/amd64 elsewhere."""

    @property
    def runs_linux(self) -> bool:
        """Whether the hosts run the system that every image of a GPUJob is for."""
        return runs_linux(self.cpu_architecture)


def runs_linux(platform: str) -> bool:
    """Whether a platform (arm64, windows/amd64) is of Linux, as every image of a GPUJob."""
    return "/" not in platform


ACCELERATOR_LABELS: Final = ("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator")
"""Labels with GKE's names of devices; on AWS those of the cluster autoscaler."""


@dataclass(frozen=True, slots=True)
class Form:
    """One cloud's or autoscaler's labels for a machine's devices: model, bytes in MiB, number and vendor."""

    names: tuple[str, ...]
    memory: str = ""
    unit: int = 1
    """MiB of one unit in the memory label."""
    count: str = ""
    maker: str = ""
    made_by: str = ""
    """The vendor of all these devices, if no label has it."""


def _form(prefix: str) -> Form:
    return Form((f"{prefix}-name",), f"{prefix}-memory", count=f"{prefix}-count", maker=f"{prefix}-manufacturer")


FORMS: Final = (
    _form("karpenter.k8s.aws/instance-gpu"),
    _form("eks.amazonaws.com/instance-gpu"),
    _form("karpenter.azure.com/sku-gpu"),
    Form(("doks.digitalocean.com/gpu-model",), maker="doks.digitalocean.com/gpu-brand"),
    Form(
        ("gpu.nvidia.com/model", "gpu.nvidia.com/class"),
        "gpu.nvidia.com/vram",
        1024,
        "gpu.nvidia.com/count",
        made_by="nvidia",
    ),
    Form(("nebius.com/gpu-name",), made_by="nvidia"),
    Form(("aliyun.accelerator/nvidia_name",), count="aliyun.accelerator/nvidia_count", made_by="nvidia"),
    Form((), maker="kubernetes.azure.com/accelerator"),
    Form((), maker="accelerator"),
)
"""Karpenter on AWS, EKS Auto Mode, Karpenter on Azure, DigitalOcean, CoreWeave, Nebius, Alibaba Cloud, AKS (last: its old form)."""

MACHINE_LABELS: Final = tuple(
    key for form in FORMS for key in (*form.names, form.memory, form.count, form.maker) if key
)
"""Every label of a form."""

MACHINE_COUNTS: Final = (*filter(None, (form.count for form in FORMS)), "cloud.google.com/gke-accelerator-count")
"""Labels with the number of a machine's devices."""

MACHINE_SIZES: Final = tuple(form.memory for form in FORMS if form.memory)
"""Labels with the memory of a machine's device in the cloud's figures."""


def machine_device(labels: Labels) -> tuple[str, int | None, str]:
    """The cloud's own name for the machine's devices, empty if it has none; their MiB in its figures; the label."""
    for form in FORMS:
        key = next((key for key in form.names if labels.get(key)), None)
        if key:
            figure = whole_number(labels.get(form.memory))
            return labels[key], figure * form.unit if figure else None, key
    return "", None, ""


def machine_maker(labels: Labels) -> str:
    """The vendor of the machine's devices by the cloud's labels, in lower case; empty if unknown."""
    for form in FORMS:
        if labels.get(form.maker):
            return labels[form.maker].lower()
        if form.made_by and any(labels.get(key) for key in form.names):
            return form.made_by
    return ""


def origin_of(node: Node) -> Origin:
    """The origin of a node, from its labels, taints and provider id; on demand unless one of them says otherwise."""
    return from_taints(origin_of_labels(node.labels, node.provider, node.platform), node)


def from_taints(origin: Origin, node: Node) -> Origin:
    """The origin of a node with a Spot taint, whatever its labels are."""
    return replace(origin, capacity_type=CapacityType.SPOT) if any(map(is_of_spot, node.taints)) else origin


def is_of_spot(taint: Taint) -> bool:
    """Whether a taint keeps away all pods except those that accept Spot."""
    return _MEANINGS.get(taint.key.lower(), {}).get(taint.value.lower()) is CapacityType.SPOT


def origin_of_labels(labels: Labels, provider: str = "", platform: tuple[str, str] = UNREPORTED) -> Origin:
    """The origin of a node with these labels; a node pool's selector gives the same for future nodes. `platform` is what the
    kubelet reports (`Node.platform`), which counts where no label says it.
    """
    return Origin(
        cloud=PROVIDERS.get(provider, provider),
        instance_type=_first(labels, *_INSTANCE_TYPES) or _family_and_size(labels),
        region=_first(labels, "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
        capacity_type=_capacity_type(labels),
        cpu_architecture=_platform(labels, platform),
    )


def _platform(labels: Labels, reported: tuple[str, str]) -> str:
    """What images must be built for: the CPU architecture, with the system before it where that is not Linux (windows/amd64)."""
    system = _first(labels, "kubernetes.io/os", "beta.kubernetes.io/os") or reported[0] or LINUX
    architecture = _first(labels, "kubernetes.io/arch", "beta.kubernetes.io/arch") or reported[1] or "amd64"
    return architecture if system == LINUX else f"{system}/{architecture}"


def capacity_labels(labels: Labels) -> Labels:
    """The labels of a node that may say its capacity type."""
    return {key: value for key, value in labels.items() if key.lower() in _MEANINGS}


def terms_between(these: Collection[Labels], others: Collection[Labels]) -> Selector:
    """The selector terms that match the nodes with these `capacity_labels` and not the others, as far as terms can."""
    terms: list[tuple[str, str, tuple[str, ...]]] = []
    for key in sorted({key for labels in (*these, *others) for key in labels}):
        own, its = ({labels.get(key) for labels in some} for some in (these, others))
        if own.isdisjoint(its):
            # NotIn takes nodes without the label too.
            operator, values = ("NotIn", its) if None in own else ("In", own)
            terms.append((key, operator, tuple(sorted(value for value in values if value is not None))))
    return tuple(terms)


def _first(labels: Labels, *keys: str) -> str:
    """The first value that is present: old clusters have only the beta keys."""
    return next((labels[key] for key in keys if labels.get(key)), "")


def _family_and_size(labels: Labels) -> str:
    """AWS's instance type from its two halves, which node pools select by: p5 and 48xlarge."""
    for prefix in ("karpenter.k8s.aws/instance", "eks.amazonaws.com/instance"):
        family, size = labels.get(f"{prefix}-family"), labels.get(f"{prefix}-size")
        if family and size:
            return f"{family}.{size}"
    return ""


def _capacity_type(labels: Labels) -> CapacityType:
    said = {key.lower(): value.lower() for key, value in capacity_labels(labels).items()}
    found = (meanings.get(said[key]) for key, meanings in _CAPACITY_LABELS if key in said)
    return next(filter(None, found), CapacityType.ON_DEMAND)
