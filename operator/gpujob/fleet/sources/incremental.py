"""The fleet, updated by its changes: a pod changes the figures of one node, a node its pools, and the rest is shared.

The result equals `read_fleet`; the same functions compute each figure from the objects of one node or pool. For the operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from types import MappingProxyType

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.assembly.admin_parts import selected_pools
from gpujob.fleet.assembly.admin_pool import unknown_beside
from gpujob.fleet.assembly.host_devices import hosted_groups
from gpujob.fleet.assembly.joined_pools import NO_JOINS, joined_pools
from gpujob.fleet.assembly.node_state import LostRoom, lost_room, pool_nodes
from gpujob.fleet.assembly.reservations import PodReservations
from gpujob.fleet.assembly.usage import PodReservation, Usage
from gpujob.fleet.devices.group import DeviceGroup
from gpujob.fleet.gpupools.selection import AdminPool, Selections, warnings_of_unselected
from gpujob.fleet.kubernetes.objects import Node, Pod
from gpujob.fleet.kubernetes.runtime_classes import NO_CLASSES, Classes
from gpujob.fleet.labels.maintenance import Tolerated
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.naming import Naming, identity_of, names_of
from gpujob.fleet.pools.node import PoolNode
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.runtime_class import for_pods_of, with_handler
from gpujob.fleet.sources.build import by_name, discovered_pool, with_awaited
from gpujob.fleet.sources.node_changes import complete, differ_in_state, overlaps_of, with_nodes
from gpujob.values.finding import Finding

Home = Hashable
"""The owner of devices: the name of an admin's pool, or the identity of a discovered one (a tuple)."""

Key = tuple[str, str]
"""Namespace and name."""


