"""The decision in words: the same sentences in table, status, condition and event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpujob.fleet.pools.pool import MOST_NODES
from gpujob.placement.engine.gang_sizing import is_open_ended
from gpujob.placement.filters.fixable import is_unread
from gpujob.placement.filters.memory import lacking
from gpujob.placement.report.behind import is_by_speed, times
from gpujob.placement.report.passed_over import (
    FAULTY,
    OF_MODEL,
    PLANNED,
    clauses,
    has_room_as,
    passed_over,
    warnings_against,
)
from gpujob.placement.scoring.candidate import Candidate, Decision, best_per_pool
from gpujob.placement.scoring.score import aim_of, is_tied, objective_used, rank_of, telling, without_speed, worth
from gpujob.placement.scoring.waiting import state_of, waits_for_others
from gpujob.values.finding import Dollars, Finding, counted, listed
from gpujob.values.untrusted import one_line
from gpujob.values.vocabulary import FIXABLE_REASONS, Objective, Outcome, Reason, Verdict

NONE_PRICED: Final = ", of which none has a known price; set one in a GPUPool"

BY_NAME: Final = "the first by name"

SENTENCE_LENGTH: Final = 512
"""The most characters of a sentence with further clauses."""


def summary(decision: Decision) -> str:
    """Why the job is placed, waits, must be fixed or is impossible: one sentence with numbers and the remedy."""
    return one_line(_placed(decision) if decision.verdict is Verdict.PLACED else _not_placed(decision))


def of_status(decision: Decision) -> str:
    """The sentence of a status: with what contradicts the job's own fields, which a plan shows among its warnings."""
    warnings = decision.candidates[0].warnings if decision.candidates else ()
    differs = _each(warning for warning in warnings if warning.reason is Reason.LAUNCH_DIFFERS)
    return _with_clauses(summary(decision), *map(one_line, differs))


def _has_unknown_nodes(candidate: Candidate) -> bool:
    """Whether a candidate waits for nodes whose devices are not known, or nothing shows yet."""
    pool = candidate.pool
    known = sum(node.total is not None for node in pool.nodes) + (pool.growth.addable if pool.growth else 0)
    return (
        pool.pending
        or (known < len(pool.nodes) and known < candidate.gang.nodes)
        or any(why.reason is Reason.WAITING_FOR_DEVICES and why.numbers[0] in pool.bare for why in candidate.reasons)
    )


def _not_placed(decision: Decision) -> str:
    if decision.problems:
        said = [problem.message for problem in decision.problems]
        return "; ".join([*said, decision.fix.message] if decision.fix else said)
    if not decision.candidates:
        return "no node of this cluster offers GPUs that are known; kubectl gpujob doctor says what its nodes lack"
    nearest = decision.candidates[0] if decision.verdict is Verdict.MISCONFIGURED else _nearest(decision)
    why = reasons_text(nearest, nearest.reasons, every=bool(decision.hopeless))
    fix = f"; {decision.fix.message}" if decision.fix else decision.hopeless and f"; {decision.hopeless}"
    if decision.verdict is Verdict.WAITING and nearest.reasons[:1] and nearest.reasons[0].reason is Reason.MAY_GROW:
        return f"pool {nearest.pool.name} has too few nodes: {why}"
    room = next((each.pool.name for each in decision.candidates if each.outcome is Outcome.FITS), None)
    if decision.verdict is Verdict.WAITING and room is not None:
        seconds = decision.demand.wait_seconds
        waits = f"waits up to {seconds} seconds from its creation for pool {nearest.pool.name}, {state_of(nearest)}"
        return _with_clauses(f"{waits}: {why}; pool {room} has room now", *_each(of_awaited_nodes(decision)))
    if decision.verdict is Verdict.WAITING and _has_unknown_nodes(nearest):
        return f"may fit pool {nearest.pool.name} once its nodes can be used: {why}"
    if decision.verdict is Verdict.WAITING:
        others = " on hosts that are started for other jobs"
        state = others if waits_for_others(nearest) else f", {state_of(nearest)}"
        found = f"fits pool {nearest.pool.name}{state}: {why}"
        return _with_clauses(found, clause_of_now(decision), fix, *_each(of_awaited_nodes(decision)))
    if decision.verdict is Verdict.MISCONFIGURED:
        return f"pool {nearest.pool.family} must be fixed first: {why}{fix}"
    pools = len({candidate.pool.family for candidate in decision.candidates if not candidate.pool.joins})
    few = f"run it on up to {MOST_NODES} nodes" if _has_untried_nodes(decision) else ""
    if pools == 1:
        return f"the only pool, {nearest.pool.name}, can{'not ' + few if few else ' never run it'}: {why}{fix}"
    joined = ", alone or together," if any(candidate.pool.joins for candidate in decision.candidates) else ""
    return f"none of {pools} pools{joined} can {few or 'ever run it'}; nearest is {nearest.pool.name}: {why}{fix}"


