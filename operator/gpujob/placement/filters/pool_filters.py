"""One filter for each reason: pure functions that say why a pool cannot run a job.

A pool filter takes (demand, pool, fleet) and returns a Finding or None. `images.filters` has the image filters,
`job_validation` the problems of the job itself. None of them reads free capacity (`capacity` does). Every filter that can
reject runs, so that no reason hides another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.filters.access import host_access_denied, namespace_excluded, part_of_a_node, pod_security_blocked
from gpujob.placement.filters.limit_range import beyond_limits
from gpujob.placement.filters.memory import memory_too_small, memory_unknown, ran_out_before
from gpujob.placement.filters.volumes import volume_of_one_node
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Dollars, ExactDollars, Finding, listed
from gpujob.values.quantity import most_within
from gpujob.values.vocabulary import DeviceKind, Precision, Reason, Vendor

PoolRule = Callable[[Demand, Pool, Fleet], Finding | None]


def vendor_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """placement.vendors, or images for one stack only, exclude this pool's vendor."""
    if pool.vendor_assumed:
        return None  # `unread` reports what to fix first.
    if pool.vendor not in demand.vendors:
        return Finding(Reason.VENDOR_EXCLUDED, "placement.vendors names only {}", (listed(sorted(demand.vendors)),))
    if demand.resumes_on is not None and pool.vendor is not demand.resumes_on:
        sentence = "the job ran on {} and its checkpoints stay there; set checkpoint.resumeOn: AnyVendor to go on at {}"
        return Finding(Reason.VENDOR_EXCLUDED, sentence, (demand.resumes_on, pool.vendor))
    backends = [own.backend for own in demand.own_images]
    if backends and pool.vendor not in {backend.vendor for backend in backends}:
        return Finding(Reason.VENDOR_EXCLUDED, "images has only {}", (listed(b.lower() for b in backends),))
    return None


def accelerator_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """placement.accelerators excludes the pool's accelerator."""
    names = set(pool.models) or {pool.accelerator_id}
    if demand.accelerators_allowed and not demand.may_mean(demand.accelerators_allowed, pool):
        sentence = "placement.accelerators.allow names only {}"
        return Finding(Reason.ACCELERATOR_EXCLUDED, sentence, (listed(demand.accelerators_allowed),))
    if names.issubset(demand.ids_of(demand.accelerators_denied)):
        return Finding(Reason.ACCELERATOR_EXCLUDED, "placement.accelerators.deny names {}", (pool.accelerator_id,))
    return None


