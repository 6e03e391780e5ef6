"""A pod's ResourceClaim: the template that gives each pod its own, where devices have no resource name to ask for.

The claim is made, allocated and taken back by Kubernetes with the pod; the template goes with the job. Its shape differs
between the versions of resource.k8s.io (v1beta1 has no `exactly`), so it is written in the one that the slices came in.
"""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Attempt, Manifest

CLAIM: Final = "gpus"
"""The name of the claim in the pod, and of its one request."""


def claim_template(attempt: Attempt) -> Manifest | None:
    """The ResourceClaimTemplate of an attempt; None where pods ask by a resource's name."""
    request = attempt.pool.request
    if request is None:
        return None
    asked: Manifest = {
        "deviceClassName": request.device_class,
        "allocationMode": "ExactCount",
        "count": attempt.gpus,
        "selectors": [{"cel": {"expression": selector}} for selector in request.selectors],
    }
    asked = {key: value for key, value in asked.items() if value != []}
    one = asked if request.version.endswith("/v1beta1") else {"exactly": asked}
    return {
        "apiVersion": request.version,
        "kind": "ResourceClaimTemplate",
        "metadata": attempt.metadata(),
        "spec": {
            # Claims carry what their pods carry, so that they are found by the same labels.
            "metadata": {"labels": attempt.labels},
            "spec": {"devices": {"requests": [{"name": CLAIM, **one}]}},
        },
    }


def pod_claims(attempt: Attempt) -> list[Manifest]:
    """The pod's claims, each made of the template."""
    return [{"name": CLAIM, "resourceClaimTemplateName": attempt.name}] if attempt.pool.request else []


def told(attempt: Attempt) -> str:
    """What a child Job says of its pods' claims, for whoever counts what it will take: the pool's devices and how many."""
    return f"{attempt.pool.resource}={attempt.gpus}" if attempt.pool.request else ""
