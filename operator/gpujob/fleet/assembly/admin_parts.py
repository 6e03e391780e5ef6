"""The parts of an admin's pool whose nodes differ, so that a node which joins it takes nothing from the others.

A pool is as its worst node: gangs may use all of its nodes. Its parts are pools of their own beside it: for each set of
capacity types the nodes of these types, and for each set of further facts that some of these reach (driver, memory, price) the
nodes that are at least as good in each. Nodes are in several of them, and a reservation of a node counts in each.

No gang uses hosts of several platforms. The pool has those of most of its Linux nodes, those of each other platform are a part with
parts of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count, islice

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.versions import release
from gpujob.fleet.assembly.admin_pool import selected_pool, unknown_beside
from gpujob.fleet.assembly.levels import (
    ANY,
    MOST_PARTS,
    UNKNOWN,
    Level,
    driver_steps,
    first_of_each_type,
    met,
    sets_of,
    unlike_prices,
)
from gpujob.fleet.assembly.node_state import pool_nodes
from gpujob.fleet.assembly.usage import Usage
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.labels.cloud import capacity_labels, runs_linux, terms_between
from gpujob.fleet.pools.autoscaling import OF_KARPENTER, node_pool_of
from gpujob.fleet.pools.naming import plain_name
from gpujob.fleet.pools.node import Growth
from gpujob.fleet.pools.pool import Pool
from gpujob.values.finding import Finding, Size, listed
from gpujob.values.quantity import exact_dollars
from gpujob.values.vocabulary import Reason


def selected_pools(
    admin: AdminPool, groups: list[DeviceGroup], catalog: Catalog, usage: Usage, bare: Iterable[str] = ()
) -> tuple[Pool, ...]:
    """An admin's pool, and its parts if its nodes differ. `bare` are selected nodes without any device."""
    on: dict[str, list[DeviceGroup]] = defaultdict(list)
    for group in groups:
        on[_platform(group)].append(group)
    if len(on) < 2:
        return _of_one_platform(admin, groups, catalog, usage, bare)
    most, *others = sorted(on, key=lambda platform: (not runs_linux(platform), -len(on[platform]), platform))
    elsewhere = {group.node.name for platform in others for group in on[platform]}
    whole, *parts = _of_one_platform(_without_room(admin, len(elsewhere)), on[most], catalog, usage, bare)
    warnings = tuple(_of_others(platform, on[platform], most) for platform in others)
    found = [replace(whole, warnings=(*whole.warnings, *warnings)), *parts]
    for platform in others:
        named = replace(admin, name=f"{admin.name}/{platform.replace('/', '-')}", provision=None)
        family = _of_one_platform(named, on[platform], catalog, usage, ())
        found += (replace(pool, also=(admin.name, *pool.also), part_of=admin.name) for pool in family)
    return tuple(found)


def _platform(group: DeviceGroup) -> str:
    """What images for a node must be built for; some devices come with hosts of one architecture only."""
    device = group.facts.accelerator
    return (device and device.host_architecture) or group.origin.cpu_architecture


def _without_room(admin: AdminPool, nodes: int) -> AdminPool:
    """The pool with that many fewer nodes to be added: nodes of other platforms count in its size."""
    if admin.provision is None:
        return admin
    return replace(admin, provision=replace(admin.provision, max_nodes=max(0, admin.provision.max_nodes - nodes)))


def _of_others(platform: str, groups: Iterable[DeviceGroup], most: str) -> Finding:
    """The warning that some nodes are not among those of the pool."""
    names = [*dict.fromkeys(group.node.name for group in groups)]
    sentence = "most of its hosts are {}; " + (
        "node {} is {} and a part" if len(names) == 1 else "nodes {} are {} and a part"
    )
    return Finding(Reason.PLATFORMS_DIFFER, sentence + " of its own", (most, listed(names), platform))


def _of_one_platform(
    admin: AdminPool, groups: list[DeviceGroup], catalog: Catalog, usage: Usage, bare: Iterable[str]
) -> tuple[Pool, ...]:
    """The pool of nodes whose hosts are alike, and its parts."""
    nodes = pool_nodes(groups, usage, admin.fabric, admin.tolerated)
    unknown = unknown_beside(admin, catalog)
    known = pool_nodes(groups, usage, admin.fabric, admin.tolerated, unknown) if any(map(unknown, groups)) else nodes
    whole = _with_node_pool(selected_pool(admin, groups, nodes, known, catalog), groups)
    whole = replace(whole, bare=tuple(sorted(bare)))
    on: dict[str, list[DeviceGroup]] = defaultdict(list)
    for group in groups:
        on[group.node.name].append(group)
    kinds: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name, found in on.items():
        kinds[tuple(map(_kind, found))].append(name)
    if len(kinds) < 2:
        return (whole,)
    readable = replace(admin, unreadable="")

    def pool_of(names: Collection[str]) -> Pool:
        mine = [group for group in groups if group.node.name in names]
        all_mine, known_mine = (tuple(node for node in found if node.name in names) for found in (nodes, known))
        return selected_pool(readable, mine, all_mine, known_mine, catalog)

    if whole.problem is not None:
        return (whole, *_to_be_fixed(whole, (pool_of(names[:1]) for names in kinds.values())))
    alone = {name: pool for names in kinds.values() for pool in [pool_of(names[:1])] for name in names}
    levels = {name: _level(pool, whole) for name, pool in alone.items()}
    whole = _at_worst(whole, alone)
    types = {name: pool.capacity_type for name, pool in alone.items()}
    karpenters = {name for name, found in on.items() if OF_KARPENTER in found[0].node.labels}
    labels = {name: capacity_labels(found[0].node.labels) for name, found in on.items()}
    parts, worst = dict[str, Pool](), met(levels.values())
    smaller = (names for names in sets_of(levels, types, driver_steps(catalog)) if len(names) < len(on))
    for names in smaller:
        part = _at_worst(pool_of(names), alone)
        others = (name for name in on if name not in names and name not in karpenters)
        refused = [labels[name] for name, kind in types.items() if kind not in part.all_capacity_types]
        own = met({levels[name] for name in names})
        name = f"{whole.name}/{_words(own, part, worst, whole)}"
        terms = terms_between([labels[name] for name in names], refused)
        differs = own._replace(cheap=worst.cheap) != worst or (refused and not terms) or whole.price is None
        parts[_unused(name, parts)] = replace(
            part,
            also=(whole.name,),
            part_of=whole.name,
            beside=tuple(others),
            selector=whole.selector + terms,
            growth=_growth(whole, name if differs else ""),
            node_pool=whole.node_pool,
        )
    return (whole, *(replace(part, name=name) for name, part in parts.items()))


