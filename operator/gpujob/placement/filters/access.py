"""Filters about access to a pool: the namespaces that an admin admits, Pod Security, the installation, whole nodes.

A GPUPool can give pods more than they may have by default (the host's devices, its network, locked memory). The namespace must
allow it, so that a GPUJob does not bypass Pod Security; devices and network of the host the chart must allow too.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpujob.fleet.kubernetes.namespaces import BASELINE, ENFORCE, PRIVILEGED, RESTRICTED
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import HostAccess, Reason


def namespace_excluded(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The GPUPool's namespaceSelector excludes the job's namespace."""
    space = fleet.namespaces.get(demand.namespace)
    if not pool.namespaces or space is None:
        return _unknown(demand, pool.namespaces != (), fleet)
    lacking = space.lacks(pool.namespaces)
    if lacking is None:
        return None
    sentence = "GPUPool {} is for namespaces with the label {}={}, which {} does not have"
    return Finding(Reason.NAMESPACE_EXCLUDED, sentence, (pool.family, *lacking, demand.namespace))


def pod_security_blocked(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The Pod Security level of the job's namespace forbids its pods."""
    forbidden = tuple(_privileges(demand, pool)) if pool.host_devices or pool.fabric is not None else ()
    if not forbidden and not demand.as_root:
        return None
    space = fleet.namespaces.get(demand.namespace)
    if space is None:
        return _unknown(demand, bool(forbidden) and not pool.namespaces, fleet)
    if forbidden and space.level != PRIVILEGED:
        sentence = "GPUPool {} gives its pods {}, which namespace {} forbids (Pod Security level {}); label it {}={}"
        numbers = (pool.family, listed(forbidden), demand.namespace, space.level, ENFORCE, PRIVILEGED)
        return Finding(Reason.POD_SECURITY_BLOCKED, sentence, numbers)
    if demand.as_root and space.level == RESTRICTED:
        sentence = "securityContext.runAsUser is 0, which namespace {} forbids (Pod Security level {}); set another, or label it {}={}"
        return Finding(Reason.POD_SECURITY_BLOCKED, sentence, (demand.namespace, space.level, ENFORCE, BASELINE))
    return None


def host_access_denied(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """The GPUPool gives its pods of the host what the installation lets none give."""
    if fleet.host_access is None:
        return None
    denied = {access: what for access, what in _of_the_host(demand, pool) if access not in fleet.host_access}
    if not denied:
        return None
    sentence = "GPUPool {} gives its pods {}, which this installation forbids; set {} of the chart to true"
    values = (f"admission.{access.value}" for access in denied)
    return Finding(Reason.HOST_ACCESS_DENIED, sentence, (pool.family, listed(denied.values()), listed(values)))


def part_of_a_node(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A pool with host devices assigns whole nodes only."""
    each = pool.largest
    if not pool.host_devices or each in (0, demand.gpus_per_node) or pool.problem is not None:
        return None  # `unread` reports what to fix first.
    sentence = "assigns whole nodes (spec.deviceMode HostDevices) of {} each, "
    asked, entry = demand.gpus_per_node, demand.gang.entry
    if entry is not None:
        # The nearest fix may be that of another shape, and it says which.
        return Finding(
            Reason.WHOLE_NODES_ONLY, sentence + "shapes[{}] requests {}", (counted(each, "GPU"), entry, asked)
        )
    numbers = (counted(each, "GPU"), asked, each)
    return Finding(Reason.WHOLE_NODES_ONLY, sentence + "the job requests {}; set spec.gpusPerNode: {}", numbers)


def _privileges(demand: Demand, pool: Pool) -> Iterator[str]:
    """Privileges of this job's pods on the pool that the level `baseline` forbids."""
    yield from (what for _, what in _of_the_host(demand, pool))
    if pool.fabric is not None and demand.nodes > 1 and pool.fabric.lock_memory:
        yield "the capability IPC_LOCK"


def _of_the_host(demand: Demand, pool: Pool) -> Iterator[tuple[HostAccess, str]]:
    """What this job's pods get of the host on the pool, each with its words."""
    if pool.host_devices:
        yield HostAccess.DEVICES, "privileged containers with the host's device files"
    if pool.fabric is not None and demand.nodes > 1 and pool.fabric.host_network:
        yield HostAccess.NETWORK, "the host's network"


def _unknown(demand: Demand, needed: bool, fleet: Fleet) -> Finding | None:
    if not needed or demand.namespace in fleet.namespaces:
        return None
    sentence = (
        "the labels of namespace {} decide here and are not known; a description of the cluster needs namespaces too"
    )
    return Finding(Reason.NAMESPACE_UNKNOWN, sentence, (demand.namespace or "default",))
