"""Discovered pools as GPUPool objects, so that `kubectl get gpupools` shows the fleet to users without rights on nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.shortage import barred
from gpujob.status.job.conditions import ConditionUpdate, merged
from gpujob.status.job.events import event_about
from gpujob.values.quantity import exact_dollars, format_bytes, format_dollars
from gpujob.values.untrusted import condition
from gpujob.values.vocabulary import API_VERSION, FIELD_MANAGER, ConditionType, Label, Reason


def manifest(pool: Pool) -> dict[str, Any]:
    """The GPUPool object of a discovered pool, without status."""
    spec = {
        "nodeSelector": {"matchLabels": {Label.DISCOVERED_POOL: pool.name[:63].strip("-")}},
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


def is_edited(pool: Pool, spec: Mapping[str, Any], generation: int) -> bool:
    """Whether a user changed the spec of a discovered pool, which the operator writes only once."""
    return pool.discovered and generation > 1 and dict(spec) != manifest(pool)["spec"]


def status(
    pool: Pool, fleet: Fleet, held: Mapping[str, Any], now: str, generation: int = 1, *, edited: bool = False
) -> dict[str, Any]:
    """The facts of a pool: nodes, devices, price, and warnings."""
    conditions = held.get("conditions") or ()
    updates = (*_updates(pool, fleet), *_edits(conditions, edited=edited))
    no_price = Reason.NO_PRICE.value if pool.nodes and pool.price is None else None
    record = {
        "nodes": len(pool.nodes),
        "gpus": {"total": pool.total, "free": pool.free},
        "vendor": None if pool.vendor_assumed else pool.vendor.value,
        "accelerator": pool.accelerator.id if pool.accelerator else None,
        "resourceName": None if pool.vendor_assumed else pool.resource or None,
        "deviceKind": pool.kind.value if pool.nodes else None,
        "profile": pool.portion.profile or None,
        "memory": format_bytes(pool.memory) if pool.memory else None,
        "driver": pool.driver,
        "cpuArchitecture": pool.cpu_architecture[:16],
        "instanceType": pool.instance_type or None,
        "capacityType": pool.capacity_type.value,
        "pricePerGPUHour": exact_dollars(pool.price.per_gpu_hour) if pool.price else None,
        "display": {"price": format_dollars(pool.price.per_gpu_hour)} if pool.price else None,
        "priceSource": pool.price.source[:256] if pool.price else None,
        "problem": next((update.reason.value for update in updates if _keeps_jobs_away(update)), no_price),
        "conditions": merged(conditions, updates, generation, now),
    }
    return {key: value for key, value in record.items() if value is not None}


def contradiction(pool: Pool, uid: str, held: Mapping[str, Any], instance: str, now: str) -> dict[str, Any] | None:
    """The Warning event that labels, device plugin and catalog contradict each other, once for each change of the message."""
    findings = (*pool.warnings, *((pool.problem,) if pool.problem else ()))
    contradictions = "; ".join(finding.message for finding in findings if finding.reason is Reason.LABELS_CONTRADICT)
    if not contradictions or contradictions in str(condition(held, ConditionType.READ).get("message")):
        return None
    name = f"{pool.name[:200]}.{uid[:8]}.{hashlib.sha256(contradictions.encode()).hexdigest()[:10]}"
    what = ("Warning", "Read", Reason.LABELS_CONTRADICT.value)
    return event_about({"kind": "GPUPool", "name": pool.name, "uid": uid}, name, what, contradictions, instance, now)


def _updates(pool: Pool, fleet: Fleet) -> Iterator[ConditionUpdate]:
    problem = pool.problem or barred(pool)
    if problem:
        yield ConditionUpdate(ConditionType.READ, False, problem.reason, problem.message)
    else:
        warnings = "; ".join(warning.message for warning in pool.warnings)
        yield ConditionUpdate(ConditionType.READ, True, Reason.READ, warnings or "labels and catalog agree")
    if not pool.discovered:
        yield _overlap(fleet.overlaps.get(pool.name))


def _keeps_jobs_away(update: ConditionUpdate) -> bool:
    return (update.type, update.holds) in ((ConditionType.READ, False), (ConditionType.OVERLAPS, True))


def _edits(held: Iterable[Any], *, edited: bool) -> Iterator[ConditionUpdate]:
    """That an edit has no effect, and what to do instead; empty without an edit."""
    if edited:
        sentence = (
            f"the operator wrote this GPUPool from its nodes and does not read its spec; set spec.nodeSelector"
            f" and remove the label {Label.DISCOVERED} to make it yours, or create a GPUPool of your own"
        )
        yield ConditionUpdate(ConditionType.EDITED, True, Reason.SPEC_NOT_READ, sentence)
    elif any(isinstance(condition, Mapping) and condition.get("type") == ConditionType.EDITED for condition in held):
        yield ConditionUpdate(
            ConditionType.EDITED, False, Reason.SPEC_AS_WRITTEN, "the spec is what the operator wrote"
        )


def _overlap(lost: tuple[str, str] | None) -> ConditionUpdate:
    if lost is None:
        return ConditionUpdate(ConditionType.OVERLAPS, False, Reason.NO_OVERLAP, "no older GPUPool claims its nodes")
    sentence = f"the older GPUPool {lost[0]} claims node {lost[1]} too and has it; narrow spec.nodeSelector"
    return ConditionUpdate(ConditionType.OVERLAPS, True, Reason.OVERLAPS, sentence)
