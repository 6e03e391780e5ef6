"""Jobs, and their child Jobs, pods and Services by owner; objects that cannot be indexed are set aside."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Generic, TypeVar, cast

import structlog

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.object_key import Key
from gpujob.fleet.kubernetes.objects import Node, Pod
from gpujob.fleet.labels.faults import Fault, faults_of
from gpujob.lifecycle.children import current_child
from gpujob.status.attempts.ownership import is_child, is_stray
from gpujob.status.records.objects import ChildRecord, JobRecord, PodRecord, PodState, ServiceRecord
from gpujob.values.names import attempt_in, stem_in, stem_of
from gpujob.values.vocabulary import State

MOST: Final = 4096
"""Pods that are kept: those of the largest gang, four times."""


class DepartedPods:
    """What pods that are gone said last of their end, by the key of their child Job; above `most` those of the oldest Job go.

    The Job controller takes its finalizer off a pod before it writes the Job's condition Failed, so the pod may be gone first.
    """

    def __init__(self, most: int = MOST) -> None:
        self._by_child: dict[Key, dict[str, PodState]] = {}
        self._most, self._count = most, 0

    def put(self, pod: PodState, child: ChildRecord | None) -> None:
        """Keeps a pod of a child Job; not of one that is gone, or that was suspended, which ends its pods."""
        if child is None or child.uid != pod.child_uid or child.paused:
            return
        pods = self._by_child.setdefault((child.namespace, child.name), {})
        self._count += pod.name not in pods
        pods[pod.name] = replace(pod, gone=True)
        while self._count > self._most:
            self.forget(next(iter(self._by_child)))

    def forget(self, child: Key) -> None:
        """Drops the pods of a child Job."""
        self._count -= len(self._by_child.pop(child, ()))

    def of(self, child: ChildRecord) -> list[PodState]:
        """The pods of a child Job that are gone, sorted by name."""
        pods = self._by_child.get((child.namespace, child.name), {})
        return [pods[name] for name in sorted(pods) if pods[name].child_uid == child.uid]


R = TypeVar("R")


class OwnerIndex(Generic[R]):
    """One kind's objects by their owner labels, which are untrusted."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, R]] = defaultdict(dict)
        self._owner: dict[Key, str] = {}

    def put(self, key: Key, uid: str, record: R | None, touched: set[str]) -> None:
        """Moves a record to its job from the previous one; both are marked as changed."""
        before = self._owner.pop(key, "")
        if before and before != uid:
            self._by_owner[before].pop(key, None)
            touched.add(before)
            if not self._by_owner[before]:
                del self._by_owner[before]
        if uid and record is not None:
            self._by_owner[uid][key] = record
            self._owner[key] = uid
            touched.add(uid)

    def of(self, uid: str) -> dict[Key, R]:
        """The records of one job."""
        return self._by_owner.get(uid) or {}

    def owners(self, wanted: Callable[[R], bool]) -> set[str]:
        """The jobs with a record that is wanted."""
        return {uid for uid, records in self._by_owner.items() if any(map(wanted, records.values()))}

    def all(self) -> list[R]:
        """Every record."""
        return [record for records in self._by_owner.values() for record in records.values()]


log = structlog.get_logger(__name__)


def drain(pieces: Iterable[None]) -> None:
    """Does all pieces of a work at once."""
    for _ in pieces:
        pass


