"""The devices of DRA drivers on each node and their allocation, updated object by object: a claim affects one node.

The operator applies its watch events, a cluster description everything at once. Only the newest generation of a driver's slices
counts in each pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from gpujob.fleet.dra.device_taints import TaintRule, read_rule
from gpujob.fleet.dra.resource_slices import (
    DeviceClass,
    Key,
    ResourceClaim,
    Slice,
    SliceDevice,
    read_claim,
    read_class,
    read_slice,
)
from gpujob.fleet.kubernetes.objects import Pod
from gpujob.values.untrusted import Table, table

PoolKey = tuple[str, str]
"""A driver and the name of one of its pools."""


class Inventory:
    """All devices of DRA drivers by node, their claims, and the DeviceClasses."""

    def __init__(self) -> None:
        self._slices: dict[Hashable, Slice] = {}
        self._of_pool: dict[PoolKey, dict[Hashable, Slice]] = defaultdict(dict)
        self._current: dict[PoolKey, dict[str, tuple[SliceDevice, ...]]] = {}
        self._limits: dict[PoolKey, Mapping[tuple[str, str], int]] = {}
        self._pools_on: dict[str, set[PoolKey]] = defaultdict(set)
        self._claims: dict[Hashable, ResourceClaim] = {}
        self._holders: dict[Key, dict[Hashable, ResourceClaim]] = defaultdict(dict)
        self._classes: dict[Hashable, DeviceClass] = {}
        self._rules: dict[Hashable, TaintRule] = {}
        self._as_read: dict[Hashable, ResourceClaim] = {}
        self._named: dict[Hashable, dict[Hashable, str]] = defaultdict(dict)
        self._claim_of: dict[Hashable, Hashable] = {}
        self._touched: set[str] = set()
        self._recounted: set[str] = set()
        self.classes: tuple[DeviceClass, ...] = ()
        """Every DeviceClass, sorted by name."""
        self.of_pod: dict[str, int] = defaultdict(int)
        """Devices that claims allocate to a pod, by its uid; without those that it requests by a resource's name."""

    # What changes

    def put_slice(self, key: Hashable, found: Slice | None) -> None:
        """Applies a ResourceSlice, new or changed; None if it is deleted."""
        before = self._slices.pop(key, None)
        if before is not None:
            self._of_pool[before.driver, before.pool].pop(key, None)
        if found is not None:
            self._slices[key] = found
            self._of_pool[found.driver, found.pool][key] = found
        for pool in {(one.driver, one.pool) for one in (before, found) if one is not None}:
            self._settle(pool)

    def put_claim(self, key: Hashable, found: ResourceClaim | None) -> None:
        """Applies a ResourceClaim, new or changed; None if it is deleted."""
        if found is None:
            self._as_read.pop(key, None)
        else:
            self._as_read[key] = found
        self._hold(key, self._as_named(key, found))

    def put_pod(self, key: Hashable, pod: Pod | None) -> None:
        """Applies a pod, new or changed; None if it is deleted. Its status may name the claim for a resource's name."""
        before = self._claim_of.pop(key, None)
        after = (pod.namespace, pod.extended_claim) if pod is not None and pod.extended_claim else None
        if before is not None:
            del self._named[before][key]
        if pod is not None and after is not None:
            self._claim_of[key], self._named[after][key] = after, pod.uid
        if before is not None and not self._named[before]:
            del self._named[before]
        for claim in {before, after} - {None}:
            if claim in self._as_read:
                self._hold(claim, self._as_named(claim, self._as_read[claim]))

    def _as_named(self, key: Hashable, claim: ResourceClaim | None) -> ResourceClaim | None:
        """A claim that a pod's status names is counted with that pod, whatever its own annotation says."""
        if claim is None or key not in self._named or claim.extended or not claim.devices:
            return claim
        return replace(claim, extended=True, pods=claim.pods or (min(self._named[key].values()),))

    def _hold(self, key: Hashable, found: ResourceClaim | None) -> None:
        before = self._claims.pop(key, None)
        if before is not None:
            self._count(before, -1)
            for device in before.devices:
                self._holders[device].pop(key, None)
                if not self._holders[device]:
                    del self._holders[device]
        if found is not None and found.devices:
            self._claims[key] = found
            self._count(found, 1)
            for device in found.devices:
                self._holders[device][key] = found
        for claim in (before, found):
            for driver, pool, _ in claim.devices if claim else ():
                self._touched |= self._current.get((driver, pool), {}).keys()

    def put_class(self, key: Hashable, found: DeviceClass | None) -> None:
        """Applies a DeviceClass, new or changed; None if it is deleted."""
        self._classes.pop(key, None)
        if found is not None:
            self._classes[key] = found
        self.classes = tuple(sorted(self._classes.values(), key=lambda one: one.name))
        self._touched |= self._pools_on.keys()

    def put_rule(self, key: Hashable, found: TaintRule | None) -> None:
        """Applies a DeviceTaintRule, new or changed; None if it is deleted or keeps no pods away."""
        before = self._rules.pop(key, None)
        if found is not None:
            self._rules[key] = found
        if found != before:
            self._touched |= self._pools_on.keys()

    def take_touched(self) -> set[str]:
        """The nodes whose devices, or their allocation, changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def take_recounted(self) -> set[str]:
        """The uids of the pods whose number of allocated devices changed since the last call."""
        recounted, self._recounted = self._recounted, set()
        return recounted

    def _count(self, claim: ResourceClaim, sign: int) -> None:
        for pod in () if claim.extended else claim.pods:
            self._recounted.add(pod)
            self.of_pod[pod] += sign * len(claim.devices)
            if not self.of_pod[pod]:
                del self.of_pod[pod]

    def _settle(self, pool: PoolKey) -> None:
        """Rebuilds a pool from the slices of its newest generation; if it is incomplete, nothing of it can be allocated."""
        before = self._current.pop(pool, {})
        for node in before:
            self._pools_on[node].discard(pool)
            if not self._pools_on[node]:
                del self._pools_on[node]
        slices = self._of_pool[pool]
        newest = max((one.generation for one in slices.values()), default=0)
        parts = [one for _, one in sorted(slices.items(), key=_by_key) if one.generation == newest]
        complete = len(parts) >= max((one.of for one in parts), default=0)
        found: dict[str, dict[Key, SliceDevice]] = defaultdict(dict)
        for device in (device for one in parts for device in one.devices):
            found[device.node].setdefault(device.key, device if complete else replace(device, healthy=False))
        current = {node: tuple(devices[key] for key in sorted(devices)) for node, devices in found.items()}
        self._limits[pool] = {name: amount for one in parts for name, amount in one.limits}
        if parts:
            self._current[pool] = current
        else:
            del self._of_pool[pool], self._limits[pool]
        for node in current:
            self._pools_on[node].add(pool)
        self._touched |= before.keys() | current.keys()

    # What there is

    def devices(self, node: str) -> tuple[SliceDevice, ...]:
        """The devices of a node, sorted by driver, pool and name."""
        pools = sorted(self._pools_on.get(node, ()))
        found = (device for pool in pools for device in self._current[pool][node])
        return tuple(map(self._ruled, found)) if self._rules else tuple(found)

    def _ruled(self, device: SliceDevice) -> SliceDevice:
        """A device with the taint that a rule gives it."""
        taints = sorted(rule.taint for rule in self._rules.values() if rule.matches(device.key))
        return replace(device, healthy=False, taint=device.taint or taints[0]) if taints else device

    def holders(self, device: SliceDevice) -> Iterable[ResourceClaim]:
        """The claims to which a device is allocated."""
        return self._holders[device.key].values() if device.key in self._holders else ()

    def limits(self, pool: PoolKey) -> Mapping[tuple[str, str], int]:
        """Amounts of the counters that devices of a pool share, by set and counter."""
        return self._limits.get(pool, {})

    def version(self, device: SliceDevice) -> str:
        """The API version in which a device's slice was read."""
        slices = self._of_pool.get(device.key[:2], {}).values()
        return next((one.version for one in slices if one.version), NEWEST)


NEWEST: Final = "resource.k8s.io/v1"


def _by_key(entry: tuple[Hashable, Slice]) -> str:
    return str(entry[0])


def read_inventory(objects: Iterable[Table], pods: Iterable[Pod] = ()) -> Inventory:
    """The inventory of these objects, with the claims that pods name; other kinds are skipped, nothing raises."""
    inventory = Inventory()
    for pod in pods:
        if pod.extended_claim:
            inventory.put_pod((pod.namespace, pod.name), pod)
    for item in objects:
        kind, metadata = item.get("kind"), table(item, "metadata")
        key = (str(metadata.get("namespace", "")), str(metadata.get("name")))
        if kind == "ResourceSlice":
            inventory.put_slice(key, read_slice(item))
        elif kind == "ResourceClaim":
            inventory.put_claim(key, read_claim(item))
        elif kind == "DeviceClass":
            inventory.put_class(key, read_class(item))
        elif kind == "DeviceTaintRule":
            inventory.put_rule(key, read_rule(item))
    return inventory
