"""RuntimeClass objects and the runtime handlers that a node reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.quantities import read_resources
from gpujob.values.untrusted import one_line, table, tables

MOST: Final = 256
"""The most handlers of a node that are read."""

LONGEST: Final = 253

UNKNOWN: Final = ""
"""The handler of a RuntimeClass whose handler cannot be read."""

Classes = Mapping[str, "RuntimeClass"]
"""The RuntimeClasses that exist, by name."""

NO_CLASSES: Final[Classes] = MappingProxyType({})

NOTHING: Final = Resources()


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What a RuntimeClass adds to its pods."""

    handler: str = UNKNOWN
    overhead: Resources = NOTHING
    """The overhead of each pod beside its containers (overhead.podFixed)."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that its nodes must have (scheduling.nodeSelector)."""
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    """Taints that its pods tolerate: key (empty: any), value (None: any), effect (None: any)."""
    unread: str = ""
    """The parts that cannot be read."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What the pods of a pool require of their nodes: the handler's name, the RuntimeClass that requires it, and its other settings."""

    name: str
    runtime_class: str
    brings: RuntimeClass = RuntimeClass()


def read_handlers(status: Mapping[str, Any], unread: list[str]) -> frozenset[str] | None:
    """The names of a node's handlers from its status; None if they are absent or unreadable."""
    found = status.get("runtimeHandlers")
    if found is None or found == []:
        return None
    names = [each.get("name", "") if isinstance(each, dict) else None for each in found] if _is_short(found) else [None]
    if all(isinstance(name, str) and len(name) <= LONGEST for name in names):
        return _one(frozenset(names))
    unread.append("status.runtimeHandlers is no list of names; which handlers it has is not known")
    return None


def read_runtime_class(raw: Mapping[str, Any]) -> RuntimeClass:
    """The settings of a RuntimeClass object."""
    handler, unread = raw.get("handler"), list[str]()
    fixed, scheduling = table(table(raw, "overhead"), "podFixed"), table(raw, "scheduling")
    overhead = read_resources({key: fixed.get(key) for key in ("cpu", "memory", "ephemeral-storage")}, unread)
    selector = table(scheduling, "nodeSelector")
    return RuntimeClass(
        handler if isinstance(handler, str) and handler.isprintable() and len(handler) <= LONGEST else UNKNOWN,
        overhead._replace(storage=overhead.storage or 0),
        tuple(sorted((_word(key), _word(value)) for key, value in [*selector.items()][:MOST])),
        read_tolerations(scheduling),
        f"overhead.podFixed: {unread[0]}" if unread else "",
    )


def read_tolerations(raw: Mapping[str, Any]) -> tuple[tuple[str, str | None, str | None], ...]:
    """The taints that an object's tolerations are for: key (empty: any), value (None: any), effect (None: any)."""
    return tuple(_toleration(each) for each in tables(raw, "tolerations")[:MOST])


def _toleration(raw: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    value = None if raw.get("operator") == "Exists" else _word(raw.get("value") or "")
    return _word(raw.get("key") or ""), value, _word(raw["effect"]) if raw.get("effect") else None


def _word(value: object) -> str:
    return one_line(str(value)[:LONGEST])


def lacks(handlers: frozenset[str] | None, asked: Handler | None) -> bool:
    """Whether these handlers are known to lack the required one."""
    if asked is None or asked.name == UNKNOWN or handlers is None:
        return False
    return asked.name not in handlers


def _is_short(found: object) -> bool:
    return isinstance(found, list) and len(found) <= MOST


@lru_cache(maxsize=256)  # equal lists become one object: 10,000 nodes keep 216 bytes in place of 2 MB
def _one(names: frozenset[str]) -> frozenset[str]:
    return names
