"""What pods take of each node, and what was promised to pods that are not yet bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpujob.fleet.objects import Pod, Resources


@dataclass(frozen=True, slots=True)
class Promise:
    """One pod that will come: where to, and what it takes. Counted until a bound pod of the same attempt is there."""

    job_uid: str
    node: str
    resource: str
    gpus: int
    needs: Resources
    attempt: int = 0
    namespace: str = ""
    """Where the pod will be; empty: not compared."""

    def kept_by(self, pod: Pod) -> bool:
        """Whether a bound pod is the promised one: labels are anybody's, so namespace and devices must fit as well."""
        at_home = self.namespace in ("", pod.namespace)
        return at_home and pod.devices.get(self.resource, 0) >= self.gpus


class Usage:
    """What pods and promises take of each node."""

    def __init__(self, pods: Iterable[Pod], promises: Iterable[Promise]) -> None:
        self.resources: dict[str, Resources] = defaultdict(Resources)
        self.devices: dict[tuple[str, str], int] = defaultdict(int)
        self.others: dict[tuple[str, str], Resources] = defaultdict(Resources)
        self.plain: dict[str, Resources] = defaultdict(Resources)
        arrived: dict[tuple[str, int, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.node and not pod.terminal:
                self._take(pod.node, pod.devices, pod.needs)
                if pod.job_uid:
                    arrived[pod.job_uid, pod.attempt, pod.node].append(pod)
        for promise in promises:
            pods_there = arrived.get((promise.job_uid, promise.attempt, promise.node), ())
            if not any(promise.kept_by(pod) for pod in pods_there):
                self._take(promise.node, {promise.resource: promise.gpus}, promise.needs)

    def _take(self, node: str, devices: Mapping[str, int], needs: Resources) -> None:
        self.resources[node] += needs
        if not any(devices.values()):
            self.plain[node] += needs
        for resource, count in devices.items():
            self.devices[node, resource] += count
