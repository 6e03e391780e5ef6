"""The cached kinds: one list and watch for each, with the record of each object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from gpujob.api.manifest import read_gpupool, read_gpuruntime
from gpujob.catalog.files.extending import Extending, extends
from gpujob.catalog.images.from_spec import runtime_of, unreadable_runtimes
from gpujob.catalog.images.runtime import Runtime
from gpujob.cluster.cache.object_cache import Kind
from gpujob.cluster.client.paths import Resource
from gpujob.fleet.dra.device_taints import read_rule
from gpujob.fleet.dra.resource_slices import read_claim, read_class, read_slice
from gpujob.fleet.gpupools.selection import AdminPool, admin_pool, unreadable_pool
from gpujob.fleet.kubernetes.namespaces import read_namespace
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.kubernetes.priority_classes import read_priority
from gpujob.fleet.kubernetes.runtime_classes import read_runtime_class
from gpujob.fleet.policy.limit_range import read_limit_range
from gpujob.fleet.policy.resource_quota import read_quota
from gpujob.fleet.storage.volume_records import read_storage_class, read_volume, read_volume_claim
from gpujob.placement.request.profile_measurements import profile_of
from gpujob.render.runner import digest_of
from gpujob.status.records.read_objects import read_child, read_job, read_pod_record, read_service, with_first_request
from gpujob.values.errors import BadInput
from gpujob.values.vocabulary import GROUP, VERSION, Label

NODES: Final = Resource("", "v1", "nodes", namespaced=False)
PODS: Final = Resource("", "v1", "pods")
JOBS: Final = Resource("batch", "v1", "jobs")
SERVICES: Final = Resource("", "v1", "services")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges")
QUOTAS: Final = Resource("", "v1", "resourcequotas")
EVENTS: Final = Resource("events.k8s.io", "v1", "events")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", namespaced=False)
VOLUMES: Final = Resource("", "v1", "persistentvolumes", namespaced=False)
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", namespaced=False)
SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False)
CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims")
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", namespaced=False)
GPUJOBS: Final = Resource(GROUP, VERSION, "gpujobs")
GPUPOOLS: Final = Resource(GROUP, VERSION, "gpupools", namespaced=False)
PROFILES: Final = Resource(GROUP, VERSION, "gpujobprofiles")
GPURUNTIMES: Final = Resource(GROUP, VERSION, "gpuruntimes", namespaced=False)

DRA_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of resource.k8s.io that are read, the newest first: Kubernetes 1.34, 1.33, 1.32. Older ones have none."""

TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
"""Versions of DeviceTaintRule that are read: Kubernetes 1.37, 1.36, 1.33."""


def claim_templates(body: Mapping[str, Any]) -> Resource:
    """The resource of a ResourceClaimTemplate, in its own version."""
    return Resource("resource.k8s.io", str(body["apiVersion"]).rpartition("/")[2], "resourceclaimtemplates")


class PoolRecord:
    """A GPUPool: the admin's selection, or (discovered) the operator's own publication with its status unchanged."""

    __slots__ = ("admin", "generation", "name", "spec", "status", "uid", "version")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        metadata = raw["metadata"]
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.version: str = metadata.get("resourceVersion", "")
        self.generation: int = metadata.get("generation", 1)
        self.spec: Mapping[str, Any] = raw.get("spec") or {}
        self.status: Mapping[str, Any] = raw.get("status") or {}
        discovered = (metadata.get("labels") or {}).get(Label.DISCOVERED) == "true"
        self.admin: AdminPool | None = None if discovered else _admin_pool(raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PoolRecord) and (self.uid, self.version) == (other.uid, other.version)

    __hash__ = None  # type: ignore[assignment]


def _admin_pool(raw: Mapping[str, Any]) -> AdminPool:
    """An admin's GPUPool; the rest of it if another version of the schema accepted something unreadable."""
    try:
        return admin_pool(read_gpupool(raw))
    except BadInput as error:
        return unreadable_pool(raw, str(error))


