"""The nearest change of an impossible job that would make it fit: one field, its value now, and the value that fits.

Every proposal is decided before it is made, so that applying it really helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gpujob.catalog.records import Catalog
from gpujob.fleet.pools import Fleet, Pool
from gpujob.placement.capacity import able_nodes
from gpujob.placement.choose import choose
from gpujob.placement.decide import decide
from gpujob.placement.decision import Candidate, Decision, Fix
from gpujob.placement.demand import DEFAULT_DEVICES, Demand, OwnRuntime
from gpujob.quantity import GI, MAX_PRICE, MI, MICRO, exact_dollars, format_millicores, shortest_quantity
from gpujob.vocabulary import Checkpointing, Method, Outcome, Reason, Sharding, Verdict

TRIED: Final = 24
"""Proposals that are decided at most: the nearest ones; each costs one decision."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of one field and how far it is from what the job asks (0 is no change, 1 gives a wish up)."""

    distance: float
    field: str
    before: object
    after: object
    demand: Demand


def nearest_fix(decision: Decision, fleet: Fleet, catalog: Catalog) -> Fix | None:
    """The smallest single change that makes an Impossible job Placed or Waiting; None when no single change does."""
    if decision.verdict is not Verdict.IMPOSSIBLE:
        return None
    return _first_that_helps(decision.demand, decision.candidates, fleet, catalog)


def fix_for_pool(decision: Decision, pool: Pool, fleet: Fleet, catalog: Catalog) -> Fix | None:
    """The smallest single change that makes a job fit one pool that rejects it; None when no single change does."""
    candidates = tuple(candidate for candidate in decision.candidates if candidate.pool.name == pool.name)
    return _first_that_helps(decision.demand, candidates, replace(fleet, pools=(pool,)), catalog)


def _first_that_helps(demand: Demand, candidates: tuple[Candidate, ...], fleet: Fleet, catalog: Catalog) -> Fix | None:
    proposals = sorted(_distinct(_proposals(demand, candidates)), key=lambda p: (p.distance, p.field, str(p.after)))
    for proposal in proposals[:TRIED]:
        if choose(proposal.demand, fleet, catalog).verdict in (Verdict.PLACED, Verdict.WAITING):
            pool = decide(proposal.demand, fleet, catalog).candidates[0].pool.name
            return Fix(_sentence(proposal, pool), proposal.field, proposal.before, proposal.after, pool)
    return None


def _sentence(proposal: Proposal, pool: str) -> str:
    if proposal.after is None:
        return f"without {proposal.field} ({_text(proposal.before)}) it would fit pool {pool}"
    return f"with {proposal.field} {_text(proposal.after)} instead of {_text(proposal.before)} it would fit pool {pool}"


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(part)}" for key, part in value.items()) + "}"
    return "nothing" if value is None else str(value)


def _distinct(proposals: Iterator[Proposal]) -> list[Proposal]:
    nearest: dict[tuple[str, str], Proposal] = {}
    for proposal in proposals:
        key = (proposal.field, str(proposal.after))
        if key not in nearest or proposal.distance < nearest[key].distance:
            nearest[key] = proposal
    return list(nearest.values())


def _proposals(demand: Demand, candidates: tuple[Candidate, ...]) -> Iterator[Proposal]:
    """For each rejected candidate, the changes that would answer its reasons; fewer reasons are nearer."""
    for candidate in candidates:
        if candidate.outcome is not Outcome.REJECTED:
            continue
        for reason in {finding.reason for finding in candidate.reasons}:
            for repair in REPAIRS.get(reason, ()):
                for proposal in repair(demand, candidate):
                    yield replace(proposal, distance=proposal.distance + len(candidate.reasons) - 1)


Repair = Callable[[Demand, Candidate], Iterator[Proposal]]


