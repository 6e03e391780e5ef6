"""The headless Service that gives the pods of a gang names which resolve before they are Ready."""

from __future__ import annotations

from gpujob.render.attempt import PORT, Attempt, Manifest, Numbered


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
            # Workers look up rank 0 before it is Ready, and it gets Ready only once they have joined.
            "publishNotReadyAddresses": True,
            "selector": attempt.selector,
            "ports": [{"name": "rendezvous", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
