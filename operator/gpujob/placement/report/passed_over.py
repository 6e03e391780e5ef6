"""Pools with room that rank after the chosen one for a warning, whatever their price: which, and what is reported about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.scoring.score import objective_used, prefers, worth
from gpujob.values.finding import counted
from gpujob.values.vocabulary import Objective, Outcome, Reason

FAULTY: Final = (Reason.NODE_DOUBTED,)
OF_MODEL: Final = (Reason.HEADS_NOT_DIVIDED, Reason.MEM_TIGHT)
PLANNED: Final = (Reason.MAINTENANCE_PLANNED,)


def passed_over(best: Sequence[Candidate], chosen: Candidate, objective: Objective) -> Sequence[Candidate]:
    """The pools with room that rank after the chosen one for the health of their nodes, then those that do for a warning about the
    model, then those that do for their maintenance.
    """
    fitting = [c for c in best if c.outcome is Outcome.FITS]
    suspected = [c for c in fitting if c.suspected and not chosen.suspected]
    risky = [c for c in fitting if c.risk > chosen.risk and c not in suspected]
    used = objective_used(objective, [chosen, *fitting])

    def would_win(candidate: Candidate) -> bool:
        return prefers(worth(candidate)._replace(planned=False), worth(chosen), used)

    alike = [c for c in fitting if c.planned and not chosen.planned and has_room_as(chosen, c)]
    return [*suspected, *(c for c in risky if would_win(c)), *(c for c in alike if would_win(c))]


def clauses(candidates: Sequence[Candidate], chosen: Candidate, objective: Objective) -> str:
    """The clauses about pools that are passed over, of each kind one."""
    sentence = ""
    for why in (FAULTY, OF_MODEL, PLANNED):
        found = [candidate for candidate in candidates if warnings_against(candidate, chosen) is why]
        if found:
            others = f" and {counted(len(found) - 1, 'more pool')} have" if len(found) > 1 else " has"
            of = "sixth of the speed" if objective is Objective.SPEED else "fifth of the price"
            counts = f", which counts as a {of}" if why is PLANNED else ""
            sentence += f"; {found[0].pool.name}{others} room too, but {warning_against(found[0], chosen)}{counts}"
    return sentence


def warnings_against(candidate: Candidate, chosen: Candidate) -> tuple[Reason, ...]:
    """The warnings for which a candidate ranks after the chosen one."""
    if candidate.suspected and not chosen.suspected:
        return FAULTY
    return OF_MODEL if candidate.risk > chosen.risk else PLANNED


def warning_against(candidate: Candidate, chosen: Candidate) -> str:
    """The first warning for which a candidate ranks after the chosen one: about its nodes, the model, or their maintenance."""
    reasons = warnings_against(candidate, chosen)
    found = {warning.reason: warning.message for warning in candidate.warnings}
    return next((found[reason] for reason in reasons if reason in found), "")


def has_room_as(chosen: Candidate, candidate: Candidate) -> bool:
    """Whether a candidate fits, on existing and healthy nodes if the chosen one's are, and without a warning about the model."""
    like = (chosen.provision or not candidate.provision) and (chosen.suspected or not candidate.suspected)
    return candidate.outcome in (Outcome.CHOSEN, Outcome.FITS) and like and candidate.risk <= chosen.risk
