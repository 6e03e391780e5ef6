"""Why a job has its placement: its status, the decision made again now, and what would change it.

The job's own pods, including future ones, are left out of the cluster for that, because they hold the very devices that the
decision is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.planning.competing_jobs import rivals_in
from gpujob.cli.planning.holders import Holdings
from gpujob.cli.planning.object_quota import gpujobs_in, with_object_quotas
from gpujob.cli.planning.planner import Plan, Profiles, document, informed, profiles_of, with_holders
from gpujob.lifecycle.timings import Timings
from gpujob.placement.report.why_not import best_losers, why_not
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, SchedulingCycle
from gpujob.status.attempts import waits
from gpujob.status.attempts.cost import dollars, seconds_to_run
from gpujob.status.job.job_status import ended_attempts
from gpujob.values.finding import several
from gpujob.values.quantity import exact_dollars
from gpujob.values.untrusted import condition, is_true, one_line, table, tables, whole_number
from gpujob.values.vocabulary import ConditionType, Reason, State, Verdict

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJob
    from gpujob.catalog.catalog import Catalog
    from gpujob.fleet.assembly.usage import PodReservation
    from gpujob.fleet.kubernetes.objects import Pod
    from gpujob.fleet.sources.cluster_file import ClusterObjects


OTHERS: Final = 3
"""Pools beside the chosen one that are explained by default; a plan has fewer."""

BUDGETS: Final[Mapping[str, str]] = {
    Reason.NAMESPACE_BUDGET_EXCEEDED: "its namespace's monthly budget",
    Reason.BUDGET_EXCEEDED: "its budget",
}
"""What keeps a job from starting although a pool has room, by the reason of condition Placed."""

AFTER_PLACEMENT: Final = (State.PLACED, State.STARTING, State.FAILED)
"""States of a placed job in which its fate matters more than its placement."""


@dataclass(frozen=True)
class Explanation:
    """A job, its status, and the decision made now."""

    plan: Plan
    state: str
    """The state in the status; empty for a job that has none."""
    said: str
    """The status's message about the placement; empty without one."""
    since: str = ""
    """The status's message about pods that wait, have failed or stand still; empty without any."""
    named: bool = False
    """Whether it is a job of the cluster instead of a file."""
    asked: bool = False
    """Whether the user named the pools to explain."""
    attempts: Sequence[Mapping[str, Any]] = ()
    """The attempts of its status, and the current one."""
    reasons: Sequence[str] = ()
    """The reasons of the conditions that `said` and `since` are of, and of its attempts, as the status has them."""
    at: datetime | None = None
    """When the decision was made."""
    budget: str = ""
    """The budget that keeps the job from starting by its status, in words; empty if none does."""
    leaving: str = ""
    """What holds a job that is being deleted; empty for others."""

    @property
    def unseen(self) -> bool:
        """Whether no operator has reconciled the job yet."""
        return self.named and not self.state and not self.leaving


def explain_job(
    raw: Mapping[str, Any],
    objects: ClusterObjects,
    catalog: Catalog,
    asked: Sequence[str] = (),
    documents: Iterable[Any] = (),
    now: datetime | None = None,
    *,
    named: bool = False,
) -> Explanation:
    """The explanation of a GPUJob in the API server; `asked`: the pools of --why-not, else the next best.

    `documents` hold the cluster's other jobs: waiting ones of higher priority go first.
    """
    from gpujob.api.manifest import read_gpujob
    from gpujob.fleet.sources.cluster_file import fleet_of

    job = read_gpujob(raw)
    home = (job.metadata.namespace or "default", str(table(raw, "metadata").get("uid") or ""))
    fleet, known = fleet_of(_without(home, objects), catalog)
    profiles = profiles_of(objects)
    own = _waiting(job, profiles)
    if now is not None:
        arriving = tuple(waits.arriving(objects.nodes, now, Timings().provision))
        own = _as_reconciled(replace(own, demand=own.demand.but(arriving=arriving)), raw, now)
    if not named:
        (own,), fleet = with_object_quotas([own], fleet, gpujobs_in(documents))
    before = rivals_in(documents, [own], fleet, profiles, now) if now is not None else []
    cycle = SchedulingCycle(known, all_reasons=True)
    decisions = [decided for decided in cycle.run([own, *before], fleet, now or ALWAYS) if decided is not None]
    decision = next(decided for decided in decisions if decided.job.uid == own.uid).decision
    others = (
        tuple(why_not(decision, pool, fleet, known) for pool in asked)
        if asked
        else best_losers(decision, OTHERS, fleet, known)
    )
    status = table(raw, "status")
    held = Holdings(objects, documents, now, known, home) if now is not None else None
    unreserved = cycle.unreserved.get(own.uid, "") if decision.verdict is Verdict.WAITING else ""
    return Explanation(
        plan=with_holders(Plan(job, decision, others, fleet.pools, unreserved=unreserved), (), held),
        state=str(status.get("state") or ""),
        said=_message(status, ConditionType.PLACED),
        since=_fate(status),
        reasons=_reasons(status),
        named=named,
        asked=bool(asked),
        attempts=attempts_of(status),
        at=now,
        budget=_budget(status),
        leaving=_leaving(table(raw, "metadata")),
    )


