"""Memory filters: what a job needs on each GPU, by gpuMemory or by its model, against the memory of a pool's devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import shape_of
from gpujob.values.finding import Finding, Lack, Need, Size, counted, listed
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Method, Reason

if TYPE_CHECKING:
    from gpujob.memory.workload import Workload


def memory_too_small(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A device has less usable memory than gpuMemory, or than the expected peak of the model."""
    least = needed(demand)
    if least is None or pool.memory is None or not lacks(pool, least):
        return None
    has = (pool.device, Size(pool.memory), Lack(least, pool.memory))
    apart = _apart(pool)
    if demand.gang.memory is not None:
        sentence = (
            "the model needs {} on each GPU, up to {} with what the allocator reserves; {} has {} (short by {})" + apart
        )
        return Finding(Reason.MEM_TOO_SMALL, sentence, (Need(least), Need(demand.gang.memory.high), *has))
    sentence = "needs {} usable per GPU, {} has {} (short by {})" + (_unit_hint(least, pool.memory) or apart)
    return Finding(Reason.MEM_TOO_SMALL, sentence, (Need(least), *has))


def _apart(pool: Pool) -> str:
    """The hint that a card's memory is split over several devices, for a request that fits the whole card."""
    each = pool.accelerator.devices_per_card if pool.accelerator else 1
    return f"; a card is {each} devices whose memory cannot be joined" if each > 1 else ""


def lacking(gang: Gang, pool: Pool, demand: Demand) -> int:
    """Bytes that a device of the pool lacks for a gang of the demand; 0 if its memory is unknown."""
    least = gang.memory.expected if gang.memory is not None else demand.gpu_memory
    return max(0, (least or 0) - pool.memory) if pool.memory is not None else 0


def lacks(pool: Pool, least: int | None) -> bool:
    """Whether a device of the pool is known to have less memory than needed."""
    return least is not None and pool.memory is not None and pool.memory < least


def needed(demand: Demand) -> int | None:
    """Bytes below which a device is rejected; None if the job needs none."""
    return demand.gang.memory.expected if demand.gang.memory is not None else demand.gpu_memory


def memory_tight(demand: Demand, pool: Pool) -> Iterator[Finding]:
    """The warning that the model's expected peak fits but the allocator's reserve beyond it may not."""
    need = demand.gang.memory
    if need is None or pool.memory is None or not is_tight(demand.gang, pool):
        return
    sentence = "the model needs {} on each GPU, and {} with what the allocator may reserve; {} has {}"
    numbers = (Need(need.expected, pool.memory), Need(need.high), pool.device, Size(pool.memory))
    yield Finding(Reason.MEM_TIGHT, sentence, numbers)


def is_tight(gang: Gang, pool: Pool) -> bool:
    """Whether `memory_tight` warns about a gang."""
    need = gang.memory
    return need is not None and pool.memory is not None and need.expected <= pool.memory < need.high


def risk(demand: Demand, gang: Gang, pool: Pool) -> int:
    """How likely the model does not run on a gang of a pool: 0 without a warning, 1 with MemTight, 2 with HeadsNotDivided, because
    engines reject that, 3 with both.
    """
    if gang.memory is None:
        return 0
    heads = known_heads(demand, gang.memory.work) if gang.gpus_per_node > 1 else None
    return is_tight(gang, pool) + 2 * (heads is not None and not divides(gang.gpus_per_node, heads))


def sharding_assumed(demand: Demand) -> Iterator[Finding]:
    """The warning that several GPUs hold the model only if the program shards it over them."""
    if demand.spreads(demand.gang):
        how = (
            "tensor parallel"
            if demand.model and demand.model.method is Method.INFERENCE
            else "FSDP, or tensor parallel"
        )
        sentence = f"the model is taken as sharded over {{}} ({how}); set model.sharding if it is not"
        if not demand.scales(demand.gang):
            sentence = (
                "the model is taken as sharded over {} (FSDP, or tensor parallel), and these as no faster than one; set "
                "model.sharding"
            )
        yield Finding(Reason.SHARDING_ASSUMED, sentence, (counted(demand.gang.gpus, "GPU"),))


def heads_not_divided(demand: Demand, pool: Pool) -> Iterator[Finding]:
    """The warning that engines reject a number of GPUs on a node over which attention heads cannot be divided."""
    need, gpus = demand.gang.memory, demand.gang.gpus_per_node
    heads = known_heads(demand, need.work) if need is not None and gpus > 1 else None
    if need is None or heads is None or divides(gpus, heads):
        return
    numbers: tuple[object, ...] = (counted(gpus, "GPU"), *heads)
    what = "do not divide the model's {} attention heads ({} KV heads)"
    if heads[0] % gpus == 0:
        what = "divide the model's {} attention heads and not its {} KV heads"
    sentence = f"{{}} on a node {what}, and tensor parallel engines reject that; "
    holding = _nearest_dividing(demand.gang, need.work, heads, pool)
    if holding is None:
        yield Finding(Reason.HEADS_NOT_DIVIDED, sentence + "no number of them here does and holds the model", numbers)
    else:
        yield Finding(Reason.HEADS_NOT_DIVIDED, sentence + "gpusPerNode {} does", (*numbers, holding))


