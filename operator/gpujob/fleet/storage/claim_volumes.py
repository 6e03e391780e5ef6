"""Which nodes can mount a PersistentVolumeClaim: those that its PersistentVolume allows, or that a volume to come can allow.

A claim that is not bound yet takes a PersistentVolume of its StorageClass that is left, or gets a new one: with WaitForFirstConsumer on
the nodes of the class's allowedTopologies. A class that makes none (kubernetes.io/no-provisioner, or one that does not exist) leaves
the nodes of the volumes that are left. Of a class that binds at once the control plane chooses the nodes first, and they are unknown.
A claim that names no StorageClass gets the cluster's default one, which quotas count.
Claims and volumes are read into slim records once, and held against the nodes only when a job names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.storage.volume_records import (
    Key,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from gpujob.fleet.storage.volume_ties import HOSTNAME, UNTIED, Tie, alternatives_text, one_of

HIDDEN: Final = "redacted"
"""The StorageClass of claims in older captures, which do not keep its name."""

REMEDY: Final = "create it again"
MADE: Final = "write it"
"""The remedy for a claim that pods create: the job defines it."""

NO_CLASS: Final = "is not bound and names no StorageClass (`kubectl get storageclass` lists them)"


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
    """The remedy."""
    many_nodes: bool = False
    """Whether several nodes can mount it at a time whatever the claim says."""
    static: bool = False
    """Whether it is bound to a PersistentVolume that someone makes: its StorageClass makes none, and it is not bound yet."""

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


class Offer(NamedTuple):
    """A PersistentVolume to which a claim may be bound, and its name."""

    name: str
    volume: PersistentVolume


class Wanted(NamedTuple):
    """A claim that is not bound, and its namespace and name; none of a claim that each pod makes."""

    claim: VolumeClaim
    key: Key | None = None


Mounts = Mapping[Key, tuple[Mount, ...]]
"""The pods that mount each claim, by its namespace and name; a claim that none mounts is absent."""


def with_mount(mounts: Mounts, namespace: str, claims: Iterable[str], mount: Mount) -> Mounts:
    """The mounts after one more pod mounts these claims."""
    more = {(namespace, claim): (*mounts.get((namespace, claim), ()), mount) for claim in claims}
    return {**mounts, **more} if more else mounts


@dataclass(frozen=True, slots=True)
class Volumes:
    """The claims and PersistentVolumes of a cluster, and its nodes; live views are allowed and are read on demand. What follows from
    them is computed once.

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
    taken: Mapping[str, Key | None] = field(default_factory=dict)
    """The PersistentVolumes that claims of jobs placed on this snapshot take, and those claims; None: a claim that a pod makes."""
    written: frozenset[Key] = frozenset()
    """Claims of a manifest that are not applied yet; they say nothing about others of their namespace."""
    _allowed: dict[Tie, frozenset[str]] = field(default_factory=dict, compare=False)
    _named: dict[str, list[Node]] = field(default_factory=dict, compare=False)
    _offers: dict[str | None, dict[Tie, list[Offer]]] = field(default_factory=dict, compare=False)
    _fitting: dict[Wanted, dict[Tie, list[Offer]]] = field(default_factory=dict, compare=False)
    _of_unbound: dict[tuple[VolumeClaim, Key | None], tuple[Sequence[Tie], str, str]] = field(
        default_factory=dict, compare=False
    )

    def knows(self, namespace: str) -> bool:
        """Whether an absent claim of this namespace does not exist."""
        return self.complete or any(key[0] == namespace for key in self.claims if key not in self.written)

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
        claim = of_a_pod(storage_class, size).claim
        ties, why, remedy = self._unbound(claim, None)
        found = self._volume(name, ties, VolumeClaim(trouble=why), remedy, f"StorageClass {storage_class}: ")
        return replace(found, static=self._is_static(claim, None))

    def volume(self, namespace: str, name: str) -> Volume | None:
        """The nodes of a claim; None if it does not exist."""
        key = (namespace, name)
        claim = self._claim(key)
        if claim is None:
            return None
        if not claim.unbound:
            found = self.volumes.get(("", claim.volume))
            if claim.phase == "Pending" and (why := self._never_bound(claim.volume, found, key)):
                # What another claim's volume requires is not for this namespace.
                return self._volume(
                    name, (), replace(claim, trouble=claim.trouble or why), "name another volume, or none"
                )
            volume = self._volume(name, (found.tie,) if found else (), claim)
            return replace(volume, many_nodes=found is not None and found.many_nodes)
        ties, why, remedy = self._unbound(claim, key)
        words = f"is not bound, and {why}" if self.class_of(claim) else NO_CLASS
        remedy = REMEDY if claim.trouble else remedy
        claim = replace(claim, trouble=claim.trouble or (why and words))
        volume = self._volume(name, ties, claim, remedy, f"StorageClass {self.class_of(claim)}: ")
        return replace(volume, static=self._is_static(claim, key))

    def _claim(self, key: Key) -> VolumeClaim | None:
        """A claim, bound to the PersistentVolume that it takes."""
        claim = self.claims.get(key)
        taken = (name for name, by in self.taken.items() if by == key) if claim is not None else iter(())
        return replace(claim, volume=name) if claim is not None and (name := next(taken, None)) else claim

    def wanted(self, namespace: str, name: str) -> Wanted | None:
        """A claim that is not bound; None if it is, or does not exist."""
        key = (namespace, name)
        claim = self._claim(key)
        return Wanted(claim, key) if claim is not None and claim.unbound else None

    def taken_by(self, more: Mapping[str, Key | None]) -> Volumes:
        """The same after claims took these PersistentVolumes."""
        return replace(self, taken={**self.taken, **more}, _of_unbound={}) if more else self

    def _never_bound(self, name: str, volume: PersistentVolume | None, key: Key) -> str:
        """Why a claim is never bound to the PersistentVolume that it names (spec.volumeName); empty if it may be."""
        if volume is None:
            known = self.all_volumes and self.volumes
            return f"is not bound, and PersistentVolume {name} does not exist" if known else ""
        mine = volume.kept_for == key or (volume.kept_for is None and volume.left is not False)
        mine = mine and self.taken.get(name, key) == key
        return "" if mine else f"is not bound, and PersistentVolume {name} is another claim's"

    def _volume(self, name: str, ties: Sequence[Tie], claim: VolumeClaim, remedy: str = "", source: str = "") -> Volume:
        """A claim's volume, where one of the ties must hold; none: any node will do."""
        said = (claim.one_node, claim.one_pod, claim.trouble)
        if not ties or UNTIED in ties:
            return Volume(name, None, "", *said, remedy=remedy or REMEDY)
        nodes = self.nodes_of(ties[0]) if len(ties) == 1 else frozenset[str]().union(*map(self.nodes_of, ties))
        # For a node to be added one local disk stands for all: none of them is on it.
        of_names = [tie for tie in ties if tie.named is not None]
        requires = one_of([*(tie for tie in ties if tie.named is None), *of_names[:1]])
        return Volume(name, nodes, source + alternatives_text(ties), *said, requires, remedy or REMEDY)

    def nodes_of(self, tie: Tie) -> frozenset[str]:
        """The names of the nodes that a tie allows. Those of a local disk are looked up: each of many nodes may have several."""
        if tie not in self._allowed:
            names = tie.named
            if names is None:
                found = (node.name for node in self.nodes.values() if tie.allows(node))
            else:
                found = (node.name for name in names for node in self._nodes_named(name) if tie.allows(node))
            self._allowed[tie] = frozenset(found)
        return self._allowed[tie]

    def _nodes_named(self, name: str) -> Sequence[Node]:
        """The nodes with a name, by their own or by their label."""
        if not self._named:
            for node in self.nodes.values():
                for each in {node.name, node.labels.get(HOSTNAME, node.name)}:
                    self._named.setdefault(each, []).append(node)
        return self._named.get(name, ())

    def class_of(self, claim: VolumeClaim) -> str:
        """The StorageClass of a claim: the default one if it names none; empty for none."""
        return (self.default_class or "") if claim.storage_class is None else claim.storage_class

    def _unbound(self, claim: VolumeClaim, key: Key | None) -> tuple[Sequence[Tie], str, str]:
        """What a claim that is not bound requires of its node, one of these; and if it never will be bound, the reason and what ends
        that.
        """
        known = self._of_unbound.get((claim, key))
        if known is None:
            known = self._of_unbound[claim, key] = self._ways_to_bind(claim, key)
        return known

    def _ways_to_bind(self, claim: VolumeClaim, key: Key | None) -> tuple[Sequence[Tie], str, str]:
        name, made = self.class_of(claim), self.made_on(claim)
        if made == UNTIED:
            return (), "", ""
        fitting = self.offers(Wanted(claim, key)).items()
        left = [tie for tie, offers in fitting if any(each.name not in self.taken for each in offers)]
        if made is not None:
            return (made, *left), "", ""
        if left:
            return left, "", ""
        if not name and claim.phase:
            return (
                (),
                "it names no StorageClass and none is the default",
                f"{REMEDY if key else MADE} with a storageClassName",
            )
        if not name or not self.all_volumes:
            return (), "", ""
        if not any(each.name == name for each in self.classes.values()):
            remedy = (
                f"{REMEDY if key else MADE} with a StorageClass that exists (`kubectl get storageclass` lists them)"
            )
            return (), f"StorageClass {name} does not exist", remedy
        why = (
            f"StorageClass {name} makes no volumes{self._but_without(claim)} and has no PersistentVolume left that fits"
        )
        return (), why, "create such a PersistentVolume"

    def _is_static(self, claim: VolumeClaim, key: Key | None) -> bool:
        """Whether any PersistentVolume that someone makes will do for a claim that is not bound: none is made or kept for it."""
        offers = chain.from_iterable(self.offers(Wanted(claim, key)).values()) if key else ()
        return self.made_on(claim) is None and all(each.volume.kept_for != key for each in offers)

    def _but_without(self, claim: VolumeClaim) -> str:
        """What of a claim keeps its StorageClass from making its volume; empty if nothing does."""
        made = claim.selector and self.made_on(replace(claim, selector=())) is not None
        return " for a claim with a selector" if made else ""

    def made_on(self, claim: VolumeClaim) -> Tie | None:
        """What a volume that is made for a claim requires of a node; None if its StorageClass makes none, as no provisioner does for a
        claim with a selector. A class that is unknown makes them anywhere.
        """
        name = self.class_of(claim)
        if name and (not self.classes or name == HIDDEN):
            return UNTIED
        own = next((each for each in self.classes.values() if each.name == name), None)
        if own is None or not own.makes or claim.selector:
            return None
        return own.topologies if own.waits else UNTIED

    def offers(self, wanted: Wanted) -> Mapping[Tie, Sequence[Offer]]:
        """The PersistentVolumes that fit a claim, by what they require of a node, including those that are taken."""
        if wanted not in self._fitting:
            self._fitting[wanted] = self._all_fitting(*wanted)
        return self._fitting[wanted]

    def _all_fitting(self, claim: VolumeClaim, key: Key | None) -> dict[Tie, list[Offer]]:
        if not self._offers:
            self._offers.update(self._all_left())
        name, found = self.class_of(claim), dict[Tie, list[Offer]]()
        for kind in (name,) if self.made_on(claim) is not None else (None, name):
            for tie, offers in self._offers.get(kind, {}).items():
                free = (each for each in offers if each.volume.kept_for in (None, key))
                if fitting := [each for each in free if claim.takes(each.volume)]:
                    found.setdefault(tie, []).extend(fitting)
        return found

    def _all_left(self) -> dict[str | None, dict[Tie, list[Offer]]]:
        """The PersistentVolumes to which a claim may be bound, by their class and what they require."""
        unclear = any(each.left is None for each in self.volumes.values())
        bound = {claim.volume for claim in self.claims.values()} if unclear else ()
        found: dict[str | None, dict[Tie, list[Offer]]] = {}
        for (_, name), each in self.volumes.items():
            if each.left or (each.left is None and name not in bound):
                found.setdefault(each.storage_class, {}).setdefault(each.tie, []).append(Offer(name, each))
        return found


def of_a_pod(storage_class: str, size: int) -> Wanted:
    """A claim that a pod makes, of this StorageClass (empty: none is named) and size in bytes."""
    return Wanted(VolumeClaim(phase="Pending", storage_class=storage_class or None, size=size))


NO_VOLUMES: Final = Volumes()
"""Volumes if no claim is known."""
