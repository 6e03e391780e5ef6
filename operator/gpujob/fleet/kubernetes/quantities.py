"""Amounts of resources in Kubernetes objects: unreadable ones are left out and reported, never used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import MOST_DEVICES, Resources, vendor_of
from gpujob.values import quantity
from gpujob.values.errors import BadQuantity
from gpujob.values.untrusted import one_line

USUAL_LENGTH: Final = 24
"""The most characters of a quantity that is cached."""


def read_resources(amounts: Mapping[str, Any], unread: list[str]) -> Resources:
    return Resources(
        millicores=read_amount(amounts, "cpu", quantity.parse_millicores, unread) or 0,
        memory=read_amount(amounts, "memory", quantity.parse_bytes, unread) or 0,
        storage=read_amount(amounts, "ephemeral-storage", quantity.parse_bytes, unread),
        pods=read_amount(amounts, "pods", quantity.parse_count, unread) or 0,
    )


def read_node_resources(amounts: Mapping[str, Any], unread: list[str]) -> Resources:
    """The amounts of a node; an impossible one counts as zero, so that no pod goes there for it."""
    found = read_resources(amounts, unread)
    for key, attribute, most in _BELIEVED:
        if (getattr(found, attribute) or 0) > most:
            unread.append(f"{key}: {as_written(amounts[key])} is more than any node has; it counts as none")
            found = found._replace(**{attribute: 0})
    return found


_BELIEVED: Final = (
    ("cpu", "millicores", quantity.MOST_CORES * 1000),
    ("memory", "memory", quantity.MOST_MEMORY),
    ("ephemeral-storage", "storage", 2**56),
    ("pods", "pods", 65_536),
)
"""The largest credible amounts of one node, of disk 64 PiB, and as many pods as a /16 network has addresses; far above any machine."""


def read_devices(amounts: Mapping[str, Any], unread: list[str]) -> dict[str, int]:
    found = {}
    for resource in amounts:
        # Most are cpu and memory.
        if isinstance(resource, str) and "/" in resource and vendor_of(resource) is not None:
            count = read_amount(amounts, resource, quantity.parse_count, unread)
            if count is not None and count > MOST_DEVICES:
                unread.append(f"{resource}: more than {MOST_DEVICES} devices on one node are not believed")
            elif count is not None:
                found[resource] = count
    return found


def read_node_devices(amounts: Mapping[str, Any], unread: list[str]) -> dict[str, int]:
    """The devices of a node; an unreadable or impossible number counts as 0, because a device plugin offers them all the same."""
    found = read_devices(amounts, unread)
    offered = [name for name in amounts if isinstance(name, str) and "/" in name and vendor_of(name) is not None]
    return {name: found.get(name, 0) for name in offered if amounts[name] is not None}


def read_others(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Devices that are no GPUs: only those of an admin's fabric are ever requested, so unreadable ones count as none."""
    found = {}
    for resource in amounts:
        if isinstance(resource, str) and "/" in resource and vendor_of(resource) is None:
            count = read_amount(amounts, resource, quantity.parse_count, [])
            if count:
                found[resource] = count
    return found


def read_amount(amounts: Mapping[str, Any], key: str, parse: Any, unread: list[str]) -> int | None:
    value = amounts.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, str) and len(value) <= USUAL_LENGTH:
            return _parsed(parse, value)
        # 8.0 in YAML is a whole number of devices too.
        return int(parse(value if isinstance(value, (str, int)) else as_written(value)))
    except BadQuantity as error:
        unread.append(f"{key}: {error}")
        return None


def as_written(value: Any) -> str:
    """An amount for messages, bounded: a number of YAML as people write it (9e99, 8)."""
    text = repr(value).replace("e+", "e").removesuffix(".0") if isinstance(value, float) else str(value)
    return one_line(text[:USUAL_LENGTH])


@lru_cache(maxsize=4096)  # 10 µs against 0.1: 127,000 calls when 10,000 nodes with their pods are read, 1.3 of 10 s
def _parsed(parse: Callable[[str], int], text: str) -> int:
    """A quantity; nodes and pods repeat a few."""
    return int(parse(text))
