"""Notes below the table of a decision: what keeps the job on one stack, and names that are taken as near ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.catalog.devices.identity import bare_words, sizes_of
from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.finding import listed
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Vendor

PORTABLE: Final = "CustomCUDAKernels"
"""The feature that keeps a job on CUDA because of its own sources."""

PORT: Final = (
    "CustomCUDAKernels keeps the job on CUDA; a port to ROCm translates the sources with hipify, rewrites inline PTX, "
    "and replaces warps of 32 threads by the device's warp size (64 on Instinct)"
)
"""The work of a port. HIP porting guide: hipify, inline PTX is not supported, warpSize is 64 on GCN and CDNA, 32 on RDNA."""

BOARDS: Final = {"sxm": "SXM", "pcie": "PCIe", "nvl": "NVL"}
"""Words for the boards of one model."""


def notes(decision: Decision) -> Iterator[str]:
    """The sentences; none if there is nothing to note."""
    if PORTABLE in decision.demand.requires and any(_is_refused_for_it(each) for each in decision.candidates):
        yield PORT
    yield from _of_another_size(decision)
    yield from _of_any_board(decision)


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


def _of_any_board(decision: Decision) -> Iterator[str]:
    """The job's names for a board of the first candidate's device, if one row of the catalog is several boards: A100-SXM."""
    device = decision.candidates[0].pool.accelerator if decision.candidates else None
    if device is None:
        return
    sold_as = BOARDS.keys() & {word for label in device.products for word in bare_words(label)}
    for word, ids in decision.demand.meant:
        named = BOARDS.keys() & set(bare_words(word))
        if device.id in ids and named and named < sold_as:
            boards = listed(sorted(BOARDS[board] for board in sold_as))
            yield f"{word} is taken as {device.id}, of which the catalog has one row for its boards {boards}"


def _is_refused_for_it(candidate: Candidate) -> bool:
    """Whether the job's own CUDA sources reject an AMD pool."""
    return candidate.pool.vendor is Vendor.AMD and any(PORTABLE in reason.numbers for reason in candidate.reasons)
