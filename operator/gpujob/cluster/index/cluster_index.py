"""Which children and pods belong to which GPUJob, and what of the cluster changed: the cached objects by job."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import structlog

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.images.runtime import Runtime
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.object_key import Key
from gpujob.cluster.cache.watched_kinds import PoolRecord
from gpujob.cluster.index.nodes_without_devices import Newcomers
from gpujob.cluster.index.owner_index import Filing
from gpujob.fleet.assembly.quotas_promised import quotas_promised
from gpujob.fleet.assembly.usage import Promise
from gpujob.fleet.devices.from_slices import with_slices
from gpujob.fleet.devices.group import DeviceGroup, groups_of
from gpujob.fleet.devices.last_known import Recollection, recalled
from gpujob.fleet.dra.device_taints import TaintRule
from gpujob.fleet.dra.inventory import Inventory
from gpujob.fleet.dra.resource_slices import Claim, DeviceClass, Slice
from gpujob.fleet.gpupools.selection import AdminPool
from gpujob.fleet.health.node_failures import NodeFailures
from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.persistent_volumes import Tie, VolumeClaim, Volumes
from gpujob.fleet.kubernetes.priority_classes import Priorities, PriorityClass
from gpujob.fleet.kubernetes.runtime_classes import RuntimeClass
from gpujob.fleet.labels.faults import Fault, faults_of
from gpujob.fleet.policy.limit_range import Bounds, LimitRanges, limits_of
from gpujob.fleet.policy.resource_quota import Quota, Quotas, quotas_of
from gpujob.fleet.pools.arriving import Arriving
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.lifecycle.children import current_child
from gpujob.status.attempts.ownership import is_child, promises
from gpujob.status.records.objects import ChildRecord, JobRecord, PodRecord, PodState, ServiceRecord

log = structlog.get_logger(__name__)

FLEET_KINDS = (
    "nodes",
    "pods",
    "jobs",
    "gpupools",
    "gpuruntimes",
    "runtimeclasses",
    "resourcequotas",
    "limitranges",
    "gpujobprofiles",
    "namespaces",
    "resourceslices",
    "resourceclaims",
    "deviceclasses",
    "devicetaintrules",
    "persistentvolumeclaims",
    "persistentvolumes",
    "priorityclasses",
)
"""Kinds that a decision depends on."""

IN_THE_FLEET = frozenset({"pods", "jobs", "resourceclaims"})
"""Those of them that a decision reads only through the fleet."""


class ClusterIndex:
    """An index over the cache, updated by its changes; call `take` before reading."""

    def __init__(
        self,
        mirror: ObjectCache,
        shipped: Catalog,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.mirror, self._clock, self._wall = mirror, clock, wall
        self.jobs: dict[str, JobRecord] = {}
        self.under_way: Callable[[], Iterable[Promise]] = tuple
        """The reservations of placements in flight."""
        self.set_aside: Counter[str] = Counter()
        """Objects on which a function of this index failed, by kind; the others are indexed without them."""
        self._unread_kinds: frozenset[str] = frozenset()
        self._uids: dict[Key, str] = {}
        self._children, self._pods, self._services = Filing[ChildRecord](), Filing[PodState](), Filing[ServiceRecord]()
        self._unpromised: set[Key] = set()
        """Child Jobs whose reservations must be put into the index again."""
        self._inventory = Inventory()
        self._index = FleetIndex(shipped, self._inventory.of_pod)
        self._newcomers = Newcomers()
        self._unread: set[str] = set()
        self._under_way: set[str] = set()
        self._recollections: dict[str, Recollection] = {}
        self._expiring: dict[str, float] = {}
        self._failures, self._suspects = NodeFailures(), dict[str, float]()
        self._forgotten = 0
        self._volumes = self._all_volumes()
        self._shipped = shipped
        self.catalog = shipped

    def take(self, changes: Mapping[str, Iterable[Key]]) -> set[str]:
        """Brings the index up to date; returns the uids of the affected jobs."""
        self._follow()
        touched: set[str] = set()
        self._each("nodes", changes, lambda key, node: self._take_node(cast("Node | None", node), touched))
        self._each("gpujobs", changes, lambda key, job: self._take_job(key, cast("JobRecord | None", job), touched))
        self._each(
            "jobs", changes, lambda key, child: self._take_child(key, cast("ChildRecord | None", child), touched)
        )
        self._each("pods", changes, lambda key, pod: self._take_pod(key, cast("PodRecord | None", pod), touched))
        self._each(
            "services", changes, lambda key, held: self._take_service(key, cast("ServiceRecord | None", held), touched)
        )
        return touched

    def _take_node(self, node: Node | None, touched: set[str]) -> None:
        """Marks the jobs whose pods are on a node that reports a device fault."""
        if node is not None and faults_of(node):
            touched |= self._pods.owners(lambda pod: pod.node == node.name)

    def _take_child(self, key: Key, child: ChildRecord | None, touched: set[str]) -> None:
        self._children.put(key, child.owner_uid if child else "", child, touched)
        self._unpromised.add(key)

    def _take_pod(self, key: Key, pod: PodRecord | None, touched: set[str]) -> None:
        state = pod.state if pod else None
        self._pods.put(key, pod.use.job_uid if pod and state else "", state, touched)

    def _take_service(self, key: Key, service: ServiceRecord | None, touched: set[str]) -> None:
        self._services.put(key, service.owner_uid if service else "", service, touched)

    def _each(
        self, kind: str, changes: Mapping[str, Iterable[Key]], take: Callable[[Key, object | None], object]
    ) -> None:
        """Applies each changed object of a kind; one that fails is set aside, as if it were gone."""
        held = self.mirror.objects(kind)
        for key in changes.get(kind, ()):
            with self._alone(kind, key) as went_well:
                take(key, held.get(key))
            if not went_well:
                with contextlib.suppress(Exception):
                    take(key, None)

    @contextmanager
    def _alone(self, kind: str, key: Key) -> Iterator[list[bool]]:
        """Runs a function for one object, so that its error does not stop the others. The list is empty afterwards if it failed."""
        went_well = [True]
        try:
            yield went_well
        except Exception as error:
            went_well.clear()
            self.set_aside[kind] += 1
            log.exception("object is set aside", kind=kind, namespace=key[0], name=key[1], error=repr(error))

    def child(self, uid: str) -> ChildRecord | None:
        """The child Job of a GPUJob: the recorded one, else that of its newest attempt."""
        job = self.jobs.get(uid)
        return current_child(job, self.children_of(uid)) if job is not None else None

    def children_of(self, uid: str) -> list[ChildRecord]:
        """The existing Jobs of all attempts of a GPUJob."""
        return [child for child in self._children.of(uid).values() if self._is_ours(child)]

    def pods_of(self, job: JobRecord) -> list[PodState]:
        """The pods of all attempts of a GPUJob in its namespace, sorted by name."""
        pods = self._pods.of(job.uid)
        return [pods[key] for key in sorted(pods) if key[0] == job.namespace]

    def nodes_ready(self, pods: Iterable[PodState]) -> dict[str, bool]:
        """Whether the nodes of pods are ready, by name; a deleted node is left out."""
        nodes = cast("Mapping[Key, Node]", self.mirror.objects("nodes"))
        found = ((pod.node, nodes.get(("", pod.node))) for pod in pods if pod.node)
        return {name: node.ready for name, node in found if node is not None}

    def node_faults(self, pods: Iterable[PodState]) -> dict[str, tuple[Fault, ...]]:
        """The device faults that the nodes of pods report, by name; nodes without any are left out."""
        nodes = cast("Mapping[Key, Node]", self.mirror.objects("nodes"))
        found = {pod.node: nodes.get(("", pod.node)) for pod in pods if pod.node}
        return {name: faults for name, node in found.items() if node is not None and (faults := faults_of(node))}

    def children(self) -> Iterator[ChildRecord]:
        """The child Jobs that have not ended."""
        return (child for child in self._children.all() if not child.ended and self._is_ours(child))

    def _is_ours(self, child: ChildRecord) -> bool:
        """Whether a Job is the child of an existing GPUJob."""
        job = self.jobs.get(child.owner_uid)
        return job is not None and is_child(child, job)

    def lacks_service(self, child: ChildRecord) -> bool:
        """Whether a gang's pods lack the Service with their names."""
        return child.pods > 1 and self.service(child) is None

    def service(self, child: ChildRecord) -> ServiceRecord | None:
        """The Service of a child Job's pods."""
        return self._services.of(child.owner_uid).get((child.namespace, child.name))

    def pods(self, child: ChildRecord) -> list[PodState]:
        """The pods of a child Job, sorted by name, without those of an attempt that is being deleted."""
        pods = self._pods.of(child.owner_uid)
        return [pods[key] for key in sorted(pods) if key[0] == child.namespace and pods[key].child_uid == child.uid]

    def newcomers(self, now: datetime, seconds: float) -> Iterator[tuple[Node, Arriving]]:
        """New nodes that offer no devices yet, by a resource's name or to ResourceClaims."""
        self._follow()
        for node, arriving in self._newcomers.nodes(now, seconds):
            if not any(group.healthy for group in self._read_groups(node)):
                yield node, arriving

    def fleet(self, promised: Iterable[Promise] | None = None) -> Fleet:
        """The current fleet, after the reservations of children and of placements in flight; None: those of `under_way`."""
        self._follow()
        self._promise(self.under_way() if promised is None else promised)
        nodes = cast("Mapping[Key, Node]", self.mirror.objects("nodes"))
        for name in sorted(self._unread):
            node = nodes.get(("", name))
            if node is not None:
                with self._alone("nodes", ("", name)) as went_well:
                    node = self._with_failures(node)
                    self._index.put_node(node, self._recalled(name, self._read_groups(node)))
                if not went_well:
                    with contextlib.suppress(Exception):
                        self._index.drop_node(name)
        self._unread.clear()
        classes = cast("Mapping[Key, RuntimeClass]", self.mirror.objects("runtimeclasses"))
        known_classes = {name: held for (_, name), held in classes.items()}
        if "runtimeclasses" in self.mirror.unread:
            # The objects that a GPUPool names count as existing: the scheduler and the kubelet check them.
            known_classes = {admin.runtime_class: RuntimeClass() for admin in self.admin_pools() if admin.runtime_class}
        fleet = self._index.fleet(known_classes)
        namespaces = cast("Mapping[Key, Namespace]", self.mirror.objects("namespaces"))
        priorities = cast("Mapping[Key, PriorityClass]", self.mirror.objects("priorityclasses"))
        known = {name: held for (_, name), held in priorities.items()}
        return replace(
            fleet,
            quotas=self._quotas(known),
            limits=self._limits(),
            namespaces={name: held for (_, name), held in namespaces.items()},
            volumes=self._volumes,
            priorities=known,
        )

    def _follow(self) -> None:
        """Brings the index of the fleet up to date with the cache."""
        moved = self.mirror.take_moved()
        unread = frozenset(self.mirror.unread)
        if unread != self._unread_kinds:
            # Without their claims devices of DRA would look free.
            moved = {**moved, "resourceslices": set(self.mirror.objects("resourceslices"))}
            self._unread_kinds, self._volumes = unread, self._all_volumes()
        if "gpuruntimes" in moved:
            self.catalog = self._with_runtimes()
            # The catalog interprets labels, so all nodes are read again.
            self._index, self._under_way = FleetIndex(self.catalog, self._inventory.of_pod), set()
            again = {kind: set(self.mirror.objects(kind)) for kind in ("nodes", "pods", "jobs", "gpupools")}
            moved = {**moved, **again}
        if "nodes" in moved:
            self._volumes = self._all_volumes()
        self._each("nodes", moved, self._follow_node)
        self._each("pods", moved, self._follow_pod)
        self._unpromised |= set(moved.get("jobs", ()))
        self._follow_claims(moved)
        if "gpupools" in moved:
            self._follow_admin_pools()

    def _with_runtimes(self) -> Catalog:
        """The catalog with the admins' GPURuntimes; one that cannot be added is set aside."""
        catalog = self._shipped
        held = cast("Mapping[Key, tuple[Runtime, ...]]", self.mirror.objects("gpuruntimes"))
        good: list[Runtime] = []
        for key, rows in held.items():
            with self._alone("gpuruntimes", key):
                catalog = self._shipped.with_runtimes([*good, *rows])
                good += rows
        return catalog

    def _follow_node(self, key: Key, node: object | None) -> None:
        self._unread.add(key[1])
        self._newcomers.put(key[1], cast("Node | None", node))
        if key not in self.mirror.objects("nodes"):
            self._index.drop_node(key[1])
            self._recollections.pop(key[1], None)
            self._suspects.pop(key[1], None)
            self._expiring.pop(key[1], None)

    def _follow_pod(self, key: Key, held: object | None) -> None:
        pod = cast("PodRecord | None", held)
        self._index.put_pod(key, pod.use if pod else None)
        self._inventory.put_pod(key, pod.use if pod else None)

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
        self._each("resourceslices", moved, self._follow_slice)
        put = self._inventory
        self._each("resourceclaims", moved, lambda key, held: put.put_claim(key, cast("Claim | None", held)))
        self._each("deviceclasses", moved, lambda key, held: put.put_class(key, cast("DeviceClass | None", held)))
        self._each("devicetaintrules", moved, lambda key, held: put.put_rule(key, cast("TaintRule | None", held)))
        self._unread |= self._inventory.take_touched()
        self._index.put_claimed(self._inventory.take_recounted())

    def _follow_slice(self, key: Key, held: object | None) -> None:
        found = None if self._unread_kinds & {"resourceclaims", "deviceclasses"} else cast("Slice | None", held)
        if found is not None and found.unread:
            log.warning("ResourceSlice is not read whole", name=key[1], error=found.unread)
        self._inventory.put_slice(key, found)

    def _all_volumes(self) -> Volumes:
        """The claims with the nodes as they are now."""
        claims = cast("Mapping[Key, VolumeClaim]", self.mirror.objects("persistentvolumeclaims"))
        ties = cast("Mapping[Key, Tie]", self.mirror.objects("persistentvolumes"))
        complete = "persistentvolumeclaims" not in self.mirror.unread
        return Volumes(claims, ties, cast("Mapping[Key, Node]", self.mirror.objects("nodes")), complete=complete)

    def _promise(self, promised: Iterable[Promise]) -> None:
        """Puts the reservations of children and of placements in flight into the index."""
        for key in self._unpromised:
            child = cast("ChildRecord | None", self.mirror.objects("jobs").get(key))
            told: Iterable[Promise] = ()
            with self._alone("jobs", key):
                # A placement in flight whose child exists already is one reservation, not two: the child's counts.
                ours = child is not None and self._is_ours(child)
                told = promises(child, self.jobs[child.owner_uid]) if child and ours else ()
            self._index.put_promises((1, *key), told)
        self._unpromised.clear()
        by_job: dict[str, list[Promise]] = defaultdict(list)
        for promise in promised:
            by_job[promise.job_uid].append(promise)
        for uid in self._under_way | by_job.keys():
            self._index.put_promises((0, uid, ""), by_job.get(uid, ()))
        self._under_way = set(by_job)

    def _quotas(self, priorities: Priorities) -> Quotas:
        """What namespaces can still use, after reservations that no quota has counted yet."""
        held = cast("Mapping[Key, Quota]", self.mirror.objects("resourcequotas"))
        quotas = quotas_of((namespace, quota) for (namespace, _), quota in held.items())
        if not quotas:
            return quotas
        promises = list(self._index.promised.all())
        pods = (pod for uid in {promise.job_uid for promise in promises} for pod in self._index.promised.pods_of(uid))
        return quotas_promised(quotas, promises, pods, priorities)

    def _limits(self) -> LimitRanges:
        """The LimitRanges of each namespace."""
        held = cast("Mapping[Key, Bounds]", self.mirror.objects("limitranges"))
        return limits_of((namespace, bounds) for (namespace, _), bounds in held.items())

    def _read_groups(self, node: Node) -> tuple[DeviceGroup, ...]:
        try:
            return with_slices(node, groups_of(node, self.catalog), self._inventory, self.catalog)
        except Exception as error:  # an error in one node does not stop placement on the others
            log.exception("node left out", node=node.name, error=repr(error))
            return ()

    def _recalled(self, name: str, groups: tuple[DeviceGroup, ...]) -> tuple[DeviceGroup, ...]:
        """The groups of a node, with the facts of its last labels while a labeller restarts."""
        groups, recollection = recalled(groups, self._recollections.get(name), self._clock())
        self._expiring.pop(name, None)
        if recollection is not None:
            self._recollections[name] = recollection
            if recollection.until is not None:
                self._expiring[name] = recollection.until
        return groups

    def _with_failures(self, node: Node) -> Node:
        """The node with what makes it suspect, which is looked at again when that has decayed."""
        now = self._wall()
        found = self._failures.suspicion(node.name, now)
        self._suspects.pop(node.name, None)
        if found is None:
            return node
        self._suspects[node.name] = self._clock() + (found.until - now).total_seconds()
        return replace(node, suspicion=found.sentence)

    def _forget(self) -> None:
        """Drops expired facts."""
        now = self._clock()
        for name in [name for name, until in self._suspects.items() if now >= until]:
            del self._suspects[name]
            self._unread.add(name)
            self._forgotten += 1
        for name in [name for name, until in self._expiring.items() if now >= until]:
            del self._expiring[name]
            self._recollections.pop(name, None)
            self._unread.add(name)
            self._forgotten += 1

    def admin_pools(self) -> list[AdminPool]:
        """The admins' GPUPools."""
        return [record.admin for record in self.pool_records().values() if record.admin is not None]

    def pool_records(self) -> Mapping[str, PoolRecord]:
        """All GPUPool objects by name."""
        records = cast("Mapping[Key, PoolRecord]", self.mirror.objects("gpupools"))
        return {name: record for (_, name), record in records.items()}

    def fleet_version(self) -> tuple[int, ...]:
        """Numbers that change if a decision may."""
        self._forget()
        return (*(self.mirror.version(kind) for kind in FLEET_KINDS), self._forgotten)

    def other_versions(self) -> tuple[int, ...]:
        """Numbers that change if a decision may although the fleet is equal."""
        return (*(self.mirror.version(kind) for kind in FLEET_KINDS if kind not in IN_THE_FLEET), self._forgotten)

    def _take_job(self, key: Key, job: JobRecord | None, touched: set[str]) -> None:
        before = self._uids.pop(key, "")
        if before and (job is None or job.uid != before):
            self._unread |= self._failures.put(before, None)
        if job is not None and (suspects := self._failures.put(job.uid, job.status)):
            self._unread |= suspects
            self._forgotten += 1
        if before and (job is None or job.uid != before):
            self.jobs.pop(before, None)
            touched.add(before)
            self._unpromised |= self._children.of(before).keys()
        if job is not None:
            self._unpromised |= self._children.of(job.uid).keys()
            self.jobs[job.uid] = job
            self._uids[key] = job.uid
            touched.add(job.uid)
