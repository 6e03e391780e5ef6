"""Pools from an admin's GPUPool; what it leaves open comes from its nodes, with the worst value of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.images.versions import release
from gpujob.fleet.assembly.future_nodes import facts_of_new, origins_of_new, vendor_named, with_machine, within_machine
from gpujob.fleet.assembly.node_state import unknown_devices
from gpujob.fleet.devices.group import DeviceGroup, also_counted_as
from gpujob.fleet.dra.claim_request import DeviceRequest, of_all
from gpujob.fleet.gpupools.selection import AdminPool, problem_of
from gpujob.fleet.labels.cloud import Origin
from gpujob.fleet.labels.device_fraction import WHOLE
from gpujob.fleet.labels.facts import DeviceFacts, declared
from gpujob.fleet.pools import pricing
from gpujob.fleet.pools.autoscaling import gpus_of_new, growth_of, warnings_of
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.vendors import amd_hosts
from gpujob.values.finding import Finding, Size, distinct, listed, nearest
from gpujob.values.vocabulary import CapacityType, DeviceMode, Reason, Vendor


def selected_pool(
    admin: AdminPool,
    groups: list[DeviceGroup],
    nodes: tuple[PoolNode, ...],
    known: tuple[PoolNode, ...],
    catalog: Catalog,
) -> Pool:
    """A pool from an admin's GPUPool; what it leaves open comes from its nodes, with the worst value of each. `nodes` are those of
    the groups, by `node_state.pool_nodes`; `known` the same, with those not usable whose devices are not known (`unknown_beside`).
    """
    row = catalog.device(admin.accelerator) if admin.accelerator else None
    # Nodes whose devices are not known say nothing of the others.
    identified = [group for group in groups if unknown_devices(group, row) is None] or groups
    admin, beyond = within_machine(with_machine(admin, groups, catalog), identified, catalog)
    facts, problem = _common_facts(admin, identified, catalog)
    request, unasked = _request(admin, identified)
    problem = problem_of(admin) if admin.unreadable else problem or unasked or _uneven(admin, identified)
    nodes = known if problem is None else nodes
    origins = [group.origin for group in groups] or origins_of_new(admin)
    capacity = admin.capacity_type or _capacity_type(origins)
    added = gpus_of_new(admin, (group.total or group.healthy for group in identified))
    coming = pricing.Coming(added, origins[0]) if added else None
    price, warnings = pricing.of_nodes(groups, admin.price, facts.accelerator, capacity, catalog, coming, facts.share)
    if admin.unreadable:
        price, warnings = None, ()  # Its price may be the field that cannot be read.
    growth = growth_of(admin, nodes)
    return Pool(
        name=admin.name,
        discovered=False,
        vendor=facts.vendor,
        resource=admin.resource or (identified[0].resource if identified else facts.vendor.resource),
        accelerator=facts.accelerator,
        memory=admin.memory or facts.memory,
        driver=facts.driver,
        cpu_architecture=origins[0].cpu_architecture if origins else "amd64",
        instance_type=origins[0].instance_type if origins else "",
        region=origins[0].region if origins else "",
        capacity_type=capacity,
        price=price,
        nodes=nodes,
        portion=facts.portion,
        share=facts.share,
        problem=problem,
        models=facts.models if problem else (),
        warnings=facts.warnings
        + beyond
        + _beyond_card(admin, facts)
        + amd_hosts.warnings_of(facts.vendor, (group.node for group in groups))
        + warnings
        + warnings_of(growth),
        tolerated=admin.tolerated,
        supplemental_groups=admin.supplemental_groups,
        runtime_class=admin.runtime_class,
        env=admin.env,
        selector=admin.terms,
        growth=growth,
        adds_unread=admin.adds_unread,
        request=request,
        also_counted_as=also_counted_as(identified[0]) if identified else (),
        host_devices=admin.device_mode is DeviceMode.HOST_DEVICES,
        fabric=admin.fabric,
        namespaces=admin.namespaces,
        vendor_assumed=_is_assumed(admin, identified, facts, catalog),
    )


def unknown_beside(admin: AdminPool, catalog: Catalog) -> Callable[[DeviceGroup], Finding | None]:
    """Why the devices of one node are unknown, if other nodes identify those of the pool."""
    row = catalog.device(admin.accelerator) if admin.accelerator else None
    return lambda group: unknown_devices(group, row)


def _is_assumed(admin: AdminPool, groups: list[DeviceGroup], facts: DeviceFacts, catalog: Catalog) -> bool:
    """Whether the vendor of the devices is unknown, or nodes have devices of several vendors."""
    if groups:
        return len({group.facts.vendor for group in groups}) > 1
    return facts.accelerator is None and vendor_named(admin, catalog) is None


def _beyond_card(admin: AdminPool, facts: DeviceFacts) -> tuple[Finding, ...]:
    """The warning that an admin's memory figure exceeds the card's."""
    known = facts.accelerator
    most = max(known.card_bytes or 0, known.nominal_bytes or 0) if known else 0
    if known is None or admin.memory is None or not 0 < most < admin.memory:
        return ()
    sentence = "spec.memoryPerGPU is {}, a whole {} has {} by the catalog; the GPUPool counts"
    return (Finding(Reason.LABELS_CONTRADICT, sentence, (Size(admin.memory), known.id, Size(most))),)


def _request(admin: AdminPool, groups: list[DeviceGroup]) -> tuple[DeviceRequest | None, Finding | None]:
    """How a ResourceClaim requests the devices, if pods must use one or the admin wants it; or why none can."""
    wanted = admin.device_mode is DeviceMode.DRA
    claiming = [group for group in groups if group.by_claim or (wanted and group.plugged)]
    if claiming and admin.device_mode is DeviceMode.DEVICE_PLUGIN:
        sentence = "spec.deviceMode is DevicePlugin and node {} offers its devices by ResourceClaims alone; remove it"
        return None, Finding(Reason.NO_DEVICE_PLUGIN, sentence, (claiming[0].node.name,))
    lacking = next((group for group in claiming if group.request is None), None)
    if lacking is not None or (wanted and not groups):
        where = f"node {lacking.node.name}" if lacking is not None else "nodes to be added"
        sentence = (
            "spec.deviceMode is DRA and no DeviceClass is known to cover the devices of {}; install the DRA driver"
        )
        return None, Finding(Reason.NO_DEVICE_CLASS, sentence, (where,))
    request = of_all([group.request for group in claiming])
    if claiming and request is None:
        sentence = "no one DeviceClass covers the devices of all its nodes; narrow spec.nodeSelector"
        return None, Finding(Reason.MODELS_DIFFER, sentence)
    return request, None


def _uneven(admin: AdminPool, groups: list[DeviceGroup]) -> Finding | None:
    """The pool assigns whole nodes, so they must be equal."""
    sizes = sorted({group.total or 0 for group in groups})
    if admin.device_mode is not DeviceMode.HOST_DEVICES or len(sizes) < 2:
        return None
    sentence = "spec.deviceMode HostDevices assigns whole nodes, and these have {} GPUs; narrow spec.nodeSelector"
    return Finding(Reason.MODELS_DIFFER, sentence, (listed(map(str, sizes)),))


def _no_one_model(word: str, catalog: Catalog) -> Finding:
    """The problem that the pool's accelerator is unknown, or means several models."""
    if several := catalog.named(word):
        sentence = "spec.accelerator {} means {}; name one of them"
        return Finding(Reason.ACCELERATOR_UNKNOWN, sentence, (word, listed(several)))
    sentence = "spec.accelerator {} is in no catalog row{}"
    near = nearest(*catalog.nearest_accelerators(word)) or "; `kubectl gpujob catalog accelerators` lists all"
    return Finding(Reason.ACCELERATOR_UNKNOWN, sentence, (word, near))


