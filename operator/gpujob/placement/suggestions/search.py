"""The nearest change of a job that makes it fit: as few fields as possible, each with its value now and the one that fits.

Every change is verified by a decision before it is shown, so that it really helps. Among equally many changes the nearest is
shown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide, decide_in_pieces
from gpujob.placement.engine.pieces import Pieces, finished, first_of
from gpujob.placement.filters.closed_pools import is_closed
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate, Decision, Fix, first_of_each_pool, lacks_nodes
from gpujob.placement.scoring.equal_pools import kinds_by_device, one_of_each_kind
from gpujob.placement.scoring.waiting import only_waits_for_others, state_now, waits_for_others
from gpujob.placement.suggestions.constraints import PRICE_LIMIT, further_shape, higher_price, other_versions
from gpujob.placement.suggestions.proposal import Proposal, Repair, instruction, risks_of
from gpujob.placement.suggestions.repairs import REPAIRS
from gpujob.placement.suggestions.requests import smaller_disk
from gpujob.placement.suggestions.spelling import closest_spellings
from gpujob.placement.suggestions.steps import OF_MODEL, Step, distinct, fix_of, pursued
from gpujob.values.finding import Finding
from gpujob.values.vocabulary import FIXABLE_REASONS, Outcome, Reason, Verdict

HOPELESS: Final = "no change of the job makes it fit"
"""Used if the cluster keeps every job of the namespace off all pools."""
NOT_FOUND: Final = "no change of the job was found that makes it fit"
"""Used otherwise: the search does not know every change of every field."""

MOST_CHANGES: Final = 4
"""The most changes that are shown together; with more it is hardly the same job."""

ALONE: Final = 4
"""The most kinds of pools that are searched one by one if no change, or no small one, was found for all together."""

TRIED: Final = 96
"""The most unlike changes that are verified for each further field: the nearest ones."""

PROPOSED: Final = 1500
"""The most changes that are considered for each further field, pool by pool, the best ones first; the job itself sets no bound."""


def with_fix(decision: Decision, fleet: Fleet, catalog: Catalog) -> Decision:
    """The decision with the nearest fix, or for an impossible job with the statement that no change of the job helps."""
    return finished(fix_in_pieces(decision, fleet, catalog))


def fix_in_pieces(decision: Decision, fleet: Fleet, catalog: Catalog) -> Pieces[Decision]:
    """`with_fix` in pieces."""
    if decision.verdict not in (Verdict.IMPOSSIBLE, Verdict.MISCONFIGURED) and not only_waits_for_others(decision):
        return decision
    found = yield from _searched(decision, decision.candidates, fleet, catalog)
    if len(found.changes) > 1 if isinstance(found, Step) else not found.startswith(HOPELESS):
        joined = yield from _left_out(decision, fleet, catalog)
        found = _nearer(found, (yield from _searched(decision, joined, fleet, catalog)) if joined else "")
    if len(found.changes) == MOST_CHANGES if isinstance(found, Step) else not found.startswith(HOPELESS):
        found = yield from _of_one_pool(found, decision, fleet, catalog)
    if isinstance(found, str):
        entries = further_shape(decision.demand, first_of_each_pool(decision.candidates).values(), fleet)
        for sentence, more in entries if found == NOT_FOUND else ():
            yield
            if choose(more, fleet, catalog).verdict is Verdict.PLACED:
                found = sentence
                break
        return replace(decision, hopeless=found if decision.verdict is Verdict.IMPOSSIBLE else "")
    yield
    # The same change may help several pools; the message names the pool that the job would get.
    choice = choose(found.demand, fleet, catalog).choice
    if choice is not None:
        fix = fix_of(replace(found, pool=choice.candidate.pool.name), fleet)
        return replace(decision, fix=replace(fix, message=fix.message + risks_of(choice.candidate)))
    nearest = decide(found.demand, fleet, catalog, found.pool or None).candidates[0]
    fix = fix_of(replace(found, pool=nearest.pool.name), fleet)
    return replace(decision, fix=replace(fix, message=f"{fix.message}, {state_now(nearest)}"))


def _nearer(found: Step | str, other: Step | str) -> Step | str:
    """The step with fewer changes, of equally many the nearer one; what was found first if the other is none."""
    steps = [step for step in (found, other) if not isinstance(step, str)]
    return min(steps, key=lambda step: (len(step.changes), step.distance), default=found)


def _of_one_pool(found: Step | str, decision: Decision, fleet: Fleet, catalog: Catalog) -> Pieces[Step | str]:
    """In pieces: the nearest change for one of the nearest kinds of pools, each searched alone, if it is nearer than what was found for
    all together: where a job needs several changes, those for one pool displace those for another.
    """
    pools = (each.pool for each in kinds_by_device(decision.candidates))
    for name in islice((pool.name for pool in pools if not is_closed(decision.demand, pool, fleet)), ALONE):
        of_pool = tuple(each for each in decision.candidates if each.pool.name == name)
        found = _nearer(found, (yield from _searched(decision, of_pool, fleet, catalog, name)))
    return found


def _left_out(decision: Decision, fleet: Fleet, catalog: Catalog) -> Pieces[tuple[Candidate, ...]]:
    """In pieces: the candidates of joined pools that a decision does not show, if the model gives the number of GPUs. Such a pool is
    no nearer for the gang of now, and may hold the smaller gang that a changed model needs.
    """
    there, found = {candidate.pool.name for candidate in decision.candidates}, list[Candidate]()
    for name in sorted(fleet.joins - there) if decision.demand.sized_by_model else ():
        yield
        found += decide(decision.demand, fleet, catalog, only=name).candidates
    return tuple(found)


def fix_for_pool(decision: Decision, pool: Pool, fleet: Fleet, catalog: Catalog) -> Fix | str:
    """The smallest change that makes a job fit one pool that rejects it; if there is none, a sentence that says so."""
    of_pool = tuple(candidate for candidate in decision.candidates if candidate.pool.name == pool.name)
    found = finished(_searched(decision, of_pool, fleet, catalog, pool.name))
    return found if isinstance(found, str) else fix_of(found, fleet)


def _searched(
    decision: Decision, candidates: tuple[Candidate, ...], fleet: Fleet, catalog: Catalog, only: str = ""
) -> Pieces[Step | str]:
    """The first step that helps, by the number of changes, then by distance; else the sentence that none does."""
    start = Step(0, (), decision.demand, only)
    none = _none(decision.demand, [pool for pool in fleet.pools if only in ("", pool.name)], fleet)
    candidates = candidates if only else one_of_each_kind(candidates)
    proposed = yield from first_of(_steps(start, candidates, decision.problems, fleet, catalog), PROPOSED)
    steps, seen, grown, unfixed = distinct(proposed, ()), set[object](), "", ""
    for _ in range(MOST_CHANGES):
        near = yield from _that_may_help(steps, only, fleet, catalog)
        for step in near:
            yield
            helps, lacking, misconfigured = _helps(step, fleet, catalog)
            yield
            if helps:
                best = yield from _best(step, near, fleet, catalog)
                return (yield from _cheapest(best, start.demand, fleet, catalog, only))
            grown = grown or (f"{instruction(step.changes)} {lacking}" if lacking else "")
            unfixed = unfixed or ((yield from _unfixed(step, fleet, catalog)) if misconfigured else "")
        seen.update(step.key for step in steps)
        tried = pursued(steps)
        steps = distinct((yield from _further(tried, fleet, catalog)), seen)
        if not steps and not grown:
            return unfixed or (yield from _hopeless(none, candidates, tried, fleet, catalog))
    return f"{none} on the nodes that are there; {grown}" if grown else unfixed or none


def _that_may_help(steps: Iterable[Step], only: str, fleet: Fleet, catalog: Catalog) -> Pieces[list[Step]]:
    """The nearest steps whose changes help on some pool, in their order. Many unlike pools multiply the steps of each change, and
    displace no other change.
    """
    near, verdicts = list[Step](), dict[object, Verdict]()
    for step in steps:
        changes = step.values
        if changes not in verdicts and len(verdicts) < TRIED:
            yield
            verdicts[changes] = choose(step.demand, fleet, catalog, only=only or None).verdict
        verdict = verdicts.get(changes, Verdict.IMPOSSIBLE)
        if verdict is Verdict.PLACED or (verdict is not Verdict.IMPOSSIBLE and len(near) < TRIED):
            near.append(step)
    return near


def _unfixed(step: Step, fleet: Fleet, catalog: Catalog) -> Pieces[str]:
    """What must be fixed first after the changes of a step; empty if nothing must."""
    nearest = next(iter((yield from _after(step, fleet, catalog)).candidates), None)
    if nearest is None or nearest.outcome is not Outcome.MISCONFIGURED:
        return ""
    why = next((finding.message for finding in nearest.reasons if finding.reason in FIXABLE_REASONS), "")
    return f"{instruction(step.changes)} pool {nearest.pool.family} must be fixed first: {why}" if why else ""


def _none(demand: Demand, pools: Iterable[Pool], fleet: Fleet) -> str:
    """The sentence that no change helps, if the cluster keeps every job off these pools; else that none was found."""
    return HOPELESS if all(is_closed(demand, pool, fleet) for pool in pools) else NOT_FOUND


def _hopeless(
    sentence: str, candidates: Iterable[Candidate], steps: Iterable[Step], fleet: Fleet, catalog: Catalog
) -> Pieces[str]:
    """States that no change of the job helps, and what blocks the nearest change if that is not shown yet and some change may help."""
    if sentence == HOPELESS:
        return sentence
    messages = {finding.message for candidate in candidates for finding in candidate.reasons}
    for step in steps:
        left = (yield from _after(step, fleet, catalog)).candidates[:1]
        first = next((finding for candidate in left for finding in candidate.reasons), None)
        if first is not None and first.message not in messages:
            return f"{sentence}: {instruction(step.changes)} still {first.message}"
    return sentence


def _further(steps: Iterable[Step], fleet: Fleet, catalog: Catalog) -> Pieces[list[Step]]:
    """The steps with one more change: of another field, or of a value that was not changed far enough."""
    found = list[Step]()
    for step in steps:
        if len(found) < PROPOSED:
            decision = yield from _after(step, fleet, catalog)
            more = _steps(step, decision.candidates, decision.problems, fleet, catalog)
            found += yield from first_of(more, PROPOSED - len(found))
    return found


def _after(step: Step, fleet: Fleet, catalog: Catalog) -> Pieces[Decision]:
    """The outcome of the job on the step's pool after its changes."""
    return decide_in_pieces(step.demand, fleet, catalog, only=step.pool or None)


