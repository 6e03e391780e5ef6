"""The whole status of a job for each of its possible states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpujob.placement.report import decision_json, summary
from gpujob.placement.scoring.candidate import Candidate, Decision, best_per_pool
from gpujob.status.attempts import cost, probe_runs, progress
from gpujob.status.attempts.waits import read_time, within
from gpujob.status.job import conditions
from gpujob.status.job import telemetry as reading
from gpujob.status.job.conditions import ConditionUpdate, Update
from gpujob.status.job.telemetry import SILENT, Telemetry
from gpujob.status.observe.child import Observation, with_other_price
from gpujob.status.records.objects import ChildRecord, JobRecord
from gpujob.values.quantity import format_dollars
from gpujob.values.untrusted import condition, table, tables, whole_number
from gpujob.values.vocabulary import CapacityType, ConditionType, Label, PreflightMode, Reason, State, Verdict

CANDIDATES: Final = 5
"""The number of nearest candidates in the status of a job without a child; `kubectl gpujob plan` shows all."""

STATE_OF: Final = {
    Verdict.WAITING: State.QUEUED,
    Verdict.MISCONFIGURED: State.MISCONFIGURED,
    Verdict.IMPOSSIBLE: State.IMPOSSIBLE,
}


def placed(
    job: JobRecord,
    child: ChildRecord,
    seen: Observation,
    now: str,
    telemetry: Telemetry = SILENT,
    price_now: int | None = None,
) -> dict[str, Any]:
    """The status of a job with a child; the placement comes from the stored status or from the child's hint.

    `price_now`: what the placement costs an hour at the prices of now, in micro-dollars, where that is known.
    """
    placement, sentence = _chosen(job, child)
    if price_now is not None:
        placement = _at_price(placement, price_now)
        seen = _with_price_change(seen, placement, price_now)
    preflight = conditions.of_preflight(
        child,
        seen,
        disabled=job.spec.get("preflight") == PreflightMode.DISABLED,
        first=job.status.get("jobName") != child.name,
    )
    updates = (*conditions.of_child(seen, sentence), *preflight, *_of_reading(job, child, telemetry))
    status = _status(job, seen.state, updates, seen.reason, now)
    started = job.status.get("startTime") or within(seen.started, child.created, seen.ended or now)
    until = read_time(seen.ended) or read_time(now)
    status |= progress.members(job.status, telemetry.measured, done=seen.state is State.SUCCEEDED)
    status |= {
        "cost": cost.cost(job.status, placement, started, until) if until else status["cost"],
        "placement": placement,
        "jobName": child.name,
        "jobUID": child.uid,
        "attempt": child.attempt,
        "startTime": started,
        "completionTime": seen.ended,
        "updated": seen.ended or now if started else None,
    }
    status["display"] |= {"accelerator": _accelerator(placement), "reason": seen.stuck or seen.reason.value}
    status["display"] |= progress.display(status)
    return without_blanks(status)


def _at_price(placement: dict[str, Any], now: int) -> dict[str, Any]:
    """A placement with the price of now beside that which was decided, where the two differ."""
    others = {key: value for key, value in placement.items() if key != "currentPricePerHour"}
    decided = cost.dollars(placement.get("pricePerHour"))
    # The decided price is rounded to cents: only another one than is written is another price.
    same = decided is None or format_dollars(decided) == format_dollars(now)
    return others if same else others | {"currentPricePerHour": format_dollars(now)}


def _with_price_change(seen: Observation, placement: Mapping[str, Any], now: int) -> Observation:
    decided = cost.dollars(placement.get("pricePerHour"))
    if seen.state is not State.RUNNING or decided is None or "currentPricePerHour" not in placement:
        return seen
    return with_other_price(seen, str(placement.get("pool", "")), decided, now)


def _of_reading(job: JobRecord, child: ChildRecord, telemetry: Telemetry) -> tuple[ConditionUpdate, ...]:
    begun = job.status.get("jobName") == child.name
    return telemetry.updates or (() if begun else reading.of_new_attempt(job.status))


def _chosen(job: JobRecord, child: ChildRecord) -> tuple[dict[str, Any], str]:
    """status.placement, and the sentence of the condition Placed, its only copy."""
    held = dict(table(job.status, "placement"))
    if job.status.get("jobName") == child.name or not child.hint.placement:
        sentence = condition(job.status, ConditionType.PLACED, now="True").get("message")
    else:
        # The stored message is older than this child: a wait, or the plan of a suspended job.
        held = dict(child.hint.placement)
        sentence = held.pop("message", None)
    return held, str(sentence or f"placed on pool {held.get('pool', '?')}")


def refused(job: JobRecord, decision: Decision, now: str, state: State | None = None) -> dict[str, Any]:
    """The status of a job without a placement; `state` overrides the verdict's own (Impossible is reported late)."""
    reason = summary.reason(decision)
    updates = conditions.of_refusal(reason, summary.of_status(decision))
    status = without_child(job, state or STATE_OF[decision.verdict], updates, reason, now)
    return without_blanks(status | {"candidates": _candidates(decision), "attempt": job.status.get("attempt")})


