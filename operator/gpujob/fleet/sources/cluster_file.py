"""A cluster as a file: the planner's input from Kubernetes objects in YAML or JSON, also from live responses.

`kubectl get nodes,pods,jobs,gpujobs,gpupools,gpuruntimes,runtimeclasses,resourcequotas,limitranges,priorityclasses,storageclasses,pvc,
pv -A -o yaml` is such a file, `kubectl gpujob capture` writes one. Everything in it is hostile: an unreadable object is left out and
reported in `unread`, never raised, so that one malformed object does not stop the others. Called by the command line; the operator
reads the same objects from its watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.extending import Extending, extends
from gpujob.catalog.images.from_spec import runtime_of, sentences, unreadable_runtimes
from gpujob.catalog.images.runtime import Runtime
from gpujob.fleet.assembly.reservations import quotas_reserved
from gpujob.fleet.assembly.usage import PodReservation
from gpujob.fleet.assembly.volumes_taken import volumes_taken
from gpujob.fleet.dra import resource_slices
from gpujob.fleet.dra.inventory import read_inventory
from gpujob.fleet.gpupools.selection import AdminPool, admin_pool, problem_of, unreadable_pool
from gpujob.fleet.kubernetes.namespaces import Namespace, read_namespace
from gpujob.fleet.kubernetes.objects import Node, Pod
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.kubernetes.priority_classes import Priorities, read_priority
from gpujob.fleet.kubernetes.runtime_classes import Classes, read_runtime_class
from gpujob.fleet.policy.limit_range import LimitRanges, limits_of, read_limit_range
from gpujob.fleet.policy.resource_quota import Quotas, quotas_of, read_quota
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources import published_pools
from gpujob.fleet.sources.build import read_fleet
from gpujob.fleet.sources.ignored_values import ignored_specs, ignored_values
from gpujob.fleet.sources.kubectl_yaml import read_documents
from gpujob.fleet.storage.claim_volumes import NO_VOLUMES, Volumes
from gpujob.fleet.storage.described_volumes import volumes_of
from gpujob.values.errors import BadClusterFile, BadInput
from gpujob.values.untrusted import table
from gpujob.values.vocabulary import GROUP, Label

if TYPE_CHECKING:
    from gpujob.api.kinds.gpupool import GPUPool

GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Node", "Pod", "Namespace", "ResourceQuota", "LimitRange"), ""),
    **dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume"), ""),
    "StorageClass": "storage.k8s.io",
    "RuntimeClass": "node.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    **dict.fromkeys(("ResourceSlice", "ResourceClaim", "DeviceClass", "DeviceTaintRule"), "resource.k8s.io"),
    **dict.fromkeys(("GPUPool", "GPURuntime", "GPUJobProfile"), GROUP),
}
"""Kinds that a cluster description can hold, with their API group; others are skipped."""

NAMESPACED: Final = frozenset(
    {"Pod", "ResourceQuota", "LimitRange", "PersistentVolumeClaim", "ResourceClaim", "GPUJobProfile"}
)
"""The kinds with names that are unique in a namespace only; a namespace on other kinds is ignored."""

ALL_CLAIMS: Final = "PersistentVolumeClaimList"
"""The kind of a list of all claims, as the API server gives it."""

ALL_VOLUMES: Final = "PersistentVolumeList"
"""The kind of a list of all PersistentVolumes."""

NOTHING: Final[Mapping[tuple[str, str], Any]] = MappingProxyType({})

MAX_DEPTH: Final = 16
"""The depth of Lists within Lists that is read."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """The objects of a cluster description, each once; the last one of duplicates."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    admin_pools: tuple[GPUPool, ...] = ()
    """GPUPools that an admin wrote."""
    unreadable_pools: tuple[AdminPool, ...] = ()
    """The remains of admins' GPUPools that cannot be read."""
    discovered_pools: tuple[GPUPool, ...] = ()
    """GPUPools that the operator published: they count only if no node is known."""
    runtimes: tuple[Runtime, ...] = ()
    extending: tuple[Extending, ...] = field(default=(), hash=False)
    """GPURuntimes that extend a row of the catalog."""
    runtime_classes: Classes = field(default_factory=dict, hash=False)
    quotas: Quotas = field(default_factory=dict, hash=False)
    limits: LimitRanges = field(default_factory=dict, hash=False)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict, hash=False)
    volumes: Volumes = field(default=NO_VOLUMES, hash=False)
    priorities: Priorities = field(default_factory=dict, hash=False)
    reservations: tuple[PodReservation, ...] = ()
    """The reservations of the child Jobs of GPUJobs, each once; set by the caller that reads Jobs."""
    others: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """GPUJobProfiles and the objects of DRA, not parsed."""
    published_at: str | None = None
    """The operator's last write of a GPUPool's status (RFC 3339), None if unknown."""
    unread: tuple[str, ...] = ()
    """Unreadable parts: one sentence for each object or field."""

    @property
    def published_only(self) -> bool:
        """Whether free GPUs are known from published GPUPools only, because there is no node."""
        return not self.nodes and any(pool.status and pool.status.gpus for pool in self.all_pools)

    @property
    def all_pools(self) -> tuple[GPUPool, ...]:
        """GPUPools of both kinds."""
        return self.admin_pools + self.discovered_pools


