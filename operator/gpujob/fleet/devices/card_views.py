"""Devices of a ResourceSlice that are views of one card without shared counters: the whole card, its slices, a vfio device.

A driver that announces both leaves the choice to the scheduler, which may allocate a card in MIG mode as a whole: the claim
then gives no usable GPU (kubernetes-sigs/dra-driver-nvidia-gpu issue 719, 2025-11). Where both consume counters of one set, the
scheduler itself keeps them apart (`common_cards`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from gpujob.fleet.dra.resource_slices import SliceDevice

OWN: Final = ("uuid", "pcieBusID", "pciBusID", "pciAddr", "resource.kubernetes.io/pciBusID")
"""Attributes that identify a card; a slice and a vfio device have the bus id of their card too."""

PARENT: Final = ("parentUUID", "parentPciAddr", "parentPCIBusID")
"""Attributes by which a slice names its card."""

PARTS: Final = frozenset({"mig", "amdgpu-partition"})
WHOLE: Final = frozenset({"gpu", "amdgpu"})


def without_cut_cards(devices: Sequence[SliceDevice]) -> list[SliceDevice]:
    """A node's devices without whole cards that are sliced, if the driver announces slices of them and no shared counter separates
    the two.
    """
    parts = [device for device in devices if device.type in PARTS]
    if not parts:
        return list(devices)
    return [
        device for device in devices if device.type not in WHOLE or not any(_is_part_of(part, device) for part in parts)
    ]


def is_taken_otherwise(device: SliceDevice, held: Collection[SliceDevice]) -> bool:
    """Whether a claim has the device's card in another view: for a virtual machine (vfio), or whole where the device is a slice."""
    return any(
        other.key != device.key and (_is_one_card(device, other) or _is_slice_of(device, other)) for other in held
    )


def takes_from(other: SliceDevice, device: SliceDevice) -> bool:
    """Whether an allocation of `other` leaves less of `device`: it is the same one, or another view of its card."""
    same_pool = other.key[:2] == device.key[:2]
    return (
        other.key == device.key
        or (same_pool and _has_common_counters(other, device))
        or is_taken_otherwise(device, (other,))
    )


def _is_slice_of(device: SliceDevice, other: SliceDevice) -> bool:
    return device.type in PARTS and other.type not in PARTS and _is_part_of(device, other)


def _is_part_of(part: SliceDevice, whole: SliceDevice) -> bool:
    if _has_common_counters(part, whole):
        return False
    parents = _named(part, PARENT)
    return bool((parents or _named(part, OWN)) & _named(whole, OWN))


def _is_one_card(one: SliceDevice, other: SliceDevice) -> bool:
    """Whether two devices are views of one whole card; slices of one card are not."""
    if one.type in PARTS or other.type in PARTS or _has_common_counters(one, other):
        return False
    return bool(_named(one, OWN) & _named(other, OWN))


def _has_common_counters(one: SliceDevice, other: SliceDevice) -> bool:
    return bool({name for name, _, _ in one.counters} & {name for name, _, _ in other.counters})


def _named(device: SliceDevice, attributes: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The values of attributes, each with its driver."""
    found = (device.attributes.get(attribute, "") for attribute in attributes)
    return frozenset((device.driver, value.lower()) for value in found if value)
