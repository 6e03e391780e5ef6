"""Whether the reasons against a pool can be fixed, and whether a fix of the pool can make a job run there."""

from __future__ import annotations

from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.images.compatibility import Findings
from gpujob.placement.images.filters import required_by
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.gang import Gang
from gpujob.values.finding import Finding, Need, Size, counted, listed
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


def fix_could_help(demand: Demand, pool: Pool) -> bool:
    """Whether a job can run on a pool once its problem is fixed, if its devices suit. Only such jobs wait for the fix.

    A corrected selector adds no node that is not in another pool already, so a pool without nodes concerns only the jobs that
    name it, unless it lacks facts about nodes that can be added, or cannot be read and may say them, or selects nodes that show no
    device: it may say which they have.
    """
    if any(map(pool.is_called, demand.pools_allowed)):
        return True
    why = pool.problem.reason if pool.problem is not None else None
    says_too_little = why is Reason.DEVICE_UNKNOWN or (
        why is Reason.INVALID_SPEC and (bool(pool.bare) or pool.adds_unread)
    )
    return bool(pool.discovered or pool.nodes or pool.growth is not None or says_too_little)


def beyond_every_device(demand: Demand, pool: Pool, catalog: Catalog, least: int, gang: Gang) -> Finding | None:
    """Why no device that an unidentified one may be can run a job, whatever a fix of the pool says: it may be any of the pool's models
    or of its vendor, of those that the job names. `least`: the bytes that each GPU of the gang needs.
    """
    its = (row for row in catalog.accelerators if pool.vendor_assumed or row.vendor is pool.vendor)
    every = [row for row in its if not pool.models or row.id in pool.models]
    named = [row for row in every if _is_named(demand, row)]
    rows = named or every
    wanted = [feature for feature in required_by(demand, catalog) if "accelerator" in feature.levels]
    rows = [row for row in rows if not row.integrated or DeviceKind.INTEGRATED in demand.devices]
    device = "device" if pool.vendor_assumed else f"{pool.vendor} device"
    what = f"{device} that the job names" if 0 < len(named) < len(every) else f"known {device}"
    if not rows:
        sentence = "each {} shares its memory with the host; add {} to placement.devices to use it"
        return Finding(Reason.DEVICE_EXCLUDED, sentence, (what, DeviceKind.INTEGRATED))
    suited = [row for row in rows if row.features.issuperset(feature.name for feature in wanted)]
    if not suited:
        names = listed(feature.name for feature in wanted)
        return Finding(wanted[0].reason, "requires {}, which no {} has", (names, what))
    if pool.memory is not None or any(row.integrated for row in suited):
        return None
    largest = max(suited, key=_memory)
    if _memory(largest) >= least:
        return None
    has = (what, Size(_memory(largest)), largest.id)
    sentence = "{} usable per GPU, and no {} has more than {} ({})"
    if demand.model is None:
        return Finding(Reason.MEM_TOO_SMALL, f"needs {sentence}", (Need(least), *has))
    sentence = "the model needs {} on each of {}, and no {} has more than {} ({})"
    return Finding(Reason.MEM_TOO_SMALL, sentence, (Need(least), counted(gang.gpus, "GPU"), *has))


def _is_named(demand: Demand, row: Accelerator) -> bool:
    allowed, denied = demand.accelerators_allowed, demand.ids_of(demand.accelerators_denied)
    among = not allowed or row.id in demand.ids_of(allowed)
    return among and row.id not in denied and demand.is_meant_for(demand.gang, (row.id,))


def _memory(row: Accelerator) -> int:
    return row.usable_bytes or row.nominal_bytes or 0
