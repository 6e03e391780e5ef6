"""The writes of the operator: only the leader makes them, each once, and their responses enter the cache.

A child is created by POST under a name that belongs to its job; an existing object of that name is the job's own or is not touched.
Only statuses are ever patched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import structlog

from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import (
    CONFIG_MAPS,
    DRA_VERSIONS,
    EVENTS,
    GPUJOBS,
    GPUPOOLS,
    JOBS,
    PODS,
    PROFILES,
    SERVICES,
    PoolRecord,
)
from gpujob.cluster.client.api_errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, OutcomeUnknown
from gpujob.cluster.client.client import APPLY_PATCH, ApiClient
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.writer.child_errors import CREATION, has_another_manager, is_made_for, refusal
from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.fleet.pools.pool import Pool
from gpujob.status.attempts.ownership import is_child
from gpujob.status.attempts.waits import write_time
from gpujob.status.job.events import EVENT_NAMESPACE, event_of, transition
from gpujob.status.pools import contradiction
from gpujob.status.records.objects import ChildRecord, JobRecord, PodState
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.status.records.refused_pods import FAILED_CREATE, refusal_of, unready_of
from gpujob.values.untrusted import table, tables
from gpujob.values.vocabulary import FIELD_MANAGER, SPENDING, Label

log = structlog.get_logger(__name__)

MOST_BY_NAME: Final = 8
"""Pods of a job that are read one by one."""


class NotLeader(Exception):
    """This process can no longer write: another one is leader or soon will be."""


class NameConflict(Exception):
    """An object of the child's name exists and is not the job's; nothing was written."""


def foreign_runner(namespace: str, name: str) -> str:
    """The message if the runner's name is taken."""
    return (
        f"a ConfigMap {name} exists in namespace {namespace} whose content is not this operator's; nothing of it is run: "
        "delete it, the operator makes its own"
    )


