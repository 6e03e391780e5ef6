"""What the ResourceQuotas of a job's namespace leave for its gang on each pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy import resource_quota
from gpujob.fleet.policy.resource_quota import Quota
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.pod_resources import minimum_of
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding, listed
from gpujob.values.vocabulary import Reason

Findings = tuple[Finding, ...]

_NOTHING: Final[tuple[Findings, bool]] = ((), False)


class Allowance:
    """The quotas for a demand of one gang; which of them count its pods is computed once for all equal pools."""

    __slots__ = ("_demand", "_fleet", "_of_gpus", "_quotas", "_unchecked", "is_limited")

    def __init__(self, demand: Demand, fleet: Fleet) -> None:
        self._demand, self._fleet = demand, fleet
        self.is_limited = demand.namespace in fleet.quotas
        self._quotas: dict[bool, tuple[Quota, ...]] = {}
        self._unchecked: dict[bool, Findings] = {}
        self._of_gpus: dict[str, tuple[Findings, bool]] = {}

    def shortages(self, pool: Pool, needs: Resources) -> tuple[Findings, bool]:
        """The findings for pods with these needs, and whether the quotas never allow them."""
        if not self.is_limited:
            return _NOTHING
        demand = self._demand
        taken = pool.taken(demand.gpus_per_node, needs, demand.nodes, demand.new_claims)
        if demand.refused_as_object:
            taken[resource_quota.OF_GPUJOBS] = 1
        found, never = resource_quota.shortages(self._of(pool), taken)
        return tuple(self._with_minimum(finding, needs) for finding in found), never

    def _with_minimum(self, finding: Finding, needs: Resources) -> Finding:
        """The finding with the LimitRange whose minimum raised what the quota does not allow."""
        amounts = {"cpu": needs.millicores, "memory": needs.memory, "ephemeral-storage": needs.storage or 0}
        resource = str(finding.numbers[1]).rpartition(".")[2]
        raised = minimum_of(self._demand, resource, amounts.get(resource, 0))
        return (
            replace(finding, sentence=finding.sentence + "{}", numbers=(*finding.numbers, raised))
            if raised
            else finding
        )

    def shortages_of_gpus(self, pool: Pool) -> tuple[Findings, bool]:
        """The findings for the gang's GPUs alone, and whether the quotas never allow them."""
        if not self.is_limited:
            return _NOTHING
        # A pool with host devices counts no other resource in that way.
        counted = pool.counted_as
        if counted not in self._of_gpus:
            gpus = dict.fromkeys(pool.all_counted_as, self._demand.gang.gpus)
            self._of_gpus[counted] = resource_quota.shortages(self._of(pool), gpus)
        return self._of_gpus[counted]

    def unchecked(self, pool: Pool) -> Findings:
        """The warning that it is unknown whether a quota counts the job's pods."""
        if not self.is_limited:
            return ()
        if pool.host_devices not in self._unchecked:
            self._unchecked[pool.host_devices] = self._of_unknown_scope(pool)
        return self._unchecked[pool.host_devices]

    def _of(self, pool: Pool) -> tuple[Quota, ...]:
        """The quotas that count such pods; they depend on nothing else of the pool."""
        if pool.host_devices not in self._quotas:
            demand = self._demand
            self._quotas[pool.host_devices] = self._fleet.quotas_for(demand.namespace, demand.priority_class, pool)
        return self._quotas[pool.host_devices]

    def _of_unknown_scope(self, pool: Pool) -> Findings:
        traits = self._fleet.pod_traits(self._demand.priority_class, pool)
        for each in self._fleet.quotas[self._demand.namespace]:
            if each.counts(traits) is None:
                unknown = listed(str(scope) for scope in each.scopes if scope.holds(traits) is None)
                sentence = (
                    "ResourceQuota {} has the scope {}, of which nothing is known here: what it leaves is unchecked"
                )
                return (Finding(Reason.QUOTA_UNCHECKED, sentence, (each.name, unknown)),)
        quotas, demand = self._fleet.quotas[self._demand.namespace], self._demand
        found = (
            resource_quota.without_config_map(quotas),
            resource_quota.of_default_class(quotas, demand.new_claims, demand.nodes)
            if self._fleet.volumes.default_class is None
            else None,
        )
        return tuple(filter(None, found))
