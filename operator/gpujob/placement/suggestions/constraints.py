"""Repairs that widen or drop a constraint of the job: vendors, names, kinds of devices and capacity, price, software."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from math import log, prod
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.identity import bare_words
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import apart, first_of, release
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.demand import DEFAULT_DEVICES, Demand, OwnRuntime
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.proposal import DEVICES, Proposal, cut, is_of_parts, proposed
from gpujob.values.finding import listed
from gpujob.values.quantity import MAX_PRICE, exact_dollars, shown_dollars
from gpujob.values.vocabulary import DeviceKind, Precision

BUDGET: Final = "spec.placement.budget"
PRICE_LIMIT: Final = "spec.placement.maxPricePerHour"
"""The field that `higher_price` changes."""

UNRELATED: Final = 3
"""Steps between the accelerators of two vendors; see `_steps_apart`."""

STEP: Final = 0.75

DOUBLE: Final = 2

FEW_FEATURES: Final = 6
"""The number of features up to which each pair is tried as left out."""
_OTHER_FORMATS: Final = (Precision.BF16, Precision.FP16, Precision.FP32)


def more_vendors(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Adds the pool's vendor to the job's vendors, or replaces images for one stack by the catalog's."""
    vendor = candidate.pool.vendor
    if vendor not in demand.vendors:
        wider = demand.vendors | {vendor}
        changed = demand.but(vendors=wider)
        yield cut(costs.OTHER_VENDOR, "spec.placement.vendors", sorted(demand.vendors), sorted(wider), changed)
    elif demand.own_images and not any(own.backend.vendor is vendor for own in demand.own_images):
        yield from catalog_images(demand, candidate, fleet, catalog)


