"""render(job, choice, attempt, …): the objects of an attempt of a placed job; the room's entry point.

Pure and deterministic: equal inputs give equal objects, so that the same POST can be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.catalog.images.mirrors import Mirror
from gpujob.placement.scoring.candidate import Choice
from gpujob.render.attempt import PORT, Attempt, Manifest, Numbered
from gpujob.render.devices.resource_claim import claim_template
from gpujob.render.runner import Runner
from gpujob.render.workload import workload


@dataclass(frozen=True, slots=True)
class Children:
    """The objects of an attempt, ready for POST: the pods' dependencies first, so that nothing is missing when they start."""

    job: dict[str, Any]
    service: dict[str, Any] | None = None
    runner: str = ""
    """The ConfigMap that the pods mount, which must exist first; empty for none."""
    claims: dict[str, Any] | None = None
    """The template of its pods' ResourceClaims."""

    @property
    def in_order(self) -> tuple[dict[str, Any], ...]:
        """All of them in the order of their creation; the Job comes last."""
        return tuple(child for child in (self.service, self.claims, self.job) if child is not None)


def render(
    job: GPUJob,
    choice: Choice,
    attempt: int,
    runtime_classes: Container[str] = frozenset(),
    digest: str = "",
    hint: Mapping[str, Any] | None = None,
    runner: Runner | None = None,
    save_seconds: int | None = None,
    mirrors: tuple[Mirror, ...] = (),
    spec_digest: str = "",
) -> Children:
    """The children of attempt number `attempt` (from 1).

    `runtime_classes` are the names that exist in the cluster, `digest` is the decision's, `hint` the status.placement for the
    child's annotation (None: derived from the choice), `runner` the operator's files (None: none, for an image that cannot run
    them), `save_seconds` how long the program takes to save a checkpoint (None: unknown), `mirrors` where images of volumes are
    pulled from, `spec_digest` that of what of the job's spec cannot change while the child runs. Without a namespace the children
    go to `default`; a job outside an API server needs a stand-in for its uid.
    """
    one = Attempt(job, attempt, choice, digest, hint, runner, save_seconds, mirrors, spec_digest)
    mounted = one.runner.name if one.runner and one.reports else ""
    return Children(workload(one, runtime_classes), service(one), mounted, claim_template(one))


def service(attempt: Attempt) -> Manifest | None:
    """The Service of a gang; None for a single pod."""
    return rendezvous(attempt, attempt.port) if attempt.gang else None


def rendezvous(attempt: Numbered, port: int = PORT) -> Manifest:
    """The Service of an attempt whatever its choice, to create it again after a deletion.

    It only provides names; the port is informative.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": attempt.metadata(),
        "spec": {
            "clusterIP": "None",
            # Workers look up rank 0 before it is Ready, and it becomes Ready only once they have joined.
            "publishNotReadyAddresses": True,
            "selector": attempt.selector,
            "ports": [{"name": "rendezvous", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
