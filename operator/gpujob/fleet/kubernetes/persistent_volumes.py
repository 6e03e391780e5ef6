"""Which nodes can mount a PersistentVolumeClaim: those that its PersistentVolume allows, or that a volume to come can allow.

A claim that is not bound yet takes a PersistentVolume of its StorageClass that is left, or gets a new one: with WaitForFirstConsumer on
the nodes of the class's allowedTopologies. A class that makes none (kubernetes.io/no-provisioner, or one that does not exist) leaves
the nodes of the volumes that are left. Of a class that binds at once the control plane chooses the nodes first, and they are unknown.
A claim that names no StorageClass gets the cluster's default one, which quotas count.
Claims and volumes are read into slim records once, and held against the nodes only when a job names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.quantities import read_amount
from gpujob.fleet.kubernetes.volume_ties import UNTIED, Tie, on_many_nodes, one_of, read_tie, read_topologies
from gpujob.values.quantity import parse_bytes
from gpujob.values.untrusted import table

OF_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes with which one node at a time can mount a volume."""

OF_ONE_POD: Final = frozenset({"ReadWriteOncePod"})
"""The access modes with which one pod at a time can mount a volume; Kubernetes allows no other beside it."""

OF_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
"""Annotations that make a StorageClass the cluster's default."""

Key = tuple[str, str]
"""Namespace and name."""


MAKES_NONE: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes an admin makes."""

HIDDEN: Final = "redacted"
"""The StorageClass of claims in older captures, which do not keep its name."""

REMEDY: Final = "create it again"

NO_CLASS: Final = "is not bound and names no StorageClass (`kubectl get storageclass` lists them)"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass: its name, whether it is a default, and its creation time (RFC 3339)."""

    name: str
    default: bool = False
    created: str = ""
    makes: bool = True
    """Whether a provisioner makes its volumes."""
    waits: bool = False
    """Whether the scheduler chooses a node before its claims are bound (WaitForFirstConsumer)."""
    topologies: Tie = UNTIED
    """The nodes for which its volumes may be made."""


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A PersistentVolume: what it requires of a node, and which claims it may be bound to."""

    tie: Tie = UNTIED
    storage_class: str | None = None
    """Empty: of none; None: unknown."""
    left: bool | None = None
    """Whether a claim may still be bound to it; None if its phase is unknown."""
    kept_for: Key | None = None
    """The only claim that may be."""
    size: int | None = None
    modes: frozenset[str] = frozenset()
    """Its access modes; empty if they are unknown."""
    block: bool = False
    many_nodes: bool = False
    """Whether several nodes can mount it at a time although a claim says ReadWriteOnce."""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim: its bound PersistentVolume (empty: none yet), and what stops its pods."""

    volume: str = ""
    one_node: bool = False
    """Whether one node at a time can mount it."""
    one_pod: bool = False
    """Whether one pod at a time can."""
    trouble: str = ""
    """Why the scheduler rejects pods that name it."""
    phase: str = ""
    """Its phase; empty if the description does not say it."""
    storage_class: str | None = None
    """Empty: it asks for none; None: it names none and gets the default one."""
    size: int = 0
    modes: frozenset[str] = frozenset()
    block: bool = False

    @property
    def unbound(self) -> bool:
        """Whether it has no volume yet."""
        return not self.volume and self.phase in ("", "Pending")

    def takes(self, volume: PersistentVolume) -> bool:
        """Whether it can be bound to a volume of its StorageClass, as far as size and modes say."""
        large = volume.size is None or volume.size >= self.size
        return large and self.block == volume.block and (not volume.modes or self.modes <= volume.modes)


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim's nodes: the names of those that can mount it (None: any), and the reason of the limit."""

    claim: str
    nodes: frozenset[str] | None = None
    tie: str = ""
    one_node: bool = False
    one_pod: bool = False
    trouble: str = ""
    requires: Tie = UNTIED
    remedy: str = REMEDY
    """What ends the trouble."""
    many_nodes: bool = False
    """Whether several nodes can mount it at a time whatever the claim says."""

    @property
    def is_exclusive(self) -> bool:
        """Whether a pod that mounts it keeps it from other nodes, or from all other pods."""
        return self.one_pod or (self.one_node and not self.many_nodes)


class Mount(NamedTuple):
    """A pod that mounts a claim."""

    node: str
    """The node; empty for a pod that waits for a node to be added."""
    user: str
    """The pod, or the job whose pod is still to come: its kind and its name."""
    starts: bool = False
    """Whether the pod is still to come."""