def of_awaited_nodes(decision: Decision) -> tuple[Finding, ...]:
    """The signs of trouble and the announced maintenance of the nodes that a waiting job gets at best."""
    if decision.verdict is not Verdict.WAITING or not decision.candidates:
        return ()
    return tuple(each for each in decision.candidates[0].warnings if each.reason in (*FAULTY, *PLANNED))


def _each(findings: Iterable[Finding]) -> Iterator[str]:
    """A clause for each finding."""
    return (f"; {finding.message}" for finding in findings)


OF_PRICE: Final = (Reason.PRICE_CAP, Reason.PRICE_UNKNOWN)
"""Reasons that come last: no other price helps where another reason holds, and what answers that one changes the price."""

MOST_REASONS: Final = 4
"""The most reasons of one pool in a sentence or a table; JSON has all."""


def reasons_text(candidate: Candidate, reasons: Sequence[Finding], *, every: bool = False) -> str:
    """The first of a candidate's reasons. Of an unavailable one also what else it waits for, of a rejected one what else the same
    rule rejects, the price last; what an admin can fix is no reason that it never runs, and comes first where it is to be fixed. With
    `every` all reasons: no change of the job helps, so one that a change would answer hides none that lies in the cluster.
    """
    said: list[str] = []
    if candidate.outcome in (Outcome.REJECTED, Outcome.MISCONFIGURED):
        first = candidate.outcome is Outcome.MISCONFIGURED
        reasons = sorted(
            reasons, key=lambda each: ((each.reason in FIXABLE_REASONS) is not first, each.reason in OF_PRICE)
        )
    for finding in reasons:
        alike = every or candidate.outcome is Outcome.BUSY or finding.reason is reasons[0].reason
        if alike and not any(finding.message in earlier for earlier in said):
            said.append(finding.message)
    more = [counted(len(said) - MOST_REASONS, "more reason")] if len(said) > MOST_REASONS else []
    return "; ".join((*said[:MOST_REASONS], *more))


def clause_of_now(decision: Decision) -> str:
    """The clause of a waiting job's sentence about the first gang that would start now; empty if there is none."""
    return "".join(f"; now {start.sentence(f'pool {start.pool}')}" for start in decision.starts_now[:1])


def _has_untried_nodes(decision: Decision) -> bool:
    """Whether a pool without enough memory has more nodes than are tried for a model that says no number of GPUs."""
    return is_open_ended(decision.demand) and any(
        _only_lacks_memory(each) and sum(count for _, count in each.pool.node_sizes(MOST_NODES + 1)[-1:]) > MOST_NODES
        for each in decision.candidates
    )


def _nearest(decision: Decision) -> Candidate:
    """The candidate that a sentence is about: the one that a job waits for, or that the nearest fix makes fit, else the first; among
    those that lack only memory the one that lacks least.
    """
    if decision.fix is not None and decision.verdict is not Verdict.WAITING:
        pool = decision.fix.pool
        return next((c for c in decision.candidates if c.pool.name == pool), decision.candidates[0])
    short = [candidate for candidate in best_per_pool(decision) if _only_lacks_memory(candidate)]
    if decision.verdict is Verdict.IMPOSSIBLE and decision.candidates[0] in short:
        return min(short, key=lambda candidate: lacking(candidate.gang, candidate.pool, decision.demand))
    return decision.candidates[0]


def _only_lacks_memory(candidate: Candidate) -> bool:
    return all(finding.reason is Reason.MEM_TOO_SMALL for finding in candidate.reasons)


