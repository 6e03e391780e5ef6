"""render(job, choice, attempt, …): the objects that an attempt of a placed job consists of; the room's entry.

Pure and deterministic: equal inputs give equal objects, so that the same POST can be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from gpujob.api.gpujob import GPUJob
from gpujob.placement.decision import Choice
from gpujob.render.attempt import Attempt
from gpujob.render.runner import Runner
from gpujob.render.service import service
from gpujob.render.workload import workload


@dataclass(frozen=True, slots=True)
class Children:
    """The objects of an attempt, ready for POST; the Service first, so that names resolve when pods start."""

    job: dict[str, Any]
    service: dict[str, Any] | None = None
    runner: str = ""
    """The ConfigMap that the pods mount, which must be there first; empty for none."""


def render(
    job: GPUJob,
    choice: Choice,
    attempt: int,
    runtime_classes: Set[str] = frozenset(),
    digest: str = "",
    hint: Mapping[str, Any] | None = None,
    runner: Runner | None = None,
) -> Children:
    """The children of attempt number `attempt` (from 1).

    `runtime_classes` are the names that exist in the cluster, `digest` is the decision's, `hint` the status.placement
    that the child is to carry (None: what the choice tells of it), `runner` what the pod gets of ours (None: nothing, for
    an image that cannot run it). Without a namespace the children go to `default`; a
    job that no API server has seen needs a stand-in for its uid.
    """
    one = Attempt(job, attempt, choice, digest, hint, runner)
    return Children(workload(one, runtime_classes), service(one), one.runner.name if one.runner and one.reports else "")