def _with_node_pool(whole: Pool, groups: Iterable[DeviceGroup]) -> Pool:
    """The pool with its node pool that may grow although its GPUPool has no `provision`."""
    if whole.growth is not None:
        return whole
    found = next(filter(None, (node_pool_of(group.node.labels) for group in groups)), "")
    return replace(whole, node_pool=found) if found else whole


def _to_be_fixed(whole: Pool, kinds: Iterable[Pool]) -> Iterator[Pool]:
    """A pool that must be fixed as it would be if all of its nodes were of one of these kinds: which of them stay is not known, so
    that no fact of one is a reason that a job never runs.
    """
    taken: set[str] = set()
    for kind in islice(kinds, MOST_PARTS):
        device = plain_name(kind.accelerator_id, str(kind.portion), "", kind.capacity_type)
        name = _unused(f"{whole.name}/{device}", taken)
        taken.add(name)
        yield replace(
            kind,
            name=name,
            also=(whole.name,),
            part_of=whole.name,
            nodes=whole.nodes,
            problem=whole.problem,
            growth=whole.growth,
            node_pool=whole.node_pool,
        )


def _growth(whole: Pool, part: str) -> Growth | None:
    """What can be added to a part: new nodes may be as the worst of the pool. They count with its price; what else sets a part of this
    name apart is unknown of them, except a capacity type that a term of the selector demands.
    """
    if whole.growth is None:
        return None
    sentence = "whether nodes to be added to {} are like those of {} is unknown"
    warning = Finding(Reason.NODE_UNKNOWN, sentence, (whole.name, part)) if part else None
    return replace(whole.growth, price=whole.price.per_gpu_hour if whole.price else 0, warning=warning)


def _kind(group: DeviceGroup) -> tuple[object, ...]:
    """What decides the facts of a node: those of one kind are read once."""
    facts, bought = group.facts, (group.origin, group.node.price, group.total)
    return (group.resource, facts.text, facts.lacks_plugin, facts.reported, facts.memory, facts.driver, *bought)


def _level(alone: Pool, whole: Pool) -> Level:
    """The level of a node by the pool that it would be alone."""
    down = alone.problem is not None
    price = alone.price or (whole.price if down else None)
    return Level(
        release(alone.driver) or (ANY if down else ()),
        alone.memory or (UNKNOWN if down else 0),
        (price is not None, -price.per_gpu_hour if price else 0),
    )


def _at_worst(pool: Pool, alone: Mapping[str, Pool]) -> Pool:
    """The pool with the highest price of its nodes, if all are known, and their capacity types."""
    found = [(node.name, alone[node.name]) for node in pool.nodes]
    prices = [each.price for _, each in found if each.price is not None]
    return replace(
        pool,
        price=max(prices, key=lambda price: price.per_gpu_hour) if len(prices) == len(found) else pool.price,
        node_prices=unlike_prices(price.per_gpu_hour for price in prices) if len(prices) == len(found) else (),
        capacity_nodes=first_of_each_type((each.capacity_type, name) for name, each in found),
    )


def _words(level: Level, part: Pool, worst: Level, whole: Pool) -> str:
    """The capacity types of a part, if the pool has more, and in what its nodes are better than the worst of the pool."""
    types = part.all_capacity_types
    words = (
        (types != whole.all_capacity_types, "-".join(types).lower()),
        (level.driver > worst.driver and part.driver, f"driver-{part.driver}"),
        (not level.driver and part.driver != whole.driver, _unknown_or(part.driver)),
        (level.memory > worst.memory and part.memory, f"memory-{Size(part.memory or 0)}"),
        (
            level.cheap > worst.cheap and part.price,
            f"price-{exact_dollars(part.price.per_gpu_hour if part.price else 0)}",
        ),
    )
    return ",".join(str(word) for holds, word in words if holds) or "others"


def _unknown_or(driver: str | None) -> str:
    """The word for nodes if some have no known driver and none has the oldest driver of the pool."""
    return f"driver-{driver}-or-unknown" if driver else "driver-unknown"


def _unused(name: str, taken: Collection[str]) -> str:
    """The name, with a number if another part has it: sizes are rounded in names."""
    return next(each for each in chain([name], (f"{name}-{number}" for number in count(2))) if each not in taken)