def _less_memory(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    wanted, usable = demand.gpu_memory, candidate.pool.memory
    if wanted and usable and usable < wanted:
        fits = usable // GI * GI or usable // MI * MI
        yield Proposal(
            1 - fits / wanted, "spec.gpuMemory", shortest_quantity(wanted), shortest_quantity(fits),
            replace(demand, gpu_memory=fits),
        )  # fmt: skip


def _lighter_model(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    """What keeps the model and takes less memory: a smaller micro-batch, recomputed activations, sharded states."""
    model = demand.model
    if model is None:
        return
    if model.method is not Method.INFERENCE and model.checkpointing is not Checkpointing.LAYERS:
        changed = replace(demand, model=replace(model, checkpointing=Checkpointing.LAYERS))
        before = model.checkpointing.value
        yield Proposal(0.2, "spec.model.gradientCheckpointing", before, Checkpointing.LAYERS.value, changed)
    if candidate.gang.gpus > 1 and model.sharding is not Sharding.FSDP:
        changed = replace(demand, model=replace(model, sharding=Sharding.FSDP))
        yield Proposal(0.3, "spec.model.sharding", model.sharding.value, Sharding.FSDP.value, changed)
    batch = model.batch or 1
    for fewer in sorted({batch // 2, batch // 4, batch // 8, 1} - {0, batch}):
        changed = replace(demand, model=replace(model, batch=fewer))
        yield Proposal(0.4 - 0.3 * fewer / batch, "spec.model.batchPerGPU", batch, fewer, changed)


def _more_vendors(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    vendor = candidate.pool.vendor
    if vendor not in demand.vendors:
        wider = demand.vendors | {vendor}
        yield Proposal(
            0.3, "spec.placement.vendors", sorted(demand.vendors), sorted(wider), replace(demand, vendors=wider)
        )
    elif demand.own_images:
        own = tuple(o for o in demand.own_images if o.backend.vendor is vendor)
        if not own:
            before = {o.backend.lower(): _image(o) for o in demand.own_images}
            yield Proposal(0.9, "spec.images", before, None, replace(demand, own_images=()))


def _image(own: OwnRuntime) -> dict[str, str]:
    return {"image": own.image} | ({"runtime": own.runtime} if own.runtime else {})


def _other_accelerators(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    name = candidate.pool.accelerator_id
    allowed, denied = demand.accelerators_allowed, demand.accelerators_denied
    yield from _listed_name("accelerators", name, allowed, denied, demand)
    gang = candidate.gang
    if gang.accelerator not in (None, name) and candidate.pool.accelerator is not None:
        changed = demand.changed(gang, replace(gang, accelerator=name))
        yield Proposal(0.3, gang.field("accelerator"), gang.accelerator, name, changed)


def _other_pools(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    pool = candidate.pool
    denied = tuple(pool.name if pool.is_called(word) else word for word in demand.pools_denied)
    for proposal in _listed_name("pools", pool.name, demand.pools_allowed, denied, demand):
        before = list(demand.pools_denied) if proposal.field.endswith(".deny") else proposal.before
        yield replace(proposal, before=before)


def _listed_name(
    kind: str, name: str, allowed: tuple[str, ...], denied: tuple[str, ...], demand: Demand
) -> Iterator[Proposal]:
    """The name added to the list of allowed ones, or taken off the list of denied ones."""
    if allowed and name not in allowed:
        wider = (*allowed, name)
        changed = replace(demand, **{f"{kind}_allowed": wider})  # type: ignore[arg-type]
        yield Proposal(0.3, f"spec.placement.{kind}.allow", list(allowed), list(wider), changed)
    if name in denied:
        fewer = tuple(word for word in denied if word != name)
        changed = replace(demand, **{f"{kind}_denied": fewer})  # type: ignore[arg-type]
        yield Proposal(0.4, f"spec.placement.{kind}.deny", list(denied), list(fewer) or None, changed)


def _more_capacity_types(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    wider = tuple(sorted({*demand.capacity_types, candidate.pool.capacity_type}))
    yield Proposal(
        0.25, "spec.placement.capacityTypes", list(demand.capacity_types), list(wider),
        replace(demand, capacity_types=wider),
    )  # fmt: skip


def _higher_price(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    if demand.max_price is None:
        return
    before = exact_dollars(demand.max_price)
    if candidate.price_per_hour is None or candidate.price_per_hour > MAX_PRICE:
        yield Proposal(0.5, "spec.placement.maxPricePerHour", before, None, replace(demand, max_price=None))
        return
    cents = -(-candidate.price_per_hour * 100 // MICRO)
    raised = cents * MICRO // 100
    distance = min(0.9, raised / max(demand.max_price, 1) - 1)
    yield Proposal(
        distance, "spec.placement.maxPricePerHour", before, f"{cents // 100}.{cents % 100:02d}",
        replace(demand, max_price=raised),
    )  # fmt: skip


def _smaller_gang(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    pool, gang = candidate.pool, candidate.gang
    if demand.sized_by_model:
        return  # The job names no number of GPUs; a lighter model is what could help.
    enough = len(able_nodes(demand.only(gang), pool))
    if 0 < enough < gang.nodes:
        changed = demand.changed(gang, replace(gang, nodes=enough))
        yield Proposal(1 - enough / gang.nodes, gang.field("nodes"), gang.nodes, enough, changed)
    most = _gpus_on(pool, gang.nodes)
    if 0 < most < gang.gpus_per_node:
        changed = demand.changed(gang, replace(gang, gpus_per_node=most))
        distance = 1 - most / gang.gpus_per_node
        yield Proposal(distance, gang.field("gpusPerNode"), gang.gpus_per_node, most, changed)


def _gpus_on(pool: Pool, nodes: int) -> int:
    """The most GPUs that each of `nodes` nodes has."""
    counts = sorted((node.total or 0 for node in pool.nodes), reverse=True)
    return counts[nodes - 1] if len(counts) >= nodes else 0


def _smaller_pods(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    """For each thing that a pod asks for: what enough nodes that have all else leave of it, and doing without."""
    gang = candidate.gang
    for attribute, field, unit, show in _SIZES:
        asked: int | None = getattr(demand, attribute)
        if not asked:
            continue
        without = _asking(demand, attribute, None)
        # Shared memory counts in memory, so nobody who has too little memory is found by the other alone.
        rest = replace(without, shared_memory=None) if attribute == "memory" else without
        fits = _on_each(rest.only(gang), candidate.pool, attribute) * 9 // 10 // unit * unit
        if 0 < fits < asked and not (attribute == "memory" and (demand.shared_memory or 0) > fits):
            yield Proposal(1 - fits / asked, field, show(asked), show(fits), _asking(demand, attribute, fits))
        yield Proposal(0.95, field, show(asked), None, without)


def _asking(demand: Demand, attribute: str, amount: int | None) -> Demand:
    """The demand with another amount of one of the things that a pod asks for."""
    changes: dict[str, Any] = {attribute: amount}
    return replace(demand, **changes)


_SIZES: Final[tuple[tuple[str, str, int, Callable[[int], str]], ...]] = (
    ("millicores", "spec.resources.cpu", 1000, format_millicores),
    ("memory", "spec.resources.memory", GI, shortest_quantity),
    ("storage", "spec.resources.ephemeralStorage", GI, shortest_quantity),
    ("shared_memory", "spec.resources.sharedMemory", GI, shortest_quantity),
)
"""What a pod can ask for: the demand's attribute, the job's field, the steps that a proposal takes, how it is written."""


def _on_each(demand: Demand, pool: Pool, attribute: str) -> int:
    """The most of one resource that each of enough nodes has, of the nodes that have all else."""
    name = "memory" if attribute == "shared_memory" else attribute
    there = sorted((getattr(node.allocatable, name) or 0 for node in able_nodes(demand, pool)), reverse=True)
    return there[demand.nodes - 1] if len(there) >= demand.nodes else 0


def _fewer_features(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    for word in demand.requires:
        fewer = tuple(other for other in demand.requires if other != word)
        changed = replace(demand, requires=fewer)
        yield Proposal(0.6, "spec.requires", list(demand.requires), list(fewer) or None, changed)


def _any_version(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    if demand.framework_version:
        changed = replace(demand, framework_version=None)
        yield Proposal(0.55, "spec.framework.version", demand.framework_version, None, changed)
    if demand.python:
        yield Proposal(0.5, "spec.framework.python", demand.python, None, replace(demand, python=None))


def _more_devices(demand: Demand, candidate: Candidate) -> Iterator[Proposal]:
    kind, gang = candidate.pool.kind, candidate.gang
    if kind not in demand.devices:
        wider = tuple(sorted((*demand.devices, kind)))
        before = None if demand.devices == DEFAULT_DEVICES else list(demand.devices)
        yield Proposal(0.4, "spec.placement.devices", before, list(wider), replace(demand, devices=wider))
    elif gang.gpus_per_node > 1:
        single = demand.changed(gang, replace(gang, gpus_per_node=1))
        yield Proposal(0.9, gang.field("gpusPerNode"), gang.gpus_per_node, 1, single)


REPAIRS: Final[dict[Reason, tuple[Repair, ...]]] = {
    Reason.MEM_TOO_SMALL: (_less_memory, _lighter_model),
    Reason.VENDOR_EXCLUDED: (_more_vendors,),
    Reason.ACCELERATOR_EXCLUDED: (_other_accelerators,),
    Reason.POOL_EXCLUDED: (_other_pools,),
    Reason.DEVICE_EXCLUDED: (_more_devices,),
    Reason.SHARED_DEVICE: (_more_devices,),
    Reason.CAPACITY_TYPE_EXCLUDED: (_more_capacity_types,),
    Reason.PRICE_CAP: (_higher_price,),
    Reason.PRICE_UNKNOWN: (_higher_price,),
    Reason.POOL_TOO_SMALL: (_smaller_gang,),
    Reason.TAINT_NOT_TOLERATED: (_smaller_gang,),
    Reason.NODE_TOO_SMALL: (_smaller_pods, _smaller_gang),
    Reason.DISK_TOO_SMALL: (_smaller_pods, _smaller_gang),
    Reason.PRECISION_UNSUPPORTED: (_fewer_features,),
    Reason.FRAMEWORK_UNSUPPORTED: (_fewer_features, _any_version),
}
"""Which changes of the job answer a reason; a reason that is not here lies in the cluster, not in the job."""
