"""Decisions for the jobs of a manifest, in its order: each job sees what remains after those before it, and of higher priority."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.planning import holders, object_quota
from gpujob.placement.filters.fixable import is_unread
from gpujob.placement.report import decision_json, summary
from gpujob.placement.report.why_not import best_losers
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.placement.request.profile_measurements import Profile, learned_of, profile_of
from gpujob.placement.scoring.candidate import best_per_pool
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import ALWAYS, place_all
from gpujob.values.finding import Dollars
from gpujob.values.quantity import format_dollars
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import Outcome, Verdict

if TYPE_CHECKING:
    from datetime import datetime

    from gpujob.api.kinds.gpujob import GPUJob
    from gpujob.catalog.catalog import Catalog
    from gpujob.cli.planning.holders import Holder, Holdings
    from gpujob.fleet.pools.arriving import Arriving
    from gpujob.fleet.pools.fleet import Fleet
    from gpujob.fleet.pools.pool import Pool
    from gpujob.fleet.sources.cluster_file import ClusterObjects
    from gpujob.placement.report.why_not import WhyNot
    from gpujob.placement.scoring.candidate import Decision, StartsNow
    from gpujob.schedule.queue import QueueDecision
    from gpujob.values.finding import Finding

EXIT_CODES: Final = {Verdict.PLACED: 0, Verdict.WAITING: 3, Verdict.IMPOSSIBLE: 4, Verdict.MISCONFIGURED: 5}
OTHERS: Final = 2
"""Pools beside the chosen one that a plan compares."""

_MILDEST_FIRST: Final = (0, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Plan:
    """A job with its decision, and why not the next pools."""

    job: GPUJob
    decision: Decision
    others: tuple[WhyNot, ...] = ()
    pools: tuple[Pool, ...] = ()
    """The pools that it was decided on."""
    holders: tuple[Holder, ...] = ()
    """Who holds what a Waiting job waits for."""
    now: datetime | None = None
    """When the cluster was read; None if holders are not listed."""
    unreserved: str = ""
    """Why no device is reserved for a Waiting job of a cluster against lower priorities; empty for others, and if some may be."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.metadata.name


Profiles = Mapping[tuple[str, str], Profile]
"""The measurements of each profile's jobs, by its namespace and name."""


def profiles_of(objects: ClusterObjects) -> Profiles:
    """The GPUJobProfiles of a cluster."""
    found = (item for item in objects.others if item.get("kind") == "GPUJobProfile")
    return {_key(table(item, "metadata")): profile_of(item) for item in found}


def _key(metadata: Mapping[str, Any]) -> tuple[str, str]:
    return str(metadata.get("namespace") or "default"), str(metadata.get("name"))


def informed(job: GPUJob, profiles: Profiles) -> Demand:
    """The demand of a job, with the measurements of its profile's earlier runs."""
    demand, profile = demand_of(job), job.spec.profile or ""
    held = profiles.get((job.metadata.namespace or "default", profile), Profile())
    learned = learned_of(profile, held.measurements, demand.work.precision.value)
    return demand if not held.unread and learned is None else replace(demand, learned=learned, unread=held.unread)


def plan_jobs(
    jobs: Iterable[GPUJob],
    fleet: Fleet,
    catalog: Catalog,
    profiles: Profiles,
    arriving: tuple[Arriving, ...] = (),
    rivals: Callable[[Sequence[PendingJob]], Iterable[PendingJob]] = lambda asked: (),
    holdings: Holdings | None = None,
    existing: Collection[object_quota.Name] = (),
) -> list[Plan]:
    """A plan for each job, in their order; they are placed by priority, and suspended ones use nothing.

    `arriving` are new nodes with pending devices, `rivals` the cluster's own jobs that go before these, `holdings` what
    its pods hold, `existing` its GPUJobs by namespace and name.
    """
    numbered = {f"{number:08d}": job for number, job in enumerate(jobs)}
    asked = [
        PendingJob(
            uid,
            "",
            informed(job, profiles).but(arriving=arriving),
            bool(job.spec.suspend),
            job.metadata.namespace or "default",
            job.metadata.name,
            runs_for=job.spec.active_deadline_seconds,
        )
        for uid, job in numbered.items()
    ]
    asked, fleet = object_quota.with_object_quotas(asked, fleet, existing)
    waiting = [*asked, *rivals(asked)]
    decisions = list(place_all(waiting, fleet, catalog, now=holdings.now if holdings else ALWAYS))
    positions = {decided.job.uid: index for index, decided in enumerate(decisions)}
    return [_plan(job, decisions[: positions[uid] + 1], holdings) for uid, job in numbered.items()]