def _common_facts(admin: AdminPool, groups: list[DeviceGroup], catalog: Catalog) -> tuple[DeviceFacts, Finding | None]:
    """The facts that hold for every node of an admin's pool, or the problem that there are none."""
    row = catalog.device(admin.accelerator) if admin.accelerator else None
    vendor = groups[0].facts.vendor if groups else vendor_named(admin, catalog) or Vendor.NVIDIA
    vendor = row.vendor if row else vendor
    fallback = DeviceFacts(vendor, row, row.usable_bytes if row else None)
    if admin.accelerator and row is None:
        return fallback, _no_one_model(admin.accelerator, catalog)
    if not groups and admin.provision:
        return facts_of_new(admin, row, vendor, catalog)
    if not groups:
        return fallback, Finding(
            Reason.NO_POOL,
            "GPUPool {} has no GPU node of its own; check spec.nodeSelector",
            (admin.name,),
        )
    if len({group.resource for group in groups}) > 1:
        found = ", ".join(sorted({group.resource for group in groups}))
        unlike = replace(_unsized(groups[0].facts), models=_models(group.facts for group in groups))
        return unlike, Finding(Reason.MODELS_DIFFER, "its nodes offer {}; set spec.resourceName to one", (found,))
    all_facts = [_overridden(group, row) for group in groups]
    # A node with its plugin down offers nothing; the others describe the pool.
    facts = [f for f in all_facts if not f.lacks_plugin] or all_facts
    problem = next((f.problem for f in facts if f.problem and not f.lacks_plugin), None)
    mixed = mixture(facts)
    if problem is None and len({f.text for f in facts}) > 1:
        names = ", ".join(sorted({f.text for f in facts}))
        problem = Finding(Reason.MODELS_DIFFER, "its nodes have {}; narrow spec.nodeSelector", (names,))
        mixed = _models(facts)
    if problem is None and all(f.problem for f in facts):
        problem = facts[0].problem
    memories = [f.memory for f in facts if f.memory is not None]
    drivers = [f.driver for f in facts if f.driver]
    warnings = distinct(warning for f in facts for warning in f.warnings)
    if drivers and len(drivers) < len(facts):
        warnings += (Finding(Reason.DRIVER_UNKNOWN, "no label has the driver of some of its nodes"),)
    worst = replace(
        facts[0],
        memory=min(memories, default=None) if len(memories) == len(facts) else None,
        driver=min(drivers, key=release, default=None),
        problem=None,
        warnings=warnings,
    )
    # No figure holds for all of a mixture; once it is fixed each part has its own.
    return (replace(_unsized(worst), models=mixed) if mixed else worst), problem


