"""A step of the search of the nearest fix: some changes for one pool, and the order in which steps are tried and pursued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Change, Fix
from gpujob.placement.suggestions.proposal import DEVICES, instruction, is_of_parts
from gpujob.values.quantity import format_bytes

PURSUED: Final = 24
"""The nearest changes that do not help alone, to which a further change is added; half of them whatever their fields."""

ALIKE: Final = 3
"""Of these the most that change the same fields on pools of any devices, because many pools are equal."""

UNLIKE: Final = 12
"""Of these the most that change the same fields, on pools of other devices each."""

OF_MODEL: Final = "spec.model."
"""The fields that make a model lighter."""


@dataclass(frozen=True, slots=True)
class Step:
    """Some changes, their demand, their pool, and their distance."""

    distance: float
    changes: tuple[Change, ...]
    demand: Demand
    pool: str
    answers: bool = True
    """Whether the last change answers the first reason of the pool, as one of any changes that help must."""
    device: str = ""
    """What the pool's devices are."""
    own: float = 0
    """The distance of the changes alone, whatever the pool's reasons."""

    @property
    def order(self) -> tuple[object, ...]:
        return (self.distance, [(change.field, str(change.after)) for change in self.changes], self.pool)

    @property
    def values(self) -> frozenset[tuple[str, str]]:
        """The changed fields and their new values."""
        return frozenset((change.field, str(change.after)) for change in self.changes)

    @property
    def key(self) -> object:
        """What makes two steps one."""
        return self.values, self.pool

    @property
    def fields(self) -> tuple[str, ...]:
        """The changed fields."""
        return tuple(change.field for change in self.changes)

    @property
    def kind(self) -> frozenset[str]:
        """The kinds of its changes: many fields make a model lighter, and one of them is often enough."""
        return frozenset(OF_MODEL if field.startswith(OF_MODEL) else field for field in self.fields)


def distinct(steps: Iterable[Step], seen: Collection[object]) -> list[Step]:
    """The steps by distance, of equal changes for one pool the nearest."""
    nearest: dict[object, Step] = {}
    for step in steps:
        key = step.key
        if key in seen:
            continue
        other = nearest.get(key, step)
        nearer = step if step.distance < other.distance else other
        nearest[key] = replace(nearer, answers=True) if step.answers or other.answers else nearer
    return sorted(nearest.values(), key=lambda step: step.order)


def pursued(steps: Sequence[Step]) -> list[Step]:
    """The nearest steps, first few for each set of fields, then the nearest of each further set of kinds, then of each
    further set of fields, then the others: neither many pools nor many ways to answer one reason displace a kind of change. Several
    reasons of a pool are answered in one order, and in others while there is room: one change may answer more than its own reason.
    """
    answering, others = ([step for step in steps if step.answers is answers] for answers in (True, False))
    found = _in_turns(answering)[:PURSUED]
    return found + _in_turns(others)[: max(0, PURSUED // 2 - len(found))]


def _in_turns(steps: Iterable[Step]) -> list[Step]:
    """Steps in the order in which they are pursued."""
    alike: Counter[object] = Counter()
    near, kinds, first, others = list[Step](), list[Step](), list[Step](), list[Step]()
    for step in steps:
        fields, kind = step.fields, step.kind
        alike.update((fields, kind, (fields, step.device)))
        unlike = alike[fields] <= ALIKE or (alike[fields, step.device] == 1 and alike[fields, ""] < UNLIKE)
        if len(near) < PURSUED // 2 and unlike:
            alike[fields, ""] += 1
            near.append(step)
        else:
            (kinds if alike[kind] == 1 else first if alike[fields] == 1 else others).append(step)
    return [*near, *kinds, *first, *others]


def fix_of(step: Step, fleet: Fleet) -> Fix:
    """The fix of a step; one for parts or shares of devices says how small they are."""
    pool = fleet.pool(step.pool) if DEVICES in step.fields else None
    small = f" with devices of {format_bytes(pool.memory)}" if pool and pool.memory and is_of_parts(pool) else ""
    return Fix(
        f"{instruction(step.changes)} it would fit pool {step.pool}{small}", step.changes, step.pool, step.demand
    )
