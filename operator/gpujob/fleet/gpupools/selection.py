"""Which admin's GPUPool selects a node: the oldest matching one; the others get a condition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpujob.fleet.kubernetes.objects import Labels, Node, Selector, Taint, vendor_of
from gpujob.values.finding import Finding
from gpujob.values.quantity import parse_bytes, parse_dollars, parse_millicores
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import CapacityType, DeviceMode, Reason

if TYPE_CHECKING:
    from gpujob.api.kinds.gpupool import FabricSpec, GPUPool, NodeSelector, Price, ProvisionSpec
    from gpujob.fleet.gpupools.ownership_cost import Ownership


@dataclass(frozen=True, slots=True)
class Fabric:
    """The privileges and devices of each pod of a gang, all from the GPUPool."""

    resources: tuple[tuple[str, int], ...] = ()
    """Devices of the fabric, by the names under which nodes list them."""
    lock_memory: bool = False
    """Whether it may lock memory (IPC_LOCK), as RDMA does."""
    annotations: tuple[tuple[str, str], ...] = ()
    host_network: bool = False
    topology_key: str = ""
    """The node label whose value all nodes of a gang must share; empty: any nodes."""

    def room(self, node: Node, taken: Mapping[tuple[str, str], int]) -> int | None:
        """The number of further pods for which a node has the fabric's devices; None if it has no countable ones."""
        if not self.resources:
            return None
        return min(
            max(0, node.others.get(resource, 0) - taken.get((node.name, resource), 0)) // count
            for resource, count in self.resources
        )

    def domain(self, node: Node) -> str:
        """The node's topology domain in the fabric: nodes of one domain can form a gang; empty without the label."""
        return node.labels.get(self.topology_key, "") if self.topology_key else ""


@dataclass(frozen=True, slots=True)
class AdminPrice:
    """A price from an admin: micro-dollars an hour for a GPU or for a whole node, or the cost of owned nodes."""

    per_gpu_hour: int | None = None
    per_node_hour: int | None = None
    owned: Ownership | None = None


@dataclass(frozen=True, slots=True)
class Provision:
    """Nodes that an autoscaler can add: sizes in millicores and bytes, None if the admin gives none."""

    max_nodes: int
    gpus_per_node: int | None = None
    driver: str | None = None
    cpu_architecture: str | None = None
    millicores: int | None = None
    memory: int | None = None
    storage: int | None = None
    taints: tuple[Taint, ...] | None = None
    """None: those of the existing nodes; an empty list means that new nodes have none."""


@dataclass(frozen=True)
class AdminPool:
    """The record of an admin's GPUPool."""

    name: str
    created: str
    selector: NodeSelector
    accelerator: str | None = None
    resource: str | None = None
    price: AdminPrice | None = None
    capacity_type: CapacityType | None = None
    tolerated: tuple[tuple[str, str | None, str | None], ...] = ()
    memory: int | None = None
    """Usable bytes of each device; overrides labels and catalog."""
    supplemental_groups: tuple[int, ...] = ()
    runtime_class: str | None = None
    env: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    provision: Provision | None = None
    device_mode: DeviceMode | None = None
    gpus_per_node: int | None = None
    """GPUs of each node if no device plugin counts them."""
    fabric: Fabric | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    """Labels that a namespace must have for its jobs to use the pool; empty: all namespaces."""
    unreadable: str = ""
    """The error of an unreadable GPUPool; it selects its nodes and nothing runs there."""
    adds_unread: bool = False
    """Whether an unreadable GPUPool has a spec.provision."""

    @property
    def terms(self) -> Selector:
        """The selector as terms that a pod's affinity can hold."""
        labels = tuple((key, "In", (value,)) for key, value in sorted(self.selector.match_labels.items()))
        return labels + tuple((each.key, each.operator, each.values) for each in self.selector.match_expressions)


def admin_pool(pool: GPUPool) -> AdminPool:
    """The record of an admin's GPUPool object."""
    spec = pool.spec
    return AdminPool(
        name=pool.metadata.name,
        created=pool.metadata.creation_timestamp or "",
        selector=spec.node_selector,
        accelerator=spec.accelerator,
        resource=spec.resource_name,
        price=_price(spec.price) if spec.price else None,
        capacity_type=CapacityType(spec.capacity_type) if spec.capacity_type else None,
        tolerated=tuple((t.key, t.value or "" if t.operator == "Equal" else None, t.effect) for t in spec.tolerations),
        memory=parse_bytes(spec.memory_per_gpu) if spec.memory_per_gpu else None,
        supplemental_groups=spec.supplemental_groups,
        runtime_class=spec.runtime_class_name,
        env=tuple(entry.model_dump(by_alias=True, exclude_none=True) for entry in spec.env),
        provision=_provision(spec.provision) if spec.provision else None,
        device_mode=DeviceMode(spec.device_mode) if spec.device_mode else None,
        gpus_per_node=spec.gpus_per_node,
        fabric=_fabric(spec.fabric) if spec.fabric else None,
        namespaces=tuple(sorted(spec.namespace_selector.match_labels.items())) if spec.namespace_selector else (),
    )


def _fabric(spec: FabricSpec) -> Fabric:
    return Fabric(
        resources=tuple(sorted((name, int(count)) for name, count in spec.resources.items())),
        lock_memory="IPC_LOCK" in spec.capabilities,
        annotations=tuple(sorted(spec.annotations.items())),
        host_network=spec.host_network is True,
        topology_key=spec.topology_key or "",
    )