def message_of_refusal(decision: Decision) -> dict[str, Any]:
    """What `refused` takes of a decision."""
    reason, sentence = summary.reason(decision).value, summary.of_status(decision)
    return {"verdict": decision.verdict.value, "reason": reason, "sentence": sentence, "of": _candidates(decision)}


def planned(job: JobRecord, decision: Decision, now: str) -> dict[str, Any]:
    """The status of a suspended job: its planned placement, and nothing created."""
    updates = conditions.of_plan(summary.of_status(decision), whole_number(job.status.get("attempt")))
    status = without_child(job, State.SUSPENDED, updates, Reason.PLAN_ONLY, now)
    placement = _placement(decision) if decision.choice else None
    status |= {"candidates": _candidates(decision), "placement": placement, "attempt": job.status.get("attempt")}
    if placement:
        status["display"] |= {"accelerator": _accelerator(placement)}
    return without_blanks(status)


def ended_attempts(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The readable entries of status.attempts."""
    entries = (dict(entry) for entry in tables(status, "attempts"))
    texts = "to", "reason"
    return [e for e in entries if whole_number(e.get("attempt")) and all(isinstance(e.get(key), str) for key in texts)]


def runs_unchecked(job: JobRecord) -> bool:
    """Whether the job's status says that its image cannot run the preflight; the next attempt depends on it."""
    held = condition(job.status, ConditionType.PREFLIGHT_PASSED)
    return held.get("reason") == Reason.NO_INTERPRETER and held.get("observedGeneration") == job.generation


def restarting(job: JobRecord, message: str, now: str) -> dict[str, Any]:
    """The status of a job whose next attempt waits for the pods of an earlier one."""
    reason = Reason.EARLIER_ATTEMPT_ENDING
    return _after_attempt(job, State.RESTARTING, conditions.of_refusal(reason, message), reason, now)


def unreadable(job: JobRecord, reason: Reason, message: str, now: str) -> dict[str, Any]:
    """The status of a job that must be fixed before a decision or a child."""
    return _after_attempt(job, State.MISCONFIGURED, conditions.of_refusal(reason, message), reason, now)


def queued(job: JobRecord, reason: Reason, message: str, now: str) -> dict[str, Any]:
    """The status of a job that waits for something else than devices."""
    return _after_attempt(job, State.QUEUED, conditions.of_refusal(reason, message), reason, now)


def lost(job: JobRecord, now: str, left: Sequence[str] = ()) -> dict[str, Any]:
    """The status of a job whose child Job a user deleted: final, because its pods are deleted with it, except those that are `left`:
    nothing ends them, and they hold their GPUs."""
    what = f"child Job {job.status.get('jobName')} was deleted by someone else{_still_running(job, left)}"
    message = f"{what}; create a new GPUJob to run it again"
    return _gone(job, Reason.CHILD_LOST, message, now)


def _still_running(job: JobRecord, pods: Sequence[str]) -> str:
    """The clause about pods that nothing ends, by name; empty if there are none."""
    if not pods:
        return ""
    delete = f"`kubectl delete pods -n {job.namespace} -l {Label.JOB_UID}={job.uid}`"
    if len(pods) == 1:
        return f"; its pod {pods[0]} still runs and holds GPUs: delete it with {delete}"
    return f"; its pods {pods[0]} and {len(pods) - 1} more still run and hold GPUs: delete them with {delete}"


def deleted(job: JobRecord, now: str) -> dict[str, Any]:
    """The status of a deleted job without running pods, while another finalizer holds the object."""
    name = job.status.get("jobName")
    what = f"its child Job {name} is gone and the GPUs are given back" if name else "nothing of it was left running"
    held = "the object stays until the finalizers of its metadata are taken off by those who put them there"
    return _gone(job, Reason.BEING_DELETED, f"the GPUJob is being deleted, {what}; {held}", now)


def expired(
    job: JobRecord, status: Mapping[str, Any], reason: Reason, message: str, child_name: str, now: str
) -> dict[str, Any]:
    """The last status of a job that reached a limit: `status` with its end. It names the last attempt's child, which has to go."""
    updates = (*conditions.of_loss(reason, message), ConditionType.STALLED)
    ended = dict(status) | {
        "state": State.FAILED.value,
        "observedGeneration": job.generation,
        "conditions": conditions.merged(status.get("conditions") or (), updates, job.generation, now),
        "jobName": child_name,
        "completionTime": now,
    }
    ended["display"] = dict(table(status, "display")) | {"reason": reason.value}
    return without_blanks(ended)


def over_budget(job: JobRecord, message: str, now: str) -> dict[str, Any]:
    """The status of a job that has spent its budget and has no child: suspended until the budget is raised."""
    return _after_attempt(job, State.SUSPENDED, conditions.of_budget(message), Reason.BUDGET_EXCEEDED, now)


def _gone(job: JobRecord, reason: Reason, message: str, now: str) -> dict[str, Any]:
    """The last status of a job whose child is gone; its cost counts until now."""
    status = _status(job, State.FAILED, conditions.of_loss(reason, message), reason, now)
    kept = (
        "placement", "jobName", "jobUID", "attempt", "startTime", "progress", "throughput", "cost",
        "checkpoint", "ranSeconds",
    )  # fmt: skip
    status |= {key: job.status.get(key) for key in kept} | {"completionTime": now}
    if (started := job.status.get("startTime")) and (until := read_time(now)):
        status["cost"] = cost.cost(job.status, table(job.status, "placement"), str(started), until)
    shown = {"accelerator": table(job.status, "display").get("accelerator")}
    status["display"] |= without_blanks(shown) | progress.display(status)
    return without_blanks(status)


def without_child(job: JobRecord, state: State, updates: Iterable[Update], reason: Reason, now: str) -> dict[str, Any]:
    """The status of a job without a running attempt: figures of the last attempt are removed."""
    before = conditions.preflight_of_new_attempt(job.status.get("conditions") or ())
    return _status(job, state, (*before, *updates, *reading.of_new_attempt(job.status)), reason, now)


def _after_attempt(job: JobRecord, state: State, updates: Iterable[Update], reason: Reason, now: str) -> dict[str, Any]:
    """The same with the number of the last attempt."""
    return without_blanks(without_child(job, state, updates, reason, now) | {"attempt": job.status.get("attempt")})


def with_cost(job: JobRecord, status: dict[str, Any], now: str) -> dict[str, Any]:
    """A status with the cost of the attempt that ends now; another can follow."""
    if end := read_time(now):
        status["cost"] = cost.ended(job.status, end)
        status["ranSeconds"] = cost.running_seconds(job.status, end) or None
        status["display"] |= progress.display(status)
    return status


def _status(job: JobRecord, state: State, updates: Iterable[Update], reason: Reason, now: str) -> dict[str, Any]:
    """The common part of every status; cost and checkpoint outlive their attempt."""
    if state is not State.RUNNING:
        updates = (*updates, ConditionType.STALLED)
    return {
        "state": state.value,
        "observedGeneration": job.generation,
        "conditions": conditions.merged(job.status.get("conditions") or (), updates, job.generation, now),
        "excludedPools": list(job.status.get("excludedPools") or []),
        "gpuMemory": job.status.get("gpuMemory"),
        "excludedNodes": list(job.status.get("excludedNodes") or []),
        "failingSince": job.status.get("failingSince"),
        "failures": dict(table(job.status, "failures")),
        "attempts": ended_attempts(job.status),
        "cost": dict(table(job.status, "cost")),
        "ranSeconds": whole_number(job.status.get("ranSeconds")) or None,
        "checkpoint": dict(table(job.status, "checkpoint")),
        "probes": probe_runs.kept(job),
        "display": {"reason": reason.value, **progress.display({"cost": table(job.status, "cost")})},
    }


def _placement(decision: Decision) -> dict[str, Any]:
    chosen = decision_json.chosen(decision) or {}
    chosen.pop("memoryPerGPU", None)
    chosen["provision"] = chosen.get("provision") or None
    # The pool's status says what the source of a price is an estimate of.
    chosen["priceSource"] = str(chosen.get("priceSource") or "").partition(":")[0] or None
    spot = decision.choice is not None and decision.choice.candidate.pool.capacity_type is CapacityType.SPOT
    chosen["capacityType"] = CapacityType.SPOT.value if spot else None
    return without_blanks(chosen | {"digest": decision.digest})


def hint(decision: Decision) -> dict[str, Any]:
    """The decision in a child Job's annotation: enough to write the same status after a crash."""
    return _placement(decision) | {"message": summary.of_status(decision)}


def _candidates(decision: Decision) -> list[dict[str, Any]]:
    every = bool(decision.hopeless)
    return [_candidate(candidate, every=every) for candidate in best_per_pool(decision)[:CANDIDATES]]


def _candidate(candidate: Candidate, *, every: bool) -> dict[str, Any]:
    first = candidate.reasons[0] if candidate.reasons else None
    return without_blanks(
        {
            "pool": candidate.pool.name[:253],
            "runtime": candidate.runtime.name,
            "shape": candidate.gang.shape,
            "outcome": candidate.outcome.value,
            "reason": first.reason.value if first else None,
            "message": summary.reasons_text(candidate, candidate.reasons, every=every)[:512] or None,
        }
    )


def _accelerator(placement: Mapping[str, Any]) -> str:
    """For example 2x8 MI300X, or MI300X for a single device; a probe is marked in the same column."""
    nodes, gpus, name = placement.get("nodes", 1), placement.get("gpusPerNode", 1), placement.get("accelerator", "?")
    count = f"{nodes}x{gpus} " if nodes != 1 else f"{gpus} " if gpus != 1 else ""
    return f"{count}{name}" + (" (probe)" if placement.get("probe") is not None else "")


def without_blanks(record: dict[str, Any]) -> dict[str, Any]:
    """A record without empty members."""
    return {key: value for key, value in record.items() if value not in (None, "", [], {})}
