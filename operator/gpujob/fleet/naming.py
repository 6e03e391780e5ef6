"""Which devices are interchangeable, and the names of the pools that they make."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping

from gpujob.fleet.devices import DeviceGroup
from gpujob.fleet.taints import is_passing


def identity_of(group: DeviceGroup) -> tuple[object, ...]:
    """What makes devices interchangeable; nodes that differ in one of these are different pools."""
    facts, origin = group.facts, group.origin
    taints = tuple(sorted(str(taint) for taint in group.node.taints if not is_passing(taint)))
    problem = "" if facts.problem is None else facts.problem.reason.value
    accelerator = facts.accelerator.id if facts.accelerator else ""
    instance = (origin.cloud, origin.instance_type, origin.region, origin.capacity_type, origin.cpu_architecture)
    portion = (facts.portion.kind, facts.portion.profile, facts.portion.pieces, facts.portion.replicas)
    return (facts.vendor, accelerator, group.resource, *portion, facts.memory or 0, facts.driver or "", problem, *instance, taints,
            group.node.price or "")  # fmt: skip


def names_of(
    identities: Mapping[tuple[object, ...], list[DeviceGroup]], taken: set[str]
) -> dict[tuple[object, ...], str]:
    """A name for each discovered pool: accelerator-part-instancetype-capacity, with a short hash where that is not unique."""
    plain = {key: plain_name(groups[0]) for key, groups in identities.items()}
    often: dict[str, int] = defaultdict(int)
    for name in plain.values():
        often[name] += 1
    return {
        key: name if often[name] == 1 and name not in taken else f"{name}-{_hash(key)}" for key, name in plain.items()
    }


def plain_name(group: DeviceGroup) -> str:
    device = group.facts.accelerator.id if group.facts.accelerator else f"unknown-{group.facts.vendor}"
    parts = [device, str(group.facts.portion), group.origin.instance_type, group.origin.capacity_type]
    return "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)))[:200]


def _hash(identity: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(tuple(str(part) for part in identity)).encode()).hexdigest()[:6]
