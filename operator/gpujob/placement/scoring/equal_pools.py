"""Pools that are equal for a job, with one that stands for all; and pools that join others, which count where no other serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from gpujob.placement.scoring.candidate import Candidate, first_of_each_pool
from gpujob.placement.scoring.score import ORDER
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Outcome, Reason


def one_of_each_kind(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Of pools that are equal for the job the first in the order of the candidates, so that more equal pools change nothing.

    Pools are equal if their devices, nodes and offers are, and if the same candidates have the same reasons; their prices count
    only as far as the reasons contain them.
    """
    of_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        of_pool.setdefault(candidate.pool.name, []).append(candidate)
    kinds: dict[object, list[Candidate]] = {}
    known, numbers = dict[int, int](), dict[object, int]()

    def number(finding: Finding) -> int:
        """The same for findings with equal amounts; names of nodes and claims do not count. Most candidates share their findings."""
        if id(finding) not in known:
            amounts = tuple(each for each in finding.numbers if not isinstance(each, str))
            known[id(finding)] = numbers.setdefault((finding.reason, finding.sentence, amounts), len(numbers))
        return known[id(finding)]

    for found in of_pool.values():
        kinds.setdefault(_kind(found, number), found)
    return tuple(candidate for found in kinds.values() for candidate in found)


def kinds_by_device(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first candidate of each kind of pools: the nearest kind of each device, then the next of each; of these those with the fewest
    reasons first.
    """
    kinds = sorted(first_of_each_pool(one_of_each_kind(candidates)).values(), key=lambda each: len(each.reasons))
    turns, of_device = dict[str, int](), Counter[str]()
    for each in kinds:
        of_device.update((each.pool.accelerator_id,))
        turns[each.pool.name] = of_device[each.pool.accelerator_id]
    return sorted(kinds, key=lambda each: turns[each.pool.name])


def _kind(candidates: Sequence[Candidate], number: Callable[[Finding], int]) -> object:
    pool = candidates[0].pool
    device = (pool.vendor, pool.accelerator_id, pool.resource, pool.portion, pool.memory, pool.driver)
    nodes = (pool.cpu_architecture, pool.capacity_type, pool.size[1:], pool.growth, pool.fabric)
    return device, nodes, frozenset(
        (each.runtime.name, each.gang.shape, each.outcome, frozenset(map(number, each.reasons)))
        for each in candidates if each.reasons
    )  # fmt: skip


def without_needless(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates without needless pools.

    A pool that joins others is left out if one of these, joined or alone, has as good an outcome and is rejected for no reason that
    the joined pool lacks. Of those that lack nothing but nodes, the pool with the most is kept; if an autoscaler may add these, so
    that the job waits, instead of its parts too. Otherwise the first candidate is always kept.
    """
    best = first_of_each_pool(candidates)
    parts = {name: frozenset(first for first, *_ in each.pool.joins) or {name} for name, each in best.items()}
    needless = set[str]()
    growing = {name for name, each in best.items() if each.outcome is Outcome.BUSY and _may_only_grow(each)}
    for name, each in best.items():
        if not each.pool.joins:
            continue
        if name in growing:
            needless |= {other for other in growing if parts[other] < parts[name]}
            continue
        if each is candidates[0]:
            continue
        lacks_nodes = _lacks_nodes(each)
        for other, its in best.items():
            if other == name:
                continue
            within, around = parts[other] <= parts[name], parts[other] >= parts[name]
            if lacks_nodes:
                needless |= {name} if around and _lacks_nodes(its) else set()
            elif within and _is_as_near(its, each):
                needless.add(name)
    return tuple(each for each in candidates if each.pool.name not in needless)


def without_repeated(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Of the parts of one GPUPool, and of joined pools of equal devices, the first of those with room, and of the others the first with
    each set of reasons: what the table of a plan shows.
    """
    first: dict[object, Candidate] = {}
    for each in candidates:
        pool = each.pool
        reasons = frozenset(finding.reason for finding in each.reasons)
        if pool.joins:
            first.setdefault((pool.vendor, pool.accelerator_id, pool.resource, pool.portion, reasons), each)
        else:
            first.setdefault((pool.family, reasons) if not pool.discovered else pool.name, each)
    return tuple(first.values())


def _is_as_near(part: Candidate, joined: Candidate) -> bool:
    """Whether the outcome of a part is as good, and if both are rejected, for no further reason."""
    if part.outcome is joined.outcome is Outcome.REJECTED:
        return {finding.reason for finding in part.reasons} <= {finding.reason for finding in joined.reasons}
    return ORDER.index(part.outcome) <= ORDER.index(joined.outcome)


def _may_only_grow(candidate: Candidate) -> bool:
    """Whether a candidate waits for nothing but nodes that an autoscaler may add."""
    return all(finding.reason is Reason.MAY_GROW for finding in candidate.reasons)


def _lacks_nodes(candidate: Candidate) -> bool:
    """Whether a candidate is rejected because its pool has too few nodes, and for nothing else."""
    return candidate.outcome is Outcome.REJECTED and all(
        finding.reason is Reason.POOL_TOO_SMALL for finding in candidate.reasons
    )