class OwnedObjects:
    """The half of the index that answers questions about one job; `take` brings it up to date."""

    def __init__(self, cache: ObjectCache) -> None:
        self.cache = cache
        self.is_complete = False
        """Whether it holds the first whole list of each kind: the cache has it earlier."""
        self.jobs: dict[str, JobRecord] = {}
        self.running: dict[str, JobRecord] = {}
        """Those of them whose status says Running."""
        self.set_aside: Counter[str] = Counter()
        """Objects on which a function of this index failed, by kind; the others are indexed without them."""
        self._uids: dict[Key, str] = {}
        self._by_stem: dict[Key, str] = {}
        """The uids of the jobs by namespace and by what the names of their children share."""
        self._early = OwnerIndex[PodState]()
        """Pods whose job is not known, by namespace and what the name of their Job shares with others of the job."""
        self._children, self._pods, self._services = (
            OwnerIndex[ChildRecord](),
            OwnerIndex[PodState](),
            OwnerIndex[ServiceRecord](),
        )
        self._departed = DepartedPods()
        self._unreserved: set[Key] = set()
        """Child Jobs whose reservations must be put into the fleet again."""

    def take(self, changes: Mapping[str, Iterable[Key]]) -> set[str]:
        """Brings the index up to date; returns the uids of the affected jobs."""
        touched: set[str] = set()
        drain(self.take_in_pieces(changes, touched))
        return touched

    def take_in_pieces(self, changes: Mapping[str, Iterable[Key]], touched: set[str]) -> Iterator[None]:
        """`take` one object at a time: the first list is of thousands. The uids of the affected jobs go into `touched`."""
        yield from self._each("nodes", changes, lambda key, node: self._take_node(cast("Node | None", node), touched))
        yield from self._each(
            "gpujobs", changes, lambda key, job: self._take_job(key, cast("JobRecord | None", job), touched)
        )
        yield from self._each(
            "jobs", changes, lambda key, child: self._take_child(key, cast("ChildRecord | None", child), touched)
        )
        yield from self._each(
            "pods", changes, lambda key, pod: self._take_pod(key, cast("PodRecord | None", pod), touched)
        )
        for key, pod in self.cache.take_departed("pods").items():
            with self._alone("pods", key):
                self._take_departed(key, cast("PodRecord", pod))
        yield from self._each(
            "services", changes, lambda key, held: self._take_service(key, cast("ServiceRecord | None", held), touched)
        )

    def _take_job(self, key: Key, job: JobRecord | None, touched: set[str]) -> None:
        before = self._uids.pop(key, "")
        if before and (job is None or job.uid != before):
            self.jobs.pop(before, None)
            self.running.pop(before, None)
            self._by_stem.pop((key[0], stem_of(key[1], before)), None)
            touched.add(before)
            self._unreserved |= self._children.of(before).keys()
        if job is not None:
            self._unreserved |= self._children.of(job.uid).keys()
            self.jobs[job.uid] = job
            if job.status.get("state") == State.RUNNING:
                self.running[job.uid] = job
            else:
                self.running.pop(job.uid, None)
            self._uids[key] = job.uid
            touched.add(job.uid)
            if before != job.uid:
                self._take_stem((key[0], stem_of(key[1], job.uid)), job.uid, touched)

    def _take_stem(self, stem: Key, uid: str, touched: set[str]) -> None:
        """A new job: its pods may be known already, because no kind's list waits for another's."""
        self._by_stem[stem] = uid
        pods = cast("Mapping[Key, PodRecord]", self.cache.objects("pods"))
        for key in [*self._early.of("/".join(stem))]:
            with self._alone("pods", key):
                self._take_pod(key, pods.get(key), touched)

    def _take_node(self, node: Node | None, touched: set[str]) -> None:
        """Marks the jobs whose pods are on a node that reports a device fault."""
        if node is not None and faults_of(node):
            touched |= self._pods.owners(lambda pod: pod.node == node.name)

    def _take_child(self, key: Key, child: ChildRecord | None, touched: set[str]) -> None:
        self._children.put(key, child.owner_uid if child else "", child, touched)
        if child is None or child.paused:
            self._departed.forget(key)
        self._unreserved.add(key)

    def _take_pod(self, key: Key, pod: PodRecord | None, touched: set[str]) -> None:
        state = pod.state if pod else None
        self._pods.put(key, self.use_of(key, pod).job_uid if pod and state else "", state, touched)
        stem = (key[0], stem_in(state.child_name) if state else "")
        self._early.put(key, "/".join(stem) if stem[1] and stem not in self._by_stem else "", state, set())

    def use_of(self, key: Key, pod: PodRecord) -> Pod:
        """What a pod uses, as one of the job whose child its Job is: labels are untrusted, and names of Jobs cannot change."""
        child = pod.state.child_name if pod.state else ""
        uid = self._by_stem.get((key[0], stem_in(child)), "") if child else ""
        return (
            replace(pod.use, job_uid=uid, attempt=attempt_in(child) or 0)
            if uid not in ("", pod.use.job_uid)
            else pod.use
        )

    def _take_departed(self, key: Key, pod: PodRecord) -> None:
        children = cast("Mapping[Key, ChildRecord]", self.cache.objects("jobs"))
        if pod.state is not None:
            self._departed.put(pod.state, children.get((key[0], pod.state.child_name)))

    def _take_service(self, key: Key, service: ServiceRecord | None, touched: set[str]) -> None:
        self._services.put(key, service.owner_uid if service else "", service, touched)

    def _each(
        self, kind: str, changes: Mapping[str, Iterable[Key]], take: Callable[[Key, object | None], object]
    ) -> Iterator[None]:
        """Applies each changed object of a kind, one by one; one that fails is set aside, as if it were gone."""
        held = self.cache.objects(kind)
        for key in changes.get(kind, ()):
            with self._alone(kind, key) as went_well:
                take(key, held.get(key))
            if not went_well:
                with contextlib.suppress(Exception):
                    take(key, None)
            yield

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

    def strays_of(self, job: JobRecord) -> list[ChildRecord]:
        """Jobs under the names of a GPUJob's children that are not its children."""
        return [child for child in self._children.of(job.uid).values() if is_stray(child, job)]

    def pods_of(self, job: JobRecord) -> list[PodState]:
        """The pods of all attempts of a GPUJob in its namespace, sorted by name."""
        pods = self._pods.of(job.uid)
        return [pods[key] for key in sorted(pods) if key[0] == job.namespace]

    def departed_of(self, child: ChildRecord) -> list[PodState]:
        """What the pods of a child Job that are gone said last of their end, sorted by name."""
        return self._departed.of(child)

    def nodes_ready(self, pods: Iterable[PodState]) -> dict[str, bool]:
        """Whether the nodes of pods are ready, by name; a deleted node is left out."""
        nodes = cast("Mapping[Key, Node]", self.cache.objects("nodes"))
        found = ((pod.node, nodes.get(("", pod.node))) for pod in pods if pod.node)
        return {name: node.ready for name, node in found if node is not None}

    def are_ready(self, names: Iterable[str]) -> bool:
        """Whether all nodes of these names exist and are ready."""
        nodes = cast("Mapping[Key, Node]", self.cache.objects("nodes"))
        return all((node := nodes.get(("", name))) is not None and node.ready for name in names)

    def node_faults(self, pods: Iterable[PodState]) -> dict[str, tuple[Fault, ...]]:
        """The device faults that the nodes of pods report, by name; nodes without any are left out."""
        nodes = cast("Mapping[Key, Node]", self.cache.objects("nodes"))
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

    def pods_whatever_job(self, child: ChildRecord) -> list[PodState]:
        """`pods` with those of a child Job whose GPUJob this process never saw, where their label does not say whose they are."""
        early = self._early.of("/".join((child.namespace, stem_in(child.name))))
        return [*self.pods(child), *(pod for pod in early.values() if pod.child_uid == child.uid)]