def fleet_of(objects: ClusterObjects, catalog: Catalog) -> tuple[Fleet, Catalog]:
    """The fleet of the objects, and the catalog with the cluster's own GPURuntimes."""
    objects = with_extended(objects, catalog)
    if objects.runtimes:
        catalog = catalog.with_runtimes(objects.runtimes)
    if objects.published_only:
        fleet = published_pools.fleet_of(objects.all_pools, catalog, objects.runtime_classes)
    else:
        admin_pools = [*map(admin_pool, objects.admin_pools), *objects.unreadable_pools]
        inventory = read_inventory(objects.others, objects.pods) if objects.others else None
        fleet = read_fleet(
            objects.nodes,
            objects.pods,
            catalog,
            admin_pools,
            objects.runtime_classes,
            objects.reservations,
            inventory=inventory,
        )
    # Published pools contain no names or labels of nodes, so volumes are unknown.
    volumes = NO_VOLUMES if objects.published_only else objects.volumes
    volumes = volumes_taken(volumes, objects.reservations, objects.pods)
    reserved, priorities, default = objects.reservations, objects.priorities, volumes.default_class
    quotas = quotas_reserved(objects.quotas, reserved, objects.pods, priorities, fleet.pools, default)
    fleet = replace(fleet, quotas=quotas, limits=objects.limits, namespaces=objects.namespaces, volumes=volumes)
    return replace(fleet, priorities=objects.priorities), catalog


def with_extended(objects: ClusterObjects, catalog: Catalog) -> ClusterObjects:
    """The objects with the rows of the GPURuntimes that extend one of the catalog; a sentence for each that cannot."""
    rows = [row for each in objects.extending for row in each.runtimes(catalog.runtimes)]
    runtimes, unread = (*objects.runtimes, *rows), (*objects.unread, *sentences(rows))
    return replace(objects, runtimes=runtimes, extending=(), unread=unread) if rows else objects


def read_cluster(source: str | Iterable[Any], written: Mapping[tuple[str, str], Any] = NOTHING) -> ClusterObjects:
    """The objects of a description: its text, or documents already parsed; BadClusterFile when it holds no object. `written`: the
    claims of a manifest that is not applied yet, by namespace and name.
    """
    reading = _Reading()
    reading.written = written
    documents = read_documents(source, reading.unread) if isinstance(source, str) else list(source)
    for item in objects_in(documents, reading.unread):
        reading.take(item)
    # The API server's own response; kubectl writes a List, which may be of one namespace.
    lists = {item["kind"] for item in documents if isinstance(item, dict) and _is_list(item)}
    reading.all_claims = ALL_CLAIMS in lists
    # Of a live cluster the volumes are known if the user may list them.
    reading.all_volumes = not reading.all_claims or ALL_VOLUMES in lists
    if not reading.known and reading.strange:
        kinds = ", ".join(sorted(reading.strange)[:5])
        raise BadClusterFile(f"describes no cluster: it has {kinds}, no Node; `kubectl gpujob capture` writes one")
    # For an empty cluster kubectl writes an empty List.
    if not reading.known and not any(isinstance(item, dict) and _is_list(item) for item in documents):
        raise BadClusterFile("has no Kubernetes objects; `kubectl gpujob capture -o FILE` writes such a file")
    return reading.objects()