class Writer:
    """The leader's writes to one API server, with their outcome."""

    def __init__(
        self,
        client: ApiClient,
        cache: ObjectCache,
        is_leader: Callable[[], bool],
        instance: str,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._cache, self._is_leader, self._instance = client, cache, is_leader, instance
        self._wall = wall

    async def ensure_child(self, resource: Resource, body: Mapping[str, Any], job: JobRecord) -> tuple[Any, bool]:
        """The child as it is in the cluster, and whether this call created it; NameConflict if the name is another object's.

        ChildRefused if the API server rejects it permanently; ChildNotCreated if it may accept it later; OutcomeUnknown if it may have
        created it and does not say so.
        """
        namespace, name = job.namespace, body["metadata"]["name"]
        self._check()
        try:
            created = await self._client.create(resource.path(namespace), dict(body), patience=CREATION)
        except (Conflict, OutcomeUnknown) as unsure:
            # Whether it existed before or came with the lost response: its current content counts.
            try:
                held = await self._client.get(resource.path(namespace, name))
            except NotFound:
                # No rejection: the POST got no answer, another write of a quota came first, or the object with the name is gone by now.
                answer = None if isinstance(unsure, AlreadyExists) else refusal(unsure, alone=True)
                raise (answer or unsure) from None
            except ApiError as error:
                if not isinstance(unsure, OutcomeUnknown):
                    raise
                # Without its current content the outcome of the POST stays unknown.
                raise unsure from error
            if not is_made_for(held, body, job):
                raise NameConflict(
                    f"a {body['kind']} {name} exists and is not this job's; delete or rename it"
                ) from None
            self._note(resource, held)
            return held, False
        except ApiError as error:
            raise (refusal(error) or error) from error
        self._note(resource, created)
        return created, True

    async def apply_runner(self, body: Mapping[str, Any]) -> Any:
        """The runner's ConfigMap in a namespace after it was applied; NameConflict if it is another object's.

        Server-side apply, because its authorization contains the name: a right to create would cover every name.
        """
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        self._check()
        path, manager = CONFIG_MAPS.path(namespace, name), {"fieldManager": FIELD_MANAGER}
        try:
            applied = await self._client.patch(path, dict(body), APPLY_PATCH, params=manager, patience=CREATION)
        except OutcomeUnknown as unsure:
            # The role lets its own ConfigMap be listed and not be read.
            if not (held := await self._listed(CONFIG_MAPS, namespace, f"metadata.name={name}")):
                raise (refusal(unsure, alone=True) or unsure) from unsure
            applied = held[0]
        except ApiError as error:
            if isinstance(error, Invalid) or has_another_manager(error):
                raise NameConflict(foreign_runner(namespace, name)) from error
            raise (refusal(error) or error) from error
        self._note(CONFIG_MAPS, applied)
        return applied

    async def apply_profile(self, body: Mapping[str, Any]) -> None:
        """Writes the measurements of its jobs into a GPUJobProfile; one write creates or changes it."""
        self._note(PROFILES, await self._apply(PROFILES, body))

    async def find_runner(self, namespace: str, name: str) -> Any:
        """A runner's ConfigMap in the API server, of any version; None if it is gone."""
        self._check()
        try:
            return await self._client.get(CONFIG_MAPS.path(namespace, name))
        except NotFound:
            return None

    async def delete_runner(self, namespace: str, name: str, uid: str) -> None:
        """Deletes the runner's ConfigMap of a namespace without children that need it."""
        await self._delete(CONFIG_MAPS, namespace, name, uid)

    async def delete_earlier_runner(self, namespace: str, name: str, uid: str) -> None:
        """Deletes the runner's ConfigMap of an earlier version, which is not in the cache."""
        self._check()
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(CONFIG_MAPS.path(namespace, name), uid=uid)

    async def read_spending(self, namespace: str) -> Mapping[str, Any]:
        """What the ConfigMap of monthly budgets holds; nothing where it is not there."""
        self._check()
        try:
            return table(await self._client.get(CONFIG_MAPS.path(namespace, SPENDING)), "data")
        except NotFound as error:
            if not error.is_of_object:
                raise
            return {}

    async def write_spending(self, namespace: str, data: Mapping[str, str]) -> None:
        """Makes the ConfigMap of monthly budgets hold this."""
        metadata = {"name": SPENDING, "namespace": namespace, "labels": {Label.MANAGED_BY: FIELD_MANAGER}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        await self._apply(CONFIG_MAPS, body)

    async def has_job(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the API server itself has a GPUJob of this name and uid."""
        self._check()
        found = await self._listed(GPUJOBS, namespace, f"metadata.name={name}")
        return uid in [table(raw, "metadata").get("uid") for raw in found]

    async def _listed(self, resource: Resource, namespace: str, selector: str, by: str = "fieldSelector") -> list[Any]:
        """The objects that a selector selects."""
        pages = self._client.list_paged(resource.path(namespace), {by: selector})
        async with contextlib.aclosing(pages):
            return [raw async for page in pages for raw in tables(page, "items")]

    async def delete_orphan(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Deletes a child Job or a Service that has no owner; what is gone already is fine. The pods of a Job go first, because a
        finalizer of another controller may keep it."""
        await self._delete(resource, namespace, name, uid, "Foreground" if resource is JOBS else "Background")

    async def delete_orphaned_template(self, namespace: str, name: str, job_uid: str) -> None:
        """Deletes the ResourceClaimTemplate of an attempt, if it has one and nothing owns that."""
        self._check()
        for version in DRA_VERSIONS:
            path = Resource("resource.k8s.io", version, "resourceclaimtemplates").path(namespace, name)
            with contextlib.suppress(NotFound, Conflict):
                metadata = table(await self._client.get(path), "metadata")
                if not metadata.get("ownerReferences") and table(metadata, "labels").get(Label.JOB_UID) == job_uid:
                    await self._client.delete(path, uid=str(metadata.get("uid")))
                return

    async def find_child(self, job: JobRecord, name: str) -> Any:
        """The child Job in the API server itself (not the cache); None if it is gone or another's."""
        held = await self.find_named(job, name)
        return held if held is not None and is_child(read_child(held), job) else None

    async def find_named(self, job: JobRecord, name: str) -> Any:
        """A Job of this name in the namespace of a GPUJob, whosever it is; None if it is gone."""
        try:
            return await self._client.get(JOBS.path(job.namespace, name))
        except NotFound as error:
            if not error.is_of_object:
                raise
            return None

    async def find_pods(self, job: JobRecord, known: Iterable[PodState] = ()) -> list[PodState]:
        """The pods of all attempts of a job in the API server itself (not the cache). Those that the watch shows (`known`) and
        that lack the job's label are read by name, up to MOST_BY_NAME: a user can remove a label, and where there are more they are
        most likely gone.
        """
        found = await self._listed(PODS, job.namespace, f"{Label.JOB_UID}={job.uid}", by="labelSelector")
        labelled = {table(raw, "metadata").get("name") for raw in found}
        others = [pod for pod in known if pod.name not in labelled]
        for pod in others[:MOST_BY_NAME]:
            found += await self._listed(PODS, job.namespace, f"metadata.name={pod.name}")
        mine = {pod.child_uid for pod in others}
        states = [state for raw in found if (state := read_pod_record(raw).state) is not None]
        return [state for state in states if state.name in labelled or state.child_uid in mine]

    async def find_refusal(self, child: ChildRecord, pod: str = "") -> str:
        """What the API server reports about pods that it refuses to a child, or what keeps `pod` of it from starting: one page of the
        events of its Job, or of the pod; empty if nothing."""
        about = f"type=Warning,regarding.kind=Pod,regarding.name={pod}"
        selector = about if pod else f"reason={FAILED_CREATE},regarding.uid={child.uid}"
        pages = self._client.list_paged(EVENTS.path(child.namespace), {"fieldSelector": selector})
        async with contextlib.aclosing(pages):
            async for page in pages:
                return (unready_of if pod else refusal_of)(tables(page, "items"))
        return ""

    async def delete_child(self, child: ChildRecord, *, pods_first: bool = False) -> None:
        """Deletes a child Job with its pods; a deleted one is fine.

        `pods_first`: the pods are deleted before the Job, also if a finalizer keeps the Job.
        """
        await self._delete(JOBS, child.namespace, child.name, child.uid, "Foreground" if pods_first else "Background")

    async def delete_service(self, child: ChildRecord, uid: str) -> None:
        """Deletes the Service of a child Job before the Job; a deleted one is fine."""
        await self._delete(SERVICES, child.namespace, child.name, uid)

    async def delete_job(self, job: JobRecord) -> None:
        """Deletes a GPUJob; one that is gone or is another one by now is fine."""
        await self._delete(GPUJOBS, job.namespace, job.name, job.uid)

    async def write_status(self, job: JobRecord, changes: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
        """Whether the status was written; False if the job is gone or newer than its view."""
        self._check()
        body = {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": changes}
        try:
            written = await self._client.patch(GPUJOBS.path(job.namespace, job.name, "status"), body)
        except (NotFound, Conflict):
            return False
        self._cache.note_written("gpujobs", written)
        if (line := transition(job.status, status)) is not None:
            log.info("status written", job=f"{job.namespace}/{job.name}", **line)
        await self._record_event(job, status)
        return True

    async def write_pool(self, record: PoolRecord, changes: Mapping[str, Any]) -> None:
        """Patches the status of a GPUPool; Conflict if it is newer than its view."""
        self._check()
        body = {"metadata": {"uid": record.uid, "resourceVersion": record.version}, "status": changes}
        path = GPUPOOLS.path(None, record.name, "status")
        self._cache.note_written("gpupools", await self._client.patch(path, body))

    async def record_pool_event(self, pool: Pool, uid: str, held: Mapping[str, Any]) -> None:
        """Records the event that facts about a pool's nodes contradict each other, if its status did not say so yet."""
        event = contradiction(pool, uid, held, self._instance, write_time(self._wall()))
        if event is not None:
            await self._create_event(EVENT_NAMESPACE, event, pool.name)

    async def create_pool(self, body: Mapping[str, Any]) -> Any:
        """Creates a discovered GPUPool; None if the name was taken meanwhile."""
        self._check()
        try:
            created = await self._client.create(GPUPOOLS.path(), dict(body))
        except AlreadyExists:
            return None
        self._cache.note_written("gpupools", created)
        return created

    async def delete_pool(self, name: str, uid: str) -> None:
        """Deletes a discovered GPUPool whose devices are gone."""
        await self._delete(GPUPOOLS, None, name, uid)

    async def _apply(self, resource: Resource, body: Mapping[str, Any]) -> Any:
        """An object after its fields were applied, also those that another one wrote before."""
        self._check()
        path = resource.path(body["metadata"]["namespace"], body["metadata"]["name"])
        manager = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._client.patch(path, dict(body), APPLY_PATCH, params=manager)

    async def _delete(
        self, resource: Resource, namespace: str | None, name: str, uid: str, propagation: str = "Background"
    ) -> None:
        """Deletes an object of this uid; that it is gone is fine. A Conflict is no proof of that: it is another one by now, which the
        watch will show, or admission refuses the deletion."""
        self._check()
        try:
            answer = await self._client.delete(resource.path(namespace, name), uid=uid, propagation=propagation)
        except NotFound as error:
            if not error.is_of_object:
                raise
            answer = None
        self._cache.note_deleted(resource.plural, namespace, name, uid, answer)

    async def _record_event(self, job: JobRecord, status: Mapping[str, Any]) -> None:
        """Records the event of a written status; a lost event is no error."""
        event = event_of(job, status, self._instance, write_time(self._wall()))
        if event is not None:
            await self._create_event(job.namespace, event, f"{job.namespace}/{job.name}")

    async def _create_event(self, namespace: str, event: Mapping[str, Any], about: str) -> None:
        if not self._is_leader() or self._is_ending(namespace):
            return
        try:
            await self._client.create(EVENTS.path(namespace), dict(event))
        except AlreadyExists:
            pass
        except ApiError as error:
            log.warning("event not written", about=about, error=str(error))

    def _is_ending(self, namespace: str) -> bool:
        """Whether a namespace is being deleted: the API server creates nothing there any more."""
        space = cast("Namespace | None", self._cache.get("namespaces", None, namespace))
        return space is not None and space.terminating

    def _note(self, resource: Resource, obj: Any) -> None:
        if self._cache.follows(resource.plural, table(obj, "metadata").get("namespace")):
            self._cache.note_written(resource.plural, obj)

    def _check(self) -> None:
        if not self._is_leader():
            raise NotLeader("this process is not the leader")
