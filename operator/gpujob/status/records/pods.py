"""The controller of a pod, and the port of its reporter, from the pod's own record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.fleet.kubernetes.host_ports import report_port
from gpujob.values.untrusted import table, tables
from gpujob.values.vocabulary import TELEMETRY_PORT

TRAIN: Final = "train"
"""The name of the container that decides how a job ends."""


def controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the controlling owner, empty if there is none."""
    return next((owner for owner in tables(metadata, "ownerReferences") if owner.get("controller") is True), {})


def reporter_port(raw: Mapping[str, Any]) -> int | None:
    """The port that the container declares; in the host network the attempt's own, whatever the pod says.

    There the pod's author could otherwise send the operator to services of the node itself.
    """
    spec = table(raw, "spec")
    if spec.get("hostNetwork") is True:
        return report_port(str(controller(table(raw, "metadata")).get("name", "")))
    train = next((c for c in tables(spec, "containers") if c.get("name") == TRAIN), {})
    ports = (p.get("containerPort") for p in tables(train, "ports") if p.get("name") == TELEMETRY_PORT)
    return next((port for port in ports if isinstance(port, int) and 0 < port < 65536), None)