def catalog_images(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Replaces the job's own images by the catalog's."""
    if demand.own_images:
        before = {own.backend.lower(): _image(own) for own in demand.own_images}
        yield proposed(costs.CATALOG_IMAGES, "spec.images", before, None, demand.but(own_images=()))


def _image(own: OwnRuntime) -> dict[str, str]:
    return {"image": own.image} | ({"runtime": own.runtime} if own.runtime else {})


def other_accelerators(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Adds the pool's accelerator to the job's lists, or puts it in place of a gang's of the same vendor."""
    pool = candidate.pool
    if pool.accelerator is None and not pool.models:
        return  # No name means devices that nothing identifies.
    name = pool.models[0] if pool.models else pool.accelerator_id
    allowed, denied = demand.accelerators_allowed, demand.accelerators_denied
    steps = _steps_apart(candidate, demand.ids_of(allowed), catalog)
    yield from _listed_name("accelerators", name, allowed, denied, demand, steps)
    gang = candidate.gang
    if not demand.is_meant_for(gang, (name,)) and pool.accelerator is not None:
        changed = demand.changed(gang, replace(gang, accelerator=name))
        steps = _steps_apart(candidate, demand.ids_of((gang.accelerator or "",)), catalog)
        if steps == UNRELATED:
            return  # Another vendor's device, or one for an unknown name, is not what the shape is for.
        yield cut(of_device(steps), gang.field("accelerator"), gang.accelerator, name, changed)


def further_shape(demand: Demand, candidates: Iterable[Candidate], fleet: Fleet) -> Iterator[tuple[str, Demand]]:
    """If the job's shapes are for devices of vendors that the cluster does not have: a sentence that proposes an entry for a device
    that it has, and the demand with that entry.
    """
    names = [gang.accelerator for gang in demand.gangs if gang.accelerator is not None]
    makers = {demand.makers[each] for each in demand.ids_of(names) if each in demand.makers}
    if len(names) < len(demand.gangs) or not makers.isdisjoint(pool.vendor for pool in fleet.pools):
        return
    vendors = listed(sorted(makers))
    for candidate in candidates:
        name, gang = candidate.pool.accelerator_id, replace(candidate.gang, accelerator=candidate.pool.accelerator_id)
        if candidate.pool.accelerator is not None:
            sentence = f"spec.shapes has only devices of {vendors}, and the cluster has none; add an entry for {name}"
            yield sentence, demand.but(gangs=(*demand.gangs, gang))


def of_device(steps: float) -> float:
    """The cost of one more device, by its steps from those that the job names."""
    return costs.OTHER_VENDOR if steps == UNRELATED else costs.NAME_ALLOWED - costs.CLOSER_DEVICE * (UNRELATED - steps)


def _steps_apart(candidate: Candidate, wanted: Iterable[str], catalog: Catalog) -> float:
    """How far the pool's accelerator is from the wanted ones: 0 of one model (H100-SXM, H100-PCIe), 1 of one architecture, 2 of
    one vendor, each plus the share that it lacks of a wanted one's figures, and 3 of another vendor.
    """
    return steps_from(wanted, candidate.pool.accelerator, catalog)


def steps_from(wanted: Iterable[str], own: Accelerator | None, catalog: Catalog) -> float:
    """`_steps_apart` of a device."""
    rows = [row for row in map(catalog.accelerator, wanted) if row is not None] if own is not None else []
    if own is None or not rows:
        return UNRELATED
    return min(
        UNRELATED if row.vendor is not own.vendor
        else _lacks(own, row) + (0 if _models(row.id) & _models(own.id) else 1 if row.architecture == own.architecture else 2)
        for row in rows
    )  # fmt: skip


def _lacks(own: Accelerator, wanted: Accelerator) -> float:
    """The share that a device lacks of another one's TFLOPS, bandwidth and memory together, in steps of a quarter of what is left:
    among devices that lack little the price decides, and one generation back is nearer than a small device.
    """
    pairs = (
        (own.bf16_tflops or own.fp16_tflops, wanted.bf16_tflops or wanted.fp16_tflops),
        (own.bandwidth_gb_s, wanted.bandwidth_gb_s),
        (own.nominal_bytes, wanted.nominal_bytes),
    )
    has = prod(min(1.0, ours / theirs) if ours and theirs else 1.0 for ours, theirs in pairs)
    return 1 - STEP ** int(log(has, STEP) + 1e-9)


_MODEL: Final = re.compile(r"[a-z]*[0-9]+")


def _models(identity: str) -> set[str]:
    """The models in an id, by the words that have a number and are no size, without letters behind it: h100, mi250 for MI250X."""
    words = (word for word in bare_words(identity) if any(map(str.isdigit, word)))
    return {found[0] if (found := _MODEL.match(word)) else word for word in words}


def other_pools(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Adds the pool to the job's lists."""
    pool = candidate.pool
    if demand.pools_allowed and not pool.is_among(demand.pools_allowed):
        wished = (each for each in fleet.pools if any(map(each.is_called, demand.pools_allowed)))
        steps = _steps_apart(candidate, [each.accelerator_id for each in wished], catalog)
        yield from _listed_name("pools", pool.family, demand.pools_allowed, (), demand, steps)
    called = {word for word in demand.pools_denied if pool.is_called(word)}
    if called:
        before, fewer = list(demand.pools_denied), tuple(word for word in demand.pools_denied if word not in called)
        changed = demand.but(pools_denied=fewer)
        yield cut(costs.NAME_DENIED_NO_MORE, "spec.placement.pools.deny", before, list(fewer) or None, changed)


def _listed_name(
    kind: str, name: str, allowed: tuple[str, ...], denied: tuple[str, ...], demand: Demand, steps: float = UNRELATED
) -> Iterator[Proposal]:
    """Adds the name to the allowed ones, the closer the nearer, or removes it from the denied ones."""
    if allowed and name not in demand.ids_of(allowed):
        wider = (*allowed, name)
        changed = demand.but(**{f"{kind}_allowed": wider})
        yield cut(of_device(steps), f"spec.placement.{kind}.allow", list(allowed), list(wider), changed)
    if name in demand.ids_of(denied):
        fewer = tuple(word for word in denied if name not in demand.ids_of((word,)))
        changed = demand.but(**{f"{kind}_denied": fewer})
        yield cut(costs.NAME_DENIED_NO_MORE, f"spec.placement.{kind}.deny", list(denied), list(fewer) or None, changed)


def more_capacity_types(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Adds the pool's capacity type to those that the job accepts."""
    wider = tuple(sorted({*demand.capacity_types, *candidate.pool.all_capacity_types}))
    changed = demand.but(capacity_types=wider)
    before = list(demand.capacity_types)
    yield cut(costs.CAPACITY_TYPE_ADDED, "spec.placement.capacityTypes", before, list(wider), changed)


def more_devices(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Adds the pool's kind of devices to those that the job accepts; one device for each pod if they are partitions."""
    kind, gang = candidate.pool.kind, candidate.gang
    if kind not in demand.devices:
        wider = tuple(sorted((*demand.devices, kind)))
        before = None if demand.devices == DEFAULT_DEVICES else list(demand.devices)
        changed = demand.but(devices=wider)
        of_name = kind is DeviceKind.INTEGRATED and _is_named(demand, candidate)
        cost = costs.SMALLER_DEVICE if is_of_parts(candidate.pool) else costs.DEVICE_KIND_ADDED
        cost = costs.DEVICE_KIND_OF_A_NAME if of_name else cost
        yield cut(cost, DEVICES, before, list(wider), changed)
    if gang.gpus_per_node > 1:
        single = demand.changed(gang, replace(gang, gpus_per_node=1))
        yield cut(costs.ONE_GPU, gang.field("gpusPerNode"), gang.gpus_per_node, 1, single)
    if gang.nodes > 1:
        one = demand.changed(gang, replace(gang, nodes=1))
        yield cut(costs.ONE_NODE, gang.field("nodes"), gang.nodes, 1, one)


def _is_named(demand: Demand, candidate: Candidate) -> bool:
    """Whether the job allows accelerators by name, or its gang is for one, and the pool's is among them."""
    words = (*demand.accelerators_allowed, *filter(None, (candidate.gang.accelerator,)))
    return candidate.pool.accelerator_id in demand.ids_of(words)


def higher_price(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Raises the limit to the job's price there as it is shown, or drops it if the price is unknown or above the credible one."""
    if demand.max_price is None:
        if demand.budgeted and candidate.price_per_hour is None:
            yield proposed(
                costs.BUDGET_DROPPED, BUDGET, demand.as_written("budget", ""), None, demand.but(budgeted=False)
            )
        return
    field, price = PRICE_LIMIT, candidate.price_per_hour
    before = demand.as_written("max_price", exact_dollars(demand.max_price))
    if price is None or price > MAX_PRICE:
        # A limit that is known to be enough goes before none at all.
        of_name = price is None and _names_one(demand)
        cost = costs.PRICE_UNKNOWN_OF_A_NAME if of_name else costs.PRICE_LIMIT_DROPPED
        yield proposed(cost, field, before, None, demand.but(max_price=None))
        return
    distance = _raised(price / max(demand.max_price, 1) - 1)
    if price <= DOUBLE * demand.max_price and _names_one(demand):
        distance *= costs.PRICE_WITHIN_DOUBLE
    enough = shown_dollars(price)
    yield proposed(distance, field, before, exact_dollars(enough), demand.but(max_price=enough))


def _raised(more: float) -> float:
    """The cost of raising a limit by this share of it: always less for less, and below the one of no limit for any price."""
    share, most = costs.PRICE_BY_SHARE, costs.PRICE_AT_MOST
    return more if more <= share else most - (most - share) * share / more


def _names_one(demand: Demand) -> bool:
    """Whether the job names the one device or pool that it needs."""
    return len(demand.accelerators_allowed) == 1 or len(demand.pools_allowed) == 1


def fewer_features(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Drops one feature, two of a few, or all."""
    # An unknown word is no feature to do without: `closest_spellings` says what it becomes.
    known = [word for word in demand.requires if word in catalog.features]
    words = demand.requires
    counts = {1, len(known)} | ({2} if 2 < len(known) <= FEW_FEATURES else set())
    for count in sorted(counts if known else ()):
        for without in combinations(known, count):
            fewer = tuple(word for word in words if word not in without)
            changed = demand.but(requires=fewer)
            yield cut(
                costs.FEATURE_DROPPED + count * costs.EACH_FEATURE,
                "spec.requires",
                list(words),
                list(fewer) or None,
                changed,
            )


def other_precision(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Another number format for the model."""
    model, now = demand.model, demand.precision
    if model is None or now is None:
        return
    for place, other in enumerate(_OTHER_FORMATS):
        if other is not now:
            changed = replace(demand.with_model(replace(model, precision=other)), precision=other)
            yield proposed(
                costs.OTHER_PRECISION + place * costs.NEXT_NAME, "spec.model.precision", now.value, other.value, changed
            )


def other_versions(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Replaces version ranges of framework and Python that the image does not meet by its own versions, or drops them."""
    image = next((runtime for runtime in catalog.runtimes if runtime.name == candidate.runtime.name), None)
    asked = demand.framework_version
    if asked:
        field = "spec.framework.version"
        yield cut(costs.VERSION_DROPPED, field, asked, None, demand.but(framework_version=None))
        if image is not None and image.framework == demand.framework:
            yield from _that_version(demand, field, asked, image, image.framework_version)
    if demand.python:
        field = "spec.framework.python"
        yield cut(costs.VERSION_DROPPED, field, demand.python, None, demand.but(python=None))
        if image is not None and image.python is not None:
            yield from _that_version(demand, field, demand.python, image, image.python)


def _that_version(demand: Demand, field: str, asked: str, image: Runtime, has: str) -> Iterator[Proposal]:
    """Exactly the version of an image; the distance is that to the first number of the range."""
    numbers = release(has)
    if not numbers:
        return
    exactly = "==" + ".".join(map(str, numbers))
    changed = (
        demand.but(framework_version=exactly)
        if field.endswith(".version")
        else demand.but(python=exactly)
    )  # fmt: skip
    far = apart(numbers, first_of(asked))
    yield cut(costs.OTHER_VERSION + costs.FARTHEST_VERSION * far / (1 + far), field, asked, exactly, changed)


def as_root(demand: Demand, candidate: Candidate, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Sets root for the container, which the image needs."""
    if not demand.as_root:
        yield proposed(costs.ROOT, "spec.securityContext.runAsUser", None, 0, demand.but(as_root=True))
