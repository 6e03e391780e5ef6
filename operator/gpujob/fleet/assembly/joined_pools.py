"""Pools of several discovered ones, for gangs that none of these holds: equal devices on nodes of another price, driver, capacity
type, memory, instance type or taint.

Each is as the worst of its nodes, since a gang may use all of them; a gang costs as much as the most expensive nodes that it may get.
Beside the union of all stand those of the parts with some of the capacity types, and of the parts that reach a level in every
other fact, so that one worse node takes nothing from a gang which the others hold. Nodes are in several of them, and a
reservation of a node counts in each.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, is_
from types import MappingProxyType
from typing import Final, NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.versions import Release, release
from gpujob.fleet.assembly.levels import (
    ANY,
    RANKS,
    UNKNOWN,
    Level,
    driver_steps,
    first_of_each_type,
    sets_of,
    unlike_prices,
)
from gpujob.fleet.pools.naming import SHORTEST, plain_name
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.values.finding import Finding, distinct, listed
from gpujob.values.vocabulary import FIXABLE_REASONS, Reason

Joined = tuple[tuple[Pool, ...], Pool]
"""The parts, and the pool of their nodes."""


class Joins(NamedTuple):
    """The pools that join others."""

    of: Sequence[Pool] = ()
    """All pools that were read, by name; joined pools follow from their facts."""
    found: Mapping[str, Joined] = MappingProxyType({})
    """By the name of the pool that joins others."""

    @property
    def pools(self) -> Iterator[Pool]:
        """The pools that join others."""
        return (joined for _, joined in self.found.values())


NO_JOINS: Final = Joins()


def joined_pools(pools: Iterable[Pool], catalog: Catalog, kept: Joins = NO_JOINS) -> Joins:
    """The pools that join several of these. Those of `kept` whose parts have the same facts get the new state of their nodes."""
    pools = sorted(pools, key=attrgetter("name"))
    if _alike(kept.of, pools):
        now = {pool.name: pool for before, pool in zip(kept.of, pools, strict=True) if pool is not before}
        return Joins(pools, {name: _after(joined, _now(joined, now)) for name, joined in kept.found.items()})
    return Joins(pools, _found(pools, catalog, kept.found))


def _found(pools: Sequence[Pool], catalog: Catalog, kept: Mapping[str, Joined]) -> dict[str, Joined]:
    families: dict[object, list[Pool]] = defaultdict(list)
    pending: dict[object, list[Pool]] = defaultdict(list)
    unread: dict[object, list[Pool]] = defaultdict(list)
    for pool in pools:
        if not pool.discovered or not pool.nodes:
            continue
        if _is_unread(pool):
            unread[_offer(pool)].append(pool)
        elif pool.accelerator is not None and pool.pending:
            pending[_pool_class(pool)].append(pool)
        elif pool.accelerator is not None and (pool.problem is None or pool.problem.reason is Reason.NO_DEVICE_PLUGIN):
            families[_equal(pool)].append(pool)
    for family in families.values():
        model = family[0].accelerator_id
        family += pending.get(_pool_class(family[0]), ())
        family += (pool for pool in unread.get(_offer(family[0]), ()) if not pool.models or model in pool.models)
    unlike = [family for family in (*families.values(), *pending.values(), *unread.values()) if len(family) > 1]
    if not unlike:
        return {}
    meanings: dict[str, set[str]] = defaultdict(set)
    for pool in pools:
        for word in (pool.name, *pool.also):
            meanings[word].add(pool.name)
    found: dict[str, Joined] = {}
    for family in unlike:
        for parts in _sets(family, driver_steps(catalog)):
            of_own = (parts[0].pending, _is_unread(parts[0])) != (family[0].pending, _is_unread(family[0]))
            if of_own and (all(pool.pending for pool in parts) or all(map(_is_unread, parts))):
                continue  # They are a family of their own.
            name = _name(parts, meanings, {pool.name for pool in pools} | found.keys())
            before = kept.get(name)
            found[name] = _after(before, parts) if before and _alike(before[0], parts) else (parts, _of(parts, name))
    return found


def _equal(pool: Pool) -> object:
    """What the nodes of a gang must have in common; it follows from the pool's facts and is cached with them."""
    kept = pool.answers.get(_equal)
    if kept is None:
        kept = pool.answers[_equal] = (None, _common(pool))
    return kept[1]


