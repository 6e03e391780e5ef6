"""The index's reservations by node and by job, and the pods of jobs that use them up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from operator import attrgetter

from gpujob.fleet.assembly.mounts import MountIndex
from gpujob.fleet.assembly.usage import PodReservation, Usage
from gpujob.fleet.kubernetes.objects import HOST_DEVICES, Pod
from gpujob.fleet.kubernetes.priority_classes import Priorities, class_of
from gpujob.fleet.policy.quota_scopes import PodTraits
from gpujob.fleet.policy.resource_quota import Quotas, counted_as, quotas_after, taken_by_pods
from gpujob.fleet.pools.pool import Pool

Key = tuple[str, str]
ReservationKey = tuple[str, int, str, int]


class PodReservations:
    """The reservations of all sources, each once, and the jobs with pods that wait for any node of a pool."""

    def __init__(self, claimed: Mapping[str, int]) -> None:
        self._claimed = claimed
        self._by_source: dict[Hashable, dict[ReservationKey, PodReservation]] = {}
        self._by: dict[ReservationKey, dict[Hashable, PodReservation]] = defaultdict(dict)
        self._on: dict[str, dict[ReservationKey, PodReservation]] = defaultdict(dict)
        self._anywhere: dict[str, dict[ReservationKey, PodReservation]] = defaultdict(dict)
        self._pods: dict[str, dict[Key, Pod]] = defaultdict(dict)
        self._awaited: dict[str, dict[str, list[PodReservation]]] = {}
        self.mounting = MountIndex()
        self.claiming: dict[str, dict[ReservationKey, PodReservation]] = defaultdict(dict)
        """The reservations of pods with PersistentVolumeClaims, by job."""
        self.claims_version = 0
        """A number that changes with these reservations and the pods of their jobs."""
        self.moved: set[str] = set()
        """Jobs whose waiting pods must be counted again."""

    def put(self, source: Hashable, reservations: Iterable[PodReservation]) -> set[str]:
        """Replaces the reservations of one source; returns the nodes that it concerns."""
        before, after = self._by_source.pop(source, {}), {reservation.key: reservation for reservation in reservations}
        if after:
            self._by_source[source] = after
        touched = set()
        for key in [key for key in {**before, **after} if before.get(key) != after.get(key)]:
            touched.add(key[2])
            self._replace(key, source, after.get(key))
        return touched - {""}

    def _replace(self, key: ReservationKey, source: Hashable, reservation: PodReservation | None) -> None:
        sources = self._by[key]
        before = sources[max(sources)] if sources else None  # type: ignore[type-var]
        if reservation is None:
            del sources[source]
        else:
            sources[source] = reservation
        now = sources[max(sources)] if sources else None  # type: ignore[type-var]
        self.mounting.put(key, before, now)
        self._claim(key, now)
        job, _, node, _ = key
        store, place = (self._on, node) if node else (self._anywhere, job)
        if now is not None:
            store[place][key] = now
        else:
            del store[place][key], self._by[key]
            if not store[place]:
                del store[place]
        if not node:
            self.moved.add(job)

    def _claim(self, key: ReservationKey, reservation: PodReservation | None) -> None:
        """Follows a reservation, None where it ends, if its pod has PersistentVolumeClaims."""
        job = key[0]
        mine = self.claiming.get(job, {})
        if reservation is not None and (reservation.volume_claims or reservation.new_claims):
            self.claiming[job][key] = reservation
        elif mine.pop(key, None) is None:
            return
        elif not mine:
            del self.claiming[job]
        self.claims_version += 1

    def take_pod(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        """Applies a changed pod."""
        self.mounting.put(key, before, after)
        self.claims_version += any(pod is not None and pod.job_uid in self.claiming for pod in (before, after))
        if before is not None and before.job_uid:
            self._pods[before.job_uid].pop(key, None)
            self._move(before.job_uid)
        if after is not None and after.job_uid:
            self._pods[after.job_uid][key] = after
            self._move(after.job_uid)

    def take_claims(self) -> None:
        """Claims changed: the pods of every job that wait for any node are counted again."""
        self.moved |= self._anywhere.keys()

    def _move(self, job: str) -> None:
        if job in self._anywhere:
            self.moved.add(job)
        if not self._pods[job]:
            del self._pods[job]

    def all(self) -> Iterator[PodReservation]:
        """Every reservation, each once."""
        return (sources[max(sources)] for sources in self._by.values())  # type: ignore[type-var]

    def on(self, node: str) -> Collection[PodReservation]:
        """The reservations on one node."""
        return self._on[node].values() if node in self._on else ()

    def pods_of(self, job: str) -> Collection[Pod]:
        """The pods of a job, in any state."""
        return self._pods[job].values() if job in self._pods else ()

    def awaited(self) -> dict[str, list[PodReservation]]:
        """The reservations of pods that wait for any node of a pool, by pool, job by job."""
        for job in self.moved:
            if job in self._anywhere:
                self._awaited[job] = Usage(self.pods_of(job), self._anywhere[job].values(), self._claimed).awaited
            else:
                self._awaited.pop(job, None)
        self.moved = set()
        total: dict[str, list[PodReservation]] = defaultdict(list)
        for job in sorted(self._awaited):
            for pool, reservations in self._awaited[job].items():
                total[pool] += sorted(reservations, key=attrgetter("key"))
        return total


def quotas_reserved(
    quotas: Quotas,
    reservations: Iterable[PodReservation],
    pods: Iterable[Pod],
    priorities: Priorities,
    pools: Iterable[Pool],
    default_class: str | None = None,
) -> Quotas:
    """The quotas after each reservation, except those whose pod, bound or not, a quota counts already. Of the pools the names of their
    devices in quotas are read; claims without a StorageClass count for the default one.
    """
    if not quotas:
        return quotas
    names: Mapping[str, Iterable[str]] | None = None
    # Labels are untrusted: a pod in the namespace of another quota does not use up a reservation.
    there = Counter((pod.namespace, pod.job_uid, pod.attempt) for pod in pods)
    for reservation in reservations:
        if there[reservation.namespace, reservation.job_uid, reservation.attempt] > 0:
            there[reservation.namespace, reservation.job_uid, reservation.attempt] -= 1
        else:
            if names is None:
                names = {pool.family: pool.all_counted_as for pool in pools}
            counted = names.get(reservation.pool, (counted_as(reservation.resource),))
            others = dict(reservation.others)
            claims = [(name or default_class or "", size) for name, size in reservation.new_claims]
            needs = taken_by_pods(counted, reservation.gpus, reservation.needs, 1, tuple(claims), others)
            needs |= dict(reservation.objects)
            traits = PodTraits(class_of(reservation.priority_class, priorities), reservation.resource == HOST_DEVICES)
            quotas = quotas_after(quotas, reservation.namespace, needs, traits)
    return quotas