Mounts = Mapping[Key, tuple[Mount, ...]]
"""The pods that mount each claim, by its namespace and name; a claim that none mounts is absent."""


def with_mount(mounts: Mounts, namespace: str, claims: Iterable[str], mount: Mount) -> Mounts:
    """The mounts after one more pod mounts these claims."""
    more = {(namespace, claim): (*mounts.get((namespace, claim), ()), mount) for claim in claims}
    return {**mounts, **more} if more else mounts


@dataclass(frozen=True, slots=True)
class Volumes:
    """The claims and PersistentVolumes of a cluster, and its nodes; live views are allowed and are read on demand.

    `complete`: whether a claim that is not among them does not exist. A file may contain the claims of some namespaces only; those
    of others are unknown.
    """

    claims: Mapping[Key, VolumeClaim] = field(default_factory=dict)
    volumes: Mapping[Key, PersistentVolume] = field(default_factory=dict)
    """The PersistentVolumes; they have no namespace."""
    nodes: Mapping[Any, Node] = field(default_factory=dict)
    complete: bool = False
    classes: Mapping[Key, StorageClass] = field(default_factory=dict)
    """The StorageClasses; empty if they are unknown."""
    all_volumes: bool = True
    """Whether a PersistentVolume that is not among them does not exist."""
    _allowed: dict[Tie, frozenset[str]] = field(default_factory=dict, compare=False)

    def knows(self, namespace: str) -> bool:
        """Whether an absent claim of this namespace does not exist."""
        return self.complete or any(of == namespace for of, _ in self.claims)

    @property
    def default_class(self) -> str | None:
        """The StorageClass of claims that name none: of several defaults the newest, then the first by name
        (k8s.io/kubernetes pkg/volume/util/storageclass.go); empty if there is none, None if that is unknown.
        """
        defaults = sorted((each for each in self.classes.values() if each.default), key=lambda each: each.name)
        newest = max(defaults, key=lambda each: each.created, default=None)
        return newest.name if newest else "" if self.classes else None

    def of_pod(self, name: str, storage_class: str, size: int) -> Volume:
        """The nodes of a claim that each pod creates, of this StorageClass (empty: none is named) and size in bytes; the name is for
        sentences.
        """
        tie, why, remedy = self._unbound(
            VolumeClaim(phase="Pending", storage_class=storage_class or None, size=size), None
        )
        return self._volume(name, tie, VolumeClaim(trouble=why), remedy, f"StorageClass {storage_class}: ")

    def volume(self, namespace: str, name: str) -> Volume | None:
        """The nodes of a claim; None if it does not exist."""
        key = (namespace, name)
        claim = self.claims.get(key)
        if claim is None:
            return None
        if not claim.unbound:
            found = self.volumes.get(("", claim.volume))
            volume = self._volume(name, found.tie if found else UNTIED, claim)
            return replace(volume, many_nodes=found is not None and found.many_nodes)
        tie, why, remedy = self._unbound(claim, key)
        words = f"is not bound, and {why}" if self._class_of(claim) else NO_CLASS
        claim = replace(claim, trouble=claim.trouble or (why and words))
        return self._volume(name, tie, claim, remedy, f"StorageClass {self._class_of(claim)}: ")

    def _volume(self, name: str, tie: Tie, claim: VolumeClaim, remedy: str = "", source: str = "") -> Volume:
        said = (claim.one_node, claim.one_pod, claim.trouble)
        if tie == UNTIED:
            return Volume(name, None, "", *said, remedy=remedy or REMEDY)
        if tie not in self._allowed:
            self._allowed[tie] = frozenset(node.name for node in self.nodes.values() if tie.allows(node))
        return Volume(name, self._allowed[tie], f"{source}{tie}", *said, tie, remedy or REMEDY)

    def _class_of(self, claim: VolumeClaim) -> str:
        return (self.default_class or "") if claim.storage_class is None else claim.storage_class

    def _unbound(self, claim: VolumeClaim, key: Key | None) -> tuple[Tie, str, str]:
        """What a claim that is not bound requires of its node; and if it never will be bound, the reason and what ends that."""
        name = self._class_of(claim)
        if name and (not self.classes or name == HIDDEN):
            return UNTIED, "", ""
        own = next((each for each in self.classes.values() if each.name == name), None)
        if own is not None and own.makes:
            if not own.waits or own.topologies == UNTIED:
                return UNTIED, "", ""
            there = (each.tie for each in self._left(claim, key, name) if each.storage_class == name)
            return one_of((own.topologies, *there)), "", ""
        left = self._left(claim, key, name)
        if left:
            return one_of([each.tie for each in left]), "", ""
        if not name and claim.phase:
            return UNTIED, "it names no StorageClass and none is the default", ""
        if not name or not self.all_volumes:
            return UNTIED, "", ""
        if own is None:
            return UNTIED, f"StorageClass {name} does not exist", ""
        why = f"StorageClass {name} makes no volumes and has no PersistentVolume left that fits"
        return UNTIED, why, "create such a PersistentVolume"

    def _left(self, claim: VolumeClaim, key: Key | None, storage_class: str) -> list[PersistentVolume]:
        """The PersistentVolumes that the claim may be bound to."""
        unclear = any(each.left is None for each in self.volumes.values())
        bound = {claim.volume for claim in self.claims.values()} if unclear else ()
        return [
            each
            for (_, name), each in self.volumes.items()
            if each.storage_class in (None, storage_class)
            and (each.left or (each.left is None and name not in bound))
            and each.kept_for in (None, key)
            and claim.takes(each)
        ]


