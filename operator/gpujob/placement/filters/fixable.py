"""Whether the reasons against a pool can be fixed, and whether a fix of the pool can make a job run there."""

from __future__ import annotations

from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.images.compatibility import Findings
from gpujob.placement.request.demand import Demand
from gpujob.values.vocabulary import FIXABLE_REASONS, DeviceKind, Reason

SAID_BY_GPUPOOL: Final = frozenset({
    Reason.CAPACITY_TYPE_EXCLUDED, Reason.MEM_TOO_SMALL, Reason.DRIVER_TOO_OLD, Reason.NAMESPACE_EXCLUDED,
    Reason.WHOLE_NODES_ONLY, Reason.TAINT_NOT_TOLERATED, Reason.POOL_TOO_SMALL, Reason.NODE_TOO_SMALL, Reason.DISK_TOO_SMALL,
    Reason.PRICE_CAP, Reason.PRICE_UNKNOWN,
})  # fmt: skip
"""Reasons that a field of a GPUPool decides: unknown while the GPUPool cannot be read."""


def is_unread(pool: Pool) -> bool:
    """Whether it is a GPUPool that cannot be read."""
    return pool.problem is not None and pool.problem.reason is Reason.INVALID_SPEC


def can_be_fixed(pool: Pool, findings: Findings) -> bool:
    """Whether a user or admin can fix all of them; fields of a GPUPool that cannot be read may say otherwise than its nodes."""
    fixable = FIXABLE_REASONS | SAID_BY_GPUPOOL if is_unread(pool) else FIXABLE_REASONS
    return all(finding.reason in fixable for finding in findings)


def fix_could_help(demand: Demand, pool: Pool, catalog: Catalog, least: int) -> bool:
    """Whether a job can run on a pool once its problem is fixed. Only such jobs wait for the fix.

    A corrected selector adds no node that is not in another pool already, so a pool without nodes concerns only the jobs that
    name it, unless it lacks facts about nodes that can be added, or cannot be read and may say them, or selects nodes that show no
    device: it may say which they have. An unidentified device counts as the best one of its vendor, which must have `least` bytes.
    """
    if any(map(pool.is_called, demand.pools_allowed)):
        return True
    why = pool.problem.reason if pool.problem is not None else None
    says_too_little = why is Reason.DEVICE_UNKNOWN or (
        why is Reason.INVALID_SPEC and (bool(pool.bare) or pool.adds_unread)
    )
    if not pool.discovered and not pool.nodes and pool.growth is None and not says_too_little:
        return False
    if pool.accelerator is not None:
        return True
    wanted = {word for word in demand.requires if word in catalog.features}
    of_device = {word for word in wanted if "accelerator" in catalog.features[word].levels}
    its = (row for row in catalog.accelerators if pool.vendor_assumed or row.vendor is pool.vendor)
    rows = [row for row in its if of_device <= row.features]
    rows = [row for row in rows if not pool.models or row.id in pool.models]
    return any(
        DeviceKind.INTEGRATED in demand.devices
        if row.integrated
        else (row.usable_bytes or row.nominal_bytes or 0) >= least
        for row in rows
    )
