"""The bytes of large tensors beyond their size: the ends of their segments.

PyTorch's caching allocator gives a tensor of 10 MiB or more its own segment of whole 2 MiB, and an end of at most 1 MiB stays with
the tensor and counts as allocated (c10/cuda/CUDACachingAllocator.cpp: kMinLargeAlloc, kRoundLarge, should_split). A matrix of
2,560 × 2,560 in 32 bits takes 26 MiB instead of 25.
"""

from __future__ import annotations

from typing import Final

from gpujob.memory import model_states
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Method, Precision

MIB: Final = 2**20
OWN_SEGMENT: Final = 10 * MIB
WHOLE: Final = 2 * MIB
"""Segments are multiples of this."""
KEPT: Final = MIB
"""The largest end that stays with its tensor."""


def of_weights(work: Workload) -> int:
    """Bytes that one copy of the weights takes beyond its size; the same for gradients and for each state of their width. None if
    weights are sharded, flattened or of 4 or 8 bits.
    """
    if work.gathers or work.deepspeed or work.parts > 1 or work.stored or work.quantised:
        return 0
    if work.method is not Method.FULL and work.precision is Precision.FP8:
        return 0
    shape = work.shape
    return _ends(
        shape.matrices,
        shape.layers,
        shape.vocabulary,
        1 if shape.tied else 2,
        shape.hidden * model_states.stored_bytes(work),
    )


def of_states(work: Workload, padded: int) -> int:
    """Bytes that the optimizer's states take beyond their size, given those of one copy of the weights."""
    if work.method is not Method.FULL:
        return 0
    whole = work.shape.parameters * model_states.stored_bytes(work) // work.shards
    return model_states.optimizer(work) // whole * padded // work.shards


def _ends(widths: tuple[int, ...], layers: int, vocabulary: int, roots: int, each: int) -> int:
    """Bytes at the ends of all matrices: these widths in each layer and some of the vocabulary, `each` bytes wide."""
    return sum([_end(width * each) for width in widths]) * layers + roots * _end(vocabulary * each)


def _end(size: int) -> int:
    end = -size % WHOLE
    return end if size >= OWN_SEGMENT and end <= KEPT else 0
