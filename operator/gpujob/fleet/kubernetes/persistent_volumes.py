"""Which nodes can mount a PersistentVolumeClaim: those that its PersistentVolume's affinity and zone labels allow.

A claim of a StorageClass that is not bound yet waits for its first pod and ties to no node; its access modes count all the same.
The terms are Kubernetes' own: terms are alternatives, the expressions of one hold together; zone labels of old volumes name
several zones with __ between them.
A claim that names no StorageClass gets the cluster's default one, which quotas count.
Claims and volumes are read into slim records once, and held against the nodes only when a job names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpujob.fleet.kubernetes.objects import Labels, Node, Selector
from gpujob.values.untrusted import one_line, table, tables, whole_number

ZONES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
                "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")  # fmt: skip
"""Labels of a PersistentVolume that a node must have too."""

SUCCESSORS: Final = dict(zip(ZONES[2:], ZONES[:2], strict=True))
"""The node label in place of an old one; kube-scheduler reads it if the old one is absent (plugin VolumeZone)."""

ZONES_OF_DRIVERS: Final = ("topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone")
"""Labels with the zone of a node under the names of the clouds' CSI drivers, with the same values."""

NAMES: Final = frozenset({"kubernetes.io/hostname", "metadata.name"})
"""Labels and fields with a node's own name; an autoscaler's nodes have new ones."""

_ONE_WORD: Final = SUCCESSORS | dict.fromkeys(ZONES_OF_DRIVERS, ZONES[0])

OF_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
"""Access modes with which one node at a time can mount a volume."""

NEVER_ATTACHED: Final = frozenset({"nfs", "azureFile", "glusterfs", "cephfs", "hostPath", "local"})
"""Sources of a PersistentVolume that nothing attaches to a node, so that its access modes bind no pod to one."""

DRIVERS_WITHOUT_ATTACHMENT: Final = frozenset(
    {"nfs.csi.k8s.io", "smb.csi.k8s.io", "efs.csi.aws.com", "fsx.csi.aws.com", "file.csi.azure.com", "blob.csi.azure.com",
     "beegfs.csi.netapp.com"}
)  # fmt: skip
"""CSI drivers whose CSIDriver says attachRequired: false."""

OF_ONE_POD: Final = ["ReadWriteOncePod"]
"""The access modes with which one pod at a time can mount a volume; Kubernetes allows no other beside it."""

