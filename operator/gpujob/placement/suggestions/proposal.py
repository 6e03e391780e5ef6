"""A change of one field of a job, and a proposal: the change with its demand and its distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate, Change
from gpujob.placement.suggestions import costs
from gpujob.values.finding import listed
from gpujob.values.vocabulary import DeviceKind, Reason


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change and its distance from the job as written (0 is no change, 1 drops a constraint)."""

    distance: float
    change: Change
    demand: Demand


DEVICES: Final = "spec.placement.devices"
"""The field that `constraints.more_devices` changes."""

Repair = Callable[[Demand, Candidate, Fleet, Catalog], Iterator[Proposal]]
"""The changes that answer one reason of a rejected candidate; a decision verifies them afterwards."""


def proposed(distance: float, field: str, before: object, after: object, demand: Demand) -> Proposal:
    """The proposal to set a field, or to leave it out if `after` is None."""
    return Proposal(distance, Change(field, before, after), demand)


def cut(distance: float, field: str, before: object, after: object, changed: Demand) -> Proposal:
    """The proposal of a change that may stop the program as it is, see `costs.of_a_cut`."""
    return proposed(costs.of_a_cut(distance, changed.max_price is not None), field, before, after, changed)


RISKS: Final = {
    Reason.MEM_TIGHT: ", where the model may need more memory (MemTight)",
    Reason.HEADS_NOT_DIVIDED: ", where engines may reject that number of GPUs (HeadsNotDivided)",
}
"""What a fix says where the model may not run with it."""


def risks_of(placed: Candidate) -> str:
    """Why the model may not run as a fix places it; empty if it surely runs."""
    reasons = {each.reason for each in placed.warnings}
    return "".join(clause for reason, clause in RISKS.items() if reason in reasons)


def is_of_parts(pool: Pool) -> bool:
    """Whether the devices of a pool are less than whole ones."""
    return pool.kind in (DeviceKind.PARTITION, DeviceKind.SHARED)


def instruction(every: Sequence[Change]) -> str:
    """What to set and what to leave out."""
    parts = []
    for preposition, changes in (
        ("with", [change for change in every if change.after is not None]),
        ("without", [change for change in every if change.after is None]),
    ):
        if changes:
            parts.append(f"{preposition} {listed(map(_worded, changes))}")
    return " and ".join(parts)


def _worded(change: Change) -> str:
    if change.after is None:
        return f"{change.field} ({_text(_shortened(change.before))})"
    instead = f" instead of {_text(_shortened(change.before))}" if change.before is not None else ""
    return f"{change.field} {_text(change.after)}{instead}"


MOST_SHOWN: Final = 8
"""Entries of a list of now that a fix shows; of the list to write it shows all."""


def _shortened(value: object) -> object:
    if not isinstance(value, (list, tuple)) or len(value) <= MOST_SHOWN:
        return value
    return [*value[:MOST_SHOWN], f"{len(value) - MOST_SHOWN} more"]


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(part)}" for key, part in value.items()) + "}"
    return "nothing" if value is None else str(value)
