"""Discovered pools as GPUPool objects, so that `kubectl get gpupools` shows the fleet to people without rights on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpujob.fleet.pools import Fleet, Pool
from gpujob.quantity import format_bytes, format_dollars
from gpujob.vocabulary import API_VERSION, FIELD_MANAGER, GROUP, ConditionType, Label, Reason

POOL_NAME_LABEL: Final = f"{GROUP}/discovered-pool"
"""The label in a discovered pool's selector. No node has it: such a pool is grouped by facts and claims nothing."""


def manifest(pool: Pool) -> dict[str, Any]:
    """The GPUPool object of a discovered pool, without status."""
    spec = {
        "nodeSelector": {"matchLabels": {POOL_NAME_LABEL: pool.name[:63].strip("-")}},
        "accelerator": pool.accelerator.id if pool.accelerator else None,
        "resourceName": pool.resource,
        "capacityType": pool.capacity_type.value,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPool",
        "metadata": {"name": pool.name, "labels": {Label.DISCOVERED: "true", Label.MANAGED_BY: FIELD_MANAGER}},
        "spec": {key: value for key, value in spec.items() if value},
    }


def status(pool: Pool, fleet: Fleet, held: Mapping[str, Any], now: str, generation: int = 1) -> dict[str, Any]:
    """What a pool is made of: nodes, devices, price, and what is doubtful."""
    record = {
        "nodes": len(pool.nodes),
        "gpus": {"total": pool.total, "free": pool.free},
        "vendor": pool.vendor.value if pool.nodes else None,
        "accelerator": pool.accelerator.id if pool.accelerator else None,
        "resourceName": pool.resource or None,
        "memory": format_bytes(pool.memory) if pool.memory else None,
        "driver": pool.driver,
        "cpuArchitecture": pool.cpu_architecture,
        "instanceType": pool.instance_type or None,
        "capacityType": pool.capacity_type.value,
        "pricePerGPUHour": format_dollars(pool.price.per_gpu_hour) if pool.price else None,
        "priceSource": pool.price.source[:256] if pool.price else None,
        "conditions": _conditions(pool, fleet, held, now, generation),
    }
    return {key: value for key, value in record.items() if value is not None}


def _conditions(pool: Pool, fleet: Fleet, held: Mapping[str, Any], now: str, generation: int) -> list[dict[str, Any]]:
    doubts = "; ".join(doubt.message for doubt in pool.doubts)
    if pool.problem:
        read = (False, pool.problem.reason, pool.problem.message)
    else:
        read = (True, Reason.READ, doubts or "labels and catalog agree")
    claims = [(ConditionType.READ, *read)]
    if not pool.discovered:
        claims.append((ConditionType.OVERLAPS, *_overlap(fleet.overlaps.get(pool.name))))
    before = {c.get("type"): c for c in held.get("conditions") or () if isinstance(c, Mapping)}
    return [_condition(*claim, before.get(claim[0].value), now, generation) for claim in claims]


def _overlap(lost: tuple[str, str] | None) -> tuple[bool, Reason, str]:
    if lost is None:
        return False, Reason.NO_OVERLAP, "no older GPUPool claims its nodes"
    return (
        True,
        Reason.OVERLAPS,
        f"the older GPUPool {lost[0]} claims node {lost[1]} too and has it; narrow spec.nodeSelector",
    )


def _condition(
    kind: ConditionType,
    holds: bool,
    reason: Reason,
    message: str,
    before: Mapping[str, Any] | None,
    now: str,
    generation: int,
) -> dict[str, Any]:
    value = "True" if holds else "False"
    since = before.get("lastTransitionTime", now) if before and before.get("status") == value else now
    return {
        "type": kind.value,
        "status": value,
        "reason": reason.value,
        "message": message[:4096],
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def discovered(fleet: Fleet) -> Iterable[Pool]:
    """The pools that the operator found by itself."""
    return (pool for pool in fleet.pools if pool.discovered)
