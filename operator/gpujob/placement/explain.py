"""The decision in words and as JSON: the same sentences in table, status, condition and event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpujob.finding import Dollars, Finding, Size
from gpujob.placement.decision import Candidate, Decision
from gpujob.quantity import format_dollars
from gpujob.vocabulary import Outcome, Reason, Verdict

SENTENCE_LENGTH = 160
"""The most characters of status.placement.message."""


def summary(decision: Decision) -> str:
    """Why the job is placed, waits, must be mended or is impossible: one sentence with numbers and the remedy."""
    if decision.verdict is Verdict.PLACED:
        return _placed(decision)
    if decision.problems:
        return "; ".join(problem.message for problem in decision.problems)
    if not decision.candidates:
        return "no node of this cluster offers GPUs that are known; kubectl gpujob pools shows what was found"
    nearest = _nearest(decision)
    why = nearest.reasons[0].message if nearest.reasons else ""
    if decision.verdict is Verdict.WAITING and nearest.reasons[:1] and nearest.reasons[0].reason is Reason.MAY_GROW:
        return f"pool {nearest.pool.name} has too few nodes: {why}"
    if decision.verdict is Verdict.WAITING:
        return f"fits pool {nearest.pool.name}, which is busy: {why}"
    if decision.verdict is Verdict.MISCONFIGURED:
        return f"pool {nearest.pool.name} must be mended first: {why}"
    pools = len({candidate.pool.name for candidate in decision.candidates})
    fix = f"; {decision.fix.message}" if decision.fix else ""
    return f"none of {pools} pools can ever run it; nearest is {nearest.pool.name}: {why}{fix}"


def _nearest(decision: Decision) -> Candidate:
    """The candidate that a sentence is about: the one that the nearest fix would make fit, else the first."""
    if decision.fix is not None:
        pool = decision.fix.pool
        return next((c for c in decision.candidates if c.pool.name == pool), decision.candidates[0])
    return decision.candidates[0]


def _placed(decision: Decision) -> str:
    chosen = decision.candidates[0]
    fitting = {c.pool.name for c in decision.candidates if c.outcome in (Outcome.CHOSEN, Outcome.FITS)}
    if len(fitting) == 1:
        rank = "the only pool with room"
    elif chosen.price_per_hour is None:
        rank = f"best of {len(fitting)} pools with room, none with a known price"
    else:
        rank = f"cheapest of {len(fitting)} pools with room"
    price = f" at {Dollars(chosen.price_per_hour)} an hour" if chosen.price_per_hour is not None else " (price unknown)"
    added = "; an autoscaler must add nodes first" if chosen.provision else ""
    return f"{chosen.pool.name} is {rank}{price}{added}"[:SENTENCE_LENGTH]


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


def best_per_pool(decision: Decision) -> tuple[Candidate, ...]:
    """The first candidate of each pool, in the order of the ranking: what a table or a status can show."""
    best: dict[str, Candidate] = {}
    for candidate in decision.candidates:
        best.setdefault(candidate.pool.name, candidate)
    return tuple(best.values())


def plan(decision: Decision) -> dict[str, Any]:
    """The decision as the JSON of `plan -o json`."""
    fix = decision.fix
    return {
        "verdict": decision.verdict.value,
        "message": summary(decision),
        "chosen": chosen(decision),
        "candidates": [_candidate(candidate) for candidate in decision.candidates],
        "nearestFix": fix
        and {"message": fix.message, "change": {"field": fix.field, "from": fix.before, "to": fix.after}},
        "problems": _findings(decision.problems),
    }


def chosen(decision: Decision) -> dict[str, Any] | None:
    """The choice with its nodes, image and price; None when nothing was chosen."""
    if decision.choice is None:
        return None
    candidate = decision.choice.candidate
    return {
        "pool": candidate.pool.name,
        "vendor": candidate.pool.vendor.value,
        "accelerator": candidate.pool.accelerator_id,
        "nodes": candidate.gang.nodes,
        "gpusPerNode": candidate.gang.gpus_per_node,
        "nodeNames": list(filter(None, decision.choice.nodes)),
        "provision": candidate.provision,
        "image": candidate.runtime.image,
        "runtime": candidate.runtime.name,
        "pricePerHour": _price(candidate.price_per_hour),
        "priceSource": candidate.pool.price.source if candidate.pool.price else None,
        "memoryPerGPU": str(Size(candidate.pool.memory)) if candidate.pool.memory else None,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "pool": candidate.pool.name,
        "runtime": candidate.runtime.name,
        "shape": candidate.gang.shape,
        "outcome": candidate.outcome.value,
        "reasons": _findings(candidate.reasons),
        "doubts": _findings(candidate.doubts),
        "pricePerHour": _price(candidate.price_per_hour),
        "image": candidate.runtime.image,
        "vendor": candidate.pool.vendor.value,
        "accelerator": candidate.pool.accelerator_id,
    }


def _findings(findings: Iterable[Finding]) -> list[Mapping[str, str]]:
    return [{"reason": finding.reason.value, "message": finding.message} for finding in findings]


def _price(micro: int | None) -> str | None:
    return None if micro is None else format_dollars(micro)
