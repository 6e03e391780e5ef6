"""What a job tries first: a device that its profile has not measured (exploration), or each one in turn (a probe).

Both only say which pool with room is to come first; everything else about the decision stays as it is. An exploration
states what it may cost more than the best, and is not made where that is more than the job allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.probe_target import ProbeTarget
from gpujob.values.finding import Dollars, counted
from gpujob.values.vocabulary import Outcome

if TYPE_CHECKING:
    from gpujob.placement.request.demand import Demand
    from gpujob.placement.scoring.candidate import Candidate

SLOWER: Final = 2
"""How many times slower than its prior an unmeasured device is reckoned with: the worst estimate of the catalog's own
rows is off by that much (catalog.throughput)."""


ENOUGH: Final = 3
"""Runs after which a device counts as known: the middle of three is right though one of them was slow."""

MOST_TRIALS: Final = 16
"""Trials of one job, of which its status remembers every one."""


def with_trial(demand: Demand, fleet: Fleet, catalog: Catalog) -> Demand:
    """The demand with the pool that it tries first, if there is one; without exploration and probe the demand itself."""
    if demand.probe_steps is None and demand.exploration is None:
        return demand
    decision = decide(replace(demand, wait_seconds=0), fleet, catalog)
    fitting = [c for c in decision.candidates if c.outcome in (Outcome.CHOSEN, Outcome.FITS) and not c.provision]
    places = _one_for_each_device(fitting)
    if demand.probe_steps is not None and (unprobed := _why_unprobed(demand, places)):
        return demand.but(unprobed=unprobed)
    trying = _probe(demand, places) if demand.probe_steps is not None else _exploration(demand, places)
    return demand if trying is None else replace(demand, trying=trying, wait_seconds=0)


def _why_unprobed(demand: Demand, places: Sequence[Candidate]) -> str:
    """Why trials would tell nothing, empty where they would: one measurement compares with none."""
    known = {place for place in demand.probed if demand.learned and demand.learned.of(*place)}
    if len(known.union(map(place_of, places))) > 1 or not _unknown(demand, places):
        return ""
    return "nothing is probed: no other device has room"


def _probe(demand: Demand, places: Sequence[Candidate]) -> ProbeTarget | None:
    """The cheapest place whose device and shape were not measured yet; once all were, the best that started.

    A trial is made once: one that counted another unit than the others compares with nothing, and would again.
    """
    left = _unknown(demand, places)
    if not left or len(demand.probed) >= MOST_TRIALS:
        return _started(demand, places)
    first = min(left, key=lambda c: (c.price_per_hour is None, c.price_per_hour or 0, c.pool.name, c.gang.shape))
    why, others = f"probed for {counted(demand.probe_steps or 0, 'step')}", len(left) - 1
    then = f"{counted(others, 'more pool')} to probe after it" if others else "the job itself follows"
    return ProbeTarget(first.pool.name, first.gang.shape, why, probe=True, then=then)


def _started(demand: Demand, places: Sequence[Candidate]) -> ProbeTarget | None:
    """The best place that is not one on which the trial's pods did not start; None where that is the best of all."""
    first = next((c for c in places if place_of(c) not in demand.unstarted), None)
    if first is None or first is places[0]:
        return None
    why = f"the best without {places[0].pool.name}, on which the trial did not start"
    return ProbeTarget(first.pool.name, first.gang.shape, why)


def with_one_more(demand: Demand, placed: Mapping[tuple[str, str], int]) -> Demand:
    """A demand that explores, with the runs of its profile that were placed since it was worked out."""
    if not placed or demand.exploration is None:
        return demand
    return demand.but(under_way=tuple(sorted((Counter(dict(demand.under_way)) + Counter(placed)).items())))


def _unknown(demand: Demand, places: Iterable[Candidate]) -> list[Candidate]:
    return [c for c in places if _is_unknown(demand, c)]


def _is_unknown(demand: Demand, candidate: Candidate) -> bool:
    return not is_measured(demand, candidate) and place_of(candidate) not in demand.probed


def is_to_be_probed(demand: Demand, candidate: Candidate) -> bool:
    """Whether a job that probes makes a trial there."""
    return _is_unknown(demand, candidate) and not candidate.provision


def place_of(candidate: Candidate) -> tuple[str, str]:
    """What a run measures: a device in a shape."""
    return candidate.pool.device, candidate.gang.shape


def _exploration(demand: Demand, places: Sequence[Candidate]) -> ProbeTarget | None:
    """The little known device whose run may cost the least more than one on the best measured one, within the bound.

    With the same work to do, what a run costs goes as the price of work: dollars an hour divided by the speed. Runs that
    are under way count as made: however many jobs wait, no more of them pay for what the first ones will tell.
    """
    known = [
        (c.price_of_work, dollars, c) for c in places if c.price_of_work and (dollars := _dollars_of_a_run(demand, c))
    ]
    if not known:
        return None
    under_way = dict(demand.under_way)
    price, dollars, best = min(known, key=lambda found: (found[0], found[2].pool.name))
    regrets = [
        # Rounded up, so that what is stated bounds it.
        (max(0, -(dollars * (price - _worst(runs) * c.price_of_work) // price)), runs, c.pool.name, c)
        for c in places
        if c.price_of_work and c is not best and (runs := runs_on(demand, c)) + under_way.get(place_of(c), 0) < ENOUGH
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
    """How many times slower than told a device is reckoned with."""
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
    """The first candidate of each device and shape, in the order of the ranking: pools of one device measure the same."""
    found: dict[tuple[str, str], Candidate] = {}
    for candidate in fitting:
        found.setdefault((candidate.pool.device, candidate.gang.shape), candidate)
    return list(found.values())
