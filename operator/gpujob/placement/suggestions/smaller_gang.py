"""Gangs that would start now, for a job that waits: as many GPUs in another shape, and the largest smaller ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.choose import choose
from gpujob.placement.filters.memory import divides, known_heads
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Change, Decision, StartsNow
from gpujob.values.vocabulary import Outcome, Verdict

MOST_GPUS: Final = 64
"""The most GPUs of a pod that the job's schema accepts."""


class _Started(Protocol):
    """What starts with so many nodes and GPUs of each; None if it does not. A job that is not patient waits for no better pool."""

    def __call__(self, nodes: int, gpus: int, /, *, patient: bool = ...) -> StartsNow | None: ...


def starts_now(decision: Decision, fleet: Fleet, catalog: Catalog) -> tuple[StartsNow, ...]:
    """Gangs that start on the snapshot of a Waiting decision: first the one with as many GPUs, then the largest smaller ones. With
    waitSeconds one that has room and would wait for a better pool is none.

    None for other verdicts, if a pool has room for the job as it is, and if the model gives the number of GPUs: then every
    number that holds it was tried.
    """
    demand = decision.demand
    waits = decision.verdict is Verdict.WAITING and bool(decision.candidates)
    if not waits or demand.sized_by_model or any(each.outcome is Outcome.FITS for each in decision.candidates):
        return ()
    gang = decision.candidates[0].gang

    def started(nodes: int, gpus: int, *, patient: bool = True) -> StartsNow | None:
        other = Gang(nodes, gpus, gang.accelerator, gang.entry)
        # The other shapes stay: the job may wait for one of them.
        gangs = tuple(other if each.entry == gang.entry else each for each in demand.gangs)
        asked = demand.but(gangs=gangs, trying=None, wait_seconds=demand.wait_seconds if patient else 0)
        choice = choose(asked, fleet, catalog).choice
        if choice is None:
            return None
        sizes = (("nodes", gang.nodes, nodes), ("gpusPerNode", gang.gpus_per_node, gpus))
        changes = tuple(Change(gang.field(name), was, now) for name, was, now in sizes if was != now)
        return StartsNow(changes, choice.candidate.pool.name, choice.candidate.price_per_hour, not all(choice.nodes))

    as_many = next(filter(None, (started(*shape) for shape in _as_many(gang))), None)
    return (*((as_many,) if as_many else ()), *_smaller(demand, gang, started))


def with_ways_out(decision: Decision, fleet: Fleet, catalog: Catalog) -> Decision:
    """The decision with the gangs that would start now."""
    found = starts_now(decision, fleet, catalog)
    return replace(decision, starts_now=found) if found else decision


def _as_many(gang: Gang) -> Iterator[tuple[int, int]]:
    """Other shapes with as many GPUs, those with fewer pods first."""
    for nodes in range(1, gang.gpus + 1):
        if gang.gpus % nodes == 0 and nodes != gang.nodes and gang.gpus // nodes <= MOST_GPUS:
            yield nodes, gang.gpus // nodes


def _smaller(demand: Demand, gang: Gang, started: _Started) -> Iterator[StartsNow]:
    """The most nodes, and the most GPUs a node, of those that divide a model's heads; on one node if neither alone has room."""
    nodes, gpus = gang.nodes, gang.gpus_per_node
    heads = known_heads(demand, gang.memory.work) if gang.memory is not None else None
    parts = [count for count in range(1, gpus) if heads is None or divides(count, heads)]
    fewer_nodes, fewer_gpus = [(count, gpus) for count in range(1, nodes)], [(nodes, count) for count in parts]
    found = [_largest(shapes, started, bool(demand.wait_seconds)) for shapes in (fewer_nodes, fewer_gpus)]
    if not any(found) and nodes > 1:
        found = [_largest([(1, count) for count in parts], started, bool(demand.wait_seconds))]
    yield from filter(None, found)


def _largest(shapes: Sequence[tuple[int, int]], started: _Started, patient: bool) -> StartsNow | None:
    """The last of growing shapes that starts. Of a job that waits for better pools it is the last one that has room, which the fewest
    of these can hold, or else one that fits the better pool itself.
    """
    start, count = _last(shapes, partial(started, patient=False))
    if not patient or start is None:
        return start
    return started(*shapes[count - 1]) or _last(shapes[: count - 1], started)[0]


def _last(shapes: Sequence[tuple[int, int]], started: _Started) -> tuple[StartsNow | None, int]:
    """The last of growing shapes that starts, and its place from 1: where one does, those before it do too."""
    low, high, found = 0, len(shapes), None
    while low < high:
        middle = (low + high) // 2
        start = started(*shapes[middle])
        low, high, found = (middle + 1, high, start) if start else (low, middle, found)
    return found, low
