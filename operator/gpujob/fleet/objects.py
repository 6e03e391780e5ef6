"""Slim, checked records of nodes and pods, read once from what the API server sent.

Everything in a Node or Pod is hostile input: a figure that cannot be read is left out and said, never believed and
never raised, so that one malformed object does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from gpujob import quantity
from gpujob.errors import BadQuantity
from gpujob.fleet.handlers import read_handlers
from gpujob.fleet.image_mounts import UNTOLD, ImageMounts, image_mounts
from gpujob.untrusted import one_line, table, tables, whole_number
from gpujob.vocabulary import GROUP, Annotation, Label, Vendor

Labels = Mapping[str, str]

DEVICE_PREFIXES: Final[Mapping[str, Vendor]] = {"nvidia.com/": Vendor.NVIDIA, "amd.com/": Vendor.AMD}
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
USUAL_PODS: Final = 110
"""What a kubelet allows on its node unless it is told otherwise."""
MOST_DEVICES: Final = 10_000
"""Devices of a node that are believed."""
HOST_DEVICES: Final = f"{GROUP}/host-devices"
"""What stands for the devices of a node whose device files pods mount; no node lists it."""
DEVICE_FILES: Final = ("/dev/kfd", "/dev/dri", "/dev/nvidia")
"""How the paths of device files of GPUs begin on a host."""
EXTENDED_STATUS: Final = "extendedResourceClaimStatus"
"""Where a pod's status names that claim (Kubernetes 1.34)."""
USUAL_LENGTH: Final = 24
"""Letters of a quantity that is remembered once it is read."""


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


@dataclass(frozen=True, slots=True)
class Resources:
    """CPU in millicores, memory and disk in bytes, pods as a count; disk None where the node does not report it."""

    millicores: int = 0
    memory: int = 0
    storage: int | None = 0
    pods: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.millicores + other.millicores,
            self.memory + other.memory,
            None if self.storage is None or other.storage is None else self.storage + other.storage,
            self.pods + other.pods,
        )

    def minus(self, other: Resources) -> Resources:
        """What is left; may be below zero where nodes are overcommitted."""
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
        """Whether each figure is enough."""
        return (
            self.millicores >= need.millicores
            and self.memory >= need.memory
            and self.pods >= need.pods
            and (not need.storage or (self.storage or 0) >= need.storage)
        )


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of one node before its labels are understood."""

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
    image_mounts: ImageMounts = UNTOLD
    handlers: frozenset[str] | None = None
    """Names of the handlers that RuntimeClasses can ask for; None where the node does not say."""
    created: str = ""
    """When it was created (RFC 3339); empty where nobody says."""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod takes from its node; terminal pods take nothing."""

    namespace: str
    name: str
    uid: str
    node: str
    job_uid: str
    terminal: bool
    needs: Resources
    devices: Mapping[str, int]
    attempt: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    """Devices that are no GPUs, by resource."""
    extended_claim: str = ""
    """The ResourceClaim that the scheduler made for what the pod asks by the names of resources; empty where none."""
    unread: tuple[str, ...] = ()


def vendor_of(resource: str) -> Vendor | None:
    """The vendor of a device plugin's resource name, None for what is no GPU."""
    prefix, _, name = resource.partition("/")
    vendor = DEVICE_PREFIXES.get(prefix + "/")
    if vendor is Vendor.NVIDIA:
        # Not gpumem or gpucores, with which some schedulers count parts of a device.
        return vendor if name == "gpu" or name.startswith(("gpu.", "gpu-", "mig-")) else None
    if vendor is Vendor.AMD:
        return vendor if name == "gpu" or "_nps" in name else None
    return None


