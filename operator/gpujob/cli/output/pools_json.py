"""The pools as the JSON of `pools -o json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpujob.placement.capacity.shortage import barred
from gpujob.values.finding import Size
from gpujob.values.quantity import format_dollars

if TYPE_CHECKING:
    from gpujob.fleet.pools.fleet import Fleet
    from gpujob.fleet.pools.pool import Pool


def documents(fleet: Fleet) -> list[dict[str, Any]]:
    """One record for each pool, in the order of their names."""
    return [_pool(pool, fleet) for pool in fleet.whole_pools]


def _pool(pool: Pool, fleet: Fleet) -> dict[str, Any]:
    overlap, problem = fleet.overlaps.get(pool.name), pool.problem or barred(pool)
    return {
        "pool": pool.name,
        "discovered": pool.discovered,
        "vendor": pool.vendor_text,
        "accelerator": pool.accelerator_id,
        "devices": {
            "kind": pool.kind.value,
            "profile": pool.portion.profile or None,
            "resource": pool.resource or None,
        },
        "nodes": len(pool.nodes),
        "gpus": {"free": pool.free, "total": pool.total},
        "memoryPerGPU": None if pool.memory is None else str(Size(pool.memory)),
        "driver": pool.driver,
        "instanceType": pool.instance_type or None,
        "region": pool.region or None,
        "capacityType": pool.capacity_type.value,
        "cpuArchitecture": pool.cpu_architecture,
        "pricePerGPUHour": format_dollars(pool.price.per_gpu_hour) if pool.price else None,
        "priceSource": pool.price.source if pool.price else None,
        "problem": problem.document if problem else None,
        "warnings": [warning.document for warning in pool.warnings],
        "notReady": [{"node": node.name, **node.unready.document} for node in pool.nodes if node.unready],
        "suspected": [{"node": node.name, **node.suspected.document} for node in pool.nodes if node.suspected],
        "planned": [{"node": node.name, **node.planned.document} for node in pool.nodes if node.planned],
        "overlap": {"olderPool": overlap[0], "node": overlap[1]} if overlap else None,
    }