def mixture(facts: Iterable[DeviceFacts]) -> tuple[str, ...]:
    """The ids of the models that nodes hold, if there are several or one node mixes them; else empty."""
    found = _models(facts)
    return found if len(found) > 1 else ()


def _models(facts: Iterable[DeviceFacts]) -> tuple[str, ...]:
    return tuple(sorted({name for each in facts for name in (each.models or (each.name,))}))


def _unsized(facts: DeviceFacts) -> DeviceFacts:
    return replace(facts, accelerator=None, memory=None, portion=WHOLE, share=None)


def _capacity_type(origins: Iterable[Origin]) -> CapacityType:
    """The capacity type of nodes; Spot as soon as the cloud can reclaim one of them."""
    types = {origin.capacity_type for origin in origins}
    if CapacityType.SPOT in types:
        return CapacityType.SPOT
    return CapacityType.RESERVED if types == {CapacityType.RESERVED} else CapacityType.ON_DEMAND


def _overridden(group: DeviceGroup, accelerator: Accelerator | None) -> DeviceFacts:
    """A group's facts with the admin's accelerator in place of the labels'; a difference gives a warning."""
    facts = group.facts
    found = declared(facts, group.resource, accelerator)
    if accelerator is None or found.accelerator is not accelerator or facts.name in ("unknown", accelerator.id):
        return found
    if facts.problem is not None and not (facts.unnamed or facts.declarable):
        return found
    sentence = "spec.accelerator is {}, labels of node {} say {}; the GPUPool counts, and of memory the smaller figure"
    warning = Finding(Reason.LABELS_CONTRADICT, sentence, (accelerator.id, group.node.name, facts.name))
    return replace(found, warnings=(*found.warnings, warning))
