"""A fleet from published GPUPools, for users who cannot read nodes and pods. Coarser, and as old as its last write.

The status of a GPUPool has the number of free GPUs, not their nodes: free GPUs fill whole nodes first. Other resources of a node
are unknown and not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.assembly.future_nodes import with_machine
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.objects import vendor_of
from gpujob.fleet.kubernetes.runtime_classes import Classes, RuntimeClass
from gpujob.fleet.labels.device_fraction import Portion
from gpujob.fleet.pools.autoscaling import UNCOUNTED, growth_of
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.naming import plain_names_in, stems
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.pricing import PoolPrice
from gpujob.values.errors import BadQuantity
from gpujob.values.finding import Finding
from gpujob.values.quantity import parse_bytes, parse_dollars
from gpujob.values.vocabulary import CapacityType, ConditionType, DeviceKind, DeviceMode, Label, Reason, Vendor

if TYPE_CHECKING:
    from gpujob.api.kinds.gpupool import GPUPool, GPUPoolStatus


def fleet_of(pools: Iterable[GPUPool], catalog: Catalog, runtime_classes: Classes) -> Fleet:
    """The fleet as the operator published it; pools without a status are left out."""
    pools = tuple(pools)
    taken = {pool.metadata.name for pool in pools if not is_discovered(pool)}
    read = [_pool(pool, pool.status, catalog, taken) for pool in pools if pool.status and pool.status.gpus]
    # Users who cannot read nodes cannot read RuntimeClasses either; the operator checked those that GPUPools name.
    named = {pool.runtime_class: RuntimeClass() for pool in read if pool.runtime_class}
    ordered = tuple(sorted(read, key=lambda pool: pool.name))
    return Fleet(ordered, {**named, **runtime_classes}, host_access=catalog.host_access)


def is_discovered(pool: GPUPool) -> bool:
    """Whether the operator wrote the GPUPool."""
    return pool.metadata.labels.get(Label.DISCOVERED) == "true"


def _pool(pool: GPUPool, status: GPUPoolStatus, catalog: Catalog, taken: set[str]) -> Pool:
    accelerator = catalog.accelerator(status.accelerator or "")
    nodes = tuple(_nodes(status))
    admin = with_machine(admin_pool(pool), nodes, catalog)
    portion = _portion(status)
    vendor = Vendor(status.vendor) if status.vendor in set(Vendor) else vendor_of(status.resource_name or "")
    return Pool(
        name=admin.name,
        discovered=True,
        vendor=vendor or Vendor.NVIDIA,
        resource=status.resource_name or "",
        accelerator=accelerator,
        memory=_memory(status.memory),
        driver=status.driver,
        cpu_architecture=status.cpu_architecture or "amd64",
        instance_type=status.instance_type or "",
        region="",
        capacity_type=_capacity_type(status.capacity_type),
        price=_price(status),
        nodes=nodes,
        also=_other_names(pool, status, str(portion), taken),
        portion=portion,
        share=(1, 1) if portion.pieces else None,
        problem=_problem(status, known=accelerator is not None),
        tolerated=admin.tolerated,
        supplemental_groups=admin.supplemental_groups,
        runtime_class=admin.runtime_class,
        env=admin.env,
        selector=admin.terms,
        growth=growth_of(admin, nodes),
        host_devices=admin.device_mode is DeviceMode.HOST_DEVICES,
        fabric=admin.fabric,
        namespaces=admin.namespaces,
    )


def _other_names(pool: GPUPool, status: GPUPoolStatus, portion: str, taken: set[str]) -> tuple[str, ...]:
    """The aliases of a discovered pool, as in `naming`: the prefixes of its name that no admin's pool has."""
    if not is_discovered(pool):
        return ()
    name = pool.metadata.name
    begun = stems(status.accelerator or f"unknown-{status.vendor}", portion, status.instance_type or "")
    also = {*plain_names_in(name), *(stem for stem in begun if name.startswith(f"{stem}-"))}
    return tuple(sorted(also - taken))


def _nodes(status: GPUPoolStatus) -> Iterable[PoolNode]:
    """Nodes without names that share the pool's GPUs equally, the free ones first."""
    count = max(0, min(status.nodes or 0, 10_000))
    total, free = (status.gpus.total, status.gpus.free) if status.gpus else (0, 0)
    each = -(-total // count) if count else 0
    for index in range(count):
        devices = max(0, min(each, total - index * each))
        left = max(0, min(devices, free - index * each))
        yield PoolNode("", devices, devices, left, UNCOUNTED, UNCOUNTED, UNCOUNTED)


def _portion(status: GPUPoolStatus) -> Portion:
    """How a whole device is divided; sharing is in the memory already, which is a pod's."""
    kind = DeviceKind(status.device_kind) if status.device_kind in set(DeviceKind) else DeviceKind.WHOLE
    unknown = None if kind in (DeviceKind.PARTITION, DeviceKind.SHARED) else 1
    return Portion(kind, status.profile or "", unknown, unknown)


def _problem(status: GPUPoolStatus, *, known: bool) -> Finding | None:
    for condition in status.conditions:
        if condition.type == ConditionType.READ and condition.status == "False":
            reason = Reason(condition.reason) if condition.reason in set(Reason) else Reason.DEVICE_UNKNOWN
            return Finding(reason, "{}", (condition.message,))
    if known:
        return None
    sentence = "accelerator {} of the published GPUPool is in no catalog row; use the operator's catalog (--catalog)"
    return Finding(Reason.DEVICE_UNKNOWN, sentence, (status.accelerator or "unknown",))


def _memory(text: str | None) -> int | None:
    """Bytes of a size that was rounded down when it was published; rounding down again would show less."""
    size = _read(parse_bytes, text)
    return None if size is None else size + 1


def _price(status: GPUPoolStatus) -> PoolPrice | None:
    price = _read(parse_dollars, status.price_per_gpu_hour)
    return None if price is None else PoolPrice(price, status.price_source or "published GPUPool")


def _capacity_type(word: str | None) -> CapacityType:
    return CapacityType(word) if word in set(CapacityType) else CapacityType.ON_DEMAND


def _read(parse: object, text: str | None) -> int | None:
    try:
        return None if text is None else int(parse(text))  # type: ignore[operator]
    except BadQuantity:
        return None