class FleetIndex:
    """Applies changes of nodes, pods, GPUPools and reservations; `fleet` is the current result.

    `claimed` are the devices that ResourceClaims allocate to pods, by uid; it changes in place, and `put_claimed` reports that.
    """

    def __init__(self, catalog: Catalog, claimed: Mapping[str, int] = MappingProxyType({})) -> None:
        self._catalog, self._claimed = catalog, claimed
        self._selections, self._admins = Selections(()), dict[str, AdminPool]()
        self._unselected: tuple[Finding, ...] = ()
        self._groups: dict[str, tuple[DeviceGroup, ...]] = {}
        self._raw: dict[str, tuple[Node, tuple[DeviceGroup, ...]]] = {}
        self._homes: dict[Home, dict[str, list[DeviceGroup]]] = defaultdict(dict)
        self._homes_of: dict[str, tuple[Home, ...]] = {}
        self._bare: dict[str, set[str]] = defaultdict(set)
        self._lost: dict[str, Mapping[str, tuple[str, str]]] = {}
        self._pods: dict[Key, Pod] = {}
        self._pods_on: dict[str, dict[Key, Pod]] = defaultdict(dict)
        self._node_of: dict[str, str] = {}
        self._usage = Usage((), ())
        self._resources_on: dict[str, list[str]] = defaultdict(list)
        self.reserved = PodReservations(claimed)
        self._names: dict[Home, Naming] = {}
        self._named_for: tuple[object, ...] = ()
        self._base: dict[Home, tuple[Pool, ...]] = {}
        self._pools: dict[Home, tuple[Pool, ...]] = {}
        self._joined = NO_JOINS
        self._overlaps: dict[str, tuple[str, str]] = {}
        self._overlapping = False
        self._touched, self._recounted = set[str](), set[str]()
        self._stale: set[Home] = set()
        self._built: set[Home] = set()
        """Homes that were built after the last count of their nodes."""
        self._changed: set[Home] = set()
        self._listed = True
        """Whether the list of all pools has those of now."""
        self._awaited: dict[str, list[PodReservation]] = {}
        self._ordered: tuple[Pool, ...] = ()
        self._classes = NO_CLASSES
        self._answers: dict[object, tuple[object, object]] = {}

    # What changes

    def put_node(self, node: Node, groups: tuple[DeviceGroup, ...]) -> None:
        """Applies a node, new or changed, with its device groups."""
        labels, self._raw[node.name] = self._raw.get(node.name, (node, ()))[0].labels, (node, groups)
        groups = self._handed_out(node, groups)
        before = self._groups.get(node.name)
        if before == groups == () and labels == node.labels:
            return
        if before is not None and differ_in_state(before, groups):
            for home in self._homes_of[node.name]:
                mine = self._homes[home][node.name]
                mine[:] = [new for old in mine for new, held in zip(groups, before, strict=True) if held is old]
            self._groups[node.name] = groups
            self._touched.add(node.name)
            return
        self._take_out(node.name)
        self._groups[node.name] = groups
        self._touched.add(node.name)
        self._settle(node, groups)

    def drop_node(self, name: str) -> None:
        """Removes a node."""
        self._raw.pop(name, None)
        self._take_out(name)

    def _take_out(self, name: str) -> None:
        if self._groups.pop(name, None) is None:
            return
        for admin in [admin for admin, names in self._bare.items() if name in names]:
            self._bare[admin].discard(name)
            self._stale.add(admin)
        for home in self._homes_of.pop(name, ()):
            del self._homes[home][name]
            self._stale.add(home)
        if self._lost.pop(name, None):
            self._overlapping = True

    def put_pod(self, key: Key, pod: Pod | None) -> None:
        """Applies a pod, new or changed; None if it is deleted."""
        before = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        if pod == before:
            return
        if before is not None and before.node:
            self._pods_on[before.node].pop(key, None)
            self._node_of.pop(before.uid, None)
            self._touched.add(before.node)
        if pod is not None and pod.node and not pod.terminal:
            self._pods_on[pod.node][key] = pod
            self._node_of[pod.uid] = pod.node
            self._touched.add(pod.node)
        self.reserved.take_pod(key, before, pod)

    def put_claimed(self, uids: Set[str]) -> None:
        """Applies changed allocations of ResourceClaims, by the uids of their pods."""
        if uids:
            self._touched |= {self._node_of[uid] for uid in uids & self._node_of.keys()}
            self.reserved.take_claims()

    def put_reservations(self, source: Hashable, reservations: Iterable[PodReservation]) -> None:
        """Replaces the reservations of one source; of equal ones that of the last source counts."""
        self._touched |= self.reserved.put(source, reservations)

    def put_admin_pools(self, admins: Sequence[AdminPool]) -> None:
        """Replaces the admins' GPUPools; if they differ, every node is assigned to pools again."""
        named = {admin.name: admin for admin in admins}
        if named == self._admins:
            return
        self._admins, self._selections, self._unselected = named, Selections(admins), warnings_of_unselected(admins)
        for home in [home for home in self._base if isinstance(home, str) and home not in named]:
            self._forget(home)
        # A pool that came and went since the last build was never built.
        self._stale = {home for home in self._stale if not isinstance(home, str) or home in named}
        self._homes.clear()
        self._homes_of.clear()
        self._bare.clear()
        self._lost.clear()
        self._stale |= self._base.keys() | named.keys()
        self._overlapping = True
        for name, (node, raw) in self._raw.items():
            self._groups[name] = groups = self._handed_out(node, raw)
            self._settle(node, groups)

    def _handed_out(self, node: Node, groups: tuple[DeviceGroup, ...]) -> tuple[DeviceGroup, ...]:
        """A node's groups, with the devices that an admin's pool assigns by the host's device files."""
        hosting = self._selections.hosting(node)
        return hosted_groups(node, groups, hosting, self._catalog) if hosting else groups

    def _settle(self, node: Node, groups: tuple[DeviceGroup, ...]) -> None:
        """Assigns each group of a node to its pool."""
        self._selections.overlaps = {}
        if not groups and (oldest := self._selections.oldest(node)):
            self._bare[oldest.name].add(node.name)
            self._stale.add(oldest.name)
        homes: dict[Home, None] = {}
        for group in groups:
            admin = self._selections.pool_of(node, group.resource, pending=group.pending)
            home = identity_of(group) if admin is None else admin.name
            self._homes[home].setdefault(node.name, []).append(group)
            homes[home] = None
        self._homes_of[node.name] = tuple(homes)
        self._stale |= homes.keys()
        if self._selections.overlaps:
            self._lost[node.name], self._overlapping = self._selections.overlaps, True

    # What it makes

    def lost_room(self, room: PodReservation, node: Node | None, tolerated: Tolerated = ()) -> LostRoom | None:
        """Why a pod that is not bound yet and has these tolerations has no room on its node; None where it has."""
        pods, own = self._pods_on.get(room.node, {}).values(), self.reserved.pods_of(room.job_uid)
        return lost_room(room, node, self._groups.get(room.node), pods, own, self._claimed, tolerated)

    def fleet(self, runtime_classes: Classes = NO_CLASSES) -> Fleet:
        """The current fleet: equal to `read_fleet` of the same objects. Unchanged pools are the same objects."""
        for _ in self.in_pieces(runtime_classes):
            pass
        if self._overlapping:
            self._overlaps, self._overlapping = overlaps_of(self._lost), False
        return Fleet(
            self._ordered,
            runtime_classes,
            self._overlaps,
            mounts=self.reserved.mounting.mounts,
            host_access=self._catalog.host_access,
            answers=self._answers,
        )

    def in_pieces(self, runtime_classes: Classes = NO_CLASSES) -> Iterator[None]:
        """Brings the pools up to date, a node or a pool at a time; changes and other callers between two pieces are seen."""
        self._classify(runtime_classes)
        while (
            self._touched or self._stale or self._recounted or self._changed or self.reserved.moved or not self._listed
        ):
            yield from self._count()
            yield from self._build_stale()
            self._replace_nodes(but_of=self._built | self._stale)
            self._reckon_awaited()
            yield from self._list_pools()

    def _build_stale(self) -> Iterator[None]:
        """Builds pools until all are, or nodes must be counted first."""
        if not self._stale:
            return
        self._name()
        for home in [*self._stale]:
            if not self._touched and home in self._stale:
                self._stale.discard(home)
                self._built.add(home)
                self._build(home)
                yield
        # Pools that are gone make the names of others shorter.
        self._name()

    def _list_pools(self) -> Iterator[None]:
        """Lists all pools, once those that changed are complete."""
        while self._changed and not (self._touched or self._stale):
            home, self._listed = self._changed.pop(), False
            if home in self._base:
                complete(*self._base[home])
                self._pools[home] = with_awaited(self._base[home], self._usage)
            yield
        if self._listed or self._touched or self._stale:
            return
        pools = [*chain.from_iterable(self._pools.values())]
        self._joined = joined_pools(pools, self._catalog, self._joined)
        # Before the next piece: another caller may list changed pools then.
        self._ordered, self._listed = by_name((*pools, *self._joined.pools)), True
        for pool in self._joined.pools:
            yield
            complete(pool)

    def _classify(self, classes: Classes) -> None:
        """Marks the pools for a rebuild whose pods require another handler of their nodes than before."""
        if classes != self._classes:
            self._classes = classes
            self._stale |= {home for home, (pool, *_) in self._base.items() if with_handler(pool, classes) is not pool}

    def _count(self) -> Iterator[None]:
        """Updates the usage of changed nodes."""
        usage = self._usage
        while self._touched:
            name = self._touched.pop()
            self._recounted.add(name)
            self._built.difference_update(self._homes_of.get(name, ()))
            for resource in self._resources_on.pop(name, ()):
                del usage.devices[name, resource]
            usage.resources.pop(name, None)
            usage.plain.pop(name, None)
            usage.uids.pop(name, None)
            if name in self._pods_on and not self._pods_on[name]:
                del self._pods_on[name]
            found = Usage(self._pods_on.get(name, {}).values(), self.reserved.on(name), self._claimed)
            usage.resources.update(found.resources)
            usage.plain.update(found.plain)
            usage.uids.update(found.uids)
            usage.devices.update(found.devices)
            for _, resource in found.devices:
                self._resources_on[name].append(resource)
            yield

    def _name(self) -> None:
        """Renames the discovered pools if pools appear or disappear: a name is short while it is unique."""
        homes = {home: nodes for home, nodes in self._homes.items() if nodes and not isinstance(home, str)}
        if (named_for := (frozenset(homes), frozenset(self._admins))) != self._named_for:
            firsts = {home: [nodes[min(nodes)][0]] for home, nodes in homes.items() if isinstance(home, tuple)}
            names: dict[Home, Naming] = dict(names_of(firsts, set(self._admins)).items())
            self._stale |= {home for home, naming in names.items() if self._names.get(home) != naming}
            self._names, self._named_for = names, named_for

    def _build(self, home: Home) -> None:
        """Builds a pool from all its groups."""
        nodes = self._homes.get(home, {})
        groups = [group for name in sorted(nodes) for group in nodes[name]]
        if isinstance(home, str):
            pools = selected_pools(self._admins[home], groups, self._catalog, self._usage, self._bare.get(home, ()))
        elif groups:
            pools = (discovered_pool(self._names[home], groups, self._catalog, self._usage, self._unselected),)
        else:
            self._forget(home)
            return
        self._base[home] = tuple(with_handler(pool, self._classes) for pool in pools)
        self._changed.add(home)

    def _forget(self, home: Home) -> None:
        self._homes.pop(home, None)
        self._base.pop(home, None)
        self._pools.pop(home, None)
        self._changed.add(home)

    def _replace_nodes(self, but_of: Set[Home]) -> None:
        """Puts the new figures of changed nodes into their pools, except pools that were just built from them."""
        changes: dict[Home, dict[str, list[DeviceGroup]]] = defaultdict(dict)
        for name in self._recounted:
            for home in (home for home in self._homes_of.get(name, ()) if home not in but_of):
                changes[home][name] = self._homes[home][name]
        for home, changed in changes.items():
            figures = {
                known: self._figures(home, changed, known) for known in {p.problem is None for p in self._base[home]}
            }
            self._base[home] = tuple(with_nodes(pool, figures[pool.problem is None]) for pool in self._base[home])
            self._changed.add(home)
        self._recounted.clear()
        self._built.clear()

    def _figures(
        self, home: Home, changed: Mapping[str, list[DeviceGroup]], known: bool
    ) -> dict[str, tuple[PoolNode, ...]]:
        """The new figures of nodes in the pools of a home whose devices are known, or in the others."""
        whole, admin = self._base[home][0], self._admins.get(home) if isinstance(home, str) else None
        unknown = (unknown_beside(admin, self._catalog),) if admin and known else ()
        return {
            name: tuple(
                for_pods_of(whole.handler, node)
                for node in pool_nodes(groups, self._usage, whole.fabric, whole.tolerated, *unknown)
            )
            for name, groups in changed.items()
        }

    def _reckon_awaited(self) -> None:
        """Counts the pods that wait for any node of a pool, if a reservation or a pod of a job changed."""
        if not self.reserved.moved:
            return
        before, self._awaited = self._awaited, self.reserved.awaited()
        self._usage.awaited = self._awaited
        names = {name for name in (*before, *self._awaited) if before.get(name) != self._awaited.get(name)}
        self._changed |= {home for home, (pool, *_) in self._base.items() if pool.name in names}