def _steps(
    step: Step, candidates: Iterable[Candidate], problems: Collection[Finding], fleet: Fleet, catalog: Catalog
) -> Iterator[Step]:
    """For each rejected candidate, the changes that answer its reasons; fewer reasons are nearer. Nothing else helps a job with unknown
    words, so that these are answered first.
    """
    worded = False
    for proposal in closest_spellings(step.demand, fleet, catalog) if problems else ():
        for more in _with(step, proposal, step.pool, 0, answers=True):
            worded = True
            yield more
    if worded:
        return
    seen: set[object] = set()
    for candidate in candidates:
        if candidate.outcome is not Outcome.REJECTED and not (lacks_nodes(candidate) or waits_for_others(candidate)):
            continue
        reasons = frozenset(finding.reason for finding in candidate.reasons)
        place = (candidate.pool.name, candidate.gang, reasons)
        # Images with the same reasons differ only in versions and sizes; the first has the fewest findings.
        known, own = place in seen, (*place, candidate.runtime.name)
        if own in seen or (known and not reasons & _OF_IMAGES):
            continue
        seen.update((place, own))
        answering: Sequence[Repair] = ()
        for repair in dict.fromkeys(repair for reason in REPAIRS if reason in reasons for repair in REPAIRS[reason]):
            if known and repair not in _BY_IMAGE:
                continue
            for proposal in repair(step.demand, candidate, fleet, catalog):
                answering = answering or next(
                    found for reason, found in REPAIRS.items() if reason in reasons and repair in found
                )
                others, answers = len(candidate.reasons) - 1, repair in answering
                for more in _with(step, proposal, candidate.pool.name, others, answers=answers):
                    yield replace(more, device=candidate.pool.accelerator_id)