def _provision(spec: ProvisionSpec) -> Provision:
    return Provision(
        max_nodes=spec.max_nodes,
        gpus_per_node=spec.gpus_per_node,
        driver=spec.driver_version,
        cpu_architecture=spec.cpu_architecture,
        millicores=parse_millicores(spec.cpu) if spec.cpu is not None else None,
        memory=parse_bytes(spec.memory) if spec.memory is not None else None,
        storage=parse_bytes(spec.ephemeral_storage) if spec.ephemeral_storage is not None else None,
        taints=tuple(Taint(each.key, each.value or "", each.effect) for each in spec.taints)
        if "taints" in spec.model_fields_set
        else None,
    )


def _price(price: Price) -> AdminPrice:
    per_gpu, per_node = price.per_gpu_hour, price.per_node_hour
    if price.ownership is not None:
        from gpujob.fleet.gpupools.ownership_cost import (
            ownership_of,  # Fractions cost a plan without such a price a millisecond.
        )

        return AdminPrice(owned=ownership_of(price.ownership))
    return AdminPrice(
        parse_dollars(per_gpu) if per_gpu is not None else None,
        parse_dollars(per_node) if per_node is not None else None,
    )


class Selections:
    """Assigns the devices of each node to the oldest pool that selects them; records the pools that lost nodes."""

    def __init__(self, pools: Sequence[AdminPool]) -> None:
        self._pools = sorted(pools, key=lambda pool: (pool.created, pool.name))
        self.overlaps: dict[str, tuple[str, str]] = {}
        self._hosting = any(pool.device_mode is DeviceMode.HOST_DEVICES for pool in pools)

    def hosting(self, node: Node) -> AdminPool | None:
        """The pool that assigns a node's devices by the host's device files, None if the oldest one does not."""
        if not self._hosting:
            return None
        oldest = self.oldest(node)
        return oldest if oldest is not None and oldest.device_mode is DeviceMode.HOST_DEVICES else None

    def oldest(self, node: Node) -> AdminPool | None:
        """The oldest pool that selects a node, whatever devices it has."""
        return next((pool for pool in self._pools if selects(pool.selector, node.labels)), None)

    def pool_of(self, node: Node, resource: str, *, pending: bool = False) -> AdminPool | None:
        """The pool of a node's devices of this resource, None if no admin's pool selects them. `pending`: they are being divided and
        may get the name of any resource of their vendor.
        """
        own = [
            pool
            for pool in self._pools
            if pool.resource in (None, resource) or (pending and _may_become(node, resource, pool.resource))
        ]
        matching = [pool for pool in own if selects(pool.selector, node.labels)]
        for loser in matching[1:]:
            self.overlaps.setdefault(loser.name, (matching[0].name, node.name))
        return matching[0] if matching else None


def _may_become(node: Node, resource: str, wanted: str | None) -> bool:
    """Whether a node's devices of this resource are the first of those that may become the wanted one, which it does not offer."""
    offered = {*node.capacity, *node.devices}
    alike = [each for each in offered if vendor_of(each) is vendor_of(wanted or "")]
    return wanted not in offered and resource == min(alike, default=None)


def selects(selector: NodeSelector, labels: Labels) -> bool:
    """Whether all labels and expressions of a selector hold; an empty selector selects nothing."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(labels.get(rule.key), rule.operator, rule.values) for rule in selector.match_expressions
    )


def _holds(value: str | None, operator: str, values: Sequence[str]) -> bool:
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    return (value is not None) == (operator == "Exists")


LONGEST: Final = 300
"""The most characters of a pool's error."""

LONGEST_NAME: Final = 63

MEANS_PROVISION: Final = re.compile(r"; (?:write spec\.|did you mean )provision\b")
"""How the problem of a GPUPool names a field that is `provision`, or a part of it, under another name or at another place."""

NO_ACCELERATOR: Final = "?"
"""The name of an accelerator that cannot be read; no catalog has it."""


def unreadable_pool(raw: Mapping[str, Any], problem: str) -> AdminPool:
    """The rest of a GPUPool that its schema rejects: its name, its age and, as far as they can be read, its selector and accelerator.

    If it were skipped, its nodes would return to discovery without the admin's restrictions. Its selector names the nodes; if that
    cannot be read either, every discovered pool gets a warning. Its accelerator overrides labels, so that with one that cannot be
    read the devices are unknown.
    """
    # late import: models cost a plan without any GPUPool a sixth of its start time
    from pydantic import ValidationError

    from gpujob.api.kinds.gpupool import NodeSelector

    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    created = metadata.get("creationTimestamp")
    try:
        selector = NodeSelector.model_validate(spec.get("nodeSelector"), by_name=False)
    except ValidationError:
        selector = NodeSelector()
    said = one_line("; ".join(problem.splitlines()))[:LONGEST]
    name = one_line(str(metadata.get("name"))[:253])
    accelerator = spec.get("accelerator")
    if accelerator is not None and not (isinstance(accelerator, str) and len(accelerator) <= LONGEST_NAME):
        accelerator = NO_ACCELERATOR
    return AdminPool(
        name,
        created if isinstance(created, str) else "",
        selector,
        accelerator=accelerator,
        unreadable=said or "it is malformed",
        adds_unread=bool(spec.get("provision") or MEANS_PROVISION.search(problem)),
    )


def problem_of(pool: AdminPool) -> Finding:
    """Why nothing runs on the nodes of a GPUPool that cannot be read."""
    sentence = "GPUPool {} cannot be read, so nothing runs on its nodes: {}"
    return Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable))


def warnings_of_unselected(pools: Iterable[AdminPool]) -> tuple[Finding, ...]:
    """The warnings about every node without a GPUPool: an unreadable one might select it."""
    sentence = "GPUPool {} cannot be read, nor which nodes it claims; they may be these: {}"
    lost = (pool for pool in pools if pool.unreadable and not pool.terms)
    return tuple(Finding(Reason.INVALID_SPEC, sentence, (pool.name, pool.unreadable)) for pool in lost)