def _nearest_dividing(gang: Gang, work: Workload, heads: tuple[int, int], pool: Pool) -> int | None:
    """The number of GPUs on a node of a pool that divides the heads and holds the model, the nearest one below the gang's, else the
    nearest above; None if none does.
    """
    # late import: the formulas are needed only for jobs with a model
    from gpujob.placement.request.model_requirements import estimates_of

    needs, gpus = estimates_of(work), gang.gpus_per_node
    for number in chain(range(gpus - 1, 0, -1), range(gpus + 1, min(pool.largest, heads[0]) + 1)):
        if divides(number, heads) and (pool.memory is None or needs.on(number * gang.nodes).expected <= pool.memory):
            return number
    return None


def known_heads(demand: Demand, work: Workload) -> tuple[int, int] | None:
    """Attention heads and KV heads that a tensor parallel model divides over its GPUs; None if it is divided in another way, or
    if its heads are only those of usual models of its size.
    """
    said = demand.model is not None and (demand.model.parameters is None or "heads" in dict(demand.model.overrides))
    return (work.shape.heads, work.shape.kv_heads) if work.tensor_parallel and said else None


def divides(gpus: int, heads: tuple[int, int]) -> bool:
    """Whether attention heads and KV heads can be divided over a number of GPUs; a KV head may be on several."""
    every, of_cache = heads
    return every % gpus == 0 and (of_cache % gpus == 0 or gpus % of_cache == 0)


def _unit_hint(wanted: int, usable: int) -> str:
    return f"; {wanted // GI}G fits" if same_number_that_fits(wanted, usable) else ""


def same_number_that_fits(wanted: int, usable: int) -> int | None:
    """Bytes of the same number with G if the job writes Gi: 80G of an "80 GB" card; None if that is too much as well."""
    gigabytes = wanted // GI * 10**9
    return gigabytes if wanted % GI == 0 and gigabytes <= usable < wanted else None


def memory_unknown(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """gpuMemory or a model is given and the memory of a device is unknown."""
    if needed(demand) is None or pool.memory is not None:
        return None
    if pool.problem is not None and (pool.accelerator is not None or pool.problem.reason is not Reason.DEVICE_UNKNOWN):
        return None
    sentence = "neither labels nor catalog have the memory of {}; set spec.memoryPerGPU in a GPUPool for it"
    what = pool.device if pool.accelerator else f"a device of {pool.resource}"
    return Finding(Reason.MEM_UNKNOWN, sentence, (what,))


def ran_out_before(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """An attempt ran out of GPU memory, and the device has less than the next one asks for."""
    floor = demand.memory_floor
    if floor is None or (pool.memory is not None and pool.memory >= floor):
        return None
    if pool.memory is None:
        sentence = "neither labels nor catalog say how much memory {} has; set spec.memoryPerGPU in a GPUPool for it"
        return Finding(Reason.MEM_UNKNOWN, sentence, (pool.device,))
    sentence = "the job ran out of GPU memory and asks for {} since (retries.memoryFactor), {} has {} (short by {})"
    return Finding(
        Reason.MEM_RAN_OUT, sentence, (Need(floor), pool.device, Size(pool.memory), Lack(floor, pool.memory))
    )


def unknown_model(demand: Demand, catalog: Catalog) -> Iterator[Finding]:
    """The model's name is not in the catalog; the message names up to three similar ones."""
    if demand.model is None or demand.model.name is None or catalog.model(demand.model.name) is not None:
        return
    near = catalog.nearest_models(demand.model.name)
    what = "the nearest are" if len(near) > 1 else "the nearest is"
    hint = f"{what} {listed(near)}; or give" if near else "give"
    sentence = (
        "model.name: {} is no known model; {} model.parameters in its place, for example 8B, "
        "or gpuMemory if it is no language model"
    )
    yield Finding(Reason.MODEL_UNKNOWN, sentence, (demand.model.name, hint))


PARTS_OF_A_SHAPE: Final = (
    ("active_experts", "activeExperts", "experts", "expert"),
    ("kv_heads", "kvHeads", "heads", "attention head"),
)
"""Sizes of `model.shape` that are parts of another one: field of ModelShape, field of the job, the whole in both, its word."""


def impossible_shape(demand: Demand, catalog: Catalog) -> Iterator[Finding]:
    """A size of model.shape is more than the model's size that it is a part of. The API checks it where the job states both."""
    model = demand.model
    if model is None or not model.overrides:
        return
    said = dict(model.overrides)
    for attribute, field, whole, word in PARTS_OF_A_SHAPE:
        rest = tuple(each for each in model.overrides if each[0] != attribute)
        shape = shape_of(replace(model, overrides=rest), catalog) if attribute in said and whole not in said else None
        if shape is not None and said[attribute] > getattr(shape, whole):
            sentence = "model.shape.{} is {}, {} has {}; lower it, or set model.shape.{} too"
            name = shape.name or "a model of this size"
            numbers = (field, said[attribute], name, counted(getattr(shape, whole), word), whole)
            yield Finding(Reason.INVALID_SPEC, sentence, numbers)
