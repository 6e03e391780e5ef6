"""What the unknown names of a job most likely mean: each replaced by the closest known one, or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices import identity
from gpujob.catalog.devices.families import vendor_of
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.filters.job_validation import NOT_FEATURES, has_field, is_accelerator, vendors_left
from gpujob.placement.request.demand import DEFAULT_FRAMEWORK, Demand
from gpujob.placement.suggestions import costs
from gpujob.placement.suggestions.constraints import UNRELATED, of_device, steps_from
from gpujob.placement.suggestions.proposal import Proposal, cut, proposed
from gpujob.values.vocabulary import Vendor

_CLOSEST_OR_NONE: Final = (costs.CLOSEST_NAME, costs.OPTIONAL_NAME_DROPPED)
"""The costs of the closest name, and of none, for a field that may be absent."""


def closest_spellings(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """The proposals for each unknown name of the job."""

    def is_known(word: str) -> bool:
        return is_accelerator(word, fleet, catalog)

    def nearest_accelerators(word: str) -> tuple[str, ...]:
        return fleet.nearest_accelerators(word, catalog)

    placement = "spec.placement"
    yield from _features(demand, fleet, catalog)

    def nearest_pools(word: str) -> tuple[str, ...]:
        return tuple(filter(None, (fleet.nearest_pool(word),)))

    for kind, field in (("accelerators_allowed", "accelerators.allow"), ("accelerators_denied", "accelerators.deny")):
        yield from _listed(demand, kind, f"{placement}.{field}", is_known, nearest_accelerators)
    yield from _of_devices_there(demand, fleet, catalog)
    yield from _listed(demand, "pools_allowed", f"{placement}.pools.allow", fleet.called.__contains__, nearest_pools)
    yield from _of_no_device(demand, fleet, catalog)
    for gang in demand.gangs:
        word = gang.accelerator
        if word and not is_known(word):
            # The names that it may mean are equally near: the search takes one with room.
            for meant in nearest_accelerators(word):
                changed = demand.changed(gang, replace(gang, accelerator=meant))
                yield proposed(costs.CLOSEST_NAME, gang.field("accelerator"), word, meant, changed)
    yield from _names(demand, fleet, catalog)


def _of_devices_there(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """A device of the fleet beside what the unknown names of the allowed ones mean, where the fleet has none of these: the nearest to
    them of the same vendor.
    """
    words, devices = demand.accelerators_allowed, [each.accelerator for each in fleet.pools]
    there = {device.id: device for device in devices if device is not None}
    named = [
        (word,) if is_accelerator(word, fleet, catalog) else fleet.nearest_accelerators(word, catalog) for word in words
    ]
    meant = tuple(dict.fromkeys(name for names in named for name in names))
    if not 0 < len(words) <= MOST_MEANT or not all(named) or not demand.ids_of(meant).isdisjoint(there):
        return
    for device in there.values():
        steps, wider = steps_from(demand.ids_of(meant), device, catalog), (*meant, device.id)
        if steps < UNRELATED:
            changed = demand.but(accelerators_allowed=wider)
            yield cut(of_device(steps), "spec.placement.accelerators.allow", list(words), list(wider), changed)


def _of_no_device(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """Leaves out the accelerator of a gang that is near no known one, unless its name says a vendor: any device would do then."""
    for gang in demand.gangs:
        word = gang.accelerator
        if not word or is_accelerator(word, fleet, catalog):
            continue
        if not fleet.nearest_accelerators(word, catalog) and vendor_of(word) is None:
            changed = demand.changed(gang, replace(gang, accelerator=None))
            yield proposed(costs.UNKNOWN_NAME_DROPPED, gang.field("accelerator"), word, None, changed)


USUAL: Final = {"fp8": "FP8OCP"}
"""For a name that begins several features the one that users mostly mean: checkpoints of 8 bits are published as OCP's."""


