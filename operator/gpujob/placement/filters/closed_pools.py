"""Whether the cluster keeps every job of a namespace off a pool: only then no change of a job helps."""

from __future__ import annotations

from typing import Final

from gpujob.fleet.kubernetes.objects import HOST_DEVICES
from gpujob.fleet.policy.limit_range import OF_CLAIMS
from gpujob.fleet.policy.resource_quota import OF_GPUJOBS, OF_RESOURCE_CLAIMS, OF_TEMPLATES
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.node_filters import lacks_label
from gpujob.placement.capacity.shortage import barred
from gpujob.placement.filters.access import namespace_excluded
from gpujob.placement.filters.pool_filters import accelerator_unsupported
from gpujob.placement.request.demand import Demand
from gpujob.values.vocabulary import Reason

OF_EVERY_JOB: Final = ("pods", "count/pods", "count/jobs.batch")
"""Names in a quota of what every job takes at least one of, besides devices."""


def is_closed(demand: Demand, pool: Pool, fleet: Fleet) -> bool:
    """Whether no job of the demand's namespace can run on a pool, whatever the job's spec: all of its nodes have a taint, take no
    pods or lack a label of the namespace's node selector, its devices are unknown, its GPUPool is for other namespaces, or a
    quota or a LimitRange leaves it no pod or no device.
    """
    if barred(pool) is not None or accelerator_unsupported(demand, pool, fleet) is not None:
        return True
    if pool.problem is not None and pool.problem.reason is not Reason.NOT_READY and not demand.arriving:
        return True
    access = namespace_excluded(demand, pool, fleet)
    excluded = access is not None and access.reason is Reason.NAMESPACE_EXCLUDED
    return excluded or _has_no_node(demand, pool) or _has_no_device(demand, pool) or _has_no_quota(demand, pool, fleet)


def _has_no_quota(demand: Demand, pool: Pool, fleet: Fleet) -> bool:
    """Whether a quota of the namespace allows no pod, or none of the pool's devices; quotas with scopes depend on the job."""
    by_claim = (OF_RESOURCE_CLAIMS, OF_TEMPLATES) if pool.request else ()
    names = (*pool.all_counted_as, *OF_EVERY_JOB, *by_claim, *((OF_GPUJOBS,) if demand.refused_as_object else ()))
    quotas = (quota for quota in fleet.quotas.get(demand.namespace, ()) if not quota.scopes)
    return any(quota.hard.get(name, 1) < 1 for quota in quotas for name in names)


def _has_no_node(demand: Demand, pool: Pool) -> bool:
    """Whether every node, existing or to be added, takes no pods or is left out by the node selector of the namespace."""
    nodes = (*pool.nodes, *((pool.growth.template,) if pool.growth and pool.growth.addable else ()))
    selected = demand.selection is not None
    return bool(nodes) and all(
        not node.allocatable.pods or (selected and lacks_label(demand, pool, node)) for node in nodes
    )


def _has_no_device(demand: Demand, pool: Pool) -> bool:
    """Whether a LimitRange of the namespace allows a container none of the pool's devices."""
    if pool.request is not None or pool.resource == HOST_DEVICES:
        return False
    bounds = demand.limits.bounds if demand.limits else ()
    return any(each.most < 1 for each in bounds if each.kind != OF_CLAIMS and each.resource == pool.resource)
