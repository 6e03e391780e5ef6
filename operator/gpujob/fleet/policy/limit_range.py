"""What the LimitRanges of a namespace allow each container and pod, read before placement instead of after rejected pods.

Requests of a job's pods equal their limits, so maxLimitRequestRatio, which is at least one, holds. Defaults for pods without
amounts (default, defaultRequest) concern devices only, because all other amounts are always set. Source: k8s.io/kubernetes
plugin/pkg/admission/limitranger, and pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem: the default of a container is its
max if there is none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import parse_bytes, parse_millicores
from gpujob.values.untrusted import one_line, table, tables

OF_CLAIMS: Final = "volume claim"
"""The kind of bounds that apply to volume claims."""

KINDS: Final = {"Container": "container", "Pod": "pod", "PersistentVolumeClaim": OF_CLAIMS}
"""Types whose limits concern a job's pods and their volume claims. A pod of a job has one container, which has all of the pod's
requests.
"""

MOST: Final = 64
"""The most resources of an item that are read."""

LONGEST: Final = 253

UNLIMITED: Final = 2**62


@dataclass(frozen=True, slots=True)
class Bound:
    """One LimitRange's bounds of one resource: millicores, bytes or a count, for each container or pod."""

    name: str
    kind: str
    resource: str
    least: int = 0
    most: int = UNLIMITED
    given: int = 0
    """The default of a container without an amount."""
    unread: str = ""
    """The text that is no quantity."""


Bounds = tuple[Bound, ...]

LimitRanges = Mapping[str, Bounds]
"""The bounds of each namespace that has some."""


def read_limit_range(raw: Mapping[str, Any]) -> Bounds:
    """The bounds of a LimitRange object."""
    name = one_line(str(table(raw, "metadata").get("name", ""))[:LONGEST])
    found = []
    for item in tables(table(raw, "spec"), "limits")[:MOST]:
        kind = KINDS.get(str(item.get("type")))
        if kind is None:
            continue
        least, most, given = (table(item, key) for key in ("min", "max", "default"))
        resources = [key for key in {**least, **most, **given} if isinstance(key, str)]
        found += [_bound(name, kind, resource, least, most, given) for resource in resources[:MOST]]
    return tuple(sorted(found, key=lambda bound: (bound.kind, bound.resource)))


def limits_of(found: Iterable[tuple[str, Bounds]]) -> LimitRanges:
    """Bounds by namespace, sorted by name."""
    by_namespace: dict[str, list[Bound]] = {}
    for namespace, bounds in found:
        if bounds:
            by_namespace.setdefault(namespace, []).extend(bounds)
    return {
        name: tuple(sorted(bounds, key=lambda b: (b.name, b.kind, b.resource))) for name, bounds in by_namespace.items()
    }


@dataclass(frozen=True, slots=True)
class Limits:
    """All bounds of a namespace, and the least and the most CPU, memory and disk that they allow together."""

    bounds: Bounds
    least: Resources
    most: Resources


def tightest(bounds: Bounds) -> Limits:
    """The intersection of all bounds."""
    least, most = dict[str, int](), dict[str, int]()
    for bound in bounds:
        least[bound.resource] = max(least.get(bound.resource, 0), bound.least)
        most[bound.resource] = min(most.get(bound.resource, UNLIMITED), bound.most)
    names = ("cpu", "memory", "ephemeral-storage")
    return Limits(
        bounds,
        Resources(*(least.get(name, 0) for name in names)),
        Resources(*(most.get(name, UNLIMITED) for name in names)),
    )


def _bound(name: str, kind: str, resource: str, least: Any, most: Any, given: Any) -> Bound:
    amounts = [_amount(resource, member.get(resource)) for member in (least, most, given)]
    unread = next((amount for amount in amounts if isinstance(amount, str)), "")
    if unread:
        return Bound(name, kind, one_line(resource[:LONGEST]), unread=unread)
    low, high, default = (amount if isinstance(amount, int) else None for amount in amounts)
    fills = default if default is not None else high
    return Bound(
        name,
        kind,
        one_line(resource[:LONGEST]),
        low or 0,
        UNLIMITED if high is None else high,
        (fills or 0) if kind == "container" else 0,
    )


def _amount(resource: str, written: Any) -> int | str | None:
    """The amount; a text if it is no quantity."""
    if written is None:
        return None
    try:
        return int((parse_millicores if resource == "cpu" else parse_bytes)(str(written)[:LONGEST]))
    except (BadQuantity, ValueError, OverflowError):
        return one_line(str(written)[:24])
