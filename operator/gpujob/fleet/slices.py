"""What DRA drivers publish: devices of ResourceSlices, those that ResourceClaims hold, names that DeviceClasses give.

Everything is hostile: what is not of the wanted type reads as absent. API: resource.k8s.io v1beta1, v1beta2 and v1, which
differ in where a device's attributes and capacity are (https://kubernetes.io/docs/reference/kubernetes-api/ workload
resources, ResourceSlice).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpujob.errors import BadQuantity
from gpujob.quantity import parse_bytes, parse_count
from gpujob.untrusted import Table, table, tables

KINDS: Final = ("ResourceSlice", "ResourceClaim", "DeviceClass")
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of the claim that the scheduler makes for a pod that asks for an extended resource in its limits."""

KEEPING_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
MOST: Final = 10_000
"""Devices of one slice that are read."""

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
    attributes: Mapping[str, str]
    """Without the driver's domain; numbers and versions as text."""
    memory: int | None = None
    healthy: bool = True
    counters: tuple[tuple[str, str, int], ...] = ()
    """What it takes of counters that it shares with other devices of one card: set, counter, amount."""

    @property
    def driver(self) -> str:
        """The driver that offers it."""
        return self.key[0]


@dataclass(frozen=True, slots=True)
class NamedClass:
    """A DeviceClass that pods can ask for by a resource name in their limits."""

    name: str
    resource: str
    terms: tuple[tuple[str, str], ...]
    """Attributes (and `driver`) with the value that each must have."""

    def covers(self, device: SliceDevice) -> bool:
        """Whether a device is of this class."""
        return all((device.driver if name == "driver" else device.attributes.get(name)) == v for name, v in self.terms)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices of DRA drivers by node, who holds them, and the classes with a resource name."""

    devices: Mapping[str, tuple[SliceDevice, ...]] = field(default_factory=dict)
    held: Mapping[Key, str | None] = field(default_factory=dict)
    """Devices in allocated claims; the uid of the pod where the claim stands for its extended resource."""
    classes: tuple[NamedClass, ...] = ()
    any_class: bool = False
    """Whether there is any DeviceClass at all, so that a missing name is known to be missing."""
    limits: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    """Amounts of shared counters: driver, pool, set, counter."""


def read_inventory(objects: Iterable[Table]) -> Inventory:
    """The inventory that these objects make; those of other kinds are passed over, nothing raises."""
    of_kind: dict[str, list[Table]] = defaultdict(list)
    for item in objects:
        of_kind[str(item.get("kind"))].append(item)
    current = list(_current(of_kind["ResourceSlice"]))
    devices: dict[str, dict[Key, SliceDevice]] = defaultdict(dict)
    limits: dict[tuple[str, str, str, str], int] = {}
    for spec, complete in current:
        for device in _devices(spec, complete=complete):
            devices[device.node].setdefault(device.key, device)
        limits.update(_limits(spec))
    held = {key: pod for claim in of_kind["ResourceClaim"] for key, pod in _held(claim)}
    classes = sorted(filter(None, map(_class, of_kind["DeviceClass"])), key=lambda one: one.name)
    by_node = {node: tuple(found[key] for key in sorted(found)) for node, found in devices.items()}
    return Inventory(by_node, held, tuple(classes), bool(of_kind["DeviceClass"]), limits)


def _current(slices: Iterable[Table]) -> Iterator[tuple[Table, bool]]:
    """The slices of each pool's newest generation, and whether all of them are there; older ones no longer count."""
    pools: dict[tuple[str, str], dict[int, list[Table]]] = defaultdict(lambda: defaultdict(list))
    for item in sorted(slices, key=lambda one: str(table(one, "metadata").get("name"))):
        spec = table(item, "spec")
        pool = table(spec, "pool")
        pools[str(spec.get("driver")), str(pool.get("name"))][_count(pool.get("generation")) or 0].append(spec)
    for generations in pools.values():
        newest = generations[max(generations)]
        wanted = max(_count(table(spec, "pool").get("resourceSliceCount")) or 1 for spec in newest)
        yield from ((spec, len(newest) >= wanted) for spec in newest)


def _devices(spec: Table, *, complete: bool) -> Iterator[SliceDevice]:
    driver, pool = spec.get("driver"), table(spec, "pool").get("name")
    if not isinstance(driver, str) or not isinstance(pool, str):
        return
    for raw in tables(spec, "devices")[:MOST]:
        body = table(raw, "basic") or raw
        name, node = raw.get("name"), body.get("nodeName") or spec.get("nodeName")
        if not isinstance(name, str) or not isinstance(node, str):
            continue
        sick = any(taint.get("effect") in KEEPING_AWAY for taint in tables(body, "taints"))
        yield SliceDevice(
            (driver, pool, name), node, _attributes(body, driver), _memory(body, driver), complete and not sick,
            tuple(_counters(body)),
        )  # fmt: skip


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


def _counters(body: Table) -> Iterator[tuple[str, str, int]]:
    for consumed in tables(body, "consumesCounters"):
        for name, value in table(consumed, "counters").items():
            amount = _amount(value.get("value") if isinstance(value, dict) else value, parse_bytes)
            if amount:
                yield str(consumed.get("counterSet")), str(name), amount


def _limits(spec: Table) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    driver, pool = str(spec.get("driver")), str(table(spec, "pool").get("name"))
    for shared in tables(spec, "sharedCounters"):
        for name, value in table(shared, "counters").items():
            amount = _amount(value.get("value") if isinstance(value, dict) else value, parse_bytes)
            yield (driver, pool, str(shared.get("name")), str(name)), amount or 0


def _held(claim: Table) -> Iterator[tuple[Key, str | None]]:
    """The devices of an allocated claim; those for an administrator's eyes are taken from nobody."""
    metadata, status = table(claim, "metadata"), table(claim, "status")
    extended = table(metadata, "annotations").get(EXTENDED_CLAIM) == "true"
    owners = [*tables(status, "reservedFor"), *tables(metadata, "ownerReferences")]
    pod = next((str(owner.get("uid")) for owner in owners if owner.get("uid")), None) if extended else None
    for result in tables(table(table(status, "allocation"), "devices"), "results"):
        if result.get("adminAccess") is not True:
            yield (str(result.get("driver")), str(result.get("pool")), str(result.get("device"))), pod


def _class(raw: Table) -> NamedClass | None:
    """A class with a resource name whose selectors are plain comparisons; None where nobody can say what it covers."""
    spec, terms = table(raw, "spec"), []
    resource = spec.get("extendedResourceName")
    if not isinstance(resource, str) or not resource:
        return None
    for selector in tables(spec, "selectors"):
        for part in str(table(selector, "cel").get("expression") or "").split("&&"):
            term = _TERM.fullmatch(part)
            if term is None:
                return None
            terms.append((term[1] or term[2], term[3] if term[3] is not None else term[4]))
    name = str(table(raw, "metadata").get("name"))
    return NamedClass(name, resource[:253], tuple(terms)) if terms else None


def _amount(value: Any, parse: Any) -> int | None:
    try:
        return int(parse(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    except BadQuantity:
        return None


def _count(value: Any) -> int | None:
    return _amount(value, parse_count)
