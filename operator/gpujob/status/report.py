"""The whole status of a job for each thing that can be the case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gpujob.fleet.arriving import Arriving
from gpujob.placement import documents, explain
from gpujob.placement.decision import Candidate, Decision
from gpujob.status import conditions, cost, probing, progress
from gpujob.status import telemetry as reading
from gpujob.status.conditions import Claim
from gpujob.status.observe import Observation
from gpujob.status.patience import RESTS, read_time, with_pool_away, within, write_time
from gpujob.status.records import ChildRecord, JobRecord
from gpujob.status.telemetry import SILENT, Telemetry
from gpujob.untrusted import table, tables, whole_number
from gpujob.vocabulary import ConditionType, PreflightMode, Reason, State, Verdict

CANDIDATES: Final = 5
"""The chosen candidate and the next best: what a status holds; all of them are in `kubectl gpujob plan`."""

STATE_OF: Final = {
    Verdict.WAITING: State.QUEUED,
    Verdict.MISCONFIGURED: State.MISCONFIGURED,
    Verdict.IMPOSSIBLE: State.IMPOSSIBLE,
}


def placed(
    job: JobRecord,
    child: ChildRecord,
    seen: Observation,
    decision: Decision | None,
    now: str,
    telemetry: Telemetry = SILENT,
) -> dict[str, Any]:
    """The status of a job with a child; the placement comes from the decision, the status held, or the child's hint."""
    placement, candidates = _chosen(job, child, decision)
    sentence = str(placement.get("message") or f"placed on pool {placement.get('pool', '?')}")
    preflight = conditions.of_preflight(
        child,
        seen,
        disabled=job.spec.get("preflight") == PreflightMode.DISABLED,
        first=job.status.get("jobName") != child.name,
    )
    claims = (*conditions.of_child(seen, sentence), *preflight, *_of_reading(job, child, telemetry))
    status = _status(job, seen.state, claims, seen.reason, now)
    started = job.status.get("startTime") or within(seen.started, child.created, seen.ended or now)
    until = read_time(seen.ended) or read_time(now)
    status |= progress.members(job.status, telemetry.measured, done=seen.state is State.SUCCEEDED)
    status |= {
        "cost": cost.cost(job.status, placement, started, until) if until else status["cost"],
        "placement": placement,
        "candidates": list(candidates),
        "jobName": child.name,
        "jobUID": child.uid,
        "attempt": child.attempt,
        "startTime": started,
        "completionTime": seen.ended,
        "updated": seen.ended or now if started else None,
    }
    status["display"] |= {"accelerator": _accelerator(placement), "reason": seen.stuck or seen.reason.value}
    status["display"] |= progress.display(status)
    return _without_blanks(status)


def _of_reading(job: JobRecord, child: ChildRecord, telemetry: Telemetry) -> tuple[Claim, ...]:
    begun = job.status.get("jobName") == child.name
    return telemetry.claims or (() if begun else reading.anew(job.status))


def _chosen(
    job: JobRecord, child: ChildRecord, decision: Decision | None
) -> tuple[dict[str, Any], Sequence[Mapping[str, Any]]]:
    if decision:
        return _placement(decision), _candidates(decision)
    if job.status.get("jobName") == child.name or not child.hint.placement:
        return dict(job.status.get("placement") or {}), list(job.status.get("candidates") or [])
    # What the status holds was said before this child was made: a wait, or the plan of a suspended job.
    return dict(child.hint.placement), list(child.hint.candidates)


def refused(job: JobRecord, decision: Decision, now: str, state: State | None = None) -> dict[str, Any]:
    """The status of a job that is not placed; `state` overrides the verdict's own (Impossible is said late)."""
    reason = explain.reason(decision)
    claims = conditions.of_refusal(reason, explain.summary(decision))
    status = _without_child(job, state or STATE_OF[decision.verdict], claims, reason, now)
    return _without_blanks(status | {"candidates": _candidates(decision), "attempt": job.status.get("attempt")})


def planned(job: JobRecord, decision: Decision, now: str) -> dict[str, Any]:
    """The status of a suspended job: where it would go, and nothing created."""
    claims = conditions.of_plan(explain.summary(decision), whole_number(job.status.get("attempt")))
    status = _without_child(job, State.SUSPENDED, claims, Reason.PLAN_ONLY, now)
    placement = _placement(decision) if decision.choice else None
    status |= {"candidates": _candidates(decision), "placement": placement, "attempt": job.status.get("attempt")}
    if placement:
        status["display"] |= {"accelerator": _accelerator(placement)}
    return _without_blanks(status)


