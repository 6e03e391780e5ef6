"""The objects of DRA drivers: devices of ResourceSlices, allocations of ResourceClaims, DeviceClasses.

`inventory` combines them. Everything is hostile input: a member of the wrong type reads as absent. API: resource.k8s.io v1beta1,
v1beta2 and v1, which differ in the location of a device's attributes and capacity
(https://kubernetes.io/docs/reference/kubernetes-api/ workload resources, ResourceSlice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpujob.fleet.dra.device_taints import taint_of
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import parse_bytes, parse_count
from gpujob.values.untrusted import Table, table, tables

KINDS: Final = ("ResourceSlice", "ResourceClaim", "DeviceClass", "DeviceTaintRule")
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of the claim that the scheduler creates for a pod that requests an extended resource in its limits."""

MOST: Final = 10_000
"""The most devices of one slice that are read."""

GPU_DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com")
"""The DRA drivers whose devices are GPUs."""

_TERM: Final = re.compile(
    r"""\s*device\.(?:(driver)|attributes\[(?:"[^"]{1,128}"|'[^']{1,128}')\]\.([A-Za-z0-9_]{1,64}))"""
    r"""\s*==\s*(?:"([^"]{0,128})"|'([^']{0,128})')\s*"""
)

Key = tuple[str, str, str]
"""A device: driver, pool, name."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """One device that a DRA driver offers on a node."""

    key: Key
    node: str
    attributes: Mapping[str, str] = field(hash=False)
    """Without the driver's domain; numbers and versions as text."""
    memory: int | None = None
    healthy: bool = True
    counters: tuple[tuple[str, str, int], ...] = ()
    """What it consumes of counters that it shares with other devices of one card: set, counter, amount."""
    taint: str = ""
    """The taint that keeps pods away; such a device is not healthy."""
    shared: bool = False
    """Whether several claims can have it at a time (consumable capacity), each with a part of its memory."""
    part: int | None = None
    """Bytes of its memory for a claim without a request, if it is shared."""

    @property
    def driver(self) -> str:
        """The driver that offers it."""
        return self.key[0]

    @property
    def type(self) -> str:
        """The driver's name for its kind: gpu, mig, amdgpu, amdgpu-partition."""
        return self.attributes.get("type", "")


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice: a part of what a driver offers in one of its pools."""

    driver: str
    pool: str
    generation: int
    of: int
    """The number of the pool's slices in this generation; if some are missing, the free devices are unknown."""
    version: str
    """The API version that it was read in, for example resource.k8s.io/v1."""
    devices: tuple[SliceDevice, ...] = ()
    limits: tuple[tuple[tuple[str, str], int], ...] = ()
    """Amounts of shared counters, by set and counter."""
    unread: str = ""
    """What cannot be read, as a message; nothing is placed on such devices."""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A ResourceClaim: the devices allocated to it and the pods for which it is reserved."""

    devices: tuple[Key, ...] = ()
    pods: tuple[str, ...] = ()
    """Their uids."""
    extended: bool = False
    """Whether it stands for resources that its pod requests by name, so that it is counted with the pod."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: the devices that it covers and the resource name for pods, if it has one."""

    name: str
    resource: str = ""
    terms: tuple[tuple[str, str], ...] | None = None
    """Attributes (and `driver`) with their required values; None if the covered devices are unknown."""

    def covers(self, device: SliceDevice) -> bool:
        """Whether a device is known to be of this class."""
        if not self.terms:
            return False
        return all((device.driver if name == "driver" else device.attributes.get(name)) == v for name, v in self.terms)


def read_slice(raw: Table) -> Slice:
    """The record of a ResourceSlice object; one without driver or pool offers nothing."""
    spec = table(raw, "spec")
    pool = table(spec, "pool")
    devices = tuple(_devices(spec))
    return Slice(
        driver=str(spec.get("driver")),
        pool=str(pool.get("name")),
        generation=_count(pool.get("generation")) or 0,
        of=_count(pool.get("resourceSliceCount")) or 1,
        version=str(raw.get("apiVersion", ""))[:64],
        devices=devices,
        limits=tuple(_limits(spec)),
        unread=_unread(spec, len(devices)),
    )


def read_claim(raw: Table) -> ResourceClaim:
    """The record of a ResourceClaim object; an admin-access allocation uses no device up."""
    metadata, status = table(raw, "metadata"), table(raw, "status")
    results = tables(table(table(status, "allocation"), "devices"), "results")
    held = tuple(
        (str(result.get("driver")), str(result.get("pool")), str(result.get("device")))
        for result in results[:MOST]
        if result.get("adminAccess") is not True
    )
    extended = table(metadata, "annotations").get(EXTENDED_CLAIM) == "true"
    owners = [*tables(status, "reservedFor"), *(tables(metadata, "ownerReferences") if extended else ())]
    pods = dict.fromkeys(str(owner.get("uid")) for owner in owners if owner.get("uid"))
    return ResourceClaim(held, tuple(pods) if held else (), extended and bool(held))


