"""A pod's ResourceClaim: the template for one claim a pod, if devices have no resource name.

Kubernetes creates, allocates and deletes the claim with the pod; the template is deleted with the job. Its form differs between
the versions of resource.k8s.io (v1beta1 has no `exactly`), so it is written in the version of the slices.
"""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Attempt, Manifest

CLAIM: Final = "gpus"
"""The name of the claim in the pod, and of its one request."""


def claim_template(attempt: Attempt) -> Manifest | None:
    """The ResourceClaimTemplate of an attempt; None if pods use a resource's name."""
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
            # Claims have their pods' labels, so that the same selector finds them.
            "metadata": {"labels": attempt.labels},
            "spec": {"devices": {"requests": [{"name": CLAIM, **one}]}},
        },
    }


def pod_claims(attempt: Attempt) -> list[Manifest]:
    """The pod's claims, each made of the template."""
    return [{"name": CLAIM, "resourceClaimTemplateName": attempt.name}] if attempt.pool.request else []


def summary_of(attempt: Attempt) -> str:
    """The annotation about its pods' claims: the pool's devices and their number."""
    return f"{attempt.pool.resource}={attempt.gpus}" if attempt.pool.request else ""
