"""Several claims that are not bound: each takes a PersistentVolume of its own, on the node of the pod.

As kube-scheduler does (k8s.io/kubernetes pkg/scheduler/framework/plugins/volumebinding): the smallest claim first takes the smallest
PersistentVolume that fits, one that is kept for it before others. What finds none is made, where its StorageClass makes volumes. Of
equally large ones kube-scheduler takes any, and tries again: here the one that the fewest claims can take goes first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpujob.fleet.storage.claim_volumes import Offer, Volumes, Wanted
from gpujob.fleet.storage.volume_records import Key
from gpujob.fleet.storage.volume_ties import UNTIED, Tie

_Taken = dict[str, Key | None]
"""PersistentVolumes by name, and the claims that take them; None: a claim that a pod makes."""


class Short(NamedTuple):
    """A StorageClass that makes no volumes, the number of PersistentVolumes left of it, and how many claims of a job need one."""

    storage_class: str
    left: int
    claims: int
    last: Wanted
    """The last of these claims."""


class Binding:
    """Claims of one pod that are not bound, against what is left for them."""

    def __init__(self, volumes: Volumes, wanted: Iterable[Wanted]) -> None:
        each = ((one, volumes.made_on(one.claim)) for one in wanted)
        limited = [(one, made) for one, made in each if made != UNTIED]
        self._limited = sorted(limited, key=lambda pair: pair[0].claim.size)
        self._volumes = volumes
        self._offers = [volumes.offers(one) for one, _ in self._limited]

    @property
    def contested(self) -> bool:
        """Whether one claim may take what another one needs."""
        return len(self._limited) > 1 and self._volumes.all_volumes

    @property
    def has_static(self) -> bool:
        """Whether the StorageClass of one of the claims makes no volumes."""
        return any(made is None for _, made in self._limited)

    def nodes(self, among: Iterable[str]) -> frozenset[str]:
        """Those of these nodes on which all of the claims are bound together."""
        ties = self._ties_by_node()
        made = [frozenset() if made is None else self._volumes.nodes_of(made) for _, made in self._limited]
        known: dict[tuple[tuple[Tie, ...], tuple[bool, ...]], bool] = {}
        found = set[str]()
        for node in among:
            here = (tuple(ties.get(node, ())), tuple(node in nodes for nodes in made))
            if here not in known:
                known[here] = self._bound(*here) is not None
            if known[here]:
                found.add(node)
        return frozenset(found)

    def last_apart(self, among: Collection[str] | None) -> Wanted | None:
        """The last of the claims if only local disks are left for them, on none of these nodes (None: all) one for each; None if they
        are bound on some node, a volume can be made, or one has disks on no node of the cluster.
        """
        ties, somewhere = self._all_ties(), (any(map(self._volumes.nodes_of, offers)) for offers in self._offers)
        if (
            not (self._limited and self._volumes.all_volumes)
            or any(made is not None for _, made in self._limited)
            or any(t.named is None for t in ties)
            or not all(somewhere)
        ):
            return None
        return None if self.nodes(self._ties_by_node() if among is None else among) else self._limited[-1][0]

    def taken_on(self, node: str) -> _Taken:
        """The PersistentVolumes that the claims take on a node; empty if they are not all bound there."""
        ties = [tie for tie in self._all_ties() if node in self._volumes.nodes_of(tie)]
        made = [made is not None and node in self._volumes.nodes_of(made) for _, made in self._limited]
        return self._bound(ties, made) or {}

    def short(self, pods: int = 1) -> Short | None:
        """The first StorageClass with too few PersistentVolumes for so many pods on all nodes together; None if there is none."""
        needs: dict[str, list[Wanted]] = defaultdict(list)
        for wanted, made in self._limited if self._volumes.all_volumes else ():
            if made is None:
                needs[self._volumes.class_of(wanted.claim)].append(wanted)
        for storage_class, of_class in needs.items():
            each = (self._volumes.offers(wanted).values() for wanted in of_class)
            names = {offer.name for there in each for offers in there for offer in offers}
            left, claims = len(names - self._volumes.taken.keys()), pods * len(of_class)
            if left < claims:
                return Short(storage_class, left, claims, of_class[-1])
        return None

    def _all_ties(self) -> Iterable[Tie]:
        return dict.fromkeys(tie for offers in self._offers for tie in offers)

    def _ties_by_node(self) -> Mapping[str, list[Tie]]:
        """What is left for the claims by node, as what it requires of one."""
        found: dict[str, list[Tie]] = defaultdict(list)
        for tie in self._all_ties():
            for node in self._volumes.nodes_of(tie):
                found[node].append(tie)
        return found

    def _bound(self, ties: Sequence[Tie], made: Sequence[bool]) -> _Taken | None:
        """What the claims take of the PersistentVolumes with these requirements; None if one finds none and none is made for it."""
        taken, before = _Taken(), self._volumes.taken
        takers = Counter(each.name for offers in self._offers for tie in ties for each in offers.get(tie, ()))
        for (wanted, _), offers, can_be_made in zip(self._limited, self._offers, made, strict=True):
            every = (each for tie in ties for each in offers.get(tie, ()))
            there = [each for each in every if each.name not in taken and each.name not in before]
            if there:
                taken[min(there, key=lambda each: _first(each, takers)).name] = wanted.key
            elif not can_be_made:
                return None
        return taken


def _first(offer: Offer, takers: Mapping[str, int]) -> tuple[bool, int, int, str]:
    """The order in which a claim takes volumes."""
    return offer.volume.kept_for is None, offer.volume.size or 0, takers[offer.name], offer.name


def after(volumes: Volumes, named: Sequence[Wanted], own: Sequence[Wanted], nodes: Iterable[str]) -> Volumes:
    """The volumes after a job took what is left for its claims: the named ones for all of its pods, its own ones for each pod."""
    for node in nodes:
        volumes = volumes.taken_by(Binding(volumes, [*named, *own]).taken_on(node))
        named = ()
    return volumes
