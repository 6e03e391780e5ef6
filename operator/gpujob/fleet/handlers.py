"""Which handlers of RuntimeClasses a node has, and which of them the pods of a pool ask for.

A RuntimeClass is an object of the whole cluster; its handler is configured on each node, and a pod on a node without it
stays in ContainerCreating. Sources: kubernetes.io/docs/concepts/containers/runtime-class and the API reference of Node
(status.runtimeHandlers, from Kubernetes 1.30, filled where the container runtime tells: containerd 2.0, CRI-O 1.30, as the
documentation of recursive read-only mounts has them).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpujob.vocabulary import Vendor

if TYPE_CHECKING:
    from gpujob.fleet.pools import Pool

NVIDIA_CLASS: Final = "nvidia"
"""What the GPU operator calls its RuntimeClass by default; a pod that names one which is not there is refused."""

MOST: Final = 256
"""Handlers of a node that are believed."""

LONGEST: Final = 253

UNKNOWN: Final = ""
"""The handler of a RuntimeClass that does not say it in a way that can be read."""

HandlerOf = Mapping[str, str]
"""The RuntimeClasses that exist: name -> handler, or UNKNOWN."""

NO_CLASSES: Final[HandlerOf] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Handler:
    """What the pods of a pool ask of their nodes: the handler's name and the RuntimeClass that asks for it."""

    name: str
    runtime_class: str


def read_handlers(status: Mapping[str, Any], unread: list[str]) -> frozenset[str] | None:
    """The names of a node's handlers by its status; None where the node does not say, or not in a way that can be read."""
    found = status.get("runtimeHandlers")
    if found is None or found == []:
        return None
    names = [each.get("name", "") if isinstance(each, dict) else None for each in found] if _is_short(found) else [None]
    if all(isinstance(name, str) and len(name) <= LONGEST for name in names):
        return _one(frozenset(names))
    unread.append("status.runtimeHandlers is no list of names; which handlers it has is not known")
    return None


def read_handler(runtime_class: Mapping[str, Any]) -> str:
    """The handler of a RuntimeClass."""
    handler = runtime_class.get("handler")
    return handler if isinstance(handler, str) and handler.isprintable() and len(handler) <= LONGEST else UNKNOWN


def runtime_class_of(pool: Pool, existing: Container[str]) -> str | None:
    """The RuntimeClass of a pool's pods: the GPUPool's, else `nvidia` where that object exists; never for AMD."""
    if pool.vendor is Vendor.AMD:
        return None
    return pool.runtime_class or (NVIDIA_CLASS if NVIDIA_CLASS in existing else None)


def with_handler(pool: Pool, classes: HandlerOf) -> Pool:
    """The pool with the handler that its pods ask for; the same one where that is so already."""
    name = runtime_class_of(pool, classes)
    asked = classes.get(name, UNKNOWN) if name else UNKNOWN
    handler = Handler(asked, name) if name and asked != UNKNOWN else None
    return pool if handler == pool.handler else replace(pool, handler=handler)


def lacks(handlers: frozenset[str] | None, asked: Handler | None) -> bool:
    """Whether it is known that these handlers are not what is asked for."""
    return asked is not None and handlers is not None and asked.name not in handlers


def _is_short(found: object) -> bool:
    return isinstance(found, list) and len(found) <= MOST


@lru_cache(maxsize=256)
def _one(names: frozenset[str]) -> frozenset[str]:
    """Nodes are many and their lists few: equal ones are one object."""
    return names
