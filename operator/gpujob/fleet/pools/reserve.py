"""A pool after a reservation of its devices, for a placed job or for a job that goes first, or after its release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.runtime_classes import lacks
from gpujob.fleet.pools.ahead import Ahead, Taking

if TYPE_CHECKING:
    from gpujob.fleet.pools.node import Growth, PoolNode
    from gpujob.fleet.pools.pool import Pool

NOTHING: Final = Resources()


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one job that wait for any node of a pool, each for a different one: published pools and growing ones."""

    count: int
    gpus: int
    needs: Resources
    """The other resources of each, with the overhead of its RuntimeClass."""
    gang: int
    """The pods of the whole gang, including those with a node."""
    not_on: frozenset[str] = frozenset()
    """The nodes that they leave out: those of the pool that are not in the part which the job got."""


def unnamed_reserved(family: Sequence[Pool], pods: Pods) -> tuple[Pool, ...]:
    """A pool and its parts after a reservation for pods without the name of a node.

    Nodes with room for such a pod now come first, then future ones that others wait for, the fullest first, then further ones. A
    gang that needs one topology domain uses future nodes only, as `placement.capacity` places it. It is not known for which part
    of a pool the pods are, but for the nodes that they leave out: the reservation counts on the nodes that they take in any, and as
    if all took future ones.
    """
    found = [_there(pool, pods) for pool in family]
    if len(family) == 1:
        return (_after(family[0], pods, found[0], pods.count - len(found[0])),)
    names = {node.name for there in found for _, node in there}
    return tuple(
        _after(
            pool,
            pods,
            [(index, pool.nodes[index]) for name in names for index in pool.positions.get(name, ())],
            pods.count,
        )
        for pool in family
    )


def _there(pool: Pool, pods: Pods) -> list[tuple[int, PoolNode]]:
    """The nodes that exist and that the pods take, with their index in the pool."""
    together = pods.gang > 1 and pool.fabric is not None and pool.fabric.topology_key != ""
    return [] if together and pool.growth is not None else list(islice(_able_now(pool, pods), pods.count))


def _after(pool: Pool, pods: Pods, there: Iterable[tuple[int, PoolNode]], left: int) -> Pool:
    """The pool after pods take these nodes, and so many of them future ones."""
    after = pool.with_nodes({index: _less(node, pods) for index, node in there})
    if pool.growth is None or not left:
        return after
    grown = copy(after)
    grown.__dict__.update(answers=after.answers, growth=_growth_after(pool.growth, pods, left))
    grown.__dict__.pop("as_if_first", None)
    return grown


def _able_now(pool: Pool, pods: Pods) -> Iterator[tuple[int, PoolNode]]:
    """Nodes on which such a pod can start now, with their index in the pool."""
    for index, node in pool.stock.with_free_at(pods.gpus):
        usable = not (node.unlabelled or lacks(node.handlers, pool.handler)) and node.name not in pods.not_on
        if usable and _has_room(node, pods):
            yield index, node


def _has_room(node: PoolNode, pods: Pods) -> bool:
    linked = pods.gang == 1 or node.links is None or node.links > 0
    return linked and node.free >= pods.gpus and node.left.covers(pods.needs)


def _growth_after(growth: Growth, pods: Pods, count: int) -> Growth:
    """The growth of a pool after a number of pods wait for future nodes."""
    waited_for = sorted(growth.started, key=lambda node: (node.free, node.left.memory))
    started = []
    for node in waited_for:
        takes = count > 0 and _has_room(node, pods)
        started.append(_less(node, pods) if takes else node)
        count -= takes
    fresh = min(count, growth.count) if _has_room(growth.template, pods) else 0
    started += [_less(growth.template, pods)] * fresh
    return replace(growth, count=growth.count - fresh, started=tuple(started))


def _less(node: PoolNode, pods: Pods) -> PoolNode:
    """A node after one of the pods uses its part."""
    links = node.links if node.links is None or pods.gang == 1 else node.links - 1
    return replace(node, free=node.free - pods.gpus, left=node.left.minus(pods.needs), links=links)


def reserved(pool: Pool, *takings: Taking) -> Pool:
    """A pool after this reservation, on it or on another pool on the same nodes."""
    return _moved(pool, takings, 1)


def as_if_first(pool: Pool) -> Pool:
    """The pool with what jobs of higher priority got in this round, or have reserved, released.

    Cached with the pool: placement reads it for every waiting job.
    """
    if not pool.ahead:
        return pool
    kept: Pool | None = pool.__dict__.get("as_if_first")
    if kept is None:
        kept = pool.__dict__["as_if_first"] = without_ahead(pool)
    return kept


def without_ahead(pool: Pool) -> Pool:
    """A pool as if no job went first: everything that jobs of higher priority got or have reserved is released."""
    return _moved(pool, (each.taking for each in pool.ahead), -1)


def with_ahead(pool: Pool, ahead: Sequence[Ahead]) -> Pool:
    """A pool on which more jobs go first: reservations of waiting jobs are subtracted, those of placed ones are already."""
    pool = reserved(pool, *(each.taking for each in ahead if each.waits))
    # The facts are the same, and so is the cache of results that follow from them.
    answers = pool.answers
    pool = copy(pool)
    pool.__dict__.update(answers=answers, ahead=(*pool.ahead, *ahead))
    pool.__dict__.pop("as_if_first", None)
    return pool


def _moved(pool: Pool, takings: Iterable[Taking], sign: int) -> Pool:
    """The pool after some reservations (sign 1), or after their release (-1)."""
    changed: dict[int, PoolNode] = {}
    for taking in takings:
        needs = taking.needs if sign > 0 else NOTHING.minus(taking.needs)
        for name, gpus in taking.on:
            for index in pool.positions.get(name, ()):
                node = changed.get(index, pool.nodes[index])
                # Each pod of a gang has a domain in the fabric; jobs of one node have none.
                links = node.links if node.links is None or not taking.linked else node.links - sign
                gone = sign * _gone(pool, node, taking.resource, gpus)
                changed[index] = replace(node, free=node.free - gone, left=node.left.minus(needs), links=links)
    return pool.with_nodes(changed) if changed else pool


def _gone(pool: Pool, node: PoolNode, resource: str, gpus: int) -> int:
    """Devices of the pool that are missing after this many of a resource are used on a node."""
    if node.silicon and node.silicon.holds(resource):
        return node.silicon.as_many(pool.resource, resource, gpus)
    return gpus if pool.resource == resource else 0
