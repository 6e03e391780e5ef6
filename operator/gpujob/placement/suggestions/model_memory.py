"""Repairs that keep the model and use less memory on each GPU: recomputed activations, sharded states, adapters, smaller batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import MOST_NODES, Pool
from gpujob.placement.engine.gang_sizing import SEVERAL, division, fewer, is_open_ended, largest_gangs
from gpujob.placement.filters.pool_filters import FORMATS
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.request.model_requirements import USUAL_PRECISION, ModelDemand
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import Proposal, cut, proposed
from gpujob.placement.suggestions.requests import first_that_divides
from gpujob.values.quantity import most_within
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimates

NODES_OF_A_JOB: Final = 1024
"""The most nodes that the job's schema accepts."""

SHORTEST: Final = 512
"""Tokens below which a sequence is not shortened."""


def lighter_model(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Changes that keep the model and use less memory; the smaller the effect on the training, the nearer."""
    gangs = largest_gangs(demand, candidate.pool, catalog) if demand.sized_by_model else ((candidate.gang,),)
    yield from _lighter(demand, candidate, gangs, catalog)


def _lighter(
    demand: Demand, candidate: Candidate, gangs: Sequence[Sequence[Gang]], catalog: Catalog
) -> Iterator[Proposal]:
    """The changes of `lighter_model` for one of these gangs."""
    model = demand.model
    if model is None:
        return
    yield from _spread_out(demand, model, candidate)
    yield from _less_at_once(demand, model, candidate, gangs, catalog)
    if model.method is Method.INFERENCE:
        yield from _narrower(demand, model, candidate.pool)
        return
    if model.checkpointing is not Checkpointing.LAYERS:
        changed = demand.with_model(replace(model, checkpointing=Checkpointing.LAYERS))
        before = model.checkpointing.value
        yield proposed(
            costs.CHECKPOINTING, "spec.model.gradientCheckpointing", before, Checkpointing.LAYERS.value, changed
        )
    if model.method is Method.FULL and model.optimizer is Optimizer.ADAMW_FOREACH:
        changed = demand.with_model(replace(model, optimizer=Optimizer.ADAMW))
        yield proposed(
            costs.FUSED_OPTIMIZER, "spec.model.optimizer", model.optimizer.value, Optimizer.ADAMW.value, changed
        )
    if model.method is Method.FULL and model.optimizer in (Optimizer.ADAMW, Optimizer.ADAMW_FOREACH):
        changed = demand.with_model(replace(model, optimizer=Optimizer.ADAMW_8BIT))
        yield proposed(
            costs.OPTIMIZER_OF_8_BITS,
            "spec.model.optimizer",
            model.optimizer.value,
            Optimizer.ADAMW_8BIT.value,
            changed,
        )
    if model.precision is Precision.FP32 or (model.method is Method.FULL and model.precision is Precision.MIXED):
        changed = demand.with_model(replace(model, precision=Precision.BF16))
        changed = replace(changed, precision=Precision.BF16)
        yield proposed(
            costs.OTHER_PRECISION, "spec.model.precision", model.precision.value, Precision.BF16.value, changed
        )
    for place, method in enumerate((Method.LORA, Method.QLORA)):
        if model.method is Method.FULL or (model.method, method) == (Method.LORA, Method.QLORA):
            # A number format that the job does not name is that of the method.
            usual = USUAL_PRECISION[method] if demand.precision is None else model.precision
            changed = demand.with_model(replace(model, method=method, precision=usual))
            yield cut(
                costs.ADAPTERS + place * costs.NEXT_METHOD,
                "spec.model.method",
                model.method.value,
                method.value,
                changed,
            )


SERVED_IN: Final = (
    (Precision.BF16, (Precision.FP32, Precision.MIXED)),
    (Precision.FP8, (Precision.FP32, Precision.MIXED, Precision.BF16, Precision.FP16)),
)
"""The number formats to serve a model in, the widest first, each with the wider ones."""


def _narrower(demand: Demand, model: ModelDemand, pool: Pool) -> Iterator[Proposal]:
    """A served model in a number format of fewer bits that the pool's devices have."""
    has = pool.accelerator.features if pool.accelerator is not None else frozenset()
    for place, (precision, wider) in enumerate(SERVED_IN):
        if model.precision in wider and not has.isdisjoint(FORMATS[precision]):
            changed = demand.with_model(replace(model, precision=precision, precision_given=True))
            changed = replace(changed, precision=precision)
            before = model.precision.value if model.precision_given else None
            distance = costs.NARROWER_WEIGHTS + place * costs.NEXT_NAME
            yield cut(distance, "spec.model.precision", before, precision.value, changed)


def fewer_for_model(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Changes that let fewer devices hold a model, if their number follows from it."""
    gang, pool = candidate.gang, candidate.pool
    if not demand.sized_by_model or gang.gpus == 1:
        return
    price = pool.least_price
    most = most_within(demand.max_price) // price if demand.max_price is not None and price else inf
    less = fewer(demand, gang, pool, catalog, most)
    yield from _lighter(demand, candidate._replace(gang=less[0][0]), less, catalog)


def more_nodes(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """The fewest nodes that hold the model, if its number of GPUs follows from it and the pool has more nodes than are tried."""
    model, pool = demand.model, candidate.pool
    needs = division(model, demand, SEVERAL, catalog) if model is not None else None
    if needs is None or pool.memory is None or not is_open_ended(demand):
        return
    for size, count in pool.node_sizes(NODES_OF_A_JOB):
        nodes = _fewest_nodes(needs, pool.memory, size, count)
        if nodes:
            changed = demand.but(gangs=(Gang(nodes, 1),), nodes_given=True)
            yield proposed(costs.MORE_NODES + nodes / NODES_OF_A_JOB, "spec.nodes", None, nodes, changed)


def _fewest_nodes(needs: Estimates, memory: int, size: int, count: int) -> int:
    """The fewest nodes of `count` with `size` GPUs each that hold a model, beyond those that are tried without being asked for: with
    the allocator's reserve if possible; 0 if none do.
    """
    tried = range(MOST_NODES + 1, count + 1)

    def hold(nodes: int, end: str) -> bool:
        return bool(getattr(needs.on(nodes * size), end) <= memory)

    for end in ("high", "expected"):
        place = bisect_left(tried, True, key=partial(hold, end=end))
        if place < len(tried):
            return tried[place]
    return 0


def _spread_out(demand: Demand, model: ModelDemand, candidate: Candidate) -> Iterator[Proposal]:
    """Shards the model over the GPUs that the job has, over as many as it takes, or over more."""
    gang = candidate.gang
    shards = demand.spreads(gang) or model.sharding in (Sharding.FSDP, Sharding.ZERO3, Sharding.TENSOR_PARALLEL)
    usual = Sharding.TENSOR_PARALLEL if model.method is Method.INFERENCE else Sharding.FSDP
    if model.sharding is not usual and not shards and (gang.gpus > 1 or demand.sized_by_model):
        sharded = replace(model, sharding=usual, sharding_given=True)
        before = model.sharding.value if model.sharding_given else None
        yield proposed(costs.SHARDED, "spec.model.sharding", before, usual.value, demand.with_model(sharded))
    if demand.sized_by_model or gang.entry is not None:
        return
    if not (model.sharding_given and model.sharding is Sharding.NONE):
        free = demand.but(sized_by_model=True, gangs=(Gang(gang.nodes if demand.nodes_given else 1, 1),))
        yield proposed(costs.GPUS_FROM_MODEL, "spec.gpusPerNode", gang.gpus_per_node, None, free)
    if shards:
        more = gang.gpus_per_node * 2
        while count := first_that_divides(demand, gang, range(more, candidate.pool.largest + 1)):
            wider = demand.changed(gang, replace(gang, gpus_per_node=count))
            yield proposed(costs.SHARDED + count * costs.PER_GPU, "spec.gpusPerNode", gang.gpus_per_node, count, wider)
            more = count * 2


_SIZES: Final = (
    ("batch", "batchPerGPU", 1, costs.SMALLER_BATCH),
    ("rank", "lora.rank", 1, costs.SMALLER_RANK),
    ("sequence", "sequenceLength", SHORTEST, costs.SHORTER_SEQUENCE),
    ("concurrency", "inference.concurrency", 1, costs.FEWER_REQUESTS_AT_ONCE),
    ("max_tokens", "inference.maxTokens", SHORTEST, costs.FEWER_TOKENS),
)
"""Sizes of a workload: the attribute, the field, the least value, and the cost of any smaller value."""


def _less_at_once(
    demand: Demand, model: ModelDemand, candidate: Candidate, gangs: Sequence[Sequence[Gang]], catalog: Catalog
) -> Iterator[Proposal]:
    """The largest micro-batch, rank of adapters, longest sequence, most and longest requests that fit; the least value of each if
    several of them must be smaller. The first of these sets of gangs counts with which any value fits.
    """
    sizes = [size for size in _SIZES if _is_reducible(model, *size[:3])]

    def on(alike: Sequence[Gang]) -> _Fits:
        return lambda changed, end: _holds(changed, demand, alike, candidate, catalog, end)

    smallest = model
    for attribute, _, least, _ in sizes:
        smallest = _with(smallest, attribute, least)
    several = len(sizes) > 1 and any(on(alike)(smallest, "expected") for alike in gangs)
    for attribute, field, least, far in sizes:
        now = getattr(model, attribute)
        found = (_most_that_fits(model, attribute, (least, now - 1), on(alike)) for alike in gangs)
        most = next(filter(None, found), 0)
        if attribute == "concurrency":
            most = _in_two_digits(most)
        if not most and several:
            most = least
        if most:
            changed = demand.with_model(_with(model, attribute, most))
            yield proposed(far - 0.3 * most / now, f"spec.model.{field}", now, most, changed)


def _is_reducible(model: ModelDemand, attribute: str, field: str, least: int) -> bool:
    """Whether the job's method has this size, and a smaller value is possible."""
    now: int | None = getattr(model, attribute)
    if not now or now <= least:
        return False
    if field.startswith("lora"):
        return model.method in (Method.LORA, Method.QLORA)
    return model.method is Method.INFERENCE or not field.startswith("inference")


def _in_two_digits(amount: int) -> int:
    """A number of requests with two digits, rounded down: more would promise what the estimate does not know."""
    step = int("1".ljust(len(str(amount)) - 1, "0"))
    return amount // step * step


_Fits = Callable[[ModelDemand, str], bool]
"""Whether a device holds a model by one end of its estimate."""


def _most_that_fits(model: ModelDemand, attribute: str, ends: tuple[int, int], fits: _Fits) -> int:
    """The largest value of one size of the workload that the device holds, with the allocator's reserve if possible; 0 if none
    does.

    The part of a device that a server leaves alone does not count: a server can be set to leave less.
    """
    for end in ("taken", "expected"):
        low, high = ends
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(_with(model, attribute, middle), end) else (low, middle - 1)
        if low and fits(_with(model, attribute, low), end):
            return low
    return 0


def _holds(
    model: ModelDemand, demand: Demand, gangs: Sequence[Gang], candidate: Candidate, catalog: Catalog, end: str
) -> bool:  # fmt: skip
    """Whether the pool's device holds a model on one of the gangs."""
    usable = candidate.pool.memory
    if usable is None:
        return False
    for gang in gangs:
        needs = division(model, demand, SEVERAL if demand.sized_by_model else gang, catalog)
        if needs is not None and getattr(needs.on(gang.gpus), end) <= usable:
            return True
    return False


def _with(model: ModelDemand, attribute: str, amount: int) -> ModelDemand:
    changes: dict[str, Any] = {attribute: amount}
    return replace(model, **changes)
