"""Which handlers of RuntimeClasses a node has, and what the class of a pool's pods asks of their nodes.

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

from gpujob.fleet.amounts import read_resources
from gpujob.fleet.objects import Resources
from gpujob.untrusted import one_line, table, tables
from gpujob.vocabulary import Vendor

if TYPE_CHECKING:
    from gpujob.fleet.pool_node import PoolNode
    from gpujob.fleet.pools import Pool

NVIDIA_CLASS: Final = "nvidia"
"""What the GPU operator calls its RuntimeClass by default; a pod that names one which is not there is refused."""

MOST: Final = 256
"""Handlers of a node that are believed."""

LONGEST: Final = 253

UNKNOWN: Final = ""
"""The handler of a RuntimeClass that does not say it in a way that can be read."""

Classes = Mapping[str, "RuntimeClass"]
"""The RuntimeClasses that exist, by name."""

NO_CLASSES: Final[Classes] = MappingProxyType({})

NOTHING: Final = Resources()


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What a RuntimeClass adds to the pods that name it."""

    handler: str = UNKNOWN
    overhead: Resources = NOTHING
    """What each pod takes of its node beside its containers (overhead.podFixed)."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels that its nodes have (scheduling.nodeSelector)."""
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    """Taints that its pods tolerate: key (empty: any), value (None: any), effect (None: any)."""
    unread: str = ""
    """What of it cannot be read."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What the pods of a pool ask of their nodes: the handler's name, the RuntimeClass that asks for it, and what else it
    brings."""

    name: str
    runtime_class: str
    brings: RuntimeClass = RuntimeClass()


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


def read_runtime_class(raw: Mapping[str, Any]) -> RuntimeClass:
    """What a RuntimeClass object says."""
    handler, unread = raw.get("handler"), list[str]()
    fixed, scheduling = table(table(raw, "overhead"), "podFixed"), table(raw, "scheduling")
    overhead = read_resources({key: fixed.get(key) for key in ("cpu", "memory", "ephemeral-storage")}, unread)
    selector = table(scheduling, "nodeSelector")
    return RuntimeClass(
        handler if isinstance(handler, str) and handler.isprintable() and len(handler) <= LONGEST else UNKNOWN,
        overhead._replace(storage=overhead.storage or 0),
        tuple(sorted((_word(key), _word(value)) for key, value in [*selector.items()][:MOST])),
        tuple(_toleration(each) for each in tables(scheduling, "tolerations")[:MOST]),
        f"overhead.podFixed: {unread[0]}" if unread else "",
    )


def _toleration(raw: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    value = None if raw.get("operator") == "Exists" else _word(raw.get("value") or "")
    return _word(raw.get("key") or ""), value, _word(raw["effect"]) if raw.get("effect") else None


def _word(value: object) -> str:
    return one_line(str(value)[:LONGEST])


def runtime_class_of(pool: Pool, existing: Container[str]) -> str | None:
    """The RuntimeClass of a pool's pods: the GPUPool's, else `nvidia` where that object exists; never for AMD."""
    if pool.vendor is Vendor.AMD:
        return None
    return pool.runtime_class or (NVIDIA_CLASS if NVIDIA_CLASS in existing else None)


def with_handler(pool: Pool, classes: Classes) -> Pool:
    """The pool with what the RuntimeClass of its pods asks for; the same one where that is so already. Its nodes then have
    what that leaves to the containers.
    """
    name = runtime_class_of(pool, classes)
    brings = classes.get(name, RuntimeClass()) if name else RuntimeClass()
    handler = Handler(brings.handler, name, brings) if name and brings != RuntimeClass() else None
    if handler == pool.handler:
        return pool
    nodes = tuple(for_pods_of(handler, node) for node in pool.nodes)
    growth = pool.growth and replace(pool.growth, template=for_pods_of(handler, pool.growth.template))
    return replace(pool, handler=handler, nodes=nodes, growth=growth)


def for_pods_of(handler: Handler | None, node: PoolNode) -> PoolNode:
    """A node as pods of a RuntimeClass find it: without the overhead of one, and with the label that they miss there."""
    if handler is None or not (handler.brings.selector or handler.brings.overhead != NOTHING):
        return node
    overhead, labels = handler.brings.overhead, node.labels
    # Of nodes that nobody has seen yet, and of published ones, the labels are not known.
    missing = next((f"{k}={v}" for k, v in handler.brings.selector if labels and labels.get(k) != v), "")
    return replace(
        node,
        allocatable=node.allocatable.minus(overhead),
        share_base=node.share_base.minus(overhead),
        left=node.left.minus(overhead),
        unlabelled=missing,
    )


def lacks(handlers: frozenset[str] | None, asked: Handler | None) -> bool:
    """Whether it is known that these handlers are not what is asked for."""
    if asked is None or asked.name == UNKNOWN or handlers is None:
        return False
    return asked.name not in handlers


def _is_short(found: object) -> bool:
    return isinstance(found, list) and len(found) <= MOST


@lru_cache(maxsize=256)
def _one(names: frozenset[str]) -> frozenset[str]:
    """Nodes are many and their lists few: equal ones are one object."""
    return names