def _pool_class(pool: Pool) -> object:
    """The facts that nodes must share if some have unknown devices: these may become like the devices of any other node."""
    return (pool.vendor, pool.accelerator, pool.host_architecture, pool.region, pool.handler)


def _is_unread(pool: Pool) -> bool:
    """Whether an admin must identify its devices first: they may equal those of another pool."""
    problem = pool.problem
    return pool.accelerator is None and not pool.pending and problem is not None and problem.reason in FIXABLE_REASONS


def _offer(pool: Pool) -> object:
    """The facts that nodes must share if some are not read yet."""
    return (pool.vendor, pool.resource, pool.request, pool.cpu_architecture, pool.region, pool.handler)


def _informative(parts: Sequence[Pool]) -> Sequence[Pool]:
    """The pools that identify the devices: those without a problem, if there are any, then those that wait for nothing but their
    nodes.
    """
    return [pool for pool in parts if pool.problem is None] or [pool for pool in parts if pool.pending] or parts


def _common(pool: Pool) -> tuple[object, ...]:
    device = (pool.vendor, pool.resource, pool.accelerator, pool.portion.division, pool.share, pool.request)
    return (*device, pool.also_counted_as, pool.host_architecture, pool.region, pool.handler)


def _sets(family: Sequence[Pool], steps: Sequence[Release]) -> Iterator[tuple[Pool, ...]]:
    """The sets of two or more parts that suit some jobs better than all of them."""
    levels = {pool.name: _level(pool) for pool in family}
    for names in sets_of(levels, {pool.name: pool.capacity_type for pool in family}, steps):
        if len(names) > 1:
            yield tuple(pool for pool in family if pool.name in names)


def _level(pool: Pool) -> Level:
    price = (pool.price is not None, -pool.price.per_gpu_hour if pool.price else 0)
    if pool.problem is not None:
        return Level(release(pool.driver) or ANY, UNKNOWN, price)
    return Level(release(pool.driver), pool.memory or 0, price)


def _name(parts: Sequence[Pool], meanings: Mapping[str, Collection[str]], taken: Collection[str]) -> str:
    """The longest word that means these pools and no other, else a word that means them too, with a hash of their names."""
    names = {pool.name for pool in parts}
    common = set.intersection(*({pool.name, *pool.also} for pool in parts))
    ordered = sorted(common, key=lambda word: (-len(word), word))
    exact = next((word for word in ordered if meanings[word] == names and word not in taken), None)
    if exact is not None:
        return exact
    first = _informative(parts)[0]
    stem = ordered[0] if ordered else plain_name(first.accelerator_id, str(first.portion), "", "")
    digest = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
    hashed = (f"{stem}-{digest[:end]}" for end in range(SHORTEST, len(digest) + 1))
    return next(name for name in hashed if name not in taken)


def _of(parts: Sequence[Pool], name: str) -> Pool:
    """The pool of the nodes of these, with the worst of each fact."""
    informative = _informative(parts)
    memories = [pool.memory for pool in informative if pool.memory is not None]
    drivers = [pool.driver for pool in informative if pool.driver]
    prices = [pool.price for pool in parts if pool.price is not None]
    types = {pool.instance_type for pool in parts}
    names = [word for pool in informative for word in (pool.name, *pool.also)]
    described = {pool.name for pool in informative}
    return replace(
        informative[0],
        name=name,
        also=(),
        joins=tuple((pool.name, *pool.also, *(() if pool.name in described else names)) for pool in parts),
        problem=next(_unread(parts), informative[0].problem),
        memory=min(memories) if len(memories) == len(informative) else None,
        driver=min(drivers, key=release, default=None),
        capacity_type=min((pool.capacity_type for pool in parts), key=RANKS.index),
        capacity_nodes=first_of_each_type((pool.capacity_type, node.name) for pool in parts for node in pool.nodes),
        price=max(prices, key=attrgetter("per_gpu_hour")) if len(prices) == len(parts) else None,
        node_prices=_node_prices(parts) if len(prices) == len(parts) else (),
        instance_type=types.pop() if len(types) == 1 else "",
        nodes=_nodes(parts),
        node_pool=next(filter(None, (pool.node_pool for pool in parts)), ""),
        warnings=(
            *distinct(warning for pool in informative for warning in pool.warnings),
            *_lacks(informative),
            *_differ(informative),
        ),
    )