def objects_in(documents: Iterable[Any], unread: list[str]) -> Iterator[Mapping[str, Any]]:
    """Every object of some documents, those in Lists (and Lists of Lists) one by one, each with its kind."""
    followed: set[int] = set()

    def walk(item: Any, kind: str, version: str, depth: int) -> Iterator[Mapping[str, Any]]:
        if isinstance(item, list) or (isinstance(item, dict) and _is_list(item)):
            # A YAML alias can put one List into another many times, or into itself.
            if depth > MAX_DEPTH or id(item) in followed:
                return
            followed.add(id(item))
            members, kind, version = _members(item)
            for member in members:
                yield from walk(member, kind, version, depth + 1)
        elif isinstance(item, dict):
            yield {"apiVersion": version, "kind": kind, **item} if kind and "kind" not in item else item
        elif item is not None:
            unread.append(f"{str(item)[:40]!r} is no Kubernetes object and is left out")

    for document in documents:
        yield from walk(document, "", "", 0)


def _is_list(item: Mapping[str, Any]) -> bool:
    kind = item.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(item.get("items"), (list, type(None)))


def _members(item: Any) -> tuple[list[Any], str, str]:
    """The members of a List, and the kind and version that a typed list (NodeList) gives them."""
    if isinstance(item, list):
        return item, "", ""
    return item.get("items") or [], item["kind"].removesuffix("List"), str(item.get("apiVersion", ""))


