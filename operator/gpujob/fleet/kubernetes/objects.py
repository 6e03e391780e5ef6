"""Records of nodes and pods, and their parts; `parse` reads them from Kubernetes objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpujob.fleet.health.conditions import Condition
from gpujob.fleet.kubernetes.image_volumes import UNREPORTED, ImageMounts
from gpujob.values.vocabulary import GROUP, Vendor

Labels = Mapping[str, str]

DEVICE_PREFIXES: Final[Mapping[str, Vendor]] = {"nvidia.com/": Vendor.NVIDIA, "amd.com/": Vendor.AMD}
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
MOST_DEVICES: Final = 100_000
"""The most devices of a node that count: 8 GPUs in 2,048 time slices each are 16,384."""
HOST_DEVICES: Final = f"{GROUP}/host-devices"
"""The resource name for devices of a node whose device files pods mount; no node lists it."""
DEVICE_FILES: Final = ("/dev/kfd", "/dev/dri", "/dev/nvidia")
"""The path prefixes of GPU device files on a host."""
EXTENDED_STATUS: Final = "extendedResourceClaimStatus"
"""The field of a pod's status that names that claim (Kubernetes 1.34)."""

_NVIDIA_GPU: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,64}[._-])?gpu(?:[._-][A-Za-z0-9._-]{1,64})?")
"""Names of NVIDIA's whole or shared devices: gpu, gpu.shared, shared-gpu."""

Selector = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Node labels as terms that all hold: key, operator (In, NotIn, Exists, DoesNotExist), values."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Resources(NamedTuple):
    """CPU in millicores, memory and disk in bytes, pods as a count; disk None if the node does not report it. A decision creates
    one for each node that it reads.
    """

    millicores: int = 0
    memory: int = 0
    storage: int | None = 0
    pods: int = 0

    def __add__(self, other: Resources) -> Resources:  # type: ignore[override] # no longer tuple, but more of each
        return Resources(
            self.millicores + other.millicores,
            self.memory + other.memory,
            None if self.storage is None or other.storage is None else self.storage + other.storage,
            self.pods + other.pods,
        )

    def minus(self, other: Resources) -> Resources:
        """What is left; negative on an overcommitted node."""
        return Resources(
            self.millicores - other.millicores,
            self.memory - other.memory,
            None if self.storage is None else self.storage - (other.storage or 0),
            self.pods - other.pods,
        )

    def at_least(self, other: Resources) -> Resources:
        """The larger of each figure."""
        return Resources(
            max(self.millicores, other.millicores),
            max(self.memory, other.memory),
            max(self.storage or 0, other.storage or 0),
            max(self.pods, other.pods),
        )

    def covers(self, need: Resources) -> bool:
        """Whether each figure is sufficient."""
        return (
            self.millicores >= need.millicores
            and self.memory >= need.memory
            and self.pods >= need.pods
            and (not need.storage or (self.storage or 0) >= need.storage)
        )


@dataclass(frozen=True, slots=True)
class Node:
    """The facts of one node before its labels are interpreted."""

    name: str
    uid: str
    labels: Labels
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    leaving: bool = False
    provider: str = ""
    price: str | None = None
    allocatable: Resources = field(default_factory=Resources)
    devices: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    """Allocatable devices that are no GPUs, by resource."""
    image_mounts: ImageMounts = UNREPORTED
    handlers: frozenset[str] | None = None
    """Names of the handlers that RuntimeClasses can request; None if the node does not report them."""
    kernel: str = ""
    """The kernel's version reported by the kubelet; empty if unknown."""
    system: str = ""
    """The operating system's name and version reported by the kubelet; empty if unknown."""
    platform: tuple[str, str] = ("", "")
    """The kind of operating system and the CPU architecture reported by the kubelet (linux, amd64); empty if unknown."""
    created: str = ""
    """Its creation time (RFC 3339); empty if unknown."""
    pods_per_card: int = 0
    """The number of pods that another scheduler lets share each NVIDIA card, by its annotation; 0 if none says so."""
    split_as: str = ""
    """The resource with which another scheduler splits its NVIDIA cards; empty if it offers none."""
    conditions: tuple[Condition, ...] = ()
    """The conditions that report trouble; readiness is in `ready`."""
    suspicion: str = ""
    """Why jobs that failed there make it suspect (`health.node_failures`); empty if they do not."""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """The resources that a pod uses on its node; terminal pods use nothing."""

    namespace: str
    name: str
    uid: str
    node: str
    """Its node, or the one for which kube-scheduler has nominated it after a preemption; empty if there is neither."""
    job_uid: str
    terminal: bool
    needs: Resources
    devices: Mapping[str, int]
    attempt: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    """Devices that are no GPUs, by resource."""
    extended_claim: str = ""
    """The ResourceClaim that the scheduler created for the pod's resource names; empty if there is none."""
    volume_claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims that it names; those that are made for the pod alone are left out."""
    unread: tuple[str, ...] = ()


def vendor_of(resource: str) -> Vendor | None:
    """The vendor of a device plugin's resource name, None if it is no GPU."""
    prefix, _, name = resource.partition("/")
    vendor = DEVICE_PREFIXES.get(prefix + "/")
    if vendor is Vendor.NVIDIA:
        # Shared devices may be renamed (shared-gpu). Not gpumem or gpucores, with which some schedulers count parts of one.
        return vendor if name == "gpu" or name.startswith("mig-") or _NVIDIA_GPU.fullmatch(name) else None
    if vendor is Vendor.AMD:
        return vendor if name == "gpu" or "_nps" in name else None
    return None
