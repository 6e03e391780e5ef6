"""The RuntimeClass handlers of a node, and what the class of a pool's pods requires of their nodes.

A RuntimeClass is an object of the whole cluster; its handler is configured on each node, and a pod on a node without it stays in
ContainerCreating. Sources: kubernetes.io/docs/concepts/containers/runtime-class and the API reference of Node
(status.runtimeHandlers, from Kubernetes 1.30, filled if the container runtime reports them: containerd 2.0, CRI-O 1.30, according
to the documentation of recursive read-only mounts).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpujob.fleet.kubernetes.runtime_classes import NOTHING, Classes, Handler, RuntimeClass
from gpujob.values.vocabulary import Vendor

if TYPE_CHECKING:
    from gpujob.fleet.pools.node import PoolNode
    from gpujob.fleet.pools.pool import Pool

NVIDIA_CLASS: Final = "nvidia"
"""The GPU operator's default name of its RuntimeClass; a pod that names an absent one is rejected."""


def runtime_class_of(pool: Pool, existing: Container[str]) -> str | None:
    """The RuntimeClass of a pool's pods: the GPUPool's, else `nvidia` if that object exists; never for AMD."""
    if pool.vendor is Vendor.AMD:
        return None
    return pool.runtime_class or (NVIDIA_CLASS if NVIDIA_CLASS in existing else None)


def with_handler(pool: Pool, classes: Classes) -> Pool:
    """The pool with the requirements of its pods' RuntimeClass, unchanged if it has them already. Its nodes then have what that
    leaves to the containers.
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
    """A node for pods of a RuntimeClass: without the overhead of one, and with the label that is missing there."""
    if handler is None or not (handler.brings.selector or handler.brings.overhead != NOTHING):
        return node
    overhead, labels = handler.brings.overhead, node.labels
    # The labels of future nodes and of published ones are unknown.
    missing = next((f"{k}={v}" for k, v in handler.brings.selector if labels and labels.get(k) != v), "")
    return replace(
        node,
        allocatable=node.allocatable.minus(overhead),
        share_base=node.share_base.minus(overhead),
        left=node.left.minus(overhead),
        unlabelled=missing,
    )
