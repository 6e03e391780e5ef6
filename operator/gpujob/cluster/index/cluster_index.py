"""The cached objects by job, and the fleet that placement decides on: what changed, and a snapshot on demand."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import structlog

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.extending import Extending
from gpujob.catalog.images.from_spec import sentences
from gpujob.catalog.images.runtime import Runtime
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.object_key import Key
from gpujob.cluster.cache.watched_kinds import PoolRecord
from gpujob.cluster.index.node_reader import NodeReader, NodesWithoutDevices
from gpujob.cluster.index.owned_objects import OwnedObjects, drain
from gpujob.fleet.assembly.node_state import LostRoom
from gpujob.fleet.assembly.reservations import quotas_reserved
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.assembly.volumes_taken import volumes_taken
from gpujob.fleet.dra.device_taints import TaintRule
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.dra.resource_slices import DeviceClass, ResourceClaim, Slice
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.priority_classes import Priorities, PriorityClass
from gpujob.fleet.kubernetes.runtime_classes import RuntimeClass
from gpujob.fleet.policy.limit_range import Bounds, LimitRanges, limits_of
from gpujob.fleet.policy.resource_quota import Quota, Quotas, quotas_of
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.fleet.storage.claim_volumes import Volumes
from gpujob.fleet.storage.volume_records import PersistentVolume, StorageClass, VolumeClaim
from gpujob.status.attempts.ownership import reservations
from gpujob.status.records.objects import ChildRecord, JobRecord, PodRecord

log = structlog.get_logger(__name__)

FLEET_KINDS = (
    "nodes", "pods", "jobs", "gpupools", "gpuruntimes", "runtimeclasses", "resourcequotas", "limitranges",
    "gpujobprofiles", "namespaces", "resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules",
    "persistentvolumeclaims", "persistentvolumes", "storageclasses", "priorityclasses",
)  # fmt: skip
"""Kinds that a decision depends on."""

OF_VOLUMES = frozenset({"nodes", "persistentvolumeclaims", "persistentvolumes", "storageclasses"})
"""The kinds that decide which nodes can mount a claim."""

IN_THE_FLEET = frozenset({"pods", "jobs", "resourceclaims"})
"""Those of them that a decision reads only through the fleet."""


class ClusterIndex(OwnedObjects):
    """An index over the cache, updated by its changes; call `take` before reading."""

    def __init__(
        self,
        cache: ObjectCache,
        shipped: Catalog,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(cache)
        self.under_way: Callable[[], Iterable[PodReservation]] = tuple
        """The reservations of placements in flight."""
        self._behind: dict[str, set[Key]] = defaultdict(set)
        """What of the cache the index of the fleet does not show yet, by kind."""
        self._unread_kinds: frozenset[str] = frozenset()
        self._unread_runtimes: frozenset[str] = frozenset()
        """What the log already reports about GPURuntimes."""
        self._inventory = Inventory()
        self._index = FleetIndex(shipped, self._inventory.of_pod)
        self._reader = NodeReader(self._inventory, clock, wall)
        self._newcomers = NodesWithoutDevices()
        self._unread: set[str] = set()
        self._under_way: set[str] = set()
        self._volumes = self._all_volumes()
        self._left: tuple[Volumes, int, Volumes] | None = None
        """All volumes, the version of the claims of placed jobs, and the volumes that these leave."""
        self._quotas_held: Quotas | None = None
        """The quotas by namespace; None until they are read again."""
        self._shipped = self.catalog = shipped

    def take_in_pieces(self, changes: Mapping[str, Iterable[Key]], touched: set[str]) -> Iterator[None]:
        """`take` one object at a time; the uids of the affected jobs go into `touched`."""
        yield from self._follow_in_pieces()
        yield from super().take_in_pieces(changes, touched)

    def _take_job(self, key: Key, job: JobRecord | None, touched: set[str]) -> None:
        before = self._uids.get(key, "")
        if before and (job is None or job.uid != before):
            self._unread |= self._reader.record(before, None)
        if job is not None:
            self._unread |= self._reader.record(job.uid, job)
        super()._take_job(key, job, touched)

    def _take_pod(self, key: Key, pod: PodRecord | None, touched: set[str]) -> None:
        super()._take_pod(key, pod, touched)
        if pod is not None and (use := self.use_of(key, pod)) is not pod.use:
            # The fleet follows pods before their jobs are known.
            self._index.put_pod(key, use)

    def newcomers(self, now: datetime, seconds: float) -> Iterator[tuple[Node, Arriving]]:
        """New nodes that offer no devices yet, by a resource's name or to ResourceClaims."""
        self._follow()
        for node, arriving in self._newcomers.nodes(now, seconds):
            if not any(group.healthy for group in self._reader.groups(node, self.catalog)):
                yield node, arriving

    def fleet(self, reserved: Iterable[PodReservation] | None = None) -> Fleet:
        """The current fleet, after the reservations of children and of placements in flight; None: those of `under_way`."""
        drain(self.read_nodes())
        self._reserve(self.under_way() if reserved is None else reserved)
        fleet = self._index.fleet(self._runtime_classes())
        namespaces = cast("Mapping[Key, Namespace]", self.cache.objects("namespaces"))
        priorities = cast("Mapping[Key, PriorityClass]", self.cache.objects("priorityclasses"))
        known = {name: held for (_, name), held in priorities.items()}
        return replace(
            fleet,
            quotas=self._quotas(known, fleet),
            limits=self._limits(),
            namespaces={name: held for (_, name), held in namespaces.items()},
            volumes=self._volumes_left(),
            priorities=known,
        )

    def fleet_in_pieces(self) -> Iterator[None]:
        """Does most of what `fleet` has to do, a node or a pool at a time."""
        yield from self.read_nodes()
        yield from self._index.in_pieces(self._runtime_classes())

    def _runtime_classes(self) -> dict[str, RuntimeClass]:
        if "runtimeclasses" in self.cache.unread:
            # The objects that a GPUPool names count as existing: the scheduler and the kubelet check them.
            return {admin.runtime_class: RuntimeClass() for admin in self.admin_pools() if admin.runtime_class}
        classes = cast("Mapping[Key, RuntimeClass]", self.cache.objects("runtimeclasses"))
        return {name: held for (_, name), held in classes.items()}

    def lost_rooms(self, child: ChildRecord) -> dict[str, LostRoom]:
        """The nodes of a child whose pods are not all bound that have no room for them, and why."""
        nodes, pods = self.cache.objects("nodes"), {pod.node: pod.tolerated for pod in self.pods(child)}
        rooms = (room for room in child.reservations() if room.node and room.node not in pods)
        at = ((room, cast("Node | None", nodes.get(("", room.node)))) for room in rooms)
        lost = {room.node: self._index.lost_room(room, node, pods.get("", ())) for room, node in at}
        return {name: why for name, why in lost.items() if why is not None}

    def read_nodes(self) -> Iterator[None]:
        """Reads the nodes that changed, one by one, so that the caller can run other tasks between them; `fleet` reads the rest."""
        self._follow()
        nodes = cast("Mapping[Key, Node]", self.cache.objects("nodes"))
        for name in sorted(self._unread):
            if name in self._unread and (node := nodes.get(("", name))) is not None:
                with self._alone("nodes", ("", name)) as went_well:
                    self._index.put_node(*self._reader.read(node, self.catalog))
                if not went_well:
                    with contextlib.suppress(Exception):
                        self._index.drop_node(name)
            self._unread.discard(name)
            yield
        if not self._unread:
            self._unread.clear()  # An empty set keeps the table of its largest size, which each `sorted` would walk through.

    def _follow(self) -> None:
        """Brings the index of the fleet up to date with the cache."""
        drain(self._follow_in_pieces())

    def _follow_in_pieces(self) -> Iterator[None]:
        """`_follow` one node and one pod at a time; what another caller has followed meanwhile is not followed again."""
        for kind, keys in self._moved().items():
            self._behind[kind] |= keys
        yield from self._each("nodes", {"nodes": _popped(self._behind["nodes"])}, self._follow_node)
        yield from self._each("pods", {"pods": _popped(self._behind["pods"])}, self._follow_pod)
        moved, self._behind = self._behind, defaultdict(set)
        self._unreserved |= moved["jobs"]
        self._follow_claims(moved)
        if moved["gpupools"]:
            self._follow_admin_pools()

    def _moved(self) -> dict[str, set[Key]]:
        """What has changed in the cache since the last call, and what must be read again because of that."""
        moved = self.cache.take_moved()
        unread = frozenset(self.cache.unread)
        if unread != self._unread_kinds:
            # Without their claims devices of DRA would look free.
            moved = {**moved, "resourceslices": set(self.cache.objects("resourceslices"))}
            self._unread_kinds, self._volumes = unread, self._all_volumes()
        if "gpuruntimes" in moved:
            self.catalog = self._with_runtimes()
            # The catalog interprets labels, so all nodes are read again.
            self._index, self._under_way = FleetIndex(self.catalog, self._inventory.of_pod), set()
            again = {kind: set(self.cache.objects(kind)) for kind in ("nodes", "pods", "jobs", "gpupools")}
            moved = {**moved, **again}
        if "resourcequotas" in moved:
            self._quotas_held = None
        if not OF_VOLUMES.isdisjoint(moved):
            self._volumes = self._all_volumes()
        return moved

    def _with_runtimes(self) -> Catalog:
        """The catalog with the admins' GPURuntimes; one that cannot be added is set aside."""
        catalog = self._shipped
        held = cast("Mapping[Key, tuple[Runtime, ...] | Extending]", self.cache.objects("gpuruntimes"))
        good: list[Runtime] = []
        for key, found in held.items():
            with self._alone("gpuruntimes", key):
                rows = found.runtimes(self._shipped.runtimes) if isinstance(found, Extending) else found
                catalog = self._shipped.with_runtimes([*good, *rows])
                good += rows
        problems = frozenset(sentences(good))
        for sentence in sorted(problems - self._unread_runtimes):
            log.warning(sentence)
        self._unread_runtimes = problems
        return catalog

    def _follow_node(self, key: Key, node: object | None) -> None:
        self._unread.add(key[1])
        self._newcomers.put(key[1], cast("Node | None", node))
        if key not in self.cache.objects("nodes"):
            self._index.drop_node(key[1])
            self._reader.forget(key[1])

    def _follow_pod(self, key: Key, held: object | None) -> None:
        pod = cast("PodRecord | None", held)
        use = self.use_of(key, pod) if pod else None
        self._index.put_pod(key, use)
        self._inventory.put_pod(key, use)

    def _follow_admin_pools(self) -> None:
        """Puts the admins' GPUPools into the index, without those on which it fails."""
        try:
            self._index.put_admin_pools(self.admin_pools())
        except Exception:
            good: list[AdminPool] = []
            for admin in self.admin_pools():
                with self._alone("gpupools", ("", admin.name)):
                    self._index.put_admin_pools([*good, admin])
                    good.append(admin)
            self._index.put_admin_pools(good)

    def _follow_claims(self, moved: Mapping[str, Iterable[Key]]) -> None:
        """Brings the inventory of DRA up to date with the cache; affected nodes are read again."""
        put = self._inventory
        followers: dict[str, Callable[[Key, object | None], object]] = {
            "resourceslices": self._follow_slice,
            "resourceclaims": lambda key, held: put.put_claim(key, cast("ResourceClaim | None", held)),
            "deviceclasses": lambda key, held: put.put_class(key, cast("DeviceClass | None", held)),
            "devicetaintrules": lambda key, held: put.put_rule(key, cast("TaintRule | None", held)),
        }
        for kind, follow in followers.items():
            drain(self._each(kind, moved, follow))
        self._unread |= self._inventory.take_touched()
        self._index.put_claimed(self._inventory.take_recounted())

    def _follow_slice(self, key: Key, held: object | None) -> None:
        found = None if self._unread_kinds & {"resourceclaims", "deviceclasses"} else cast("Slice | None", held)
        if found is not None and found.unread:
            log.warning("ResourceSlice is not read whole", name=key[1], error=found.unread)
        self._inventory.put_slice(key, found)

    def _all_volumes(self) -> Volumes:
        """The claims, volumes and nodes as they are now; what follows from them is kept until one of them changes."""
        claims = cast("Mapping[Key, VolumeClaim]", self.cache.objects("persistentvolumeclaims"))
        volumes = cast("Mapping[Key, PersistentVolume]", self.cache.objects("persistentvolumes"))
        nodes = cast("Mapping[Key, Node]", self.cache.objects("nodes"))
        classes = cast("Mapping[Key, StorageClass]", self.cache.objects("storageclasses"))
        unread = self.cache.unread
        complete, every = "persistentvolumeclaims" not in unread, "persistentvolumes" not in unread
        return Volumes(claims, volumes, nodes, complete, classes, every)

    def _volumes_left(self) -> Volumes:
        """The volumes after those that claims of placed jobs take before the scheduler binds them."""
        reserved, version = self._index.reserved, self._index.reserved.claims_version
        if self._left is None or self._left[0] is not self._volumes or self._left[1] != version:
            pods = (pod for job in reserved.claiming for pod in reserved.pods_of(job))
            claiming = (each for of_job in reserved.claiming.values() for each in of_job.values())
            self._left = self._volumes, version, volumes_taken(self._volumes, claiming, pods)
        return self._left[2]

    def _reserve(self, reserved: Iterable[PodReservation]) -> None:
        """Puts the reservations of children and of placements in flight into the index."""
        for key in self._unreserved:
            child = cast("ChildRecord | None", self.cache.objects("jobs").get(key))
            of_child: Iterable[PodReservation] = ()
            with self._alone("jobs", key):
                # A placement in flight whose child exists already is one reservation, not two: the child's counts.
                ours = child is not None and self._is_ours(child)
                of_child = reservations(child, self.jobs[child.owner_uid]) if child and ours else ()
            self._index.put_reservations((1, *key), of_child)
        self._unreserved.clear()
        by_job: dict[str, list[PodReservation]] = defaultdict(list)
        for reservation in reserved:
            by_job[reservation.job_uid].append(reservation)
        for uid in self._under_way | by_job.keys():
            self._index.put_reservations((0, uid, ""), by_job.get(uid, ()))
        self._under_way = set(by_job)

    def _quotas(self, priorities: Priorities, fleet: Fleet) -> Quotas:
        """What namespaces can still use, after reservations that no quota has counted yet."""
        quotas = self._quotas_held
        if quotas is None:
            held = cast("Mapping[Key, Quota]", self.cache.objects("resourcequotas"))
            quotas = self._quotas_held = quotas_of((namespace, quota) for (namespace, _), quota in held.items())
        if not quotas:
            return quotas
        reservations = list(self._index.reserved.all())
        pods = (
            pod
            for uid in {reservation.job_uid for reservation in reservations}
            for pod in self._index.reserved.pods_of(uid)
        )
        return quotas_reserved(quotas, reservations, pods, priorities, fleet.pools, self._volumes.default_class)

    def _limits(self) -> LimitRanges:
        """The LimitRanges of each namespace."""
        held = cast("Mapping[Key, Bounds]", self.cache.objects("limitranges"))
        return limits_of((namespace, bounds) for (namespace, _), bounds in held.items())

    def admin_pools(self) -> list[AdminPool]:
        """The admins' GPUPools."""
        return [record.admin for record in self.pool_records().values() if record.admin is not None]

    def pool_records(self) -> Mapping[str, PoolRecord]:
        """All GPUPool objects by name."""
        records = cast("Mapping[Key, PoolRecord]", self.cache.objects("gpupools"))
        return {name: record for (_, name), record in records.items()}

    def fleet_version(self) -> tuple[int, ...]:
        """Numbers that change if a decision may."""
        self._unread |= self._reader.expire()
        return (*(self.cache.version(kind) for kind in FLEET_KINDS), self._reader.version)

    def other_versions(self, *without: str) -> tuple[int, ...]:
        """Numbers that change if a decision may although the fleet is equal, without those of some kinds."""
        left_out = IN_THE_FLEET.union(without)
        return (*(self.cache.version(kind) for kind in FLEET_KINDS if kind not in left_out), self._reader.version)


def _popped(keys: set[Key]) -> Iterator[Key]:
    """Takes keys out of a set one by one, while it has any."""
    while keys:
        yield keys.pop()
