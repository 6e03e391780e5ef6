"""Notes below the table of a decision: what keeps the job on one stack, and names that are taken as near ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.catalog.devices.identity import sizes_of
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Vendor

PORTABLE: Final = "CustomCUDAKernels"
"""The feature that keeps a job on CUDA because of its own sources."""

PORT: Final = (
    "CustomCUDAKernels keeps the job on CUDA; a port to ROCm translates the sources with hipify, rewrites inline PTX, "
    "and replaces warps of 32 threads by the device's warp size (64 on Instinct)"
)
"""The work of a port. HIP porting guide: hipify, inline PTX is not supported, warpSize is 64 on GCN and CDNA, 32 on RDNA."""


def notes(decision: Decision) -> Iterator[str]:
    """The sentences; none if there is nothing to note."""
    if PORTABLE in decision.demand.requires and any(_is_refused_for_it(each) for each in decision.candidates):
        yield PORT
    yield from _of_another_size(decision)


def _of_another_size(decision: Decision) -> Iterator[str]:
    """The job's names that say nearly the size of the first candidate's device: H100-96GB for one of 94 GB."""
    device = decision.candidates[0].pool.accelerator if decision.candidates else None
    if device is None or device.nominal_bytes is None:
        return
    has = round(device.nominal_bytes / GI)
    for word, ids in decision.demand.meant:
        sizes = sizes_of(word)
        if device.id in ids and sizes and has not in sizes:
            yield f"{word} is taken as {device.id}, which is sold with {has} GB"


def _is_refused_for_it(candidate: Candidate) -> bool:
    """Whether the job's own CUDA sources reject an AMD pool."""
    return candidate.pool.vendor is Vendor.AMD and any(PORTABLE in reason.numbers for reason in candidate.reasons)