def _placed(decision: Decision) -> str:
    chosen = decision.candidates[0]
    best = best_per_pool(decision)
    others = passed_over(best, chosen, decision.demand.objective)
    warned = [warnings_against(each, chosen) for each in others]
    healthy, sure, undisturbed = (of in warned for of in (FAULTY, OF_MODEL, PLANNED))
    room = [c for c in best if has_room_as(chosen, c) and not (undisturbed and c.planned)]
    # A pool and its parts are one pool.
    fitting = [*{c.pool.family: c for c in reversed(room)}.values()][::-1]
    price = f" at {Dollars(chosen.price_per_hour)} an hour" if chosen.price_per_hour is not None else " (price unknown)"
    added = "; an autoscaler must add nodes first" if chosen.provision else ""
    trying = decision.demand.trying
    unprobed = f"; {decision.demand.unprobed}" if decision.demand.unprobed else ""
    if trying is not None and (chosen.pool.name, chosen.gang.shape) == (trying.pool, trying.shape):
        then = f"; {trying.then}" if trying.then else ""
        return _with_clauses(f"{chosen.pool.name} is {trying.why}{price}", then)
    without = " and no warning about the model" * sure + " and no planned maintenance" * undisturbed
    what = f"{'of healthy nodes ' * healthy}with room{without}"
    of_others = clauses(others, chosen, decision.demand.objective)
    if len(fitting) == 1:
        return _with_clauses(f"{chosen.pool.name} is the only pool {what}{price}", of_others, added, unprobed)
    rank, why = _rank(decision, chosen, fitting)
    rank = rank.replace("pools with room", f"pools {what}")
    price = "" if why == NONE_PRICED else price
    unpriced = sum(each.price_per_hour is None for each in fitting) if chosen.price_per_hour is not None else 0
    if chosen.speed is not None and chosen.speed.measured:
        why = f"{why}, {chosen.speed.measured}"
    of_no_price = f"; {unpriced} of them {'has' if unpriced == 1 else 'have'} no known price" if unpriced else ""
    said = f"{chosen.pool.name} is {rank.format(len(fitting))}{price}"
    by_name = "" if rank.startswith(BY_NAME) else _by_name(decision, chosen, fitting)
    return _with_clauses(said, by_name, why, of_others, added, unprobed, of_no_price)


def _by_name(decision: Decision, chosen: Candidate, fitting: Sequence[Candidate]) -> str:
    """The clause that only the name puts the chosen candidate before others; empty if something else does."""
    objective = objective_used(decision.demand.objective, fitting)
    equal = sum(is_tied(chosen, each, objective, decision.demand) for each in fitting)
    return f", {BY_NAME} of {equal} that rank equally" if equal > 1 else ""


def _with_clauses(said: str, *clauses: str) -> str:
    """A sentence with the further clauses that fit in it; a clause is never cut."""
    for clause in clauses:
        said += clause if len(said) + len(clause) <= SENTENCE_LENGTH else ""
    return said


def _rank(decision: Decision, chosen: Candidate, fitting: Sequence[Candidate]) -> tuple[str, str]:
    """The rank of the chosen candidate among those with room, and its advantage over the cheapest."""
    asked, said = decision.demand.objective, decision.demand.objective_given
    objective = objective_used(asked, fitting)
    if objective is Objective.SPEED and chosen.speed is not None:
        return "fastest of {} pools with room", ""
    if chosen.price_per_hour is None:
        return f"{_without_price(chosen, fitting, objective)} of {{}} pools with room", NONE_PRICED
    if objective is not Objective.VALUE:
        unknown = without_speed(fitting) if asked is Objective.VALUE else []
        if unknown:
            return "cheapest of {} pools with room", f", since no speed of {listed(unknown)} is known"
        rank, why = ("cheapest of {} pools with room", "") if said else _as_value_has_it(decision, chosen)
        return rank, _at_one_price(chosen, fitting) + why
    priced = [candidate for candidate in fitting if candidate.price_per_hour is not None]
    cheapest = min(priced, key=lambda candidate: candidate.price_per_hour or 0)
    better = min(priced, key=lambda candidate: worth(candidate).value or 0)
    is_best = (worth(chosen).value or 0) <= (worth(better).value or 0)
    equal = "" if is_best else f"; {better.pool.name} is no better value within the error of the speeds"
    if cheapest.price_per_hour == chosen.price_per_hour:
        return ("best value and cheapest of {} pools with room" if is_best else "cheapest of {} pools with room"), equal
    faster = times(chosen, cheapest)
    return (
        "best value of {} pools with room",
        f", {faster} the speed of {cheapest.pool.name}{equal}" if faster else equal,
    )