def suspending(job: JobRecord, child: ChildRecord, now: str) -> dict[str, Any]:
    """The status of a job that is suspended while it has a child: written before the child is deleted.

    It no longer names the child, which says that its end is no loss; a plan follows when the child is gone.
    """
    claims = conditions.of_plan(f"child Job {child.name} is deleted, its GPUs become free", child.attempt)
    status = _without_child(job, State.SUSPENDED, claims, Reason.PLAN_ONLY, now)
    return _without_blanks(_paid(job, status, now) | {"attempt": child.attempt})


def rechecked(job: JobRecord, child: ChildRecord, message: str, now: str) -> dict[str, Any]:
    """The status of a job whose image cannot run the preflight: written before the child is deleted, which it no longer names."""
    status = _without_child(job, State.QUEUED, conditions.of_recheck(message), Reason.NO_INTERPRETER, now)
    return _without_blanks(_paid(job, status, now) | {"attempt": child.attempt})


def runs_unchecked(job: JobRecord) -> bool:
    """Whether the job's status says that its image cannot run the preflight: the record that the next attempt goes by."""
    held = (c for c in tables(job.status, "conditions") if c.get("type") == ConditionType.PREFLIGHT_PASSED)
    return any(c.get("reason") == Reason.NO_INTERPRETER and c.get("observedGeneration") == job.generation for c in held)


def gave_up(
    job: JobRecord, child: ChildRecord, seconds: float, now: datetime, bare: Arriving | None = None
) -> dict[str, Any]:
    """The status of a job whose nodes did not come, or came without devices (`bare` is the last of these): written before
    the child is deleted, which it no longer names."""
    pool = str((job.status.get("placement") or child.hint.placement).get("pool", ""))
    away = with_pool_away(job.status, pool, now, seconds)
    came = f"no nodes came to pool {pool} within {seconds:g} seconds"
    if bare is not None:
        came = f"node {bare.node} came to pool {pool} at {bare.since} and offers no GPUs: look at its driver and device plugin"
    sentence = f"{came}; other pools are tried, this one at {away[-1]['until']}"
    reason = Reason.NODES_DID_NOT_COME
    status = _without_child(job, State.QUEUED, conditions.of_refusal(reason, sentence), reason, write_time(now))
    return _without_blanks(_paid(job, status, write_time(now)) | {"attempt": child.attempt, "excludedPools": away})


def not_bound(job: JobRecord, child: ChildRecord, why: str, seconds: float, now: datetime) -> dict[str, Any]:
    """The status of a job whose pods the scheduler did not bind for so many seconds; `why` is what it says. Written before
    the child is deleted, which it no longer names."""
    pool, reason = str((job.status.get("placement") or child.hint.placement).get("pool", "")), Reason.UNSCHEDULABLE
    away = with_pool_away(job.status, pool, now, seconds * RESTS, reason, why)
    sentence = (
        f"after {seconds:g} seconds {why}; the job gave the GPUs of pool {pool} back, other pools are tried, "
        f"this one at {away[-1]['until']}"
    )
    status = _without_child(job, State.QUEUED, conditions.of_refusal(reason, sentence), reason, write_time(now))
    return _without_blanks(_paid(job, status, write_time(now)) | {"attempt": child.attempt, "excludedPools": away})


def probed(
    job: JobRecord, child: ChildRecord, sentence: str, probes: list[dict[str, Any]], now: datetime
) -> dict[str, Any]:
    """The status of a job after a trial: written before the child is deleted, which it no longer names."""
    claims = conditions.of_refusal(Reason.PROBED, sentence)
    status = _without_child(job, State.QUEUED, claims, Reason.PROBED, write_time(now))
    return _without_blanks(_paid(job, status, write_time(now)) | {"attempt": child.attempt, "probes": probes})


def unreadable(job: JobRecord, reason: Reason, message: str, now: str) -> dict[str, Any]:
    """The status of a job that must be mended before anything can be decided or created."""
    status = _without_child(job, State.MISCONFIGURED, conditions.of_refusal(reason, message), reason, now)
    return _without_blanks(status | {"attempt": job.status.get("attempt")})


def lost(job: JobRecord, now: str) -> dict[str, Any]:
    """The status of a job whose child Job somebody deleted: final, since its pods are gone with it."""
    message = f"child Job {job.status.get('jobName')} was deleted by someone else; create a new GPUJob to run it again"
    return _gone(job, Reason.CHILD_LOST, message, now)


