"""Blocks that long-lived tensors split: the rest of such a block is lost, and new ones are created instead.

The allocator takes the smallest free block that is large enough, and its rest serves only smaller tensors
(c10/cuda/CUDACachingAllocator.cpp). Found by simulating the models' steps with these rules: bench/memory/allocator.py.
"""

from __future__ import annotations

from gpujob.memory import activations, model_states, training
from gpujob.memory.allocator import block_reuse
from gpujob.memory.phases import Course
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Precision


def by_cache(work: Workload) -> int:
    """Keys and values of each layer are copied into the cache (transformers, cache_utils.DynamicLayer: torch.cat) and use blocks
    of its MLP, tokens × width each: as many as fit in one. The rest of the block is lost, because the next layer creates blocks
    of the same sizes. A server creates its cache at once.
    """
    shape = work.shape
    key, ffn = shape.key_width, shape.active_ffn
    if work.parts > 1 or work.concurrency is not None or shape.latent or key > ffn:
        return 0
    rest = ffn % key
    return 2 * shape.layers * key * work.compute_bytes * work.tokens * rest // (ffn - rest)


def by_gradients(work: Workload) -> int:
    """The same for gradients in 32 bits with recomputed layers: those of hidden × query width, one for each product of that width,
    use blocks of the layer's MLP.
    """
    if work.precision is not Precision.FP32 or work.gathers:
        return 0
    shape = work.shape
    block = work.compute_bytes * work.tokens * shape.active_ffn
    gradient = shape.hidden * shape.query_width * model_states.gradient_bytes(work)
    fit = block // gradient
    if not fit:
        return 0
    return block % gradient // fit * block_reuse.squares(work) * shape.layers


def by_states(work: Workload, course: Course) -> int:
    """Bytes beside the peak if the first step's gradients and states lie in the blocks of its loss, which are larger: as many
    blocks as they need, smallest first. The states stay in them, and the next loss creates others.

    Some fit in blocks of a recomputed layer, and one of the embedding's size in that of a head that was dropped when it was tied.
    0 if they need more than all blocks of the loss. For recomputed layers only: others leave their own blocks.
    """
    shape, lasting = work.shape, model_states.optimizer(work)
    if work.gpus > 1 or not lasting:
        return 0
    layer = activations.at_work(work, activations.everything(work)) * work.tokens
    elsewhere = layer + (model_states.stored_bytes(work) * shape.embedding_parameters if shape.tied else 0)
    needed, broken = lasting + model_states.gradients(work, shape.parameters) - elsewhere, 0
    if needed <= 0:
        return 0
    for each in training.loss_widths(work):
        broken += training.logits(work, each)
        if broken >= needed:
            return at_loss(course) + broken - lasting - course.peak
    return 0


def at_loss(course: Course) -> int:
    """The most bytes of a phase that has logits."""
    return max([total for moment, total in zip(course.moments, course.totals, strict=True) if moment.logits])
