"""Memory that a device must have beyond the peak: blocks that the caching allocator holds but cannot reuse, and contexts."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpujob.memory import activations, deepspeed, model_states, serving, training
from gpujob.memory.allocator import block_reuse, fragmentation
from gpujob.memory.phases import Course
from gpujob.memory.workload import Workload, of_one_or_several
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision

CONTEXT: Final = 790 * 10**6
"""Bytes of a process's context and library workspaces beyond the allocator's (0.73 to 0.82 GB measured on an H100)."""
COMMUNICATOR: Final = 920 * 10**6
"""Bytes of NCCL's and RCCL's channels for one group of GPUs (0.9 GB measured on H100s)."""
SERVED: Final = (9, 10)
"""The fraction of a device that vLLM uses in total (gpu_memory_utilization's default)."""
UNFIT: Final = (5, 8)
"""The fraction of one phase's temporary tensors that do not fit in the blocks that another phase has left."""
UNFIT_SHARDED: Final = (7, 10)
"""The same if weights are gathered and gradients reduced during the step."""
UNFIT_WIDE: Final = (11, 20)
"""The same in 32 bits, where gradients and states are as large as the blocks of activations and loss."""
UNFIT_CAST: Final = (2, 5)
"""The same under autocast, whose casts leave blocks too."""
UNFIT_FEW: Final = (23, 25)
"""The same as UNFIT if layers are checkpointed: temporary blocks are few and large, and hardly any is reused."""
UNFIT_FEW_WIDE: Final = (3, 4)
"""The same as UNFIT_WIDE if layers are checkpointed."""
UNFIT_SHORT: Final = (1, 1)
"""The same if no gradient fits in a block of an activation, or only one in a much larger block; and if all states lie in one block
of the logits.
"""
DWARFED: Final = 256
"""The ratio of vocabulary to hidden width above which all states lie in one block of logits and split it."""
SCATTERED: Final = 4
"""The divisor of the 16-bit states that split the blocks in which they lie."""


def contexts(work: Workload) -> int:
    """Bytes of the driver and the communication library, which PyTorch's allocator does not count.

    DeepSpeed opens its communicators on one GPU too (0.6 to 1.0 GB measured on an H100).
    """
    return CONTEXT + (COMMUNICATOR if work.gpus > 1 or work.deepspeed else 0)


def beyond_peak(work: Workload, course: Course) -> int:
    """Bytes between the framework's peak and what the device must have usable.

    A server leaves a part of each device free, beside its contexts: on several GPUs, and if its load is given.
    """
    beyond = taken_beyond_peak(work, course)
    if work.parts == 1 and work.concurrency is None:
        return beyond
    used, of = SERVED
    return -(-(course.peak + beyond) * of // used) - course.peak


def taken_beyond_peak(work: Workload, course: Course) -> int:
    """Bytes that are taken beyond the framework's peak: `beyond_peak` without what a server leaves alone."""
    return contexts(work) + _held(work, course)


def _held(work: Workload, course: Course) -> int:
    """Bytes that the allocator holds at its peak without a tensor in them."""
    if work.method is Method.INFERENCE:
        return _served(work)
    if work.adapts:
        return _other_sizes(work) + _two_uses_of_adapters(work, course)
    part, whole = _unfit(work)
    own = max(_own_streams(work), deepspeed.held(work))
    held = _two_uses(work, course) * part // whole + _cast_logits(work) + own
    recomputes = work.checkpointing is not Checkpointing.NONE
    if recomputes:
        held += fragmentation.by_gradients(work)
    if _dwarfed(work):
        return max(held, training.logits(work, 4))
    if not recomputes:
        return _without_home(work, course, held)
    return max(held, fragmentation.by_states(work, course), _beside_casts(work, course))


def _served(work: Workload) -> int:
    """Half of a layer's temporary tensors, and what the cache splits off. Logits of all positions are larger than any block that
    the model's construction and its layers leave, such as that of a head that is dropped when it is tied.
    """
    passing = activations.forward_only(work) * work.tokens // 2
    if work.shape.kind.own_loss:
        return max(passing, serving.untied(work))
    return passing + fragmentation.by_cache(work)


def _without_home(work: Workload, course: Course, held: int) -> int:
    """The bytes held if gradients fit in no block of the forward pass, else `held`. In 32 bits this is `_short`.

    At most what more tokens would need, in whose blocks the gradients would fit.
    """
    if work.gathers or work.precision is Precision.FP32:
        return held
    found = block_reuse.found_by(work, work.tokens)
    if not found[0]:
        return held
    loss = _Loss(
        total=fragmentation.at_loss(course),
        logits=max([moment.logits for moment in course.moments]),
        made=max([moment.logits + moment.activations for moment in course.moments]),
    )
    least = max(held, _apart(work, loss, work.tokens, found, at_peak=loss.total == course.peak))
    for tokens in sorted(block_reuse.more_tokens(work)):
        more = max(0, loss.total + loss.made * (tokens - work.tokens) // work.tokens - course.peak)
        theirs = held * tokens // work.tokens
        if more + theirs >= least:
            break  # more tokens never need less
        at_peak = more > 0 or loss.total == course.peak
        least = min(least, more + max(theirs, _apart(work, loss, tokens, block_reuse.found_by(work, tokens), at_peak)))
    return least


class _Loss(NamedTuple):
    """The turn from forward to backward: the permanent tensors, the logits, and both with all that the layers keep."""

    total: int
    logits: int
    made: int


def _apart(work: Workload, loss: _Loss, tokens: int, found: tuple[int, int], at_peak: bool) -> int:
    """With a number of tokens, the bytes of gradients that fit in no block of the forward pass; at the optimizer's step, if the
    loss is not the peak, these blocks except those that gradients and states use. The blocks of the loss take some of either.
    """
    homeless, at_home = found
    casts = work.compute_bytes * work.shape.parameters if work.autocasts else 0
    forward = loss.made * tokens // work.tokens + casts - (0 if at_peak else at_home)
    part, whole = block_reuse.taken_by_loss(work, tokens)
    return min(homeless, forward) - loss.logits * tokens // work.tokens * part // whole


def _beside_casts(work: Workload, course: Course) -> int:
    """At the step of checkpointed layers, the unused blocks of the forward pass: checkpoints, logits, and the 16-bit copies of all
    weights, except those that gradients use. Gradients and states fill half of the loss's.
    """
    if not work.autocasts:
        return 0
    logits = made = at_step = 0
    for moment, total in zip(course.moments, course.totals, strict=True):
        if moment.logits:
            logits, made = max(logits, moment.logits), max(made, moment.logits + moment.activations)
        elif not moment.activations:
            at_step = max(at_step, total)
    left = made + work.compute_bytes * work.shape.parameters - block_reuse.in_casts(work) - logits // 2
    return at_step + left - course.peak


def _dwarfed(work: Workload) -> bool:
    shape = work.shape
    return shape.vocabulary > DWARFED * shape.hidden or (
        not shape.tied and shape.root_parameters * 5 > 2 * shape.parameters
    )


def _steps_at_once(work: Workload) -> bool:
    """Whether the optimizer copies a state of all parameters in each step; the copies then use any free block."""
    return work.optimizer is Optimizer.ADAMW_FOREACH and not work.gathers


def _unfit(work: Workload) -> tuple[int, int]:
    if work.gathers:
        return UNFIT_SHARDED
    if _short(work) or _dwarfed(work) or _steps_at_once(work) or block_reuse.loses_rests(work):
        return UNFIT_SHORT
    if work.checkpointing is Checkpointing.NONE:
        return UNFIT if work.narrow else UNFIT_CAST if work.autocasts else UNFIT_WIDE
    return UNFIT_FEW if work.narrow else UNFIT_FEW_WIDE


def _other_sizes(work: Workload) -> int:
    """Blocks of the backward pass that nothing reuses: a copy of the 16-bit logits, and one layer's forward pass."""
    passing = activations.forward_only(work) + activations.adapters_at_widest(work)
    return passing * work.tokens + _logits16(work)


def _two_uses_of_adapters(work: Workload, course: Course) -> int:
    """The optimizer's step does not fit in the blocks of the loss: gradients and, because PyTorch's AdamW copies a state
    (foreach), a copy of the adapters lie beside earlier temporary tensors. So do the 16-bit copies that autocast holds until
    the loss ends, as Hugging Face's Trainer does.
    """
    learning = model_states.adapters(work)
    copy = model_states.adapter_copy(work)
    passing = max([total - moment.adapters for moment, total in zip(course.moments, course.totals, strict=True)])
    return passing + copy // 2 + learning + (deepspeed.stepped(work) or copy) - course.peak


def _logits16(work: Workload) -> int:
    return training.logits(work, 2)


def _cast_logits(work: Workload) -> int:
    """Under autocast the loss has its logits in blocks of two widths."""
    return _logits16(work) if work.autocasts else 0


def _two_uses(work: Workload, course: Course) -> int:
    """The smaller of the temporary tensors at the loss and at the step; the blocks of the larger one serve both in part.

    The optimizer's states, created in the first step, lie scattered in blocks of activations and loss. 16-bit states are small
    enough to split these blocks, so a part of them counts as temporary at the step.
    """
    part, at_loss, steady, at_step = _activations_unfit(work), 0, course.peak, 0
    for moment, total in zip(course.moments, course.totals, strict=True):
        kept, logits = moment.activations, moment.logits
        at_loss = max(at_loss, logits + kept // part)
        steady = min(steady, total - kept - logits)
        at_step = at_step if kept else max(at_step, total)
    if block_reuse.loses_rests(work):
        at_loss += activations.passing_scores(work) * work.tokens
    at_step -= steady
    scattered = model_states.optimizer(work) // SCATTERED if work.narrow and not work.gathers else 0
    return min(at_loss, at_step + scattered)


def _activations_unfit(work: Workload) -> int:
    """The divisor of the activations that do not fit in the gradients' blocks.

    Without checkpoints they are many, and fit three quarters of the gradients. Checkpoints are too few to matter; sharded
    gradients come from another stream and fit none; experts are one matrix in each layer, larger than any activation.
    """
    few = work.narrow and work.checkpointing is not Checkpointing.NONE
    if work.gathers or few or work.shape.experts > 1 or _dwarfed(work):
        return 1
    return 2 if _short(work) else 4


def _short(work: Workload) -> bool:
    """Whether no gradient, hidden × width, fits in a block of an activation, tokens × width; in 32 bits they are equal."""
    alike = work.precision is Precision.FP32 and work.checkpointing is Checkpointing.NONE and not work.gathers
    return alike and work.tokens < work.shape.hidden


def _own_streams(work: Workload) -> int:
    """FSDP gathers and reduces on separate streams, whose blocks no other stream can use."""
    if not work.gathers:
        return 0
    return _streamed(work) + model_states.gradients(work, work.shape.embedding_parameters)


@of_one_or_several
def _streamed(work: Workload) -> int:
    """The blocks of whole weights that are gathered and of whole gradients that are reduced."""
    shape = work.shape
    gather = work.compute_bytes * (shape.root_parameters + 2 * shape.layer_parameters)
    return gather + training.reduced(work, shape.embedding_parameters + 2 * shape.layer_parameters)
