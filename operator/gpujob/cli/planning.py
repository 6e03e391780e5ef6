"""Decisions for the jobs of a manifest, in its order: each job sees what the ones before it took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpujob.placement import explain
from gpujob.placement.demand import demand_of
from gpujob.schedule.queue import Waiting, place_all
from gpujob.vocabulary import Verdict

if TYPE_CHECKING:
    from gpujob.api.gpujob import GPUJob
    from gpujob.catalog.records import Catalog
    from gpujob.fleet.pools import Fleet
    from gpujob.placement.decision import Decision

EXIT_CODES: Final = {Verdict.PLACED: 0, Verdict.WAITING: 3, Verdict.IMPOSSIBLE: 4, Verdict.MISCONFIGURED: 5}
_MILDEST_FIRST: Final = (0, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Plan:
    """A job with its decision."""

    job: GPUJob
    decision: Decision

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.metadata.name


def plan_jobs(jobs: Iterable[GPUJob], fleet: Fleet, catalog: Catalog) -> list[Plan]:
    """A plan for each job, in their order; suspended ones take nothing from those after them."""
    numbered = {f"{number:08d}": job for number, job in enumerate(jobs)}
    waiting = [
        Waiting(uid, "", demand_of(job), bool(job.spec.suspend), job.metadata.namespace or "default")
        for uid, job in numbered.items()
    ]
    return [Plan(numbered[placing.job.uid], placing.decision) for placing in place_all(waiting, fleet, catalog)]


def document(plan: Plan) -> dict[str, Any]:
    """The plan as the JSON of `plan -o json`."""
    return explain.plan(plan.decision)


def exit_code(plans: Iterable[Plan]) -> int:
    """The worst of the plans' codes."""
    return max((EXIT_CODES[plan.decision.verdict] for plan in plans), key=_MILDEST_FIRST.index, default=0)
