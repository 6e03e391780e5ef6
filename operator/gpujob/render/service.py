"""The headless Service that gives the pods of a gang names which resolve before anything is Ready."""

from __future__ import annotations

from gpujob.render.attempt import PORT, Attempt, Manifest, Numbered


def service(attempt: Attempt) -> Manifest | None:
    """The Service of a gang; None for a single pod, which meets nobody."""
    return rendezvous(attempt, attempt.port) if attempt.gang else None


def rendezvous(attempt: Numbered, port: int = PORT) -> Manifest:
    """The Service of an attempt whatever was chosen for it: to make it again when somebody deleted it.

    Names are all that it gives; the port is for people to read.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": attempt.metadata(),
        "spec": {
            "clusterIP": "None",
            # Workers look up rank 0 before it is Ready, and it gets Ready only once they have joined.
            "publishNotReadyAddresses": True,
            "selector": attempt.selector,
            "ports": [{"name": "rendezvous", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
