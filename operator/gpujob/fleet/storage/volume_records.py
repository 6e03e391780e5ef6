"""PersistentVolumeClaims, PersistentVolumes and StorageClasses as slim records: what decides which nodes can mount them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.fleet.kubernetes.quantities import read_amount
from gpujob.fleet.storage.volume_ties import UNTIED, Tie, on_many_nodes, read_tie, read_topologies, texts_of
from gpujob.values.quantity import parse_bytes
from gpujob.values.untrusted import table, tables

OF_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes with which one node at a time can mount a volume."""

OF_ONE_POD: Final = frozenset({"ReadWriteOncePod"})
"""The access modes with which one pod at a time can mount a volume; Kubernetes allows no other beside it."""

OF_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
"""Annotations that make a StorageClass the cluster's default."""

MAKES_NONE: Final = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes an admin makes."""

Key = tuple[str, str]
"""Namespace and name."""

Selector = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Rules of a label selector: the key, the operator (In, NotIn, Exists or DoesNotExist) and its values."""


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
    """The only claim that may be bound to it."""
    size: int | None = None
    modes: frozenset[str] = frozenset()
    """Its access modes; empty if they are unknown."""
    block: bool = False
    many_nodes: bool = False
    """Whether several nodes can mount it at a time although a claim says ReadWriteOnce."""
    labels: tuple[tuple[str, str], ...] = ()


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
    """Empty: it requests none; None: it names none and gets the default one."""
    size: int = 0
    modes: frozenset[str] = frozenset()
    block: bool = False
    selector: Selector = ()
    """What the labels of its volume must be; all of these rules hold."""

    @property
    def unbound(self) -> bool:
        """Whether it has no volume yet."""
        return not self.volume and self.phase in ("", "Pending")

    def takes(self, volume: PersistentVolume) -> bool:
        """Whether it can be bound to a volume of its StorageClass, as far as size, modes and labels say; those of a volume that is kept
        for it do not count.
        """
        large = volume.size is None or volume.size >= self.size
        if self.selector and volume.kept_for is None and not _selects(self.selector, dict(volume.labels)):
            return False
        return large and self.block == volume.block and (not volume.modes or self.modes <= volume.modes)


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
        read_selector(table(spec, "selector")),
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
        # The API server requires a capacity, so an object without one is incomplete.
        _text(spec.get("storageClassName")) or ("" if "capacity" in spec else None),
        phase == "Available" if isinstance(phase, str) else None,
        (str(holder.get("namespace")), str(holder.get("name"))) if holder else None,
        _size(table(spec, "capacity")),
        _modes(spec),
        spec.get("volumeMode") == "Block",
        on_many_nodes(spec),
        tuple(sorted(_texts(table(table(raw, "metadata"), "labels")))),
    )


def read_selector(raw: Mapping[str, Any]) -> Selector:
    """The rules of a LabelSelector object; never raises for its contents."""
    exact = ((key, "In", (value,)) for key, value in sorted(_texts(table(raw, "matchLabels"))))
    rules = tables(raw, "matchExpressions")
    return (*exact, *((str(rule.get("key")), str(rule.get("operator")), texts_of(rule)) for rule in rules))


def _selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether labels are as all rules say (k8s.io/apimachinery pkg/labels); NotIn holds without the label too."""
    holds = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, values: key in labels,
        "DoesNotExist": lambda key, values: key not in labels,
    }
    return all(operator in holds and holds[operator](key, values) for key, operator, values in selector)


def _texts(members: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return ((str(key), value) for key, value in members.items() if isinstance(value, str))


def _text(value: Any) -> str | None:
    return value[:253] if isinstance(value, str) else None


def _modes(spec: Mapping[str, Any]) -> frozenset[str]:
    modes = spec.get("accessModes")
    return frozenset(mode for mode in modes if isinstance(mode, str)) if isinstance(modes, list) else frozenset()


def _size(amounts: Mapping[str, Any]) -> int | None:
    """The bytes of storage among these amounts; None if they cannot be read."""
    return read_amount(amounts, "storage", parse_bytes, [])
