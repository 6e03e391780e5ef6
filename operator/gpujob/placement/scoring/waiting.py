"""What a job waits for: a better pool that is busy, or hosts that are started for other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.placement.scoring.score import aim_of, lacks_speed, objective_key, prefers, ties, worth
from gpujob.values.vocabulary import Objective, Outcome, Reason, Verdict

_IN_VAIN: Final = frozenset({Reason.MAY_GROW, Reason.NODES_DID_NOT_COME, Reason.UNSCHEDULABLE})


def worth_waiting_for(best: Candidate, candidates: Sequence[Candidate], demand: Demand) -> Candidate | None:
    """The best unavailable candidate that is safer than the best one with room, or as safe and preferred by the objective; None if
    there is none.

    A pool that may only grow, or whose nodes did not come, is not waited for: its GPUs have no known end.
    """
    busy, objective = (
        [each for each in candidates if each.outcome is Outcome.BUSY and not in_vain(each)],
        demand.objective,
    )
    if objective is Objective.VALUE and any(map(lacks_speed, (best, *busy))):
        objective = Objective.COST
    better = [
        each
        for each in busy
        if danger_of(each) < danger_of(best)
        or (danger_of(each) == danger_of(best) and prefers(worth(each), worth(best), objective))
    ]
    least = min(map(danger_of, better), default=None)
    better = [each for each in better if danger_of(each) == least]
    aim = aim_of(objective, better, demand)
    return min(better, key=lambda each: (*objective_key(each, aim), *ties(each)), default=None)


Danger = tuple[bool, int]
"""Whether there is a sign of trouble, then the risk of the model: less ranks first, whatever the prices."""


def danger_of(candidate: Candidate) -> Danger:
    return candidate.suspected, candidate.risk


def in_vain(candidate: Candidate) -> bool:
    """True if no running job on an unavailable candidate has a known end."""
    return waits_for_others(candidate) or any(finding.reason in _IN_VAIN for finding in candidate.reasons)


def waits_for_others(candidate: Candidate) -> bool:
    """Whether an unavailable candidate fits only on hosts that are started for other jobs, by its price limit."""
    return bool(candidate.reasons) and all(finding.reason is Reason.PRICE_CAP for finding in candidate.reasons)


_OF_NODES: Final = frozenset({Reason.CORDONED, Reason.NOT_READY, Reason.NO_ALLOCATABLE, Reason.DEVICE_TAINTED,
                              Reason.WAITING_FOR_DEVICES, Reason.NODE_EXCLUDED, Reason.NODES_DID_NOT_COME})  # fmt: skip


def state_of(candidate: Candidate) -> str:
    """Why an unavailable candidate does not take the job now, by its first reason: a clause about its pool."""
    reason = candidate.reasons[0].reason if candidate.reasons else None
    if reason in _OF_NODES:
        return "which has no usable node now"
    if reason is Reason.QUOTA_EXCEEDED:
        return "for which the namespace has too little quota left"
    if reason is Reason.UNSCHEDULABLE:
        return "which is left out for now"
    if reason is Reason.ACCESS_MODE:
        return "where a volume of the job cannot be mounted now"
    return "which is busy"


def state_now(candidate: Candidate) -> str:
    """The clause of `state_of` for a sentence that gives no reasons."""
    return f"{state_of(candidate).removesuffix(' for now').removesuffix(' now')} now"


def only_waits_for_others(decision: Decision) -> bool:
    """Whether a job waits, and for nothing else."""
    busy = [each for each in decision.candidates if each.outcome is Outcome.BUSY]
    return decision.verdict is Verdict.WAITING and all(map(waits_for_others, busy))
