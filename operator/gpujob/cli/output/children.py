"""The children of a plan for `render`: the objects that the operator would create, with a stand-in uid."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.printing import say
from gpujob.placement.report import summary
from gpujob.render.runner import FOLDER
from gpujob.values.errors import BadInput

if TYPE_CHECKING:
    from gpujob.catalog.images.mirrors import Mirror
    from gpujob.cli.planning.planner import Plan
    from gpujob.render.children import Children

UID: Final = "00000000-0000-4000-8000-000000000000"
FIRST_ATTEMPT: Final = 1


def children_of(
    plans: Iterable[Plan], runtime_classes: Container[str], mirrors: tuple[Mirror, ...] = ()
) -> list[Mapping[str, Any]]:
    """The objects for jobs; of one that is not placed there are none, its sentence goes to stderr.

    The ConfigMap that the pods mount is named there too: it is the same for all, and longer than all of them.
    """
    made = [children for plan in plans if (children := _children_of(plan, runtime_classes, mirrors)) is not None]
    if made:
        uid = f": uid {UID} is a placeholder" if any(UID in str(each.job["metadata"]) for each in made) else ""
        say(f"do not apply these objects, the operator creates them{uid}")
    runners = {(str(each.job["metadata"]["namespace"]), each.runner) for each in made if each.runner}
    for namespace, runner in sorted(runners):
        say(
            f"ConfigMap {runner}, which the pods mount at {FOLDER}, is not shown: the operator puts it into namespace {namespace}"
        )
    return [child for each in made for child in each.in_order]


def _children_of(plan: Plan, runtime_classes: Container[str], mirrors: tuple[Mirror, ...]) -> Children | None:
    from gpujob.render.children import render
    from gpujob.render.runner_files import load_runner

    decision, metadata = plan.decision, plan.job.metadata
    if decision.choice is None:
        say(f"{decision.verdict} {plan.name}: {summary.summary(decision)}")
        return None
    if not all(decision.choice.nodes) and not decision.choice.candidate.provision:
        raise BadInput("published GPUPools name no nodes; pass --cluster FILE from an admin's `kubectl gpujob capture`")
    job = plan.job
    if metadata.uid is None:
        job = job.model_copy(update={"metadata": metadata.model_copy(update={"uid": UID})})
    runner = load_runner()
    return render(job, decision.choice, FIRST_ATTEMPT, runtime_classes, decision.digest, runner=runner, mirrors=mirrors)