def read_node(raw: Mapping[str, Any]) -> Node:
    """The slim record of a Node object; never raises for what is inside."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    unread: list[str] = []
    # As the API server does, capacity stands for an allocatable that is not there, and the kubelet's 110 for pods.
    allocatable = table(status, "allocatable" if "allocatable" in status else "capacity")
    allocatable = {"pods": USUAL_PODS, **allocatable}
    labels = table(metadata, "labels")
    annotations = table(metadata, "annotations")
    price = _text(annotations.get(Annotation.PRICE_PER_GPU_HOUR), f"annotation {Annotation.PRICE_PER_GPU_HOUR}", unread)
    return Node(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        labels=_labels(labels, unread),
        taints=tuple(_taints(spec, unread)),
        ready=_is_ready(status),
        cordoned=_is_cordoned(spec, unread),
        leaving=bool(metadata.get("deletionTimestamp")),
        provider=str(spec.get("providerID") or "").partition(":")[0][:32],
        price=price,
        allocatable=_resources(allocatable, unread),
        devices=_devices(allocatable, unread),
        capacity=_devices(table(status, "capacity"), unread),
        others=_others(allocatable),
        image_mounts=image_mounts(status),
        handlers=read_handlers(status, unread),
        created=str(metadata.get("creationTimestamp") or "")[:32],
        unread=tuple(unread),
    )


def read_pod(raw: Mapping[str, Any]) -> Pod:
    """The slim record of a Pod object; never raises for what is inside."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    unread: list[str] = []
    needs, counted = _effective_requests(spec, unread)
    labels = table(metadata, "labels")
    devices = {resource: count for resource, count in counted.items() if vendor_of(resource)}
    others = {resource: count for resource, count in counted.items() if resource not in devices}
    if _mounts_device_files(metadata, spec):
        devices[HOST_DEVICES] = MOST_DEVICES
    return Pod(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        node=str(spec.get("nodeName") or ""),
        job_uid=str(labels.get(Label.JOB_UID, "")),
        terminal=str(status.get("phase")) in TERMINAL_PHASES,
        needs=needs,
        devices=devices,
        attempt=whole_number(labels.get(Label.ATTEMPT)) or 0,
        others=others,
        extended_claim=str(table(status, EXTENDED_STATUS).get("resourceClaimName") or "")[:253]
        if EXTENDED_STATUS in status
        else "",
        unread=tuple(dict.fromkeys(unread)) if unread else (),
    )


def _effective_requests(spec: Mapping[str, Any], unread: list[str]) -> tuple[Resources, Mapping[str, int]]:
    """What kube-scheduler counts: the containers' sum or the largest init step, sidecars running on, plus overhead.

    What the pod as a whole asks (spec.resources) stands in for the sum. Source: k8s.io/component-helpers
    resource.PodRequests.
    """
    running, devices = Resources(pods=1), dict[str, int]()
    for container in tables(spec, "containers"):
        needs, own = _requests(container, unread)
        running, devices = running + needs, _sum(devices, own)
    if "initContainers" in spec:
        running, devices = _with_init_steps(spec, unread, running, devices)
    if "resources" in spec:
        running = _as_the_pod_asks(spec, unread, running)
    if "overhead" in spec:
        overhead = _resources(table(spec, "overhead"), unread)
        running += Resources(overhead.millicores, overhead.memory, overhead.storage or 0)
    return running, devices


def _with_init_steps(
    spec: Mapping[str, Any], unread: list[str], running: Resources, devices: dict[str, int]
) -> tuple[Resources, dict[str, int]]:
    """What the containers take with the sidecars among the init containers, or the largest init step."""
    sidecars, sidecar_devices = Resources(), dict[str, int]()
    peak, peak_devices = Resources(), dict[str, int]()
    for container in tables(spec, "initContainers"):
        needs, own = _requests(container, unread)
        if container.get("restartPolicy") == "Always":
            sidecars, sidecar_devices = sidecars + needs, _sum(sidecar_devices, own)
            needs, own = Resources(), {}
        peak = peak.at_least(sidecars + needs)
        peak_devices = _largest(peak_devices, _sum(sidecar_devices, own))
    return (running + sidecars).at_least(peak), _largest(_sum(devices, sidecar_devices), peak_devices)


def _as_the_pod_asks(spec: Mapping[str, Any], unread: list[str], of_containers: Resources) -> Resources:
    """The containers' needs, with CPU and memory of the pod's own request where it has one."""
    resources = table(spec, "resources")
    own = _resources({**table(resources, "limits"), **table(resources, "requests")}, unread)
    return replace(
        of_containers,
        millicores=own.millicores or of_containers.millicores,
        memory=own.memory or of_containers.memory,
    )


def _requests(container: Mapping[str, Any], unread: list[str]) -> tuple[Resources, dict[str, int]]:
    resources = table(container, "resources")
    wanted = {**table(resources, "limits"), **table(resources, "requests")}
    needs = Resources(
        millicores=_amount(wanted, "cpu", quantity.parse_millicores, unread) or 0,
        memory=_amount(wanted, "memory", quantity.parse_bytes, unread) or 0,
        storage=_amount(wanted, "ephemeral-storage", quantity.parse_bytes, unread) or 0,
    )
    devices = _devices(wanted, unread)
    others = _others(wanted)
    return needs, {**devices, **others} if others else devices


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    if not one or not other:
        return one or other
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {**one, **other}}


