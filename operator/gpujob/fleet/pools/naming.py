"""Which devices are interchangeable, and the names of the pools that they make."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final, Protocol

from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.labels.maintenance import is_passing
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import exact_dollars, parse_dollars
from gpujob.values.vocabulary import CapacityType

_TYPES: Final = frozenset(kind.value.lower() for kind in CapacityType)
"""The suffixes of discovered pools' names."""
_HASHED: Final = re.compile(rf"(.+-(?:{'|'.join(kind.lower() for kind in CapacityType)}))-[0-9a-f]{{6,64}}")

SHORTEST: Final = 6
"""Digits of a hash that is unique."""
FULL: Final = 64
"""Digits of a whole hash."""


class Named(Protocol):
    """A pool, with a name and aliases."""

    @property
    def name(self) -> str: ...
    @property
    def also(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of a discovered pool: the displayed one, and every alias."""

    name: str
    also: tuple[str, ...]


def identity_of(group: DeviceGroup) -> tuple[object, ...]:
    """The key of interchangeable devices; nodes that differ in one of these are different pools."""
    facts, origin = group.facts, group.origin
    taints = tuple(sorted(str(taint) for taint in group.node.taints if not is_passing(taint)))
    problem = "" if facts.problem is None else facts.problem.reason.value
    accelerator = facts.accelerator.id if facts.accelerator else ""
    instance = (origin.cloud, origin.instance_type, origin.region, origin.capacity_type, origin.cpu_architecture)
    # Absent from the identity of other pools, whose names contain its hash.
    asked = (group.request,) if group.by_claim else ()
    device = (facts.vendor, accelerator, group.resource, *facts.portion.division, facts.memory or 0, facts.driver or "")
    return (*device, problem, *instance, taints, _price_of(group.node), *asked)


def _price_of(node: Node) -> str:
    """The price of a node's annotation in one spelling; empty if there is none that can be read."""
    if node.price is None:
        return ""
    try:
        return exact_dollars(parse_dollars(node.price))
    except BadQuantity:
        return ""


def names_of(
    identities: Mapping[tuple[object, ...], list[DeviceGroup]], taken: set[str]
) -> dict[tuple[object, ...], Naming]:
    """The name of each discovered pool: accelerator-part-instancetype-capacity, with a short hash if that is not unique.

    A node that joins or leaves can add or remove the hash. So that a job's placement.pools keeps its meaning, a pool always
    accepts both forms: the plain one means all pools of that plain name (an admin's pool of that name has it alone), the one with
    the hash this pool only. It accepts its stems too: `mi300x` means all pools of whole MI300X devices.
    """
    plain = {key: _plain_name_of(groups[0]) for key, groups in identities.items()}
    often: dict[str, int] = defaultdict(int)
    for name in plain.values():
        often[name] += 1
    digests = {key: f"{name}-{_digest(key)}" for key, name in plain.items()}
    short = Counter(digest[: SHORTEST - FULL] for digest in digests.values())
    found = {}
    for key, name in plain.items():
        alike = digests.values() if short[digests[key][: SHORTEST - FULL]] > 1 else ()
        hashed = _hashed(digests[key], taken, alike)
        shown = name if often[name] == 1 and name not in taken else hashed
        found[key] = Naming(shown, tuple(sorted({name, hashed, *_stems_of(identities[key][0])} - taken - {shown})))
    return found


def short_names(pools: Iterable[Named]) -> dict[str, str]:
    """The shortest unambiguous name of each pool, by its full name, for tables."""
    pools = tuple(pools)
    meanings = Counter(word for pool in pools for word in {pool.name, *pool.also})
    return {
        pool.name: min(
            (word for word in (*pool.also, pool.name) if meanings[word] == 1 or word == pool.name),
            key=lambda word: (len(word), word),
        )
        for pool in pools
    }


def in_short(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence with the short names of pools, by their full ones, in the place of these."""
    longer = sorted(
        (name for name, short in names.items() if name != short and name in sentence), key=len, reverse=True
    )
    if not longer:
        return sentence
    whole = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, longer))})(?![\w-])")
    return whole.sub(lambda found: names[found[1]], sentence)


def plain_names_in(name: str) -> tuple[str, ...]:
    """The plain name of a discovered pool whose name has a hash."""
    found = _HASHED.fullmatch(name)
    return (found[1],) if found else ()


def _plain_name_of(group: DeviceGroup) -> str:
    device, portion = _device_of(group)
    return plain_name(device, portion, group.origin.instance_type, group.origin.capacity_type)


def _stems_of(group: DeviceGroup) -> tuple[str, ...]:
    return stems(*_device_of(group), group.origin.instance_type)


def _device_of(group: DeviceGroup) -> tuple[str, str]:
    """The device's name and its partition."""
    device = group.facts.accelerator.id if group.facts.accelerator else f"unknown-{group.facts.vendor}"
    return device, str(group.facts.portion)


def stems(device: str, portion: str, instance_type: str) -> tuple[str, ...]:
    """The prefixes of a plain name, shortest first: the device and its partition, then the instance type too."""
    short, longer = plain_name(device, portion, "", ""), plain_name(device, portion, instance_type, "")
    return (short,) if longer == short else (short, longer)


def plain_name(device: str, portion: str, instance_type: str, capacity_type: str) -> str:
    """The name without a hash, in the letters of a Kubernetes name."""
    parts = [device, portion, instance_type, capacity_type]
    return "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)))[:200]


def _digest(identity: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(tuple(str(part) for part in identity)).encode()).hexdigest()


def _hashed(whole: str, taken: Set[str], alike: Iterable[str]) -> str:
    """The name with a hash of the identity: six digits, more if an admin's pool has that name or another pool begins so."""
    ends = range(len(whole) - FULL + SHORTEST, len(whole))
    others = [each for each in alike if each != whole]
    free = (
        name for end in ends if (name := whole[:end]) not in taken and not any(each.startswith(name) for each in others)
    )
    return next(free, whole)


def without_type(name: str) -> str:
    """A pool's name without its capacity type, also a mistyped one."""
    # late import: needed only for unknown names
    from difflib import get_close_matches

    head, _, last = name.rpartition("-")
    return head if head and get_close_matches(last, _TYPES, cutoff=0.75) else name
