"""The entry of the room: a job and its choice become the objects to create. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpujob.api.gpujob import GPUJob
from gpujob.placement.decision import Choice
from gpujob.placement.demand import demand_of
from gpujob.render import ownership, torchrun
from gpujob.render.names import child_name
from gpujob.render.workload import indexed_job


@dataclass(frozen=True, slots=True)
class Children:
    """The objects of one attempt; the Service comes first, so that names resolve when the pods start."""

    job: dict[str, Any]
    service: dict[str, Any] | None = None


def render(
    job: GPUJob,
    choice: Choice,
    attempt: int,
    runtime_classes: frozenset[str] = frozenset(),
    digest: str = "",
    hint: Mapping[str, Any] | None = None,
) -> Children:
    """The children of an attempt; metadata.uid and metadata.namespace must be set."""
    demand = demand_of(job)
    name = child_name(job.metadata.name, str(job.metadata.uid), attempt)
    workload = indexed_job(job, demand, choice, name, attempt, runtime_classes, digest, hint or {})
    return Children(workload, _service(job, name, attempt) if demand.nodes > 1 else None)


def _service(job: GPUJob, name: str, attempt: int) -> dict[str, Any]:
    """The headless Service of a gang; addresses are published before the pods are ready, since ranks wait for each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": ownership.metadata(job, name, attempt),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": ownership.selector(job, attempt),
            "ports": [{"name": "rendezvous", "port": torchrun.PORT, "protocol": "TCP"}],
        },
    }
