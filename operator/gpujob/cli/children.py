"""The children of a plan for `render`: what the operator would create, under a uid that stands for the job's own."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.printing import say
from gpujob.errors import BadInput
from gpujob.placement import explain

if TYPE_CHECKING:
    from gpujob.cli.planning import Plan

UID: Final = "00000000-0000-4000-8000-000000000000"
FIRST_ATTEMPT: Final = 1


def children_of(plan: Plan, runtime_classes: Container[str]) -> list[Mapping[str, Any]]:
    """The objects for a placed job; none for another, whose sentence goes to stderr."""
    from gpujob.render.children import render
    from gpujob.runner_files import load_runner

    decision, metadata = plan.decision, plan.job.metadata
    if decision.choice is None:
        say(f"{decision.verdict} {plan.name}: {explain.summary(decision)}")
        return []
    if not all(decision.choice.nodes) and not decision.choice.candidate.provision:
        raise BadInput("published GPUPools name no nodes; pass --cluster FILE from an admin's `kubectl gpujob capture`")
    job = plan.job
    if metadata.uid is None:
        say(f"{plan.name}: uid {UID} stands for the one that the API server gives; the operator creates these, not you")
        job = job.model_copy(update={"metadata": metadata.model_copy(update={"uid": UID})})
    children = render(job, decision.choice, FIRST_ATTEMPT, runtime_classes, decision.digest, runner=load_runner())
    return list(children.in_order)
