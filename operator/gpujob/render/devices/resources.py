"""The requests of a container, equal to its limits; only the program's container names both, as policies on Jobs require."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Resources
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices.resource_claim import CLAIM
from gpujob.values.quantity import format_millicores, quantity_of_bytes


def limited(needs: Resources, devices: Mapping[str, int] = MappingProxyType({})) -> Manifest:
    """The container's resources; `devices` go by their real resource names."""
    amounts = {"cpu": format_millicores(needs.millicores), "memory": quantity_of_bytes(needs.memory)}
    if needs.storage:
        amounts["ephemeral-storage"] = quantity_of_bytes(needs.storage)
    amounts |= {resource: str(count) for resource, count in devices.items()}
    return {"requests": amounts, "limits": dict(amounts)}


def limits_alone(resources: Manifest) -> Manifest:
    """The resources of a container that ends before the program starts: Kubernetes takes the limits for its requests."""
    return {key: value for key, value in resources.items() if key != "requests"}


def with_devices(attempt: Attempt) -> Manifest:
    """The resources of a container that gets the pod's devices, by a resource's name or by claim, beside its share of the node.

    Containers of one pod that run one after the other get the same devices: the kubelet gives those of an init container to the
    next one that requests them, and a claim belongs to the pod.
    """
    devices = dict(attempt.fabric.resources) if attempt.fabric else {}
    if attempt.pool.request is None and attempt.pool.resource != HOST_DEVICES:
        devices = {attempt.pool.resource: attempt.gpus, **devices}
    resources = limited(attempt.choice.needs, devices)
    return {**resources, "claims": [{"name": CLAIM}]} if attempt.pool.request else resources
