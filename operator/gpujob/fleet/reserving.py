"""A pool after devices of it were promised, held for a job that goes first, or given back by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpujob.fleet.ahead import Ahead, Taking
from gpujob.fleet.objects import Resources

if TYPE_CHECKING:
    from gpujob.fleet.pool_node import PoolNode
    from gpujob.fleet.pools import Pool

NOTHING: Final = Resources()


def unnamed_reserved(pool: Pool, gpus: int, count: int) -> Pool:
    """A pool after so many pods were promised to it, but to no node by name: published pools and those that grow.

    Devices of the fullest nodes with room are taken first, the others are of nodes to be added.
    """
    with_room = [index for index, node in enumerate(pool.nodes) if node.free >= gpus]
    taken = sorted(with_room, key=lambda index: pool.nodes[index].free)[:count]
    after = pool.with_nodes({i: replace(pool.nodes[i], free=pool.nodes[i].free - gpus) for i in taken})
    if pool.growth is None or len(taken) == count:
        return after
    return replace(after, growth=replace(pool.growth, count=max(0, pool.growth.count - (count - len(taken)))))


def reserved(pool: Pool, *takings: Taking) -> Pool:
    """A pool after somebody took this, of it or of another pool on the same nodes."""
    return _moved(pool, takings, 1)


def without_ahead(pool: Pool) -> Pool:
    """A pool as if no job went first: with all that those of higher priority took or have held given back."""
    return _moved(pool, (each.taking for each in pool.ahead), -1)


def with_ahead(pool: Pool, ahead: Sequence[Ahead]) -> Pool:
    """A pool on which more jobs go first: what those that wait have held is taken, what the others took is already."""
    pool = reserved(pool, *(each.taking for each in ahead if each.waits))
    # The facts are the same, and so is the room for what follows from them.
    answers = pool.answers
    pool = copy(pool)
    pool.__dict__.update(answers=answers, ahead=(*pool.ahead, *ahead))
    pool.__dict__.pop("as_if_first", None)
    return pool


def _moved(pool: Pool, takings: Iterable[Taking], sign: int) -> Pool:
    """The pool after some takings (sign 1), or after they were given back (-1)."""
    changed: dict[int, PoolNode] = {}
    for taking in takings:
        needs = taking.needs if sign > 0 else NOTHING.minus(taking.needs)
        for name, gpus in taking.on:
            for index in pool.places.get(name, ()):
                node = changed.get(index, pool.nodes[index])
                # Pods of a gang have a place in the fabric each; jobs of one node have none.
                links = node.links if node.links is None or not taking.linked else node.links - sign
                gone = sign * _gone(pool, node, taking.resource, gpus)
                changed[index] = replace(node, free=node.free - gone, left=node.left.minus(needs), links=links)
    return pool.with_nodes(changed) if changed else pool


def _gone(pool: Pool, node: PoolNode, resource: str, gpus: int) -> int:
    """Devices of the pool that are gone when so many of a resource are taken on a node."""
    if node.silicon and node.silicon.holds(resource):
        return node.silicon.as_many(pool.resource, resource, gpus)
    return gpus if pool.resource == resource else 0