def read_class(raw: Table) -> DeviceClass:
    """The record of a DeviceClass object; it covers what plain comparisons in its selectors say."""
    spec, terms = table(raw, "spec"), []
    name, resource = str(table(raw, "metadata").get("name"))[:253], spec.get("extendedResourceName")
    resource = resource[:253] if isinstance(resource, str) else ""
    for selector in tables(spec, "selectors"):
        for part in str(table(selector, "cel").get("expression") or "").split("&&"):
            term = _TERM.fullmatch(part)
            if term is None:
                return DeviceClass(name, resource)
            terms.append((term[1] or term[2], term[3] if term[3] is not None else term[4]))
    return DeviceClass(name, resource, tuple(terms))


def _devices(spec: Table) -> Iterator[SliceDevice]:
    driver, pool = spec.get("driver"), table(spec, "pool").get("name")
    if not isinstance(driver, str) or not isinstance(pool, str):
        return
    for raw in tables(spec, "devices")[:MOST]:
        body = _body(raw)
        name, node = raw.get("name"), body.get("nodeName") or spec.get("nodeName")
        if not isinstance(name, str) or not isinstance(node, str):
            continue
        taint = taint_of(body)
        yield SliceDevice(
            (driver, pool, name), node, _attributes(body, driver), _memory(body, driver), not taint,
            tuple(_counters(body)), taint, *_sharing(body, driver),
        )  # fmt: skip


def _unread(spec: Table, read: int) -> str:
    """The error of a slice whose devices are not all readable. Devices of several nodes are an error of GPUs' drivers alone."""
    named = isinstance(spec.get("driver"), str) and isinstance(table(spec, "pool").get("name"), str)
    if not named:
        return "it names no driver or no pool"
    listed = spec.get("devices")
    there = len(listed) if isinstance(listed, list) else 0
    if listed and not isinstance(listed, list):
        return "its devices are no list"
    missed = there - read
    if missed <= 0:
        return ""
    if several := _nodes_named(spec) or next(
        filter(None, map(_nodes_named, map(_body, tables(spec, "devices")[:MOST]))), ""
    ):
        sentence = f"{missed} of its {there} devices are for several nodes ({several}), which is not read; nothing is placed on them"
        return sentence if spec["driver"] in GPU_DRIVERS else ""
    return f"{missed} of its {there} devices have no name or no node, or are beyond the first {MOST}"


def _body(raw: Table) -> Table:
    """The part of a device that identifies it; v1beta1 has it one table deeper."""
    return table(raw, "basic") or raw


def _nodes_named(holder: Table) -> str:
    """The field by which a slice or a device of one is offered to several nodes; empty if none is."""
    return "allNodes" if holder.get("allNodes") is True else "nodeSelector" if holder.get("nodeSelector") else ""


def _attributes(body: Table, driver: str) -> dict[str, str]:
    """Attributes by their plain names, each value as text."""
    found = {}
    for key, value in table(body, "attributes").items():
        plain = str(key).removeprefix(f"{driver}/")
        scalars = value.values() if isinstance(value, dict) else ()
        scalar = next((one for one in scalars if isinstance(one, (str, int))), None)
        if scalar is not None:
            found[plain] = str(scalar).lower() if isinstance(scalar, bool) else str(scalar)[:128]
    return found


def _memory(body: Table, driver: str) -> int | None:
    capacity = table(body, "capacity")
    value = capacity.get("memory", capacity.get(f"{driver}/memory"))
    return _amount(value.get("value") if isinstance(value, dict) else value, parse_bytes)


def _sharing(body: Table, driver: str) -> tuple[bool, int | None]:
    """Whether several claims can share a device's memory, and the part of a claim without a request.

    If a device's capacity counts its partitions, each claim gets one of these, which is no sharing (AMD's AutoPartition).
    """
    capacity = table(body, "capacity")
    if body.get("allowMultipleAllocations") is not True or {"partitions", f"{driver}/partitions"} & capacity.keys():
        return False, None
    memory = table(capacity, "memory") or table(capacity, f"{driver}/memory")
    return True, _amount(table(memory, "requestPolicy").get("default"), parse_bytes)


def _counters(body: Table) -> Iterator[tuple[str, str, int]]:
    for consumed in tables(body, "consumesCounters"):
        for name, value in table(consumed, "counters").items():
            amount = _amount(value.get("value") if isinstance(value, dict) else value, parse_bytes)
            if amount:
                yield str(consumed.get("counterSet")), str(name), amount


def _limits(spec: Table) -> Iterator[tuple[tuple[str, str], int]]:
    for shared in tables(spec, "sharedCounters"):
        for name, value in table(shared, "counters").items():
            amount = _amount(value.get("value") if isinstance(value, dict) else value, parse_bytes)
            yield (str(shared.get("name")), str(name)), amount or 0


def _amount(value: Any, parse: Any) -> int | None:
    try:
        return int(parse(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    except BadQuantity:
        return None


def _count(value: Any) -> int | None:
    return _amount(value, parse_count)
