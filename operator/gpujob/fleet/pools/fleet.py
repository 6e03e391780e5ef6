"""Pools of interchangeable devices with their free capacity and price: the snapshot for placement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.families import is_of
from gpujob.catalog.devices.identity import nearest
from gpujob.fleet.kubernetes.namespaces import Namespace
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.priority_classes import Priorities, class_of
from gpujob.fleet.kubernetes.runtime_classes import Classes
from gpujob.fleet.policy.limit_range import LimitRanges
from gpujob.fleet.policy.quota_scopes import PodTraits
from gpujob.fleet.policy.resource_quota import Claims, Quota, Quotas, quotas_after
from gpujob.fleet.pools.ahead import Ahead, Taking
from gpujob.fleet.pools.naming import without_type
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.pools.reserve import Pods, reserved, unnamed_reserved, with_ahead
from gpujob.fleet.storage.claim_volumes import NO_VOLUMES, Mounts, Volumes
from gpujob.values.vocabulary import HostAccess


@dataclass(frozen=True)
class Fleet:
    """All pools, and the cluster's other facts."""

    pools: tuple[Pool, ...] = ()
    runtime_classes: Classes = field(default_factory=dict)
    """The RuntimeClasses that exist."""
    overlaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Admin pools that lost nodes to an older one: name -> (older pool, node)."""
    quotas: Quotas = field(default_factory=dict)
    """What namespaces can still use; a namespace without quotas is absent."""
    limits: LimitRanges = field(default_factory=dict)
    """The LimitRanges of namespaces; a namespace without them is absent."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    """All namespaces, by name."""
    volumes: Volumes = NO_VOLUMES
    """Where PersistentVolumeClaims can be mounted."""
    mounts: Mounts = field(default_factory=dict)
    """The pods that mount them."""
    priorities: Priorities = field(default_factory=dict)
    """The PriorityClasses; empty if they are unknown."""
    host_access: frozenset[HostAccess] | None = None
    """The parts of the host that the installation lets GPUPools give to pods; None if no installation is known."""
    answers: dict[object, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)
    """Cache of results that placement computes from the facts of all pools, each with its inputs; a fleet shares it with its
    successors.
    """

    @cached_property
    def facts(self) -> tuple[object, ...]:
        """The objects that represent the facts of each pool: identical while the facts are."""
        return tuple(map(attrgetter("answers"), self.pools))

    @cached_property
    def depends_on_namespaces(self) -> bool:
        """Whether some pool depends on the namespace of a job."""
        return any(pool.namespaces or pool.host_devices or pool.fabric for pool in self.pools)

    @cached_property
    def whole_pools(self) -> tuple[Pool, ...]:
        """The pools that are GPUPools, each node once: without parts of pools and without pools that join others."""
        return tuple(pool for pool in self.pools if not (pool.part_of or pool.joins))

    @cached_property
    def called(self) -> frozenset[str]:
        """Every name in placement.pools that means a pool."""
        return frozenset(
            word for pool in self.pools for word in (pool.name, *pool.also, *(n for names in pool.joins for n in names))
        )

    @cached_property
    def _heads(self) -> dict[str, str]:
        """The names of the whole pools by what is before their capacity type."""
        return {without_type(pool.name): pool.name for pool in reversed(self.whole_pools)}

    @cached_property
    def _near_pools(self) -> dict[str, str | None]:
        """What `nearest_pool` found: a search for a fix asks for the same names many times."""
        return {}

    @cached_property
    def _near_accelerators(self) -> dict[str, tuple[Catalog, tuple[str, ...]]]:
        """What `nearest_accelerators` found in which catalog, likewise."""
        return {}

    @cached_property
    def joins(self) -> frozenset[str]:
        """The names of the pools that join others. Each node of theirs is in another pool, so they are for gangs of several nodes."""
        return frozenset(pool.name for pool in self.pools if pool.joins)

    @cached_property
    def within(self) -> Mapping[str, frozenset[str]]:
        """The names of the pools that have only nodes of another one, by the name of that: one that joins others, or that has parts."""
        found: dict[str, set[str]] = defaultdict(set)
        for pool in self.pools:
            if pool.part_of:
                found[pool.part_of].add(pool.name)
        joined = {pool.name: frozenset(first for first, *_ in pool.joins) for pool in self.pools if pool.joins}
        for name, parts in joined.items():
            found[name] = {*parts, *(other for other, its in joined.items() if its < parts)}
        return {name: frozenset(names) for name, names in found.items()}

    def pool(self, name: str) -> Pool | None:
        """The pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)

    def nearest_accelerators(self, word: str, catalog: Catalog) -> tuple[str, ...]:
        """The accelerators that an unknown name may mean: those of the fleet whose vendor, architecture or series it is, those of the
        catalog, else unknown ones of the fleet that it begins.
        """
        known = self._near_accelerators.get(word)
        if known is None or known[0] is not catalog:
            known = self._near_accelerators[word] = (catalog, self._nearest_accelerators(word, catalog))
        return known[1]

    def _nearest_accelerators(self, word: str, catalog: Catalog) -> tuple[str, ...]:
        devices = [pool.accelerator for pool in self.pools if pool.accelerator is not None]
        named = {device.id for device in devices if is_of(word, device)}
        begun = {pool.accelerator_id for pool in self.pools if pool.accelerator_id.lower().startswith(word.lower())}
        return (
            tuple(sorted(named))
            or catalog.nearest_accelerators(word)
            or (tuple(sorted(begun)) if len(word) > 2 else ())
        )

    def nearest_pool(self, word: str) -> str | None:
        """The pool that an unknown name most likely means; the capacity type at the end of names hardly counts."""
        if word not in self._near_pools:
            near = nearest(without_type(word), self._heads)
            self._near_pools[word] = self._heads[near] if near is not None else None
        return self._near_pools[word]

    def pod_traits(self, priority_class: str | None, pool: Pool) -> PodTraits:
        """The scope input of a pod with this PriorityClass on a pool; pods with the host's devices avoid each other in all
        namespaces.
        """
        return PodTraits(class_of(priority_class, self.priorities), pool.host_devices)

    def quotas_for(self, namespace: str, priority_class: str | None, pool: Pool) -> tuple[Quota, ...]:
        """The quotas that count such a pod."""
        traits = self.pod_traits(priority_class, pool)
        return tuple(quota for quota in self.quotas.get(namespace, ()) if quota.counts(traits))

    def reserve(
        self,
        chosen: Pool,
        gpus: int,
        needs: Resources,
        nodes: Sequence[str],
        namespace: str = "",
        priority_class: str | None = None,
        claims: Claims = (),
    ) -> Fleet:
        """The fleet after a reservation of `gpus` devices of a pool and `needs` on each of `nodes`."""
        if namespace in self.quotas:
            taken = chosen.taken(gpus, needs, len(nodes), claims)
            traits = self.pod_traits(priority_class, chosen)
            rest = replace(self, quotas=quotas_after(self.quotas, namespace, taken, traits))
            return rest.reserve(chosen, gpus, needs, nodes)
        if not all(nodes):
            pods = Pods(len(nodes), gpus, needs + chosen.overhead, len(nodes), frozenset(chosen.beside))
            family = tuple(pool for pool in self.pools if pool.family == chosen.family)
            after = {pool.name: pool for pool in unnamed_reserved(family, pods)}
            return replace(self, pools=tuple(after.get(pool.name, pool) for pool in self.pools))
        taking = Taking(
            chosen.resource, tuple((name, gpus) for name in nodes), needs + chosen.overhead, linked=len(nodes) > 1
        )
        return replace(self, pools=tuple(reserved(pool, taking) for pool in self.pools))

    def led_by(self, ahead: Sequence[Ahead]) -> Fleet:
        """The fleet for jobs of lower priority: with the jobs that go first, and without the devices reserved for waiting ones."""
        if not ahead:
            return self
        on = defaultdict(list)
        for each in ahead:
            for name, _ in each.taking.on:
                on[name].append(each)
        return replace(self, pools=tuple(_led_by(pool, on) for pool in self.pools))


def _led_by(pool: Pool, on: Mapping[str, Sequence[Ahead]]) -> Pool:
    """A pool with the jobs that go first on one of its nodes."""
    there = {id(each): each for name in on if name in pool.positions for each in on[name]}
    return with_ahead(pool, tuple(there.values())) if there else pool
