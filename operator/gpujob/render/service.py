"""The headless Service that gives the pods of a gang names which resolve before anything is Ready."""

from __future__ import annotations

from gpujob.render.attempt import Attempt, Manifest, Numbered
from gpujob.render.torchrun import PORT


def service(attempt: Attempt) -> Manifest | None:
    """The Service of a gang; None for a single pod, which meets nobody."""
    return rendezvous(attempt) if attempt.gang else None


def rendezvous(attempt: Numbered) -> Manifest:
    """The Service of an attempt whatever was chosen for it: to make it again when somebody deleted it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": attempt.metadata(),
        "spec": {
            "clusterIP": "None",
            # Workers look up rank 0 before it is Ready, and it gets Ready only once they have joined.
            "publishNotReadyAddresses": True,
            "selector": attempt.selector,
            "ports": [{"name": "rendezvous", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    }
