"""Which gradients fit in blocks that the forward pass left, by the sizes of both.

PyTorch's caching allocator gives a tensor of 10 MiB or more its own segment of its size, and free segments are never merged
(c10/cuda/CUDACachingAllocator.cpp, kMinLargeAlloc). So a matrix's gradient fits in an activation's block only if that was at least
as large: tokens × width against hidden × width, where most widths are the same. If it fits, each step reuses the blocks of the
last one; if not, both remain: the blocks of the forward pass, and the gradients. Found by simulating the models' steps with these
rules: bench/memory/allocator.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from gpujob.memory import activations, model_states
from gpujob.memory.workload import Workload, of_one_or_several

LOGIT: Final = 4
"""Bytes of a logit at the loss."""
CAST: Final = 2
"""Bytes of a weight that autocast has cast."""
STATES: Final = 2
"""States of each parameter, created in the first step."""
LOST: Final = 4
"""The rest of a block beside a gradient is lost if it exceeds this fraction: no tensor of its size follows."""


def taken_by_loss(work: Workload, tokens: int) -> tuple[int, int]:
    """The fraction of the loss's blocks, one for each token and 32-bit number over the vocabulary, that gradients and states fill:
    only the embedding's are as wide and fit whole.
    """
    block, gradient = LOGIT * tokens, work.shape.hidden * model_states.gradient_bytes(work)
    return block // gradient * gradient or block, block


def found_by(work: Workload, tokens: int) -> tuple[int, int]:
    """Bytes of gradients that are larger than any tensor of their layer's forward pass or of the loss; and, of the layers, bytes
    of gradients and then states of AdamW that are not. `tokens` may differ from the workload's.
    """
    blocks = _blocks(work, tokens)
    each = work.shape.hidden * model_states.gradient_bytes(work)
    widths = work.shape.matrices
    gradients = _placed(blocks, widths, each)
    placed = gradients + _placed(blocks, sorted(widths * STATES), each)
    layers, root = work.shape.layers, 0
    if each > LOGIT * tokens:
        # Embedding and logits are both as wide as the vocabulary.
        root = model_states.gradients(work, work.shape.root_parameters)
    return (sum(widths) * each - gradients) * layers + root, placed * layers


def more_tokens(work: Workload) -> Iterator[int]:
    """The numbers of tokens above the workload's at which one more kind of gradient fits."""
    each, widest = work.shape.hidden * model_states.gradient_bytes(work), _blocks(work, work.tokens)[-1]
    enough = {-(-width * each * work.tokens // widest) for width in work.shape.matrices} | {-(-each // LOGIT)}
    return (tokens for tokens in enough if tokens > work.tokens)


@of_one_or_several
def in_casts(work: Workload) -> int:
    """Bytes of gradients that fit in autocast's 16-bit casts of the weights, if layers are checkpointed and leave no other blocks."""
    each = model_states.gradient_bytes(work)
    return each * work.shape.hidden * _in_casts(work.shape.matrices, each) * work.shape.layers


@lru_cache(maxsize=1024)  # 12 µs against 0.1, for each number of GPUs that a job's size is tried with
def _in_casts(widths: tuple[int, ...], each: int) -> int:
    """The sum of the widths of the matrices whose gradients, `each` bytes wide, fit; the other width is the same for all."""
    blocks, placed = [CAST * width for width in widths], 0
    for width in widths:
        at = bisect_left(blocks, width * each)
        if at < len(blocks):
            placed += width
            insort(blocks, blocks.pop(at) - width * each)
    return placed


def squares(work: Workload) -> int:
    """Products of a layer that are as wide as its queries."""
    shape = work.shape
    if shape.kind.fused:
        return 1
    return 4 if shape.key_width == shape.query_width else 2


def loses_rests(work: Workload) -> bool:
    """Whether scores, without a fused kernel the largest tensors of a layer, hold one gradient of the MLP each and lose the rest."""
    block = activations.score_block(work) * work.tokens
    matrix = work.shape.hidden * work.shape.ffn * model_states.gradient_bytes(work)
    return matrix <= block < 2 * matrix and (block - matrix) * LOST > block


def _placed(blocks: list[int], widths: Iterable[int], each: int) -> int:
    """Bytes of the matrices that get a block each; these blocks are removed."""
    placed = 0
    for width in widths:
        at = bisect_left(blocks, width * each)
        if at < len(blocks):
            del blocks[at]
            placed += width * each
    return placed


def _blocks(work: Workload, tokens: int) -> list[int]:
    """Bytes of the tensors that a layer's forward pass creates, the smallest first, and autocast's casts of the weights."""
    made = [each * tokens for each in _made(work)]
    if not work.autocasts:
        return made
    return sorted([*made, *(2 * work.shape.hidden * width for width in work.shape.matrices)])


@of_one_or_several
def _made(work: Workload) -> list[int]:
    """Bytes for each token of the tensors that a layer's forward pass creates, without the smallest: norms, attention and MLP."""
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    ffn, fused = x * shape.active_ffn, x * (shape.query_width + 2 * shape.key_width)
    # Gate and up are one product if queries, keys and values are; formulas of several steps widen under autocast.
    if kind.gated:
        mlp = [2 * ffn, ffn, ffn] if kind.fused else [ffn] * 4
    else:
        mlp = [4 * ffn // x] * 3 if kind.stepwise and work.autocasts else [ffn] * 2
    attention = [x * shape.query_width, x * shape.query_width, *([fused] if kind.fused else [])]
    return sorted([4 * shape.hidden, 4 * shape.hidden, *attention, activations.score_block(work), *mlp])
