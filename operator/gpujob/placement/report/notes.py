"""Notes below the table of a decision: what keeps the job on one stack, and what would free it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.vocabulary import Vendor

PORTABLE: Final = "CustomCUDAKernels"
"""The feature that keeps a job on CUDA because of its own sources."""

PORT: Final = (
    "CustomCUDAKernels keeps the job on CUDA; a port to ROCm translates the sources with hipify, rewrites inline PTX, "
    "and replaces warps of 32 threads by the device's warp size (64 on Instinct)"
)
"""The work of a port. HIP porting guide: hipify, inline PTX is not supported, warpSize is 64 on GCN and CDNA, 32 on RDNA."""


def notes(decision: Decision) -> Iterator[str]:
    """The sentences; none if nothing keeps the job on one stack."""
    if PORTABLE in decision.demand.requires and any(_is_refused_for_it(each) for each in decision.candidates):
        yield PORT


def _is_refused_for_it(candidate: Candidate) -> bool:
    """Whether the job's own CUDA sources reject an AMD pool."""
    return candidate.pool.vendor is Vendor.AMD and any(PORTABLE in reason.numbers for reason in candidate.reasons)