def other_shape(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """An entry of spec.shapes is for another accelerator."""
    wanted = demand.gang.accelerator
    if wanted is None or demand.may_mean((wanted,), pool):
        return None
    return Finding(Reason.ACCELERATOR_EXCLUDED, "shapes[{}] is for {}", (demand.gang.entry, wanted))


def pool_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """placement.pools excludes the pool."""
    if demand.pools_allowed and not pool.is_among(demand.pools_allowed):
        return Finding(Reason.POOL_EXCLUDED, "placement.pools.allow names only {}", (listed(demand.pools_allowed),))
    if demand.stays_on and not (pool.family == demand.stays_on or pool.is_among((demand.stays_on,))):
        sentence = "the job failed by its own fault on pool {}, which is not repeated on another pool"
        return Finding(Reason.POOL_EXCLUDED, sentence, (demand.stays_on,))
    denied = next(filter(pool.is_called, demand.pools_denied), None)
    if denied is not None:
        return Finding(Reason.POOL_EXCLUDED, "placement.pools.deny names {}", (denied,))
    return None


def probe_failed(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A trial of this job failed on the pool."""
    said = next((said for name, said in demand.probes_failed if pool.is_called(name)), None)
    return None if said is None else Finding(Reason.PROBE_FAILED, "the job's probe failed here: {}", (said,))


def capacity_type_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """placement.capacityTypes excludes the pool (Spot unless it is listed)."""
    refused = [kind for kind in pool.all_capacity_types if kind not in demand.capacity_types]
    if not refused:
        return None
    some = len(refused) < len(pool.all_capacity_types)
    whose = f"node {dict(pool.capacity_nodes)[refused[0]]} is" if some else "its nodes are"
    types = refused[0] if some else listed(refused)
    sentence = "{} {}; placement.capacityTypes accepts {}"
    return Finding(Reason.CAPACITY_TYPE_EXCLUDED, sentence, (whose, types, listed(demand.capacity_types)))


def device_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """placement.devices excludes the pool's devices: partitions, shared or integrated ones unless they are listed."""
    kind, name = pool.kind, pool.accelerator_id
    if kind in demand.devices or pool.kind_is_guessed:
        return None  # `unread` reports what to fix first.
    add = "; add {0} to placement.devices to use them"
    if kind is DeviceKind.SHARED:
        sentence = "its devices are shared by {1} pods each, with no isolation of memory" + add
        return Finding(Reason.SHARED_DEVICE, sentence, (kind, pool.portion.replicas or "several"))
    if kind is DeviceKind.PARTITION:
        return Finding(Reason.DEVICE_EXCLUDED, "its devices are parts ({1}) of {2}" + add, (kind, pool.portion, name))
    if kind is DeviceKind.INTEGRATED:
        return Finding(Reason.DEVICE_EXCLUDED, "its devices ({1}) share their memory with the host" + add, (kind, name))
    return Finding(Reason.DEVICE_EXCLUDED, "its devices are whole" + add, (kind,))


def parts_in_group(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A gang of several GPUs on partitions of one card: NCCL rejects two ranks on one device, and treats slices as one device."""
    gang = demand.gang
    if pool.kind is DeviceKind.SHARED and gang.gpus > 1 and not pool.kind_is_guessed:
        sentence = "needs {} GPUs, and two shared devices may be on one card, where NCCL rejects a group; request one GPU on one node"
        return Finding(Reason.SHARED_DEVICE, sentence, (gang.gpus,))
    if pool.ungrouped and gang.gpus_per_node > 1:
        sentence = (
            "needs {} GPUs on one node, and slices of one card ({}) form no group in NCCL; request one GPU a node"
        )
        return Finding(Reason.SHARED_DEVICE, sentence, (gang.gpus_per_node, pool.portion))
    return None


def unread(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The pool's devices are unknown, so nothing fits. Devices of new nodes are pending: unavailable, not infeasible."""
    problem = pool.problem
    if pool.pending:
        return None  # Each of its nodes reports that and has a deadline.
    if demand.arriving and problem is not None and problem.reason is Reason.NO_DEVICE_PLUGIN:
        to_come = sum(demand.arrives(node.name) is not None for node in pool.nodes)
        return None if to_come >= demand.nodes else problem
    if problem is not None and problem.reason is Reason.NO_POOL and demand.awaited(pool.bare):
        return None
    return problem


def accelerator_unsupported(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """No released framework build has code for this device."""
    if pool.accelerator is None or pool.accelerator.support != "unsupported":
        return None
    sentence = "{} ({}) is supported by no current framework build"
    return Finding(Reason.ARCH_UNSUPPORTED, sentence, (pool.accelerator.id, pool.accelerator.architecture))


FORMATS: Final = {Precision.BF16: ("BF16",), Precision.FP8: ("FP8OCP", "FP8FNUZ")}
"""For each model.precision the device features that support it, one of them is enough; 16 and 32 bits of the older formats run
everywhere.
"""


def precision_unsupported(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The device does not compute in the number format of model.precision."""
    device, formats = pool.accelerator, FORMATS.get(demand.precision) if demand.precision else None
    if formats is None or device is None or device.features.intersection(formats):
        return None
    which = f" ({' or '.join(formats)})" if len(formats) > 1 else ""
    sentence = f"model.precision is {{}}{which}, which {{}} does not have"
    return Finding(Reason.PRECISION_UNSUPPORTED, sentence, (demand.precision, device.id))


def price_over_cap(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The GPUs of the whole job cost more an hour than placement.maxPricePerHour, or those alone whose price is known."""
    if pool.price is None:
        return over_cap(demand, _price_of_known(demand, pool, fleet), "costs at least {} an hour")
    return over_cap(demand, pool.price_of(demand.nodes, demand.gpus_per_node))


def _price_of_known(demand: Demand, pool: Pool, fleet: Fleet) -> int | None:
    """The least price of those nodes of a gang that cannot be among a joined pool's unidentified ones; None if it is unknown."""
    names = {name for name, *_ in pool.joins} if pool.problem is not None and demand.max_price is not None else ()
    parts = [part for part in fleet.pools if part.name in names] if names else []
    priced = [part.price.per_gpu_hour for part in parts if part.price is not None]
    others = {node.name for part in parts if part.price is None for node in part.nodes}
    nodes = demand.nodes - len(others)
    return min(priced) * nodes * demand.gpus_per_node if priced and nodes > 0 else None


def over_cap(demand: Demand, price: int | None, costs: str = "costs {} an hour") -> Finding | None:
    """A price for the whole job, in the cents that are shown and charged, is above placement.maxPricePerHour."""
    if demand.max_price is None or price is None or price <= most_within(demand.max_price):
        return None
    sentence = costs + ", placement.maxPricePerHour is {}"
    return Finding(Reason.PRICE_CAP, sentence, (Dollars(price), ExactDollars(demand.max_price)))


def hosts_over_cap(demand: Demand, price: int | None) -> Finding | None:
    """Hosts that are started for the job alone cost more than placement.maxPricePerHour, in contrast to the job's GPUs."""
    if over_cap(demand, price) is None or price is None or demand.max_price is None:
        return None
    sentence = (
        "hosts that are started for the job cost {} an hour, placement.maxPricePerHour is {}; raise it, or wait for "
        "room on other hosts"
    )
    return Finding(Reason.PRICE_CAP, sentence, (Dollars(price), ExactDollars(demand.max_price)))


def price_unknown(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A price limit or a budget is set and the pool has no price. Devices that nothing identifies, those of some of its nodes too, have
    none for that reason, and what `unread` asks for may bring the list price.
    """
    if pool.price is not None or not (demand.budgeted or demand.max_price is not None):
        return None
    if pool.problem is not None and (pool.accelerator is None or pool.problem.reason is Reason.DEVICE_UNKNOWN):
        return None
    field = "maxPricePerHour" if demand.max_price is not None else "budget"
    return Finding(
        Reason.PRICE_UNKNOWN, f"no price is known and placement.{field} is set; give the pool a price in a GPUPool"
    )


def runtime_class_missing(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The GPUPool names a RuntimeClass that does not exist, or the class of its pods cannot be read."""
    if pool.handler is not None and pool.handler.brings.unread:
        numbers = (pool.handler.runtime_class, pool.handler.brings.unread)
        return Finding(Reason.INVALID_SPEC, "RuntimeClass {}: {}; fix it", numbers)
    if pool.runtime_class is None or pool.runtime_class in fleet.runtime_classes or pool.vendor is Vendor.AMD:
        return None
    sentence = "RuntimeClass {} of GPUPool {} does not exist; create it or remove spec.runtimeClassName"
    return Finding(Reason.RUNTIME_CLASS_MISSING, sentence, (pool.runtime_class, pool.family))


POOL_RULES: Final[tuple[PoolRule, ...]] = (
    vendor_excluded,
    accelerator_excluded,
    other_shape,
    pool_excluded,
    probe_failed,
    capacity_type_excluded,
    device_excluded,
    parts_in_group,
    unread,
    memory_too_small,
    memory_unknown,
    ran_out_before,
    accelerator_unsupported,
    precision_unsupported,
    price_over_cap,
    price_unknown,
    runtime_class_missing,
    namespace_excluded,
    pod_security_blocked,
    host_access_denied,
    part_of_a_node,
    volume_of_one_node,
    beyond_limits,
)