def _at_one_price(chosen: Candidate, fitting: Sequence[Candidate]) -> str:
    """The advantage of the chosen candidate over the next one of its price: the first of `score.ties` that differs; empty if none
    but the name does.
    """
    others = (each for each in fitting if each is not chosen and each.price_per_hour == chosen.price_per_hour)
    other = next(others, None)
    if other is None:
        return ""
    name = f"{other.pool.name} at the same price"
    if telling(chosen.warnings) < telling(other.warnings):
        return f", with fewer warnings than {name}"
    if (chosen.speed_of_job or 0) > (other.speed_of_job or 0):
        faster = times(chosen, other)
        if not faster:
            return f", since no speed of {other.pool.name} at the same price is known"
        return f", slightly faster than {name}" if faster.endswith("1.0 times") else f", {faster} the speed of {name}"
    return f", with less memory than {name}" if _size(chosen) < _size(other) else ""


def _without_price(chosen: Candidate, fitting: Sequence[Candidate], objective: Objective) -> str:
    """The rank of the chosen candidate among those with room if none has a price: by speed under Value, then by warnings, memory
    and name.
    """
    if is_by_speed(chosen, objective):
        return "fastest"
    sizes = {_size(each) for each in fitting}
    if _size(chosen) > min(sizes):
        return "the one with the fewest warnings"
    return "smallest" if len(sizes) > 1 else BY_NAME


def _size(candidate: Candidate) -> tuple[bool, int]:
    """The memory of a GPU; an unknown one is more than any."""
    return (candidate.pool.memory is None, candidate.pool.memory or 0)


def _as_value_has_it(decision: Decision, cheapest: Candidate) -> tuple[str, str]:
    """States that a pool is the cheapest, for a job without an objective and without facts about its work; and what Value would
    choose.
    """
    fitting = _of_each_rank(each for each in decision.candidates if has_room_as(cheapest, each))
    if without_speed(fitting):
        return "cheapest of {} pools with room", ""
    aim = aim_of(Objective.VALUE, fitting, decision.demand)
    best = min(fitting, key=lambda each: rank_of(each, aim, decision.demand))
    if best.pool.name == cheapest.pool.name:
        return "best value and cheapest of {} pools with room", ""
    price = f" at {Dollars(best.price_per_hour)}" if best.price_per_hour is not None else ""
    return "cheapest of {} pools with room", f"; objective Value would take {best.pool.name}{price}"


def _of_each_rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates without those that differ from an earlier one in their image only, in nothing that ranks them."""
    first: dict[tuple[object, ...], Candidate] = {}
    for each in candidates:
        # Images with equal warnings share the object that holds them.
        kind = (each.pool.name, each.gang, id(each.warnings), each.price_per_hour, each.provision, each.suspected)
        first.setdefault((*kind, each.planned), each)
    return list(first.values())


def of_the_job(decision: Decision) -> frozenset[Finding]:
    """Facts about the job, stated once instead of for each pool: its problems, and the reasons and warnings that hold everywhere."""
    return frozenset(decision.problems) | _everywhere(decision)


def on_every_pool(decision: Decision) -> str:
    """The reasons that hold on every pool and are not in the sentence; empty if there are none."""
    sentence, everywhere = summary(decision), _everywhere(decision)
    first = decision.candidates[0].reasons if decision.candidates else ()
    said = [finding.message for finding in first if finding in everywhere and finding.message not in sentence]
    return "; ".join(dict.fromkeys(said))


def _everywhere(decision: Decision) -> frozenset[Finding]:
    """The reasons and warnings of all pools; empty for one pool, whose row has them."""
    best = best_per_pool(decision)
    if len(best) < 2:
        return frozenset()
    return frozenset.intersection(*(frozenset((*each.reasons, *each.warnings)) for each in best))


def unread_above(decision: Decision) -> frozenset[Finding]:
    """Long errors of GPUPools that cannot be read, as far as the sentence has them."""
    errors = (each for found in best_per_pool(decision) if is_unread(found.pool) for each in found.reasons)
    sentence = summary(decision)
    return frozenset(each for each in errors if each.message in sentence)


def reason(decision: Decision) -> Reason:
    """The reason of the Placed condition."""
    if decision.verdict is Verdict.PLACED:
        return Reason.PLACED
    if decision.problems:
        return decision.problems[0].reason
    if not decision.candidates:
        return Reason.NO_POOL
    if decision.verdict is Verdict.IMPOSSIBLE:
        return Reason.IMPOSSIBLE
    nearest = decision.candidates[0]
    return nearest.reasons[0].reason if nearest.reasons else Reason(decision.verdict.value)