def _features(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """What to write for unknown words of `requires`. A word that has a field of its own stays until the job has this field."""
    words = demand.requires
    unknown = [word for word in words if word not in catalog.features]
    others = [NOT_FEATURES[word.lower()] for word in unknown if word.lower() in NOT_FEATURES]
    missing = {other.place for other in others if other.place and not has_field(other.place, demand)}
    connected = [pool.name for pool in fleet.pools if pool.fabric is not None]
    if not unknown or missing - ({"placement.pools"} if connected else set()):
        return
    vendors, left = {other.vendor for other in others if other.vendor}, vendors_left(demand)
    if vendors and not left <= vendors:
        # A job whose fields and words name different vendors must say itself which one it means.
        narrower = left & vendors
        before = None if demand.vendors == set(Vendor) else sorted(demand.vendors)
        if narrower:
            yield proposed(
                costs.CLOSEST_NAME, "spec.placement.vendors", before, sorted(narrower), demand.but(vendors=narrower)
            )
    elif missing:
        names = tuple(sorted(connected))
        changed = demand.but(pools_allowed=names)
        yield proposed(costs.CLOSEST_NAME, "spec.placement.pools.allow", None, list(names), changed)
    else:
        meant = {word: (word,) if word not in unknown else _feature(word, catalog) for word in words}
        if None not in meant.values():
            misspelt = {word for word in unknown if _is_misspelt(word, catalog)}
            yield from _replaced(demand, meant, misspelt)


def _feature(word: str, catalog: Catalog) -> tuple[str, ...] | None:
    """The feature that an unknown word means, none if it means no feature; None if it may mean any of several."""
    if word.lower() in NOT_FEATURES:
        return tuple(filter(None, (NOT_FEATURES[word.lower()].feature,)))
    near = catalog.nearest_features(word)
    if len(near) < 2:
        return near
    usual = USUAL.get(identity.joined(word))
    return (usual,) if usual in near else None


def _is_misspelt(word: str, catalog: Catalog) -> bool:
    return word.lower() not in NOT_FEATURES and len(catalog.nearest_features(word)) < 2


def _replaced(demand: Demand, meant: Mapping[str, tuple[str, ...] | None], misspelt: Set[str]) -> Iterator[Proposal]:
    """The words of `requires` by what they mean; mistyped ones also left out."""
    words = list(demand.requires)
    for cost, dropped in ((costs.CLOSEST_NAME, set[str]()), (costs.UNKNOWN_NAME_DROPPED, misspelt)):
        left = [name for word in words if word not in dropped for name in meant[word] or ()]
        others = tuple(dict.fromkeys(left))
        yield proposed(cost, "spec.requires", words, list(others) or None, demand.but(requires=others))


def _names(demand: Demand, fleet: Fleet, catalog: Catalog) -> Iterator[Proposal]:
    """The framework, the PriorityClass, the model, and the runtimes of the job's own images."""
    word = demand.framework
    if word != DEFAULT_FRAMEWORK and word not in catalog.frameworks:
        meant = catalog.nearest_framework(word)
        changed = demand.but(framework=meant or DEFAULT_FRAMEWORK)
        yield proposed(
            costs.CLOSEST_NAME if meant else costs.UNKNOWN_NAME_DROPPED, "spec.framework.name", word, meant, changed
        )
    known = fleet.priorities
    if demand.priority_class is not None and known and demand.priority_class not in known:
        for cost, name in zip(_CLOSEST_OR_NONE, (identity.nearest(demand.priority_class, known), None), strict=True):
            changed = demand.but(priority_class=name)
            yield proposed(cost, "spec.priorityClassName", demand.priority_class, name, changed)
    model = demand.model
    if model is not None and model.name is not None and catalog.model(model.name) is None:
        for place, name in enumerate(catalog.nearest_models(model.name)):
            changed = demand.with_model(replace(model, name=name))
            yield proposed(costs.CLOSEST_NAME + place * costs.NEXT_NAME, "spec.model.name", model.name, name, changed)
    for own in demand.own_images:
        fitting = [each.name for each in catalog.runtimes if each.backend is own.backend]
        names = {*fitting, *(each.name for each in catalog.runtimes if each.unreadable)}
        if own.runtime is not None and own.runtime not in names:
            field = f"spec.images.{own.backend.lower()}.runtime"
            for cost, other in zip(_CLOSEST_OR_NONE, (identity.nearest(own.runtime, fitting), None), strict=True):
                images = tuple(replace(each, runtime=other) if each is own else each for each in demand.own_images)
                yield proposed(cost, field, own.runtime, other, demand.but(own_images=images))


MOST_MEANT: Final = 8
"""The most unknown names of a list that get a proposal; further ones are left out."""


def _listed(
    demand: Demand, attribute: str, field: str, known: Callable[[str], bool], nearest: Callable[[str], tuple[str, ...]]
) -> Iterator[Proposal]:
    """The unknown names of a list replaced by all that they may mean, or left out if they may mean nothing known."""
    words: tuple[str, ...] = getattr(demand, attribute)
    without = tuple(word for word in words if known(word))
    unknown = [word for word in words if word not in without]
    if not unknown:
        return
    replaced = {word: nearest(word) for word in unknown[:MOST_MEANT]}
    meant = tuple(
        dict.fromkeys(name for word in words for name in replaced.get(word, (word,) if word in without else ()))
    )
    for cost, others in ((costs.CLOSEST_NAME, meant), (costs.UNKNOWN_NAME_DROPPED, without)):
        if attribute == "accelerators_allowed" and not others and any(map(vendor_of, words)):
            return  # Any device would do then, those of the other vendor too.
        changes: dict[str, Any] = {attribute: others}
        yield proposed(cost, field, list(words), list(others) or None, demand.but(**changes))
