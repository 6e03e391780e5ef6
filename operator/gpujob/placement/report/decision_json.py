"""The decision as JSON: what `plan -o json` prints and status.placement holds, with the sentences of `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpujob.catalog.devices.roofline import REFERENCE
from gpujob.placement.report.notes import notes
from gpujob.placement.report.summary import summary
from gpujob.placement.request.gang import Gang
from gpujob.placement.scoring.candidate import Candidate, Change, Decision, Fix, best_per_pool, speed_text
from gpujob.placement.scoring.score import objective_used
from gpujob.values.finding import Finding, Size
from gpujob.values.quantity import format_dollars

if TYPE_CHECKING:
    from gpujob.memory.estimate import Estimate
    from gpujob.memory.phases import Components


def plan(decision: Decision, *, every: bool = True) -> dict[str, Any]:
    """The decision as the JSON of `plan -o json --all`; with `every` false only the best candidate of each pool, as without --all."""
    return {
        "verdict": decision.verdict.value,
        "message": summary(decision),
        "objective": objective_used(decision.demand.objective, decision.candidates).value,
        "work": {"kind": decision.demand.work.kind.value, "precision": decision.demand.work.precision.value},
        "recipe": recipe(decision) or None,
        "memory": _memory(first_gang(decision).memory),
        "chosen": _chosen_in_full(decision),
        "candidates": [
            _candidate(candidate) for candidate in (decision.candidates if every else best_per_pool(decision))
        ],
        "nearestFix": _single(decision.fix),
        "together": _several(decision.fix),
        "problems": _findings(decision.problems),
        "notes": list(notes(decision)),
    }


def _single(fix: Fix | None) -> dict[str, Any] | None:
    """The single change that makes the job fit; None if it takes more than one."""
    if fix is None or len(fix.changes) > 1:
        return None
    return {"message": fix.message, "change": change_document(fix.changes[0])}


def _several(fix: Fix | None) -> dict[str, Any] | None:
    """The changes that make the job fit only together; None if one is enough."""
    if fix is None or len(fix.changes) == 1:
        return None
    return {"message": fix.message, "changes": [change_document(change) for change in fix.changes]}


def change_document(change: Change) -> dict[str, Any]:
    """A change as JSON; `to` is null if the field must be left out."""
    return {"field": change.field, "from": change.before, "to": change.after}


def chosen(decision: Decision) -> dict[str, Any] | None:
    """The choice with its nodes, image and price; None when nothing was chosen."""
    if decision.choice is None:
        return None
    candidate = decision.choice.candidate
    return {
        "pool": candidate.pool.family,
        "vendor": candidate.pool.vendor_text,
        "accelerator": candidate.pool.accelerator_id,
        **_part(candidate),
        **_trial(decision),
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


def _part(candidate: Candidate) -> dict[str, str]:
    pool = candidate.pool
    return {} if pool.device == pool.accelerator_id else {"device": pool.device}


def _trial(decision: Decision) -> dict[str, int | None]:
    """Whether the choice is a probe that ends after some steps."""
    trying = decision.demand.trying
    return {"probe": decision.demand.probe_steps} if trying is not None and trying.probe else {}


def _chosen_in_full(decision: Decision) -> dict[str, Any] | None:
    """The choice and its speed, which a status has no field for."""
    found = chosen(decision)
    return found and {**found, **_worth(decision.candidates[0])}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "pool": candidate.pool.name,
        "runtime": candidate.runtime.name,
        "shape": candidate.gang.shape,
        "memory": _memory(candidate.gang.memory),
        "outcome": candidate.outcome.value,
        "reasons": _findings(candidate.reasons),
        "warnings": _findings(candidate.warnings),
        "pricePerHour": _price(candidate.price_per_hour),
        "priceSource": candidate.pool.price.source if candidate.pool.price else None,
        **_worth(candidate),
        "image": candidate.runtime.image,
        "vendor": candidate.pool.vendor_text,
        "accelerator": candidate.pool.accelerator_id,
    }


MOST_BYTES: Final = 2**62
"""The largest number that JSON readers keep exact; no device has more."""


def first_gang(decision: Decision) -> Gang:
    """The chosen gang, else that of the first candidate."""
    return decision.candidates[0].gang if decision.candidates else decision.demand.gang


def recipe(decision: Decision) -> str:
    """Bytes of the model's weights and states for each parameter, in one line; empty without a known model."""
    gang = first_gang(decision)
    if gang.memory is None:
        return ""
    from gpujob.memory.recipe import recipe as line  # late import: jobs without a model need no formulas

    device = decision.candidates[0].pool.accelerator if decision.candidates else None
    return line(gang.memory.work, gang.nodes, bf16=device is None or "BF16" in device.features)


def _memory(need: Estimate | None) -> dict[str, Any] | None:
    """What a job's model needs, in bytes for each GPU; None without a known model."""
    if need is None:
        return None
    return {
        "expected": min(need.expected, MOST_BYTES),
        "high": min(need.high, MOST_BYTES),
        "components": _parts(need.components),
        "low": min(need.low, MOST_BYTES),
        "componentsLow": {**_parts(need.least), "reserve": min(need.reserve[0], MOST_BYTES)},
        "componentsHigh": {**_parts(need.greatest), "reserve": min(need.reserve[1], MOST_BYTES)},
    }


def _parts(components: Components) -> dict[str, int]:
    return {name: min(amount, MOST_BYTES) for name, amount in components.named()}


def _worth(candidate: Candidate) -> dict[str, Any]:
    """The speed of the job and of one GPU in H100s, its source, and the price of an hour of the reference's work."""
    speed = candidate.speed
    figures = speed and {
        "comparedWith": REFERENCE,
        "perGPU": speed_text(speed.millionths),
        "job": speed_text(candidate.speed_of_job or 0),
        "estimate": speed.estimate,
        "errorPercent": speed.error,
        "roofline": speed.roofline or None,
        "source": speed.source,
    }
    gang = candidate.gang
    return {
        # Without the share of a host that is started for the job.
        "marginalPricePerHour": _price(candidate.pool.price_of(gang.nodes, gang.gpus_per_node)),
        "speed": figures,
        "pricePerWork": _price(candidate.price_of_work),
    }


def _findings(findings: Iterable[Finding]) -> list[Mapping[str, str]]:
    return [finding.document for finding in findings]


def _price(micro: int | None) -> str | None:
    return None if micro is None else format_dollars(micro)
