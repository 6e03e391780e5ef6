"""Device faults under an attempt: what its nodes report since it began, what the kubelet reports of its own devices, and what drivers
report to its pods.

A fault that was there before the attempt is none of these: placement took the node as its last choice and said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpujob.fleet.labels.faults import Fault
from gpujob.status.attempts.progress import FaultSeen
from gpujob.status.attempts.waits import read_time
from gpujob.status.records.objects import ChildRecord, PodState


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """A fault of a device that an attempt uses."""

    node: str
    message: str


def device_faults(
    child: ChildRecord,
    pods: Sequence[PodState],
    reported: Mapping[str, Iterable[Fault]],
    seen: Iterable[FaultSeen] = (),
) -> Iterator[DeviceFault]:
    """The faults of an attempt's devices; `reported` are those of its nodes, by name, `seen` those that drivers report to pods."""
    vendor, began = child.hint.placement.get("vendor"), read_time(child.created)
    for pod in pods:
        for device in pod.unhealthy:
            yield DeviceFault(pod.node, f"node {pod.node}: device {device} of pod {pod.name} is Unhealthy")
    nodes = {pod.name: pod.node for pod in pods}
    for fault in seen:
        if node := nodes.get(fault.pod):
            said = f"the driver reports {fault.what} of {fault.device} at {fault.at}"
            yield DeviceFault(node, f"node {node}: {said} to pod {fault.pod}")
    for node in sorted({pod.node for pod in pods if pod.node}):
        for found in reported.get(node, ()):
            since = read_time(found.since)
            if found.vendor not in (None, vendor) or (since and began and since < began):
                continue
            when = f" since {found.since}" if since else ""
            yield DeviceFault(node, f"node {node} reports a device fault{when}: {found.what}")
