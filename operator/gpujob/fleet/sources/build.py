"""From nodes and pods to pools: an admin's GPUPool selects nodes; the devices of the others are grouped by identity.

Free devices are allocatable minus the requests of pods that are not terminal, and minus reservations for pods that are not bound
yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.assembly.admin_parts import selected_pools
from gpujob.fleet.assembly.host_devices import hosted_groups
from gpujob.fleet.assembly.joined_pools import joined_pools
from gpujob.fleet.assembly.mounts import mounts_of
from gpujob.fleet.assembly.node_state import pool_nodes
from gpujob.fleet.assembly.usage import PodReservation, Usage
from gpujob.fleet.devices.from_slices import with_slices
from gpujob.fleet.devices.group import DeviceGroup, also_counted_as, groups_of
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.gpupools.selection import AdminPool, Selections, warnings_of_unselected
from gpujob.fleet.kubernetes.objects import Node, Pod
from gpujob.fleet.kubernetes.runtime_classes import NO_CLASSES, Classes
from gpujob.fleet.pools import pricing
from gpujob.fleet.pools.autoscaling import node_pool_of
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.naming import Naming, identity_of, names_of
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.reserve import Pods, unnamed_reserved
from gpujob.fleet.pools.runtime_class import with_handler
from gpujob.fleet.vendors import amd_hosts
from gpujob.values.finding import Finding, distinct


def read_fleet(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    catalog: Catalog,
    admin_pools: Sequence[AdminPool] = (),
    runtime_classes: Classes = NO_CLASSES,
    reservations: Iterable[PodReservation] = (),
    known: Mapping[str, tuple[DeviceGroup, ...]] | None = None,
    inventory: Inventory | None = None,
) -> Fleet:
    """The fleet of these nodes, pods, GPUPools and reservations; pools are sorted by name.

    `known` can hold the device groups of nodes already read (by node name), because labels change rarely; `inventory` the devices
    of DRA drivers.
    """
    pods, reservations = tuple(pods), tuple(reservations)
    usage = Usage(pods, reservations, inventory.of_pod) if inventory else Usage(pods, reservations)
    selections = Selections(admin_pools)
    selected: dict[str, list[DeviceGroup]] = defaultdict(list)
    discovered: dict[tuple[object, ...], list[DeviceGroup]] = defaultdict(list)
    bare: dict[str, list[str]] = defaultdict(list)
    # Sorted by name, because the first of equal things is shown.
    for node in sorted(nodes, key=lambda node: node.name):
        groups = known[node.name] if known and node.name in known else groups_of(node, catalog)
        if inventory:
            groups = with_slices(node, groups, inventory, catalog)
        if hosting := selections.hosting(node):
            groups = hosted_groups(node, groups, hosting, catalog)
        if not groups and (admin := selections.oldest(node)):
            bare[admin.name].append(node.name)
        for group in groups:
            admin = selections.pool_of(node, group.resource, pending=group.pending)
            if admin is None:
                discovered[identity_of(group)].append(group)
            else:
                selected[admin.name].append(group)
    unselected = warnings_of_unselected(admin_pools)
    families = [
        selected_pools(pool, selected.get(pool.name, []), catalog, usage, bare.get(pool.name, ()))
        for pool in admin_pools
    ]
    names = names_of(discovered, {pool.name for pool in admin_pools})
    families += [
        (discovered_pool(names[key], groups, catalog, usage, unselected),) for key, groups in discovered.items()
    ]
    pools = [
        pool
        for family in families
        for pool in with_awaited(tuple(with_handler(each, runtime_classes) for each in family), usage)
    ]
    joined = joined_pools(pools, catalog).pools
    return Fleet(
        by_name((*pools, *joined)),
        runtime_classes,
        selections.overlaps,
        mounts=mounts_of(pods, reservations),
        host_access=catalog.host_access,
    )


def by_name(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """The pools in the order of a fleet."""
    return tuple(sorted(pools, key=attrgetter("name")))


def with_awaited(family: tuple[Pool, ...], usage: Usage) -> tuple[Pool, ...]:
    """A pool and its parts after the reservations of pods that wait for its nodes by its selector alone: the largest first."""
    gangs: dict[tuple[int, str, int], list[PodReservation]] = defaultdict(list)
    for reservation in usage.awaited.get(family[0].name, ()):
        gangs[-reservation.gpus, reservation.job_uid, reservation.attempt].append(reservation)
    for _, gang in sorted(gangs.items(), key=itemgetter(0)):
        first = min(gang, key=attrgetter("index"))
        size = max(each.index for each in gang) + 1
        family = unnamed_reserved(family, Pods(len(gang), first.gpus, first.needs, size, frozenset(first.not_on)))
    return family


def discovered_pool(
    naming: Naming, groups: list[DeviceGroup], catalog: Catalog, usage: Usage, unselected: tuple[Finding, ...] = ()
) -> Pool:
    """A discovered pool: all groups share one identity; `unselected` are the warnings of every node without a GPUPool."""
    first = groups[0]
    price, warnings = pricing.of_nodes(
        groups, None, first.facts.accelerator, first.origin.capacity_type, catalog, share=first.facts.share
    )
    return Pool(
        name=naming.name,
        also=naming.also,
        discovered=True,
        vendor=first.facts.vendor,
        resource=first.resource,
        accelerator=first.facts.accelerator,
        memory=first.facts.memory,
        driver=first.facts.driver,
        cpu_architecture=first.origin.cpu_architecture,
        instance_type=first.origin.instance_type,
        region=first.origin.region,
        capacity_type=first.origin.capacity_type,
        price=price,
        nodes=pool_nodes(groups, usage),
        portion=first.facts.portion,
        share=first.facts.share,
        problem=first.facts.problem,
        models=first.facts.models if first.facts.problem else (),
        request=first.request if first.by_claim else None,
        also_counted_as=also_counted_as(first),
        node_pool=node_pool_of(first.node.labels),
        warnings=distinct(warning for group in groups for warning in group.facts.warnings)
        + amd_hosts.warnings_of(first.facts.vendor, (group.node for group in groups))
        + warnings
        + unselected,
    )
