"""What a pool's devices cost an hour, with the source: GPUPool, node annotation, the installation's own prices, list prices.

An unknown price is None, never 0. An admin's GPUPool may say 0; on a node it often means that the tool that wrote it knows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import AdminPrice
from gpujob.fleet.labels.cloud import Origin
from gpujob.fleet.labels.device_fraction import Share
from gpujob.values.errors import BadQuantity
from gpujob.values.finding import Dollars, Finding
from gpujob.values.quantity import MAX_PRICE, parse_dollars
from gpujob.values.vocabulary import Annotation, CapacityType, Reason

if TYPE_CHECKING:
    from gpujob.fleet.gpupools.ownership_cost import Ownership


@dataclass(frozen=True, slots=True)
class PoolPrice:
    """Micro-dollars an hour for each device, and the source of the figure."""

    per_gpu_hour: int
    source: str


@dataclass(frozen=True, slots=True)
class Coming:
    """A node that can be added: its number of GPUs and its origin."""

    gpus: int
    origin: Origin


def of_nodes(
    groups: Sequence[DeviceGroup],
    admin: AdminPrice | None,
    accelerator: Accelerator | None,
    capacity: CapacityType,
    catalog: Catalog,
    coming: Coming | None = None,
    share: Share | None = (1, 1),
) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    """The price of a pool's devices and the warnings about it, including devices that can be added.

    Hourly prices of admins are for each device that Kubernetes counts. Purchases and list prices are for whole devices; a device
    is `share` of one (None: unknown, and so no list price).
    """
    if admin is not None:
        counts = [*(group.total for group in groups), coming.gpus if coming else None]
        return _admin_price(admin, [count for count in counts if count], share or (1, 1))
    annotated, warnings = _annotated(groups)
    if annotated is not None:
        return annotated, warnings
    origin = groups[0].origin if groups else coming.origin if coming else None
    shared_by = min(filter(None, (*(group.total for group in groups), coming.gpus if coming else 0)), default=0)
    if (own := _own(origin, accelerator, capacity, shared_by, share, catalog)) is not None:
        return own, warnings
    listed, more = _listed(origin, accelerator, capacity, catalog) if share else (None, ())
    return (_part(listed, share) if listed and share else listed), warnings + more


def _own(
    origin: Origin | None,
    accelerator: Accelerator | None,
    capacity: CapacityType,
    shared_by: int,
    share: Share | None,
    catalog: Catalog,
) -> PoolPrice | None:
    """The installation's own price: of the instance type, else of the model; None without one for this capacity type."""
    word = origin.instance_type if origin else ""
    own = catalog.own_price(word, accelerator.id if accelerator else None)
    if own is None:
        return None
    source, machine = f"prices.{own.word}", catalog.machine(word) if word else None
    if own.of_node and machine is None:
        # The number of whole devices of such a node is unknown: its price is shared by those that Kubernetes counts.
        price = own.per_gpu_hour(capacity, shared_by) if shared_by else None
        return None if price is None else PoolPrice(price, f"{source} / {shared_by} GPUs")
    devices, parts = (machine.devices, machine.parts) if machine and own.of_node else (1, 1)
    if share is None or devices < 1 or (price := own.per_gpu_hour(capacity, devices, parts)) is None:
        return None
    return _part(PoolPrice(price, f"{source} / {devices} GPUs" if own.of_node else source), share)


def _part(price: PoolPrice, share: Share) -> PoolPrice:
    """The price of a fraction of a device."""
    if share == (1, 1):
        return price
    numerator, denominator = share
    per_gpu = price.per_gpu_hour * numerator // denominator
    return PoolPrice(per_gpu, f"{price.source}, {numerator}/{denominator} of a device")


def _admin_price(
    admin: AdminPrice, counts: Sequence[int], share: Share
) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    if admin.per_gpu_hour is not None:
        return PoolPrice(admin.per_gpu_hour, "GPUPool spec.price.perGPUHour"), ()
    if not counts:
        return None, ()
    # A pool of unequal nodes has the price of its smallest one: an overestimate is safer.
    devices = min(counts)
    if admin.owned is not None:
        return _owned(admin.owned, devices, share)
    if admin.per_node_hour is None:
        return None, ()
    per_gpu = admin.per_node_hour // devices
    return PoolPrice(per_gpu, f"GPUPool spec.price.perNodeHour / {devices} GPUs"), ()


