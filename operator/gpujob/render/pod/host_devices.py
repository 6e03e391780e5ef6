"""The host's device files for a pod without a device plugin: only from a GPUPool (deviceMode HostDevices), never from a job.

The device cgroup closes device files to containers without a plugin, so such a container is privileged and sees all of the node:
it gets whole nodes, and the scheduler keeps two of them apart.
"""

from __future__ import annotations

from typing import Final

from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.pod.folders import volume_name
from gpujob.values.vocabulary import Label

AMD_FILES: Final = (("/dev/kfd", "CharDevice"), ("/dev/dri", "Directory"))
NVIDIA_FILES: Final = (("/dev/nvidiactl", "CharDevice"), ("/dev/nvidia-uvm", "CharDevice"))

ALL_DEVICES: Final[Manifest] = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
"""Requests the driver's libraries, which are not device files, from NVIDIA's container runtime if the node has it."""


def device_volumes(attempt: Attempt) -> list[Manifest]:
    """The host's device files as volumes of the pod."""
    return [{"name": name, "hostPath": {"path": path, "type": kind}} for name, (path, kind) in _named(attempt).items()]


def device_mounts(attempt: Attempt) -> list[Manifest]:
    """The mounts of a container that gets the devices, at their paths on the host."""
    return [{"name": name, "mountPath": path} for name, (path, _) in _named(attempt).items()]


def labels(attempt: Attempt) -> dict[str, str]:
    """The label by which such pods are kept apart."""
    return {Label.HOST_DEVICES: "true"} if attempt.pool.host_devices else {}


def apart(attempt: Attempt) -> list[Manifest]:
    """The rule that a node has one such pod, of any job and namespace."""
    if not attempt.pool.host_devices:
        return []
    selector = {"matchLabels": {Label.HOST_DEVICES: "true"}}
    return [{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaceSelector": {}}]


def _named(attempt: Attempt) -> dict[str, tuple[str, str]]:
    if not attempt.pool.host_devices:
        return {}
    of_each = [(f"/dev/nvidia{index}", "CharDevice") for index in range(attempt.gpus)]
    files = AMD_FILES if attempt.amd else (*NVIDIA_FILES, *of_each)
    return {volume_name(path.rpartition("/")[2], attempt.spec): (path, kind) for path, kind in files}
