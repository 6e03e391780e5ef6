"""Pools that are equal for a job, of which one stands for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpujob.placement.scoring.candidate import Candidate
from gpujob.values.finding import Finding


def one_of_each_kind(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Of pools that are equal for the job the first in the order of the candidates, so that more equal pools change nothing.

    Pools are equal if their devices, nodes and offers are, and if the same candidates have the same reasons; their prices count
    only as far as the reasons contain them.
    """
    of_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        of_pool.setdefault(candidate.pool.name, []).append(candidate)
    kinds: dict[object, list[Candidate]] = {}
    for found in of_pool.values():
        kinds.setdefault(_kind(found), found)
    return tuple(candidate for found in kinds.values() for candidate in found)


def _kind(candidates: Sequence[Candidate]) -> object:
    pool = candidates[0].pool
    device = (pool.vendor, pool.accelerator_id, pool.resource, pool.portion, pool.memory, pool.driver)
    nodes = (pool.cpu_architecture, pool.capacity_type, pool.size[1:], pool.growth, pool.fabric)
    said = ((each, finding) for each in candidates for finding in each.reasons)
    # Numbers count, names of nodes and claims do not.
    return device, nodes, frozenset(
        (each.runtime.name, each.gang.shape, each.outcome, finding.reason, finding.sentence, _amounts(finding))
        for each, finding in said
    )  # fmt: skip


def _amounts(finding: Finding) -> tuple[object, ...]:
    return tuple(number for number in finding.numbers if not isinstance(number, str))