def _owned(owned: Ownership, devices: int, share: Share) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    """Admins buy whole GPUs, into however many devices the node divides them."""
    gpus = max(1, devices * share[0] // share[1])
    price = owned.per_gpu_hour(gpus, devices)
    if price > MAX_PRICE:
        sentence = "spec.price.ownership comes to {} an hour for a GPU, above {}; correct it"
        return None, (Finding(Reason.PRICE_INVALID, sentence, (Dollars(price), Dollars(MAX_PRICE))),)
    years, used = float(owned.years), float(owned.utilization)
    node = f"{gpus} GPUs a node" if gpus == devices else f"{gpus} GPUs a node in {devices} devices"
    return PoolPrice(price, f"GPUPool spec.price.ownership over {years:g} years, {used:.4g} used, {node}"), ()


def _annotated(groups: Sequence[DeviceGroup]) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    """The highest price among the nodes' annotations (discovered pools share one); None if a node has no readable one."""
    prices: list[int] = []
    warnings: list[Finding] = []
    for node in (group.node for group in groups if group.node.price is not None):
        try:
            prices.append(_above_nothing(node.price or ""))
        except BadQuantity as error:
            numbers = (Annotation.PRICE_PER_GPU_HOUR, node.name, str(error))
            warnings.append(Finding(Reason.PRICE_INVALID, "annotation {} of node {} is ignored: {}", numbers))
    if not prices or len(prices) < len(groups):
        return None, tuple(warnings[:1])
    return PoolPrice(max(prices), f"node annotation {Annotation.PRICE_PER_GPU_HOUR}"), ()


def _above_nothing(text: str) -> int:
    """The price of an annotation in micro-dollars; raises BadQuantity, also for 0, which would draw every job to the node."""
    if price := parse_dollars(text):
        return price
    raise BadQuantity(
        f"{text!r} often means that the price is not known; where these GPUs cost nothing, set spec.price.perGPUHour of a GPUPool "
        'to "0"'
    )


def _listed(
    origin: Origin | None, accelerator: Accelerator | None, capacity: CapacityType, catalog: Catalog
) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    """The list price for this capacity type; else the one on demand, which is not lower."""
    price, warnings = _listed_for(origin, accelerator, capacity, catalog)
    if price is not None or capacity is CapacityType.ON_DEMAND:
        return price, warnings
    price, warnings = _listed_for(origin, accelerator, CapacityType.ON_DEMAND, catalog)
    if price is None:
        return None, ()
    sentence = "no {} price is known, the price on demand stands for it; set one in a GPUPool"
    bound = Finding(Reason.PRICE_INDICATIVE, sentence, (capacity,))
    return PoolPrice(price.per_gpu_hour, f"{price.source} (on demand)"), (bound, *warnings)


def _listed_for(
    origin: Origin | None, accelerator: Accelerator | None, capacity: CapacityType, catalog: Catalog
) -> tuple[PoolPrice | None, tuple[Finding, ...]]:
    """By cloud and instance type, by cloud and model, then by model alone."""
    if origin and origin.instance_type and _has(origin.instance_type, accelerator, catalog):
        row = catalog.price_of(origin.cloud or None, origin.instance_type, origin.region, capacity)
        if row is not None:
            source = f"list price {row.cloud} {origin.instance_type} {row.region}, {row.checked_on}"
            return PoolPrice(row.per_gpu_hour, source), _other_region(row.region, origin.region)
    if accelerator is None:
        return None, ()
    row = catalog.price_of_model(origin.cloud, accelerator.id, origin.region, capacity) if origin else None
    if row is not None and origin:
        source = f"list price {row.cloud} {accelerator.id} {row.region}, {row.checked_on}"
        return PoolPrice(row.per_gpu_hour, source), _other_region(row.region, origin.region)
    row = catalog.indicative_price(accelerator.id, capacity)
    if row is None:
        return None, ()
    warning = Finding(Reason.PRICE_INDICATIVE, "price is {}; set one in a GPUPool", (row.source,))
    return PoolPrice(row.per_gpu_hour, row.source), (warning,)


def _has(instance_type: str, accelerator: Accelerator | None, catalog: Catalog) -> bool:
    """Whether the price of an instance type applies to these devices: not if its own are others, or cannot be these."""
    machine = catalog.by_instance_type(instance_type)
    if machine is None or accelerator is None or machine.id == accelerator.id:
        return True
    return (machine.architecture, machine.nominal_bytes) == (accelerator.architecture, accelerator.nominal_bytes)


def _other_region(known: str, wanted: str) -> tuple[Finding, ...]:
    if not wanted or known == wanted:
        return ()
    return (Finding(Reason.PRICE_INDICATIVE, "price is of region {}, the nodes are in {}", (known, wanted)),)