def _without(home: tuple[str, str], objects: ClusterObjects) -> ClusterObjects:
    """The cluster without the pods of the job of this namespace and uid: a pod of another namespace may name the uid."""

    def is_own(held: Pod | PodReservation) -> bool:
        return bool(home[1]) and (held.namespace or "default", held.job_uid) == home

    pods = tuple(pod for pod in objects.pods if not is_own(pod))
    reservations = tuple(reservation for reservation in objects.reservations if not is_own(reservation))
    return replace(objects, pods=pods, reservations=reservations)


def _waiting(job: GPUJob, profiles: Profiles) -> PendingJob:
    """A job as the queue of a new cluster has it."""
    namespace, deadline = job.metadata.namespace or "default", job.spec.active_deadline_seconds
    return PendingJob("", "", informed(job, profiles), False, namespace, job.metadata.name, runs_for=deadline)


def _as_reconciled(own: PendingJob, raw: Mapping[str, Any], now: datetime) -> PendingJob:
    """The job as an operator sees it: it leaves out pools and nodes that let the job down, and may have waited long enough."""
    status, created = table(raw, "status"), str(table(raw, "metadata").get("creationTimestamp") or "")
    if not status:
        return own
    demand, deadline = waits.timely(own.demand, created, status, now), own.runs_for
    own = replace(own, demand=demand, runs_for=seconds_to_run(deadline, status, now))
    if waits.read_time(created) is None:
        return own
    left = waits.reservation_left(created, status, now, Timings().hold)
    return replace(own, reserves_until=now + timedelta(seconds=left))


def _reasons(status: Mapping[str, Any]) -> list[str]:
    """The reasons of what an explanation shows of a status."""
    shown = [ConditionType.PLACED, ConditionType.STALLED]
    shown += [ConditionType.RUNNING] if status.get("state") in AFTER_PLACEMENT else []
    found = [each.get("reason") for each in tables(status, "conditions") if each.get("type") in shown]
    return [str(reason) for reason in (*found, *(entry.get("reason") for entry in attempts_of(status))) if reason]


def _fate(status: Mapping[str, Any]) -> str:
    """What became of the pods of a placed job, where that matters more than its placement; a job that stands still runs."""
    if status.get("state") in AFTER_PLACEMENT:
        return _message(status, ConditionType.RUNNING)
    return _message(status, ConditionType.STALLED) if is_true(status, ConditionType.STALLED) else ""


def _budget(status: Mapping[str, Any]) -> str:
    return BUDGETS.get(str(condition(status, ConditionType.PLACED).get("reason")), "")


def _leaving(metadata: Mapping[str, Any]) -> str:
    """Since when a job is being deleted, and the finalizers that hold it; empty for other jobs."""
    since, held = metadata.get("deletionTimestamp"), metadata.get("finalizers")
    if not since:
        return ""
    names = [one_line(str(name)[:253]) for name in held] if isinstance(held, list) else []
    said = f"it is being deleted (since {one_line(str(since)[:32])})"
    if not names:
        return said
    if len(names) == 1:
        return f"{said}; finalizer {names[0]} holds it until those who put it there take it off"
    return f"{said}; finalizers {several(names)} hold it until those who put them there take them off"


def _message(status: Mapping[str, Any], kind: ConditionType) -> str:
    return str(condition(status, kind).get("message") or "")


def documents(explanations: Iterable[Explanation], *, every: bool) -> list[dict[str, Any]]:
    """The explanations as JSON: the plan's members and what an explanation adds."""
    return [_document(each, every) for each in explanations]


def _document(explanation: Explanation, every: bool) -> dict[str, Any]:
    return {
        "job": explanation.plan.name,
        "state": explanation.state or None,
        "said": explanation.said or None,
        "since": explanation.since or None,
        "leaving": explanation.leaving or None,
        "attempts": list(explanation.attempts),
        **document(explanation.plan, every=every),
    }


def attempts_of(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of status.attempts, and one like them without a reason for the attempt that goes on."""
    entries = ended_attempts(status)
    number = whole_number(status.get("attempt"))
    if status.get("jobName") and number and all(entry["attempt"] != number for entry in entries):
        entries.append(_current(status, number))
    return entries


def _current(status: Mapping[str, Any], number: int) -> dict[str, Any]:
    placement, cost = table(status, "placement"), table(status, "cost")
    nodes, accrued = placement.get("nodeNames"), dollars(cost.get("accrued"))
    spent = None if accrued is None else exact_dollars(max(0, accrued - (dollars(cost.get("earlier")) or 0)))
    entry = {
        "attempt": number,
        "pool": placement.get("pool"),
        "vendor": placement.get("vendor"),
        "nodes": [str(node) for node in nodes] if isinstance(nodes, list) else [],
        "from": status.get("startTime"),
        "cost": spent if status.get("startTime") else None,
    }
    return {key: value for key, value in entry.items() if value not in (None, [])}