def _resources(amounts: Mapping[str, Any], unread: list[str]) -> Resources:
    return Resources(
        millicores=_amount(amounts, "cpu", quantity.parse_millicores, unread) or 0,
        memory=_amount(amounts, "memory", quantity.parse_bytes, unread) or 0,
        storage=_amount(amounts, "ephemeral-storage", quantity.parse_bytes, unread),
        pods=_amount(amounts, "pods", quantity.parse_count, unread) or 0,
    )


def _devices(amounts: Mapping[str, Any], unread: list[str]) -> dict[str, int]:
    found = {}
    for resource in amounts:
        # Most are cpu and memory.
        if isinstance(resource, str) and "/" in resource and vendor_of(resource) is not None:
            count = _amount(amounts, resource, quantity.parse_count, unread)
            if count is not None and count > MOST_DEVICES:
                unread.append(f"{resource}: more than {MOST_DEVICES} devices on one node are not believed")
            elif count is not None:
                found[resource] = count
    return found


def _others(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Devices that are no GPUs: only what an admin's fabric names is ever asked for, so the unreadable is none."""
    found = {}
    for resource in amounts:
        if isinstance(resource, str) and "/" in resource and vendor_of(resource) is None:
            count = _amount(amounts, resource, quantity.parse_count, [])
            if count:
                found[resource] = count
    return found


def _mounts_device_files(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Whether a pod works on the host's device files; the agents of a DaemonSet only look."""
    paths = (str(table(volume, "hostPath").get("path", "")) for volume in tables(spec, "volumes"))
    if not any(path.startswith(DEVICE_FILES) for path in paths):
        return False
    return not any(owner.get("kind") == "DaemonSet" for owner in tables(metadata, "ownerReferences"))


def _amount(amounts: Mapping[str, Any], key: str, parse: Any, unread: list[str]) -> int | None:
    value = amounts.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, str) and len(value) <= USUAL_LENGTH:
            return _parsed(parse, value)
        # A whole number of devices is one also where somebody wrote 8.0.
        whole = isinstance(value, float) and value.is_integer()
        return int(
            parse(int(value) if whole else value if isinstance(value, (str, int)) else one_line(str(value)[:24]))
        )
    except BadQuantity as error:
        unread.append(f"{key}: {error}")
        return None


@lru_cache(maxsize=4096)
def _parsed(parse: Callable[[str], int], text: str) -> int:
    """A quantity that was read before: 10,000 nodes and their pods say the same few."""
    return int(parse(text))


def _labels(labels: Mapping[Any, Any], unread: list[str]) -> Labels:
    """Labels as texts: a whole number, true and false that somebody wrote without quotes are what they look like."""
    found = {}
    for key, value in labels.items():
        if isinstance(value, int) and value.bit_length() < 64:
            value = str(value).lower()
        if isinstance(key, str) and isinstance(value, str):
            found[key] = value
        elif value is not None:
            unread.append(f"label {one_line(str(key)[:63])} is no text; put it in quotes")
    return found


def _taints(spec: Mapping[str, Any], unread: list[str]) -> Iterable[Taint]:
    for taint in tables(spec, "taints"):
        if isinstance(taint.get("key"), str) and isinstance(taint.get("effect"), str):
            yield Taint(taint["key"], str(taint.get("value") or ""), taint["effect"])
        else:
            unread.append("a taint has no key or no effect")


def _is_ready(status: Mapping[str, Any]) -> bool:
    """Ready is True; a node that reports no conditions at all is taken as ready (written by hand or by a capture)."""
    conditions = tables(status, "conditions")
    ready = [condition.get("status") for condition in conditions if condition.get("type") == "Ready"]
    return not conditions or (bool(ready) and all(state in ("True", True) for state in ready))


def _is_cordoned(spec: Mapping[str, Any], unread: list[str]) -> bool:
    """Whether the node takes no new pods; what cannot be read is no promise that it does."""
    word = spec.get("unschedulable")
    said = {"true": True, "false": False, "none": False}.get(str(word).lower())
    if said is None:
        unread.append("spec.unschedulable is neither true nor false; the node is taken as cordoned")
    return said is not False


def _text(value: Any, what: str, unread: list[str]) -> str | None:
    """A text, or the number that somebody wrote without quotes; None for anything else, which is told."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is not None and not isinstance(value, str):
        unread.append(f"{what} is no text; put it in quotes")
    return value[:64] if isinstance(value, str) else None
