"""The requests of a container that gets the pod's devices: the training container, and those that test the devices first.

Containers of one pod that run one after the other get the same devices: the kubelet gives those of an init container to the next
one that requests them, and a claim belongs to the pod.
"""

from __future__ import annotations

from gpujob.fleet.kubernetes.objects import HOST_DEVICES
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices.resource_claim import CLAIM
from gpujob.render.devices.resources import limited


def with_devices(attempt: Attempt) -> Manifest:
    """The container's resources: the pod's share of the node and its devices, by a resource's name or by claim."""
    devices = dict(attempt.fabric.resources) if attempt.fabric else {}
    if attempt.pool.request is None and attempt.pool.resource != HOST_DEVICES:
        devices = {attempt.pool.resource: attempt.gpus, **devices}
    resources = limited(attempt.choice.needs, devices)
    return {**resources, "claims": [{"name": CLAIM}]} if attempt.pool.request else resources
