"""Slim, checked records of nodes and pods, read once from what the API server sent.

Everything in a Node or Pod is hostile input: a figure that cannot be read is left out and said, never believed and
never raised, so that one malformed object does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpujob import quantity
from gpujob.errors import BadQuantity
from gpujob.untrusted import table, tables, whole_number
from gpujob.vocabulary import Annotation, Label, Vendor

Labels = Mapping[str, str]

DEVICE_PREFIXES: Final[Mapping[str, Vendor]] = {"nvidia.com/": Vendor.NVIDIA, "amd.com/": Vendor.AMD}
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
USUAL_PODS: Final = 110
"""What a kubelet allows on its node unless it is told otherwise."""
MOST_DEVICES: Final = 10_000
"""Devices of a node that are believed."""


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
    unread += [f"label {str(key)[:63]} is no text" for key, value in labels.items() if not isinstance(value, str)]
    return Node(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        labels={key: value for key, value in labels.items() if isinstance(key, str) and isinstance(value, str)},
        taints=tuple(_taints(spec)),
        ready=_is_ready(status),
        cordoned=spec.get("unschedulable") is True,
        leaving=bool(metadata.get("deletionTimestamp")),
        provider=str(spec.get("providerID") or "").partition(":")[0][:32],
        price=_text(table(metadata, "annotations").get(Annotation.PRICE_PER_GPU_HOUR)),
        allocatable=_resources(allocatable, unread),
        devices=_devices(allocatable, unread),
        capacity=_devices(table(status, "capacity"), unread),
        unread=tuple(unread),
    )


def read_pod(raw: Mapping[str, Any]) -> Pod:
    """The slim record of a Pod object; never raises for what is inside."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    needs, devices = _effective_requests(spec)
    return Pod(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        node=str(spec.get("nodeName") or ""),
        job_uid=str(table(metadata, "labels").get(Label.JOB_UID, "")),
        terminal=str(status.get("phase")) in TERMINAL_PHASES,
        needs=needs,
        devices=devices,
        attempt=whole_number(table(metadata, "labels").get(Label.ATTEMPT)) or 0,
    )


def _effective_requests(spec: Mapping[str, Any]) -> tuple[Resources, Mapping[str, int]]:
    """What kube-scheduler counts: the containers' sum or the largest init step, sidecars running on, plus overhead.

    What the pod as a whole asks (spec.resources) stands in for the sum. Source: k8s.io/component-helpers
    resource.PodRequests.
    """
    running, devices = Resources(pods=1), dict[str, int]()
    for container in tables(spec, "containers"):
        running, devices = running + _requests(container)[0], _sum(devices, _requests(container)[1])
    sidecars, sidecar_devices = Resources(), dict[str, int]()
    peak, peak_devices = Resources(), dict[str, int]()
    for container in tables(spec, "initContainers"):
        needs, own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars, sidecar_devices = sidecars + needs, _sum(sidecar_devices, own)
            needs, own = Resources(), {}
        peak = peak.at_least(sidecars + needs)
        peak_devices = _largest(peak_devices, _sum(sidecar_devices, own))
    overhead = _resources(table(spec, "overhead"), [])
    total = _as_the_pod_asks(spec, (running + sidecars).at_least(peak))
    total += Resources(overhead.millicores, overhead.memory, overhead.storage or 0)
    return total, _largest(_sum(devices, sidecar_devices), peak_devices)


def _as_the_pod_asks(spec: Mapping[str, Any], of_containers: Resources) -> Resources:
    """The containers' needs, with CPU and memory of the pod's own request where it has one."""
    resources = table(spec, "resources")
    own = _resources({**table(resources, "limits"), **table(resources, "requests")}, [])
    return replace(
        of_containers,
        millicores=own.millicores or of_containers.millicores,
        memory=own.memory or of_containers.memory,
    )


def _requests(container: Mapping[str, Any]) -> tuple[Resources, Mapping[str, int]]:
    resources = table(container, "resources")
    wanted = {**table(resources, "limits"), **table(resources, "requests")}
    amounts = _resources(wanted, [])
    return Resources(amounts.millicores, amounts.memory, amounts.storage or 0), _devices(wanted, [])


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
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
        if isinstance(resource, str) and vendor_of(resource) is not None:
            count = _amount(amounts, resource, quantity.parse_count, unread)
            if count is not None and count > MOST_DEVICES:
                unread.append(f"{resource}: more than {MOST_DEVICES} devices on one node are not believed")
            elif count is not None:
                found[resource] = count
    return found


def _amount(amounts: Mapping[str, Any], key: str, parse: Any, unread: list[str]) -> int | None:
    value = amounts.get(key)
    if value is None:
        return None
    try:
        return int(parse(value if isinstance(value, (str, int)) else "?"))
    except BadQuantity as error:
        unread.append(f"{key}: {error}")
        return None


def _taints(spec: Mapping[str, Any]) -> Iterable[Taint]:
    for taint in tables(spec, "taints"):
        if isinstance(taint.get("key"), str) and isinstance(taint.get("effect"), str):
            yield Taint(taint["key"], str(taint.get("value") or ""), taint["effect"])


def _is_ready(status: Mapping[str, Any]) -> bool:
    """Ready is True; a node that reports no conditions at all is taken as ready (written by hand or by a capture)."""
    conditions = tables(status, "conditions")
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready") if conditions else True


def _text(value: Any) -> str | None:
    return value[:64] if isinstance(value, str) else None
