"""The resources of each node that pods use, and those reserved for pods that are not bound yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gpujob.fleet.kubernetes.objects import Pod, Resources


@dataclass(frozen=True, slots=True)
class PodReservation:
    """A reservation for one future pod: its node and its resources. It counts until a bound pod of the same attempt exists."""

    job_uid: str
    node: str
    """The node; empty for a pod that waits for any node of `pool`."""
    resource: str
    gpus: int
    needs: Resources
    attempt: int = 0
    namespace: str = ""
    """The namespace of the pod; empty: not compared."""
    pool: str = ""
    index: int = 0
    """The index of the pod in its gang, for pods that wait for any node."""
    others: tuple[tuple[str, int], ...] = ()
    """Devices of the pool's fabric."""
    priority_class: str | None = None
    """The PriorityClass that the pod names."""
    objects: tuple[tuple[str, int], ...] = ()
    """Objects of its gang that do not exist yet, by their name in quotas; those of a gang are at its first pod."""
    not_on: tuple[str, ...] = ()
    """The nodes of the pool that a pod which waits for any node leaves out."""
    volume_claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims that the pod will mount."""
    job: str = ""
    """The name of its GPUJob."""
    new_claims: tuple[tuple[str, int], ...] = ()
    """The volume claims that the pod will make: StorageClass (empty: the default) and bytes."""

    @property
    def key(self) -> tuple[str, int, str, int]:
        """The key of this reservation, equal whenever it is repeated."""
        return (self.job_uid, self.attempt, self.node, self.index)

    def kept_by(self, pod: Pod, claimed: Mapping[str, int]) -> bool:
        """Whether a bound pod uses up this reservation; labels are untrusted, so namespace and devices must match too.

        `claimed` are the devices that ResourceClaims allocate to pods, by uid.
        """
        at_home = self.namespace in ("", pod.namespace)
        return at_home and max(pod.devices.get(self.resource, 0), claimed.get(pod.uid, 0)) >= self.gpus


def reservations_of(
    job_uid: str,
    attempt: int,
    namespace: str,
    nodes: Sequence[str],
    pool: str,
    resource: str,
    gpus: int,
    needs: Resources,
    others: Iterable[tuple[str, int]] = (),
    priority_class: str | None = None,
    objects: Iterable[tuple[str, int]] = (),
    not_on: Iterable[str] = (),
    volume_claims: tuple[str, ...] = (),
    job: str = "",
    new_claims: tuple[tuple[str, int], ...] = (),
) -> tuple[PodReservation, ...]:
    """A reservation for each pod of a gang; nodes without names are any nodes of the pool; `objects` do not exist yet."""
    once, left_out = tuple(objects), tuple(not_on)
    return tuple(
        PodReservation(
            job_uid,
            node,
            resource,
            gpus,
            needs,
            attempt,
            namespace,
            pool,
            0 if node else index,
            tuple(others),
            priority_class,
            () if index else once,
            () if node else left_out,
            volume_claims,
            job,
            new_claims,
        )
        for index, node in enumerate(nodes)
    )


class Usage:
    """What pods and reservations use of each node; devices in ResourceClaims (by the pod's uid) are included."""

    def __init__(
        self,
        pods: Iterable[Pod],
        reservations: Iterable[PodReservation],
        claimed: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.resources: dict[str, Resources] = defaultdict(Resources)
        self.devices: dict[tuple[str, str], int] = defaultdict(int)
        self.uids: dict[str, set[str]] = defaultdict(set)
        """Pods that request devices by the name of a resource, by node."""
        self.plain: dict[str, Resources] = defaultdict(Resources)
        self.awaited: dict[str, list[PodReservation]] = defaultdict(list)
        """The reservations of pods that still wait for any node of a pool, by pool."""
        arrived: dict[tuple[str, int, str], list[Pod]] = defaultdict(list)
        anywhere: dict[tuple[str, int], list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.node and not pod.terminal:
                self._take(pod.node, pod.devices, pod.needs, pod.others, by_claim=pod.uid in claimed)
                if pod.devices:
                    self.uids[pod.node].add(pod.uid)
                if pod.job_uid:
                    arrived[pod.job_uid, pod.attempt, pod.node].append(pod)
                    anywhere[pod.job_uid, pod.attempt].append(pod)
        for reservation in reservations:
            if not reservation.node:
                came = sum(
                    reservation.kept_by(pod, claimed)
                    for pod in anywhere.get((reservation.job_uid, reservation.attempt), ())
                )
                if reservation.index >= came:
                    self.awaited[reservation.pool].append(reservation)
                continue
            pods_there = arrived.get((reservation.job_uid, reservation.attempt, reservation.node), ())
            if not any(reservation.kept_by(pod, claimed) for pod in pods_there):
                devices = {reservation.resource: reservation.gpus}
                self._take(reservation.node, devices, reservation.needs, dict(reservation.others))

    def _take(
        self,
        node: str,
        devices: Mapping[str, int],
        needs: Resources,
        others: Mapping[str, int],
        *,
        by_claim: bool = False,
    ) -> None:
        self.resources[node] += needs
        if not by_claim and not any(devices.values()):
            self.plain[node] += needs
        for resource, count in (*devices.items(), *others.items()):
            self.devices[node, resource] += count