def _node_prices(parts: Iterable[Pool]) -> tuple[int, ...]:
    """What a device of each node costs, for `Pool.node_prices`; a node of several parts counts once, with the highest."""
    found: dict[str, int] = {}
    for pool in parts:
        for node in pool.nodes if pool.price is not None else ():
            found[node.name] = max(found.get(node.name, 0), pool.price.per_gpu_hour if pool.price else 0)
    return unlike_prices(found.values())


def _unread(parts: Sequence[Pool]) -> Iterator[Finding]:
    """The problems with the devices of some of the nodes."""
    for pool in parts:
        if pool.problem is not None and _is_unread(pool):
            yield Finding(pool.problem.reason, "node {}: {}", (pool.nodes[0].name, pool.problem.message))


def _lacks(parts: Sequence[Pool]) -> Iterator[Finding]:
    """The warning that some of the nodes have no driver in their labels: that of the others says nothing of them."""
    unknown = [pool.name for pool in parts if not pool.driver]
    if 0 < len(unknown) < len(parts):
        yield Finding(Reason.DRIVER_UNKNOWN, "no label has the driver of {}", (listed(unknown),))


def _nodes(parts: Sequence[Pool]) -> tuple[PoolNode, ...]:
    """The nodes of these, each once: one whose cards are being divided may be in several."""
    informative = _informative(parts)[0]
    nodes: dict[str, PoolNode] = {}
    for pool in sorted(parts, key=lambda pool: pool.total, reverse=True):
        for node in pool.nodes:
            nodes.setdefault(node.name, node if informative.pending or not pool.pending else node.unnumbered())
    return tuple(nodes[name] for name in sorted(nodes))


_WORSE: Final[Mapping[str, Callable[[Pool], object]]] = {
    "capacity type": lambda pool: pool.capacity_type,
    "price": lambda pool: pool.price and pool.price.per_gpu_hour,
    "driver": lambda pool: pool.driver,
    "memory": lambda pool: pool.memory,
}
"""Facts for which the worst node of a gang counts."""


def _differ(parts: Sequence[Pool]) -> Iterator[Finding]:
    if len(parts) < 2:
        return
    worse = [word for word, fact in _WORSE.items() if len({fact(pool) for pool in parts}) > 1]
    types = ["instance type"] * (len({pool.instance_type for pool in parts}) > 1)
    priced = "price" in worse and all(pool.price is not None for pool in parts)
    of_all = (
        "; the most expensive nodes count" if priced and len(worse) == 1 else "; the worst counts for all" * bool(worse)
    )
    sentence = "its nodes are those of {}, which differ in {}" + of_all + " but the price" * (priced and len(worse) > 1)
    names = listed([pool.name for pool in parts])
    yield Finding(Reason.NODES_DIFFER, sentence, (names, listed([*worse, *types] or ["taints"])))


def _alike(before: Sequence[Pool], parts: Sequence[Pool]) -> bool:
    """Whether pools are the same ones, with the same facts."""
    return len(before) == len(parts) and all(
        one.answers is other.answers for one, other in zip(before, parts, strict=True)
    )


def _now(before: Joined, changed: Mapping[str, Pool]) -> tuple[Pool, ...]:
    """The parts as they are now; `changed` are the pools with another state of their nodes, by name."""
    parts, _ = before
    if changed.keys().isdisjoint(pool.name for pool in parts):
        return parts
    return tuple(changed.get(pool.name, pool) for pool in parts)


def _after(before: Joined, parts: tuple[Pool, ...]) -> Joined:
    """The pool with the state that the nodes have now."""
    earlier, joined = before
    if all(map(is_, earlier, parts)):
        return before
    pairs = zip(joined.nodes, _nodes(parts), strict=True)
    return parts, joined.with_nodes({index: node for index, (old, node) in enumerate(pairs) if node is not old})