def read_volume_claim(raw: Mapping[str, Any]) -> VolumeClaim:
    """The record of a PersistentVolumeClaim object; never raises for its contents."""
    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    phase, volume = table(raw, "status").get("phase"), _text(spec.get("volumeName")) or ""
    trouble = ""
    if metadata.get("deletionTimestamp"):
        trouble = "is being deleted"
    elif phase == "Lost":
        trouble = "has lost its PersistentVolume"
    modes = _modes(spec)
    return VolumeClaim(
        volume,
        bool(modes) and modes <= OF_ONE_NODE,
        modes == OF_ONE_POD,
        trouble,
        _text(phase) or "",
        _text(spec.get("storageClassName")),
        _size(table(table(spec, "resources"), "requests")) or 0,
        modes,
        spec.get("volumeMode") == "Block",
    )


def read_storage_class(raw: Mapping[str, Any]) -> StorageClass:
    """The record of a StorageClass object; never raises for its contents."""
    metadata = table(raw, "metadata")
    annotations = table(metadata, "annotations")
    return StorageClass(
        str(metadata.get("name"))[:253],
        any(annotations.get(key) == "true" for key in OF_DEFAULT),
        str(metadata.get("creationTimestamp") or "")[:32],
        raw.get("provisioner") != MAKES_NONE,
        raw.get("volumeBindingMode") == "WaitForFirstConsumer",
        read_topologies(raw),
    )


def read_volume(raw: Mapping[str, Any]) -> PersistentVolume:
    """The record of a PersistentVolume object; never raises for its contents."""
    spec, phase = table(raw, "spec"), table(raw, "status").get("phase")
    holder = table(spec, "claimRef")
    return PersistentVolume(
        read_tie(raw),
        # The API server requires a capacity, so without one the object is a part.
        _text(spec.get("storageClassName")) or ("" if "capacity" in spec else None),
        phase == "Available" if isinstance(phase, str) else None,
        (str(holder.get("namespace")), str(holder.get("name"))) if holder else None,
        _size(table(spec, "capacity")),
        _modes(spec),
        spec.get("volumeMode") == "Block",
        on_many_nodes(spec),
    )


def _text(value: Any) -> str | None:
    return value[:253] if isinstance(value, str) else None


def _modes(spec: Mapping[str, Any]) -> frozenset[str]:
    modes = spec.get("accessModes")
    return frozenset(mode for mode in modes if isinstance(mode, str)) if isinstance(modes, list) else frozenset()


def _size(amounts: Mapping[str, Any]) -> int | None:
    """The bytes of storage among these amounts; None if they cannot be read."""
    return read_amount(amounts, "storage", parse_bytes, [])


NO_VOLUMES: Final = Volumes()
"""Nothing is known of any claim."""


def volumes_of(
    claims: Mapping[Key, Any],
    volumes: Mapping[Key, Any],
    nodes: Iterable[Node],
    classes: Mapping[Key, Any],
    *,
    complete: bool,
    all_volumes: bool = True,
) -> Volumes:
    """The claims, PersistentVolumes and StorageClasses of a cluster description, with its nodes."""
    if not claims and not classes and not complete:
        return NO_VOLUMES
    return Volumes(
        {(namespace or "default", name): read_volume_claim(raw) for (namespace, name), raw in claims.items()},
        {key: read_volume(raw) for key, raw in volumes.items()},
        {node.name: node for node in nodes},
        complete,
        {key: read_storage_class(raw) for key, raw in classes.items()},
        all_volumes,
    )
