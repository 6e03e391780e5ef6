"""How a ResourceClaim requests the devices of a group: a DeviceClass and, if it covers others too, selectors.

The selectors use attributes of the kind of device, so that a claim never gets another model or another partition of the same node.
CEL environment of selectors: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpujob.fleet.dra.resource_slices import DeviceClass, SliceDevice

DRIVERS_OWN: Final = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com")
"""The classes that come with the drivers; they rank before those of an admin."""

NAMING: Final = ("type", "productName", "profile", "partitionProfile", "computePartition", "memoryPartition")
"""Attributes that name a kind of device. Not deviceID, which AMD's driver v0.1 gives to a single device."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The request of a ResourceClaim: its API version, DeviceClass and CEL selectors."""

    version: str
    device_class: str
    selectors: tuple[str, ...] = ()
    resource: str = field(default="", compare=False, repr=False)
    """The extended resource that the DeviceClass stands for: quotas count such claims under its name too (KEP-5004)."""

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Every name under which quotas count the devices of such claims."""
        implicit = f"requests.deviceclass.resource.kubernetes.io/{self.device_class}"
        explicit = (f"requests.{self.resource}",) if self.resource else ()
        return (f"{self.device_class}.deviceclass.resource.k8s.io/devices", implicit, *explicit)

    def or_also(self, other: DeviceRequest) -> DeviceRequest | None:
        """A request for devices of either kind; None where one class does not cover both."""
        if self == other:
            return self
        if (self.version, self.device_class) != (other.version, other.device_class):
            return None
        either = " || ".join(f"({selector})" for selector in sorted({*self.selectors, *other.selectors}))
        return replace(self, selectors=(either,) if self.selectors and other.selectors else ())


def request_for(device: SliceDevice, classes: Iterable[DeviceClass], version: str) -> DeviceRequest | None:
    """The request for a device or one of its kind; None if no class is known to cover it."""
    covering = [one for one in classes if one.covers(device)]
    if not covering:
        return None
    chosen = min(covering, key=lambda one: (one.name not in DRIVERS_OWN, -len(one.terms or ()), one.name))
    said = [name for name in NAMING if device.attributes.get(name) and name not in dict(chosen.terms or ())]
    return DeviceRequest(version, chosen.name, (_selector(device, said),) if said else (), chosen.resource)


def of_all(requests: Sequence[DeviceRequest | None]) -> DeviceRequest | None:
    """One request for devices of several groups; None where there is none."""
    found: DeviceRequest | None = requests[0] if requests else None
    for each in requests[1:]:
        found = found.or_also(each) if found is not None and each is not None else None
    return found


def _selector(device: SliceDevice, names: Sequence[str]) -> str:
    """An expression that is true for devices with the same attributes; a device without them is no match instead of an error."""
    holder = f"device.attributes[{json.dumps(device.driver)}]"
    parts = (
        f"{json.dumps(name)} in {holder} && {holder}.{name} == {json.dumps(device.attributes[name])}" for name in names
    )
    return " && ".join(parts)
