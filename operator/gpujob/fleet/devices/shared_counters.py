"""Cards with several kinds of devices of a DRA driver at once: a device of one kind is missing from the others.

Such devices consume counters that they share
(https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/, partitionable devices). A whole card and
each of its slices are free at the same time until one of them is used: allocations of claims are in the counters, reservations
must be counted here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.devices.shared_cards import Silicon
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.dra.resource_slices import SliceDevice

Offered = tuple[DeviceGroup, Sequence[SliceDevice]]
"""Devices of one kind on a node, as a group and in the driver's terms."""

_Card = tuple[str, str, str]
"""Driver, pool and the set of counters that stands for one card."""

_NOTHING: Final = Fraction(0)

_NUMBER: Final = re.compile(r"[0-9]+")


def on_common_cards(offered: Sequence[Offered], inventory: Inventory) -> list[DeviceGroup]:
    """The groups of one vendor on a node, each with what its cards are shared with."""
    parts = {group.resource: _part(devices, inventory) for group, devices in offered}
    shares = tuple((name, (part.numerator, part.denominator)) for name, part in parts.items() if part)
    if len(shares) < 2:
        return [group for group, _ in offered]
    cards = {card for _, devices in offered for device in devices for card in _taken(device, inventory)}
    left = sum((1 - _held(card, offered, inventory) for card in cards), _NOTHING)
    silicon = Silicon(max(_NOTHING, left), shares)
    return [replace(group, silicon=silicon) if parts[group.resource] else group for group, _ in offered]


def _part(devices: Sequence[SliceDevice], inventory: Inventory) -> Fraction:
    """The fraction of a card that a device of a kind uses; 0 if one of them uses no counters, or those of several cards."""
    taken = [_taken(device, inventory) for device in devices]
    if any(len(cards) != 1 for cards in taken):
        return _NOTHING
    return max(part for cards in taken for part in cards.values())


def _taken(device: SliceDevice, inventory: Inventory) -> dict[_Card, Fraction]:
    """The fraction of each card whose counters a device consumes: the largest one over its kinds of counters.

    Counters whose names differ only in a number are one kind: a slice that fills memory-slice-0 of eight uses an eighth.
    """
    driver, pool, _ = device.key
    kinds = _kinds(inventory.limits((driver, pool)))
    taken: dict[tuple[str, str], int] = defaultdict(int)
    for name, counter, amount in device.counters:
        taken[name, _kind(counter)] += amount
    found = dict[_Card, Fraction]()
    for (name, kind), amount in taken.items():
        limit, card = kinds.get((name, kind), 0), (driver, pool, name)
        if limit > 0:
            found[card] = max(found.get(card, _NOTHING), Fraction(amount, limit))
    return found


def _kinds(limits: Mapping[tuple[str, str], int]) -> Mapping[tuple[str, str], int]:
    """The amounts of counters by set and kind."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for (name, counter), limit in limits.items():
        found[name, _kind(counter)] += limit
    return found


def _kind(counter: str) -> str:
    """A counter's name without its numbers."""
    return _NUMBER.sub("#", counter)


def _held(card: _Card, offered: Sequence[Offered], inventory: Inventory) -> Fraction:
    """The fraction of a card that claims use. A claim for a resource's name is counted with its pod."""
    held = _NOTHING
    for _, devices in offered:
        for device in devices:
            holders = tuple(inventory.holders(device))
            if holders and not all(claim.extended and claim.pods for claim in holders):
                held += _taken(device, inventory).get(card, _NOTHING)
    return min(held, Fraction(1))