OF_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
"""Annotations that make a StorageClass the cluster's default."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass: its name, whether it is a default, and its creation time (RFC 3339)."""

    name: str
    default: bool = False
    created: str = ""


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
    takes_default: bool = False
    """Whether a default StorageClass ends that."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    of_name: bool = False
    """Whether it is about a field of the node (metadata.name) and not about its labels."""

    def __str__(self) -> str:
        return " ".join((self.key, self.operator, *self.values))


@dataclass(frozen=True, slots=True)
class Tie:
    """What a PersistentVolume requires of a node: one of the terms, and each of the zone labels."""

    terms: tuple[tuple[Expression, ...], ...] = ()
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    many_nodes: bool = False
    """Whether several nodes can mount it at a time although a claim says ReadWriteOnce: the volume has a mode for many too, or nothing
    attaches it to a node (k8s.io/kubernetes pkg/volume/util IsMultiAttachAllowed).
    """

    def __str__(self) -> str:
        words = [str(expression) for term in self.terms for expression in term]
        words += [f"{key} In {' '.join(values)}" for key, values in self.zones]
        return one_line(", ".join(words)[:120])

    def allows(self, node: Node) -> bool:
        """Whether a node can mount the volume; an empty term matches nothing, as in Kubernetes."""
        labels = node.labels
        if not all(labels.get(key, labels.get(SUCCESSORS.get(key, key))) in values for key, values in self.zones):
            return False
        return not self.terms or any(term and all(_holds(rule, node) for rule in term) for term in self.terms)

    @property
    def sure(self) -> Selector:
        """The terms that the labels of each of its nodes satisfy."""
        only = self.terms[0] if len(self.terms) == 1 else ()
        zones = ((key, "In", values) for key, values in self.zones)
        return (*((rule.key, rule.operator, rule.values) for rule in only if not rule.of_name), *zones)

    def may_allow(self, known: Selector) -> bool:
        """Whether a new node can mount the volume, of whose labels only these terms are known."""
        if not all(_may_hold(Expression(key, "In", values), known) for key, values in self.zones):
            return False
        return not self.terms or any(term and all(_may_hold(rule, known) for rule in term) for term in self.terms)


def new_node_mounts(ties: Sequence[Tie], selector: Selector) -> bool:
    """Whether a node to be added to a pool with this selector may mount all of these volumes."""
    known = (*selector, *(term for tie in ties for term in tie.sure))
    return all(tie.may_allow(known) for tie in ties)


UNTIED: Final = Tie()


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

    @property
    def is_exclusive(self) -> bool:
        """Whether a pod that mounts it keeps it from other nodes, or from all other pods."""
        return self.one_pod or (self.one_node and not self.requires.many_nodes)


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
    ties: Mapping[Key, Tie] = field(default_factory=dict)
    """The requirements of each PersistentVolume; they have no namespace."""
    nodes: Mapping[Any, Node] = field(default_factory=dict)
    complete: bool = False
    classes: Mapping[Key, StorageClass] = field(default_factory=dict)
    """The StorageClasses; empty if they are unknown."""
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

    def never_makes(self, storage_class: str) -> bool:
        """Whether a new claim of this StorageClass (empty: none is named) gets no volume: no such class exists, and no
        PersistentVolume is left to bind.
        """
        known = {each.name for each in self.classes.values()} | ({""} if self.default_class else set())
        if not self.classes or storage_class in known:
            return False
        bound = {claim.volume for claim in self.claims.values()}
        return all(name in bound for _, name in self.ties)

    def volume(self, namespace: str, name: str) -> Volume | None:
        """The nodes of a claim; None if it does not exist."""
        claim = self.claims.get((namespace, name))
        if claim is None:
            return None
        # Kubernetes gives it the default class (RetroactiveDefaultStorageClass, 1.28).
        trouble = "" if claim.takes_default and self.default_class else claim.trouble
        tie = self.ties.get(("", claim.volume), UNTIED)
        if not tie.terms and not tie.zones:
            return Volume(name, None, "", claim.one_node, claim.one_pod, trouble, tie)
        if tie not in self._allowed:
            self._allowed[tie] = frozenset(node.name for node in self.nodes.values() if tie.allows(node))
        return Volume(name, self._allowed[tie], str(tie), claim.one_node, claim.one_pod, trouble, tie)


def read_volume_claim(raw: Mapping[str, Any]) -> VolumeClaim:
    """The record of a PersistentVolumeClaim object; never raises for its contents."""
    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    modes = spec.get("accessModes")
    words = [mode for mode in modes if isinstance(mode, str)] if isinstance(modes, list) else []
    trouble, takes_default = "", False
    if metadata.get("deletionTimestamp"):
        trouble = "is being deleted"
    elif table(raw, "status").get("phase") == "Lost":
        trouble = "has lost its PersistentVolume"
    elif table(raw, "status").get("phase") == "Pending" and not (
        spec.get("storageClassName") or spec.get("volumeName")
    ):
        # Only a claim with a StorageClass can wait for its first pod.
        trouble = "is not bound and names no StorageClass (`kubectl get storageclass` lists them)"
        takes_default = spec.get("storageClassName") is None
    volume = spec.get("volumeName")
    one_node = bool(words) and all(mode in OF_ONE_NODE for mode in words)
    return VolumeClaim(volume if isinstance(volume, str) else "", one_node, words == OF_ONE_POD, trouble, takes_default)


def read_storage_class(raw: Mapping[str, Any]) -> StorageClass:
    """The record of a StorageClass object; never raises for its contents."""
    metadata = table(raw, "metadata")
    annotations = table(metadata, "annotations")
    default = any(annotations.get(key) == "true" for key in OF_DEFAULT)
    return StorageClass(str(metadata.get("name"))[:253], default, str(metadata.get("creationTimestamp") or "")[:32])


def read_tie(raw: Mapping[str, Any]) -> Tie:
    """The requirements of a PersistentVolume object; never raises for its contents."""
    required = table(table(table(raw, "spec"), "nodeAffinity"), "required")
    zones = {key: value for key, value in table(table(raw, "metadata"), "labels").items()
             if key in ZONES and isinstance(value, str)}  # fmt: skip
    return Tie(
        tuple(
            (*_expressions(term, "matchExpressions", of_name=False), *_expressions(term, "matchFields", of_name=True))
            for term in tables(required, "nodeSelectorTerms")
        ),
        tuple((key, tuple(value.split("__"))) for key, value in zones.items()),
        _many_nodes(table(raw, "spec")),
    )


def _many_nodes(spec: Mapping[str, Any]) -> bool:
    """Whether several nodes can mount a PersistentVolume at a time."""
    modes, driver = spec.get("accessModes"), table(spec, "csi").get("driver")
    if isinstance(modes, list) and any(mode in ("ReadWriteMany", "ReadOnlyMany") for mode in modes):
        return True
    return not NEVER_ATTACHED.isdisjoint(spec) or (isinstance(driver, str) and driver in DRIVERS_WITHOUT_ATTACHMENT)


NO_VOLUMES: Final = Volumes()
"""Nothing is known of any claim."""


def volumes_of(
    claims: Mapping[Key, Any],
    volumes: Mapping[Key, Any],
    nodes: Iterable[Node],
    classes: Mapping[Key, Any],
    *,
    complete: bool,
) -> Volumes:
    """The claims, PersistentVolumes and StorageClasses of a cluster description, with its nodes."""
    if not claims and not classes and not complete:
        return NO_VOLUMES
    return Volumes(
        {(namespace or "default", name): read_volume_claim(raw) for (namespace, name), raw in claims.items()},
        {key: read_tie(raw) for key, raw in volumes.items()},
        {node.name: node for node in nodes},
        complete,
        {key: read_storage_class(raw) for key, raw in classes.items()},
    )


def _expressions(term: Mapping[str, Any], field_name: str, *, of_name: bool) -> Iterable[Expression]:
    for rule in tables(term, field_name):
        values = rule.get("values")
        texts = tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
        yield Expression(str(rule.get("key")), str(rule.get("operator")), texts, of_name)


def _holds(rule: Expression, node: Node) -> bool:
    labels: Labels = {"metadata.name": node.name} if rule.of_name else node.labels
    return _accepts(rule, labels.get(rule.key))


def _may_hold(rule: Expression, known: Selector) -> bool:
    """Whether a label of a new node can satisfy an expression together with the known terms about it."""
    if rule.key in NAMES:
        return rule.operator != "In"
    key = _ONE_WORD.get(rule.key, rule.key)
    terms = [Expression(*term) for term in known if _ONE_WORD.get(term[0], term[0]) == key]
    listed = [value for term in (rule, *terms) if term.operator == "In" for value in term.values]
    if not listed and rule.operator in ("Gt", "Lt"):
        return True
    # Where no term lists values, the label may be absent or have another one.
    values: list[str | None] = [*listed] or ["?", None]
    return any(all(_accepts(term, value) for term in (rule, *terms)) for value in values)


def _accepts(rule: Expression, value: str | None) -> bool:
    """Whether the value of a label satisfies an expression; None: the node lacks the label."""
    values, operator = rule.values, rule.operator
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    if operator in ("Gt", "Lt") and len(values) == 1:
        mine, theirs = whole_number(value), whole_number(values[0])
        if mine is not None and theirs is not None:
            return mine > theirs if operator == "Gt" else mine < theirs
    return False
