"""Blocks that what is made in them, and stays, breaks up: the rest of them is lost, and others are made in their place.

The smallest free block that is large enough is taken, and its rest serves only what is no larger than it
(c10/cuda/CUDACachingAllocator.cpp). Found by playing the models' own steps through these rules: bench/memory/allocator.py.
"""

from __future__ import annotations

from gpujob.memory import activations, model_states, training
from gpujob.memory.allocator import block_reuse
from gpujob.memory.phases import Course
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Precision


def by_cache(work: Workload) -> int:
    """Keys and values of each layer are copied into the cache (transformers, cache_utils.DynamicLayer: torch.cat) and lie in
    blocks that its MLP left, tokens × width each: as many as fit in one, and the rest of it is lost, for the next layer makes
    blocks of the same sizes. A server's cache is made at once.
    """
    shape = work.shape
    key, ffn = shape.key_width, shape.active_ffn
    if work.parts > 1 or work.concurrency is not None or shape.latent or key > ffn:
        return 0
    rest = ffn % key
    return 2 * shape.layers * key * work.compute_bytes * work.tokens * rest // (ffn - rest)


def by_gradients(work: Workload) -> int:
    """The same of gradients in 32 bits, where layers are recomputed: those of hidden × query width, one for each product of
    that width, lie in blocks that the layer's MLP left.
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
    """Bytes beside the peak where the first step's gradients and states lie in the blocks of its loss, which are larger: so many
    blocks as they need, smallest first. The states stay in them, and the next loss makes others.

    Some find room where a layer was recomputed, and one as large as the embedding where a head was dropped when it was tied.
    0 where they need more than all blocks of the loss. For layers that are recomputed: others leave blocks of their own.
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
    """The most bytes at a moment that has logits."""
    return max([total for moment, total in zip(course.moments, course.totals, strict=True) if moment.logits])
