"""How far a candidate is behind the chosen one, in the figure that decided."""

from __future__ import annotations

from typing import Final

from gpujob.catalog.devices.throughput import MILLION
from gpujob.placement.report.passed_over import has_room_as, passed_over, warning_against
from gpujob.placement.scoring.candidate import Candidate, Decision, best_per_pool, speed_text
from gpujob.placement.scoring.score import is_tied, objective_used, telling
from gpujob.values.finding import Dollars, counted
from gpujob.values.quantity import format_bytes
from gpujob.values.vocabulary import Objective, Outcome


def behind(candidate: Candidate, decision: Decision) -> str:
    """How far a fitting candidate is behind the chosen one in the deciding figure; empty if they cannot be compared."""
    if decision.choice is None or candidate.outcome is not Outcome.FITS:
        return ""
    chosen = decision.choice.candidate
    added = "an autoscaler must add nodes first" if candidate.provision and not chosen.provision else ""
    return _in_figures(candidate, chosen, decision) or added


def _in_figures(candidate: Candidate, chosen: Candidate, decision: Decision) -> str:
    worse_off = (candidate.suspected and not chosen.suspected) or candidate.risk > chosen.risk
    if worse_off or candidate in passed_over(best_per_pool(decision), chosen, decision.demand.objective):
        return warning_against(candidate, chosen)
    objective = objective_used(decision.demand.objective, [c for c in decision.candidates if has_room_as(chosen, c)])
    if is_tied(candidate, chosen, objective, decision.demand):
        return "ranks equally, later by name"
    by_speed = chosen.price_per_hour is None and is_by_speed(chosen, objective)
    if objective is Objective.SPEED or by_speed:
        return "no speed is known" if candidate.speed is None else _slower(candidate, chosen)
    if chosen.price_per_hour is None:
        more = (candidate.pool.memory or 0) - (chosen.pool.memory or 0)
        return f"has {format_bytes(more)} more memory a GPU" if more > 0 and chosen.pool.memory else ""
    if candidate.price_per_hour is None:
        return "no price is known"
    worse = objective is Objective.VALUE and _ratio(
        COSTLIER, candidate.price_of_work, chosen.price_of_work, chosen, candidate
    )
    more = candidate.price_per_hour - chosen.price_per_hour
    if worse or more:
        return worse or (f"costs {Dollars(more)} an hour more" if more > 0 else "")
    return _at_the_same_price(candidate, chosen)


def _at_the_same_price(candidate: Candidate, chosen: Candidate) -> str:
    """The figure that ranks a candidate after the chosen one of the same price; empty if none but the name does."""
    more = telling(candidate.warnings) - telling(chosen.warnings)
    if more > 0:
        return f"same price, {counted(more, 'more warning')}"
    slower = _slower(candidate, chosen)
    if slower:
        return f"same price, {slower}"
    if candidate.speed is None:
        return "same price, no speed is known" if chosen.speed is not None else ""
    memory = (candidate.pool.memory or 0) - (chosen.pool.memory or 0)
    return f"same price, {format_bytes(memory)} more memory a GPU" if memory > 0 and chosen.pool.memory else ""


def _slower(candidate: Candidate, chosen: Candidate) -> str:
    """How much longer a candidate takes; empty if it does not, or a speed is unknown."""
    return _ratio(LONGER, chosen.speed_of_job, candidate.speed_of_job, chosen, candidate)


EQUAL: Final = "1.0"
LONGER: Final = ("takes {} times as long", "takes slightly longer")
COSTLIER: Final = ("costs {} times as much for the same work", "costs slightly more for the same work")
"""The words for a ratio, and for one that is 1.0 in two digits."""


def _ratio(sentences: tuple[str, str], of: int | None, to: int | None, chosen: Candidate, candidate: Candidate) -> str:
    """The sentence with the ratio of two figures, in two digits, and the reason if the candidate's GPUs do not count all; empty if
    the ratio is not above 1.
    """
    if not of or not to or of * 100 <= to * 101:
        return ""
    about = "about " if any(each.speed is not None and each.speed.estimate for each in (chosen, candidate)) else ""
    ratio, (sentence, slightly) = speed_text(of * MILLION // to), sentences
    said = slightly if ratio == EQUAL else sentence.format(f"{about}{ratio}")
    return f"{said}, {counted_as_one(candidate)}" if candidate.counts_as_one else said


def counted_as_one(candidate: Candidate) -> str:
    """Why several GPUs of a candidate bring no speed, and what changes that, as a clause."""
    return f"its {candidate.gang.gpus} GPUs count as one without model.sharding"


def times(one: Candidate, other: Candidate) -> str:
    """The ratio of two speeds; empty if one is unknown."""
    if one.speed is None or other.speed is None:
        return ""
    about = "about " if one.speed.estimate or other.speed.estimate else ""
    ratio = (one.speed_of_job or 0) * MILLION // max(1, other.speed_of_job or 0)
    return f"{about}{speed_text(ratio)} times"


def is_by_speed(candidate: Candidate, objective: Objective) -> bool:
    """Whether speed orders candidates without a price."""
    return objective is Objective.VALUE and candidate.speed is not None