_OF_IMAGES: Final = frozenset({Reason.FRAMEWORK_UNSUPPORTED, Reason.DISK_TOO_SMALL})
_BY_IMAGE: Final = frozenset({other_versions, smaller_disk})
"""Repairs whose proposals depend on the candidate's image."""


def _with(step: Step, proposal: Proposal, pool: str, others: int, *, answers: bool) -> Iterator[Step]:
    """The step with a proposal; none if a list that was changed already would change its length again."""
    change, changes = proposal.change, list(step.changes)
    for index, earlier in enumerate(changes):
        if earlier.field == change.field:
            if isinstance(earlier.after, list) or change.after in (None, earlier.before):
                return
            changes[index] = replace(change, before=earlier.before)
            break
    else:
        # The order of the fields is independent of the way by which the search came to them: where the job may run first.
        changes = sorted(
            (*changes, change), key=lambda each: (not each.field.startswith("spec.placement."), each.field)
        )
    distance, own = (each + proposal.distance for each in (step.distance + others, step.own))
    yield Step(distance, tuple(changes), proposal.demand, pool, answers, own=own)


def _helps(step: Step, fleet: Fleet, catalog: Catalog) -> tuple[bool, str, bool]:
    """Whether the job is placed then, or waits for devices that become free; else the nodes that a pool lacks, in words, and whether
    something must be fixed first.

    A pool that may only grow does not count: no autoscaler is known to add its nodes. Nor do hosts that others may start.
    """
    verdict = choose(step.demand, fleet, catalog, only=step.pool or None).verdict
    if verdict is not Verdict.WAITING:
        return verdict is Verdict.PLACED, "", verdict is Verdict.MISCONFIGURED
    busy = [each for each in finished(_after(step, fleet, catalog)).candidates if each.outcome is Outcome.BUSY]
    if not all(lacks_nodes(each) or waits_for_others(each) for each in busy):
        return True, "", False
    lacking = ((each, finding) for each in busy for finding in each.reasons if finding.reason is Reason.MAY_GROW)
    return False, next((f"pool {each.pool.name} {finding.message}" for each, finding in lacking), ""), False