def deleted(job: JobRecord, now: str) -> dict[str, Any]:
    """The status of a job that is deleted and of which nothing runs, while somebody's finalizer keeps the object."""
    name = job.status.get("jobName")
    what = f"its child Job {name} is gone and the GPUs are given back" if name else "nothing of it was left running"
    held = "the object stays until the finalizers of its metadata are taken off by those who put them there"
    return _gone(job, Reason.BEING_DELETED, f"the GPUJob is being deleted, {what}; {held}", now)


def _gone(job: JobRecord, reason: Reason, message: str, now: str) -> dict[str, Any]:
    """The last status of a job whose child is not there any more; it has cost what it ran until now."""
    status = _status(job, State.FAILED, conditions.of_loss(reason, message), reason, now)
    kept = (
        "placement",
        "candidates",
        "jobName",
        "jobUID",
        "attempt",
        "startTime",
        "progress",
        "throughput",
        "cost",
        "checkpoint",
    )
    status |= {key: job.status.get(key) for key in kept} | {"completionTime": now}
    if (started := job.status.get("startTime")) and (until := read_time(now)):
        status["cost"] = cost.cost(job.status, table(job.status, "placement"), str(started), until)
    status["display"] |= {"accelerator": (job.status.get("display") or {}).get("accelerator")}
    status["display"] |= progress.display(status)
    return _without_blanks(status)


def _without_child(job: JobRecord, state: State, claims: Iterable[Claim], reason: Reason, now: str) -> dict[str, Any]:
    """What the status of a job has of which nothing runs, or is to end: what was read of the last attempt is over."""
    before = conditions.preflight_anew(job.status.get("conditions") or ())
    return _status(job, state, (*before, *claims, *reading.anew(job.status)), reason, now)


def _paid(job: JobRecord, status: dict[str, Any], now: str) -> dict[str, Any]:
    """A status with what the attempt that ends now has cost; another may follow."""
    if end := read_time(now):
        status["cost"] = cost.ended(job.status, end)
        status["display"] |= progress.display(status)
    return status


def _status(job: JobRecord, state: State, claims: Iterable[Claim], reason: Reason, now: str) -> dict[str, Any]:
    """What every status has; cost and checkpoint outlive the attempt that they are of."""
    return {
        "state": state.value,
        "observedGeneration": job.generation,
        "conditions": conditions.merged(job.status.get("conditions") or (), claims, job.generation, now),
        "excludedPools": list(job.status.get("excludedPools") or []),
        "cost": dict(table(job.status, "cost")),
        "checkpoint": dict(table(job.status, "checkpoint")),
        "probes": probing.kept(job),
        "display": {"reason": reason.value, **progress.display({"cost": table(job.status, "cost")})},
    }


def _placement(decision: Decision) -> dict[str, Any]:
    chosen = documents.chosen(decision) or {}
    chosen.pop("memoryPerGPU", None)
    chosen["provision"] = chosen.get("provision") or None
    return _without_blanks(chosen | {"message": explain.summary(decision), "digest": decision.digest})


def hint(decision: Decision) -> dict[str, Any]:
    """What a child Job carries of the decision: enough to write the same status after a crash."""
    return _placement(decision) | {"candidates": _candidates(decision)}


def _candidates(decision: Decision) -> list[dict[str, Any]]:
    return [_candidate(candidate) for candidate in explain.best_per_pool(decision)[:CANDIDATES]]


def _candidate(candidate: Candidate) -> dict[str, Any]:
    first = candidate.reasons[0] if candidate.reasons else None
    return _without_blanks(
        {
            "pool": candidate.pool.name,
            "runtime": candidate.runtime.name,
            "shape": candidate.gang.shape,
            "outcome": candidate.outcome.value,
            "reason": first.reason.value if first else None,
            "message": first.message[:512] if first else None,
        }
    )


def _accelerator(placement: Mapping[str, Any]) -> str:
    """For example 2x8 MI300X, or MI300X for a single device; whether it is a probe is said in the same column."""
    nodes, gpus, name = placement.get("nodes", 1), placement.get("gpusPerNode", 1), placement.get("accelerator", "?")
    count = f"{nodes}x{gpus} " if nodes != 1 else f"{gpus} " if gpus != 1 else ""
    return f"{count}{name}" + (" (probe)" if placement.get("probe") is not None else "")


def _without_blanks(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value not in (None, "", [], {})}


__all__ = [
    "deleted",
    "gave_up",
    "hint",
    "lost",
    "not_bound",
    "placed",
    "planned",
    "rechecked",
    "refused",
    "runs_unchecked",
    "suspending",
    "unreadable",
]