def read_runtimes(raw: Mapping[str, Any]) -> tuple[Runtime, ...] | Extending:
    """An admin's GPURuntime as rows of the catalog: one, or the rest of an unreadable object; or what the index adds a row to."""
    if extends(raw):
        return Extending({key: raw[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in raw})
    try:
        runtime = read_gpuruntime(raw)
        return (runtime_of(runtime.metadata.name, runtime.spec, source="GPURuntime", checked_on=""),)
    except BadInput as error:
        return unreadable_runtimes(raw, str(error))


class RunnerMap:
    """A ConfigMap of the runner's name in some namespace: whether it holds the runner, which every user can change."""

    __slots__ = ("digest", "ready", "uid")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        metadata, data = raw["metadata"], raw.get("data") or {}
        self.uid: str = metadata.get("uid", "")
        self.digest = digest_of(data) if not raw.get("binaryData") else ""
        self.ready = raw.get("immutable") is True and "deletionTimestamp" not in metadata

    def __eq__(self, other: object) -> bool:
        mine = (self.uid, self.digest, self.ready)
        return isinstance(other, RunnerMap) and mine == (other.uid, other.digest, other.ready)

    __hash__ = None  # type: ignore[assignment]


_IMAGES: Final = re.compile(rb'"images":\[(?:\{"names":\[[^]]*+\],"sizeBytes":[0-9]++\},?)*+\]')
"""A Node's status.images as the API server writes it. Nothing else matches, because quotes inside a text are escaped."""


def without_images(body: bytes) -> bytes:
    """JSON of nodes without the names of their images: three quarters of it, and most of the time to decode it."""
    return _IMAGES.sub(b'"images":[]', body)


OF_ALL_NAMESPACES: Final = frozenset({"pods", "resourceclaims"})
"""What is followed everywhere, however few namespaces have jobs: GPUs that others hold would look free."""


def mirrored(runner: str, namespaces: Sequence[str] = ()) -> tuple[Kind, ...]:
    """What the operator follows: each kind in all namespaces, or one entry for each of `namespaces`.

    The server restricts jobs to the operator's children, ConfigMaps to the runner's name.
    """
    kinds = _kinds(runner)
    if not namespaces:
        return kinds
    return tuple(
        replace(kind, namespace=namespace)
        for kind in kinds
        for namespace in (namespaces if kind.resource.namespaced and kind.key not in OF_ALL_NAMESPACES else ("",))
    )


def _kinds(runner: str) -> tuple[Kind, ...]:
    return (
        Kind("nodes", NODES, {}, _any(read_node), trim=without_images),
        Kind(
            "pods",
            PODS,
            {},
            _any(read_pod_record),
            keeps=_any(attrgetter("shows_why_it_ends")),
            joins=_any(with_first_request),
        ),
        Kind("jobs", JOBS, {"labelSelector": Label.JOB_UID}, _any(read_child)),
        Kind("services", SERVICES, {"labelSelector": Label.JOB_UID}, _any(read_service)),
        Kind("gpujobs", GPUJOBS, {}, _any(read_job)),
        Kind("gpupools", GPUPOOLS, {}, _any(PoolRecord)),
        Kind("gpuruntimes", GPURUNTIMES, {}, _any(read_runtimes)),
        Kind("gpujobprofiles", PROFILES, {}, _any(profile_of), optional=True),
        Kind("runtimeclasses", RUNTIME_CLASSES, {}, _any(read_runtime_class), optional=True),
        Kind("configmaps", CONFIG_MAPS, {"fieldSelector": f"metadata.name={runner}"}, _any(RunnerMap)),
        Kind("resourcequotas", QUOTAS, {}, _any(read_quota), optional=True),
        Kind("limitranges", LIMIT_RANGES, {}, _any(read_limit_range), optional=True),
        Kind("persistentvolumeclaims", VOLUME_CLAIMS, {}, _any(read_volume_claim), optional=True),
        Kind("persistentvolumes", VOLUMES, {}, _any(read_volume), optional=True),
        Kind("storageclasses", STORAGE_CLASSES, {}, _any(read_storage_class), optional=True),
        Kind("priorityclasses", PRIORITY_CLASSES, {}, _any(read_priority), optional=True),
        Kind("namespaces", NAMESPACES, {}, _any(read_namespace), optional=True),
        Kind("resourceslices", SLICES, {}, _any(read_slice), DRA_VERSIONS, optional=True),
        Kind("resourceclaims", CLAIMS, {}, _any(read_claim), DRA_VERSIONS, optional=True),
        Kind("deviceclasses", DEVICE_CLASSES, {}, _any(read_class), DRA_VERSIONS, optional=True),
        Kind("devicetaintrules", TAINT_RULES, {}, _any(read_rule), TAINT_RULE_VERSIONS, optional=True),
    )


def _any(reader: Any) -> Any:
    """The reader as the cache's `slim`, which can store any record."""
    return reader