class _Reading:
    """Sorts objects by kind; the last of duplicates (kind, namespace and name) replaces the first."""

    def __init__(self) -> None:
        self.unread: list[str] = []
        self.strange: set[str] = set()
        """Kinds that are skipped."""
        self.known = False
        """Whether any object is of a known kind, readable or not."""
        self.all_claims, self.all_volumes = False, True
        """Whether the claims are those of all namespaces."""
        self.written: Mapping[tuple[str, str], Any] = NOTHING
        self._unreadable: list[AdminPool] = []
        self._unreadable_runtimes: list[Runtime] = []
        self._found: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {kind: {} for kind in GROUPS}

    def take(self, item: Mapping[str, Any]) -> None:
        """Keeps one object of a known kind."""
        kind = item.get("kind")
        if not isinstance(kind, str):
            self.unread.append("an object without a kind is left out")
            return
        if kind not in GROUPS or GROUPS[kind] != _group(item):
            self.strange.add(kind)
            return
        self.known = True
        metadata = item.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            found = "" if name in (None, "") else f" of text (it is {str(name)[:40]}; put it in quotes)"
            self.unread.append(f"a {kind} without metadata.name{found} is left out")
            return
        namespace = metadata.get("namespace") if kind in NAMESPACED else None
        key = namespace if isinstance(namespace, str) else "", name
        if key in self._found[kind]:
            self.unread.append(f"{kind} {'/'.join(filter(None, key))} is described twice; the last one counts")
        self._found[kind][key] = item

    def objects(self) -> ClusterObjects:
        """All kept objects, parsed."""
        nodes = tuple(self._read("Node", read_node))
        self.unread += ignored_values(nodes, self._found["Node"])
        pods = tuple(self._read("Pod", read_pod))
        self.unread += [f"Pod {pod.namespace}/{pod.name}: {problem}" for pod in pods for problem in pod.unread]
        found = ((name, resource_slices.read_slice(item)) for (_, name), item in self._found["ResourceSlice"].items())
        self.unread += [f"ResourceSlice {name}: {one.unread}" for name, one in found if one.unread]
        pools = tuple(self._read("GPUPool", _gpupool))
        written = {pool.metadata.name for pool in pools if published_pools.is_discovered(pool)}
        self.unread += ignored_specs(written, self._found["GPUPool"])
        runtimes = self._found["GPURuntime"]
        extending = [runtimes.pop(key) for key in [key for key, raw in runtimes.items() if extends(raw)]]
        return ClusterObjects(
            nodes=nodes,
            pods=pods,
            admin_pools=tuple(pool for pool in pools if not published_pools.is_discovered(pool)),
            unreadable_pools=tuple(self._unreadable),
            discovered_pools=tuple(pool for pool in pools if published_pools.is_discovered(pool)),
            runtimes=(*self._read("GPURuntime", _runtime), *self._unreadable_runtimes),
            extending=tuple(Extending(raw) for raw in extending),
            runtime_classes={name: read_runtime_class(item) for (_, name), item in self._found["RuntimeClass"].items()},
            namespaces={name: read_namespace(item) for (_, name), item in self._found["Namespace"].items()},
            others=tuple(
                item for kind in ("GPUJobProfile", *resource_slices.KINDS) for item in self._found[kind].values()
            ),
            limits=limits_of(
                (namespace or "default", read_limit_range(item))
                for (namespace, _), item in self._found["LimitRange"].items()
            ),
            quotas=quotas_of(
                (namespace or "default", read_quota(item))
                for (namespace, _), item in self._found["ResourceQuota"].items()
            ),
            volumes=volumes_of(
                self._found["PersistentVolumeClaim"],
                self._found["PersistentVolume"],
                nodes,
                self._found["StorageClass"],
                complete=self.all_claims,
                all_volumes=self.all_volumes,
                written=self.written,
            ),
            priorities={name: read_priority(item) for (_, name), item in self._found["PriorityClass"].items()},
            published_at=max(filter(None, map(_status_written, self._found["GPUPool"].values())), default=None),
            unread=tuple(self.unread),
        )

    def _read(self, kind: str, read: Any) -> Iterator[Any]:
        for (namespace, name), item in self._found[kind].items():
            try:
                yield read(item)
            except BadInput as error:
                if kind == "GPUPool" and not _is_published(item):
                    self._unreadable.append(unreadable_pool(item, str(error)))
                    self.unread.append(f"{problem_of(self._unreadable[-1]).message}")
                    continue
                said = "; ".join(str(error).splitlines())
                if kind == "GPURuntime":
                    self._unreadable_runtimes += unreadable_runtimes(item, str(error))
                    self.unread.append(f"GPURuntime {name} cannot be read, so it is not used: {said}")
                    continue
                self.unread.append(f"{kind} {name} is left out: {said}")
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                where = f"{namespace}/{name}" if namespace else name
                self.unread.append(f"{kind} {where} is left out: it is malformed ({error})"[:300])


def _group(item: Mapping[str, Any]) -> str | None:
    version = item.get("apiVersion", "v1")
    return (version.rpartition("/")[0]) if isinstance(version, str) else None


def _is_published(item: Mapping[str, Any]) -> bool:
    return table(table(item, "metadata"), "labels").get(Label.DISCOVERED) == "true"


def _gpupool(raw: Mapping[str, Any]) -> GPUPool:
    """A GPUPool; a published one with its status, which readers of manifests leave out."""
    # late import: many descriptions hold no GPUPool, and models take longer to import than everything else here
    from gpujob.api.kinds.gpupool import GPUPoolStatus
    from gpujob.api.manifest import read_gpupool

    pool, status = read_gpupool(raw), raw.get("status")
    return pool.model_copy(update={"status": GPUPoolStatus.model_validate(status)}) if status else pool


def _runtime(raw: Mapping[str, Any]) -> Runtime:
    from gpujob.api.manifest import read_gpuruntime

    runtime = read_gpuruntime(raw)
    return runtime_of(runtime.metadata.name, runtime.spec)


def _status_written(raw: Mapping[str, Any]) -> str | None:
    """The time of an object's last status write, from its managedFields."""
    entries = raw["metadata"].get("managedFields")
    times = [
        entry.get("time")
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("subresource") == "status"
    ]
    return max((time for time in times if isinstance(time, str)), default=None)
