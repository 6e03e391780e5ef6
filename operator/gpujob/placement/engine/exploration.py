"""The pool that a job tries first: a device that its profile has not measured (exploration), or each device in turn (a probe).

Both only name the pool with room that comes first; the rest of the decision is unchanged. An exploration states the most that
it can cost more than the best pool, and does not run above the job's limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.demand import Demand, ProbeTarget
from gpujob.placement.scoring.candidate import Candidate
from gpujob.values.finding import Dollars, counted
from gpujob.values.vocabulary import Outcome

SLOWER: Final = 2
"""Divisor for the catalog speed of an unmeasured device: the largest error among the catalog's own rows (catalog.throughput)."""

ENOUGH: Final = 3
"""Runs after which a device counts as measured: the median of three tolerates one slow run."""

MOST_TRIALS: Final = 16
"""The most probes of one job; its status records each one."""


def with_trial(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with the pool to try first; unchanged without exploration and probe."""
    if demand.probe_steps is None and demand.exploration is None:
        return demand
    decision = decide(replace(demand, wait_seconds=0), fleet, catalog)
    fitting = [c for c in decision.candidates if c.outcome in (Outcome.CHOSEN, Outcome.FITS) and not c.provision]
    fitting = _one_for_each_device(fitting)
    if demand.probe_steps is not None and (unprobed := _why_unprobed(demand, fitting)):
        return demand.but(unprobed=unprobed)
    trying = _probe(demand, fitting) if demand.probe_steps is not None else _exploration(demand, fitting)
    return demand if trying is None else replace(demand, trying=trying, wait_seconds=0)


def _why_unprobed(demand: Demand, fitting: Sequence[Candidate]) -> str:
    """Why probes are useless, empty if they are useful: a single measurement has nothing to compare with."""
    known = {place for place in demand.probed if demand.learned and demand.learned.of(*place)}
    if len(known.union(map(device_and_gang, fitting))) > 1 or not _unknown(demand, fitting):
        return ""
    return "nothing is probed: no other device has room"


def _probe(demand: Demand, fitting: Sequence[Candidate]) -> ProbeTarget | None:
    """The cheapest candidate whose device and gang are not measured yet; once all are measured, the best one that started.

    Each probe runs once. A probe that counted another unit cannot be compared, and a second run would not change that.
    """
    left = _unknown(demand, fitting)
    if not left or len(demand.probed) >= MOST_TRIALS:
        return _started(demand, fitting)
    first = min(left, key=lambda c: (c.price_per_hour is None, c.price_per_hour or 0, c.pool.name, c.gang.shape))
    why, others = f"probed for {counted(demand.probe_steps or 0, 'step')}", len(left) - 1
    then = f"{counted(others, 'more pool')} to probe after it" if others else "the job itself follows"
    return ProbeTarget(first.pool.name, first.gang.shape, why, probe=True, then=then)


def _started(demand: Demand, fitting: Sequence[Candidate]) -> ProbeTarget | None:
    """The best candidate whose probe pods started; None if the best of all is one."""
    first = next((c for c in fitting if device_and_gang(c) not in demand.unstarted), None)
    if first is None or first is fitting[0]:
        return None
    why = f"the best without {fitting[0].pool.name}, on which the trial did not start"
    return ProbeTarget(first.pool.name, first.gang.shape, why)


def with_one_more(demand: Demand, placed: Mapping[tuple[str, str], int]) -> Demand:
    """A demand that explores, with the runs of its profile that were placed since it was parsed."""
    if not placed or demand.exploration is None:
        return demand
    return demand.but(under_way=tuple(sorted((Counter(dict(demand.under_way)) + Counter(placed)).items())))


def _unknown(demand: Demand, fitting: Iterable[Candidate]) -> list[Candidate]:
    return [c for c in fitting if _is_unknown(demand, c)]


def _is_unknown(demand: Demand, candidate: Candidate) -> bool:
    return not is_measured(demand, candidate) and device_and_gang(candidate) not in demand.probed


def is_to_be_probed(demand: Demand, candidate: Candidate) -> bool:
    """Whether a job that probes runs a probe there."""
    return _is_unknown(demand, candidate) and not candidate.provision


def device_and_gang(candidate: Candidate) -> tuple[str, str]:
    """What a run measures: a device in a gang of nodes x GPUs."""
    return candidate.pool.device, candidate.gang.shape


def _exploration(demand: Demand, fitting: Sequence[Candidate]) -> ProbeTarget | None:
    """The least measured device whose run can cost the least more than one on the best measured device, within the limit.

    For equal work the cost of a run is proportional to dollars an hour divided by speed. Runs in progress count as done, so
    that waiting jobs do not all pay for the same measurement.
    """
    known = [
        (c.price_of_work, dollars, c) for c in fitting if c.price_of_work and (dollars := _dollars_of_a_run(demand, c))
    ]
    if not known:
        return None
    under_way = dict(demand.under_way)
    price, dollars, best = min(known, key=lambda found: (found[0], found[2].pool.name))
    regrets = [
        # Rounded up, so that the stated cost is an upper bound.
        (max(0, -(dollars * (price - _worst(runs) * c.price_of_work) // price)), runs, c.pool.name, c)
        for c in fitting
        if c.price_of_work
        and c is not best
        and (runs := runs_on(demand, c)) + under_way.get(device_and_gang(c), 0) < ENOUGH
    ]
    if not regrets:
        return None
    regret, runs, _, first = min(regrets, key=lambda found: found[:3])
    if regret > (demand.exploration or 0):
        return None
    so_far = f"measured on {counted(runs, 'run')} so far" if runs else "unmeasured so far"
    why = f"explored, {so_far}: may cost {Dollars(regret)} more than {best.pool.name}"
    return ProbeTarget(first.pool.name, first.gang.shape, why)


def _worst(runs: int) -> int:
    """Divisor for the catalog speed of a device."""
    return 1 if runs else SLOWER


def _dollars_of_a_run(demand: Demand, candidate: Candidate) -> int | None:
    measurement = demand.learned and demand.learned.of(candidate.pool.device, candidate.gang.shape)
    return measurement.dollars if measurement else None


def is_measured(demand: Demand, candidate: Candidate) -> bool:
    """Whether an earlier run measured exactly this device in this shape."""
    return runs_on(demand, candidate) > 0


def runs_on(demand: Demand, candidate: Candidate) -> int:
    """How many earlier runs measured exactly this device in this shape."""
    found = demand.learned and demand.learned.of(candidate.pool.device, candidate.gang.shape)
    return found.count if found else 0


def _one_for_each_device(fitting: Iterable[Candidate]) -> list[Candidate]:
    """The first candidate of each device and gang, in ranked order: pools of one device measure the same."""
    found: dict[tuple[str, str], Candidate] = {}
    for candidate in fitting:
        found.setdefault((candidate.pool.device, candidate.gang.shape), candidate)
    return list(found.values())