def _plan(job: GPUJob, decisions: Sequence[QueueDecision], holdings: Holdings | None) -> Plan:
    """The plan of the last job of a queue; if it is placed, with what would make the next best pools win."""
    answer = decisions[-1].answer
    decision = answer.decision
    others = best_losers(decision, OTHERS, answer.fleet, answer.catalog) if decision.choice else ()
    plan = Plan(job, decision, others, answer.fleet.pools)
    return with_holders(plan, decisions[:-1], holdings)


def with_holders(plan: Plan, before: Sequence[QueueDecision], holdings: Holdings | None) -> Plan:
    """The plan of a Waiting job with who holds what it waits for; others as they are."""
    if plan.decision.verdict is not Verdict.WAITING:
        return plan
    held = holdings.of(plan.decision, before) if holdings else ()
    return replace(plan, holders=held, now=holdings.now if holdings else None)


def sentence_of(decision: Decision) -> str:
    """The summary without the clauses that have lines of their own below it."""
    sentence = summary.summary(decision)
    if decision.fix:
        sentence = sentence.removesuffix(f"; {decision.fix.message}")
    return sentence.removesuffix(summary.clause_of_now(decision))


def ways_out(plan: Plan, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Who holds what a Waiting job waits for, why nothing is reserved for it, and the gangs with which it would start now: label and
    sentence, with these names of the pools.
    """
    if plan.now is not None:
        for sentence in holders.sentences(plan.holders, plan.now):
            yield "Held by:", sentence
    if plan.unreserved:
        yield "Nothing reserved:", plan.unreserved
    for start in plan.decision.starts_now:
        price = f" at {Dollars(start.price_per_hour)} an hour" if start.price_per_hour is not None else ""
        yield "now:", start.sentence(names.get(start.pool, start.pool)) + price


def document(plan: Plan, *, every: bool) -> dict[str, Any]:
    """The plan as the JSON of `plan -o json`; `every`: with --all."""
    return {
        **decision_json.plan(plan.decision, every=every),
        "whyNot": [_why_not(each) for each in plan.others],
        "heldBy": [holders.document(each) for each in plan.holders],
        "unreserved": plan.unreserved or None,
        "startsNow": [_start(each) for each in plan.decision.starts_now],
    }


def _start(start: StartsNow) -> dict[str, Any]:
    return {
        "changes": [decision_json.change_document(change) for change in start.changes],
        "pool": start.pool,
        "pricePerHour": None if start.price_per_hour is None else format_dollars(start.price_per_hour),
    }


def _why_not(answer: WhyNot) -> dict[str, Any]:
    changes = [decision_json.change_document(change) for change in answer.fix.changes] if answer.fix else []
    return {
        "pool": answer.pool.name,
        "outcome": answer.outcome.value,
        "reasons": [finding.document for finding in answer.reasons],
        "change": answer.change,
        "fix": changes[0] if len(changes) == 1 else None,
        "together": changes if len(changes) > 1 else None,
    }


def why_not_sentences(plan: Plan, *, whole: bool = False) -> list[tuple[str, str]]:
    """Pools and sentences below the table: why not each other pool.

    With `whole` false, without the reasons that the table has; a sentence about what must be fixed names it.
    """
    best = {} if whole else {each.pool.name: each.reasons[:1] for each in best_per_pool(plan.decision)}
    return [(each.pool.name, _sentence(each, best.get(each.pool.name, ()))) for each in plan.others]


def _sentence(answer: WhyNot, shown: Sequence[Finding]) -> str:
    known = {each.message for each in shown} if answer.outcome is not Outcome.MISCONFIGURED else set()
    reasons = "; ".join(each.message for each in answer.reasons if each.message not in known)
    if shown and is_unread(answer.pool) and answer.outcome is Outcome.MISCONFIGURED:
        return f"it can be decided about once GPUPool {answer.pool.family} can be read"
    return f"{reasons}; {answer.change}" if reasons else answer.change


def exit_code(plans: Iterable[Plan]) -> int:
    """The worst of the plans' codes."""
    return max((EXIT_CODES[plan.decision.verdict] for plan in plans), key=_MILDEST_FIRST.index, default=0)