def _best(first: Step, steps: Sequence[Step], fleet: Fleet, catalog: Catalog) -> Pieces[Step]:
    """Of the steps that change the same fields the nearest changes that help, whatever the reasons of their pools: of a number the
    largest, of price limits the lowest. Of equally near ones the one that places the job now, at the lowest price. If the model may
    not run with it (MemTight, HeadsNotDivided), the nearest step with which it surely runs: one of these fields, or, if engines reject
    the model (HeadsNotDivided), one that changes the model.
    """
    alike, there = [step for step in steps if step.fields == first.fields], list[tuple[Candidate, Step]]()
    for step in sorted(alike, key=lambda step: step.own):
        yield
        if step.own >= first.own or _helps(step, fleet, catalog)[0]:
            first = step if step.own < first.own else first
            break
    near = [step for step in alike if math.isclose(step.own, first.own)]
    for step in near:
        yield
        if (placed := _placed(step, fleet, catalog)) is not None:
            there.append((placed, step))
    if not there:
        return first
    cheapest, found = min(there, key=lambda each: (each[0].risk, each[0].price_per_hour or math.inf))
    of_model = [step for step in steps if step.kind == {OF_MODEL} and step not in alike] if cheapest.risk > 1 else []
    for step in [*alike, *of_model] if cheapest.risk and first.fields != (PRICE_LIMIT,) else ():
        yield
        if (placed := _placed(step, fleet, catalog)) is not None and not placed.risk:
            return step
    return found


def _placed(step: Step, fleet: Fleet, catalog: Catalog) -> Candidate | None:
    """The candidate with which a step places the job now; None if it does not."""
    choice = choose(step.demand, fleet, catalog, only=step.pool or None).choice
    return choice.candidate if choice is not None else None


def _cheapest(step: Step, start: Demand, fleet: Fleet, catalog: Catalog, only: str) -> Pieces[Step]:
    """The step with the lowest price limit that is enough on any pool, that of the job first, because other changes may have
    made the job cheaper, or a higher limit lets it take a smaller gang.
    """
    raised = next((change for change in step.changes if change.field == PRICE_LIMIT), None)
    if raised is None:
        return step
    if (limit := start.max_price) is not None and len(step.changes) > 1:
        rest = tuple(change for change in step.changes if change is not raised)
        within = replace(step, changes=rest, demand=step.demand.but(max_price=limit))
        if _helps(within, fleet, catalog)[0]:
            return within
    every = (yield from decide_in_pieces(step.demand, fleet, catalog, only or None)).candidates
    with_room = [each for each in every if each.outcome in (Outcome.CHOSEN, Outcome.FITS)]
    nearest = min(with_room or every[:1], key=lambda each: (each.risk, each.price_per_hour or math.inf))
    for proposal in higher_price(step.demand, nearest, fleet, catalog):
        yield
        lower = replace(raised, after=proposal.change.after)
        changes = tuple(lower if change is raised else change for change in step.changes)
        cheaper = replace(step, changes=changes, demand=proposal.demand, pool=nearest.pool.name)
        lowered, now = cheaper.demand.max_price, step.demand.max_price
        if lowered is not None and (now is None or lowered < now) and _helps(cheaper, fleet, catalog)[0]:
            return cheaper
    return step
