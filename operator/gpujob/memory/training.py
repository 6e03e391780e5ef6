"""The phases of a training step that can be its peak, each in bytes on one GPU.

A step with PyTorch: the forward pass, the loss (logits and every kept activation), the backward pass (activations shrink while
gradients grow: its first and its last layer are the extremes), the gradient of the embedding, and the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpujob.memory import activations, deepspeed, model_states
from gpujob.memory import segment_padding as padding
from gpujob.memory.phases import WORKSPACE, Components
from gpujob.memory.workload import Workload, of_one_or_several
from gpujob.values.vocabulary import Checkpointing, Method, Sharding

LOSS_TENSORS: Final = 3
"""For each logit at the start of the backward pass: log-softmax, its gradient and the loss's. Losses of causal models cast them to
32 bits (transformers, loss_utils.ForCausalLMLoss), as autocast does; an encoder's own loss does not.
"""
FORWARD_LOSS_BYTES: Final = 10
"""For each logit at the loss: 16-bit logits, their 32-bit copy and the log-softmax."""
CHUNKS: Final = 8
"""Pieces in which a chunked loss takes the tokens (torchtune's default)."""


def moments(work: Workload) -> Iterator[Components]:
    """Every phase that can be the peak."""
    stays = _staying(work)
    for passing in _passing(work):
        yield _moment(work, stays, passing)
    yield _at_step(work, stays, made=0)
    made = deepspeed.stepped(work) + model_states.updates(work)
    if made:
        yield _at_step(work, stays, made)
    if work.method is Method.FULL:
        yield _moment(work, stays, _at_embedding(work))


def logits(work: Workload, each: int) -> int:
    """Bytes of the loss over the vocabulary: tokens × vocabulary × bytes."""
    whole = work.tokens * work.shape.vocabulary * each
    return whole // CHUNKS if work.chunked_loss else whole


def loss_bytes(work: Workload) -> int:
    """For each logit at the start of the backward pass: three numbers, and the tanh of a cap, as wide as the products. An
    encoder's own loss leaves the logits to autocast, which has freed their cast by then: one number is a narrow one.
    """
    kind, x = work.shape.kind, work.compute_bytes
    if kind.own_loss:
        return 2 * 4 + x if work.autocasts else LOSS_TENSORS * x
    return LOSS_TENSORS * 4 + (x if kind.capped else 0)


def gathered(work: Workload, layers: int) -> int:
    """Weights that are whole on this GPU during computation: embedding and head always, and this number of layers.

    FSDP2 keeps its root (embedding, last norm, head) gathered from forward to backward. ZeRO-2 gathers all weights once a step
    (reshard_after_forward=False). Quantised layers are gathered as they are.
    """
    if not work.gathers:
        return 0
    if work.sharding is Sharding.ZERO2:
        return work.compute_bytes * work.shape.parameters
    part, of = model_states.nf4(work) if work.quantised else (work.compute_bytes, 1)
    return work.compute_bytes * work.shape.root_parameters + layers * work.shape.layer_parameters * part // of


def loss_widths(work: Workload) -> Sequence[int]:
    """Bytes of each number that the loss has of a logit, smallest first."""
    kind, x = work.shape.kind, work.compute_bytes
    if kind.own_loss and not work.autocasts:
        return (x,) * LOSS_TENSORS
    if kind.own_loss:
        return x, 4, 4
    return (4,) * LOSS_TENSORS if x == 4 else (x, *(4,) * LOSS_TENSORS)


class _Staying(NamedTuple):
    """What exists in every phase: the states, a part of them on each GPU if they are sharded."""

    weights: int
    optimizer: int
    gradients: int
    """The gradients that DDP keeps, or that wait for those of further micro-batches."""
    learning: int
    """Adapters with their gradients, and `resting` without."""
    resting: int
    overhead: int
    padding: int
    """What all gradients take beyond their size."""
    each: int
    """Bytes of one parameter's gradient."""
    parts: int
    """The number of GPUs that share it."""


class _Passing(NamedTuple):
    """What exists in one phase only; it depends on whether there are several GPUs, not on how many."""

    activations: int = 0
    logits: int = 0
    overhead: int = 0
    graded: int = 0
    """Parameters that have their gradients."""


class _Layers(NamedTuple):
    """What the layers keep and use for all tokens."""

    kept: int
    """What all layers keep of the forward pass."""
    everything: int
    """What they would keep without checkpoints."""
    at_work: int
    """The layer in its backward pass."""


def _staying(work: Workload) -> _Staying:
    each, parts = model_states.gradient_bytes(work), work.gpus if work.gathers else 1
    gradients = work.shape.parameters * each // parts if work.method is Method.FULL else 0
    keeps = work.replicates or work.accumulates
    # DDP keeps buckets of the gradients' size beside them.
    overhead = (gradients if work.replicates else 0) + model_states.dequantised(work) + 2 * WORKSPACE
    padded = padding.of_weights(work)
    if padded:
        overhead += padded + padding.of_states(work, padded)
    learning = model_states.adapters(work)
    resting = learning if keeps else model_states.adapters(work, learning=False)
    return _Staying(
        model_states.weights(work),
        model_states.optimizer(work),
        gradients if keeps else 0,
        learning,
        resting,
        overhead,
        padded,
        each,
        parts,
    )


def _moment(work: Workload, stays: _Staying, passing: _Passing) -> Components:
    """A phase: the permanent tensors, and the temporary ones."""
    weights, optimizer, waiting, learning, resting, lasting, padded, each, parts = stays
    activations, logits, overhead, graded = passing
    # The formula of `model_states.gradients`; what is the same in all phases is computed once for them.
    gradients = max(graded * each // parts, waiting) if graded else waiting
    if graded and padded:
        overhead += padded * graded // work.shape.parameters
    adapters, kv_cache = resting if logits else learning, 0
    # Positional arguments take half the time: a decision creates dozens of phases.
    return Components(weights, gradients, optimizer, activations, logits, kv_cache, adapters, overhead + lasting)


@of_one_or_several
def _passing(work: Workload) -> Sequence[_Passing]:
    """What exists from the loss to the end of the backward pass only."""
    layers = _layers(work)
    ends = (_at_forward_end(work, layers),) if work.autocasts else ()
    return (_at_loss(work, layers), *ends, _at_first_layer_back(work, layers), _at_last_layer_back(work, layers))


def _layers(work: Workload) -> _Layers:
    layer, layers, last = activations.everything(work), work.shape.layers, activations.last_norm(work)
    return _Layers(
        kept=(activations.kept_by_layer(work, layer) * layers + last) * work.tokens,
        everything=(layer * layers + last) * work.tokens,
        at_work=activations.at_work(work, layer) * work.tokens,
    )


def _at_loss(work: Workload, layers: _Layers) -> _Passing:
    """The turn from forward to backward. Autocast keeps 16-bit copies of all weights that it used in layers without checkpoints,
    else of the head only.
    """
    copies = 0
    if work.autocasts:
        whole = work.checkpointing is Checkpointing.NONE
        copies = work.compute_bytes * (work.shape.parameters if whole else work.shape.embedding_parameters)
    return _Passing(layers.kept, logits(work, loss_bytes(work)), copies + gathered(work, layers=1))


def _at_forward_end(work: Workload, layers: _Layers) -> _Passing:
    """The loss inside torch.autocast, whose cache holds a 16-bit copy of every weight until it ends."""
    copies = work.compute_bytes * work.shape.parameters
    return _Passing(layers.kept, logits(work, FORWARD_LOSS_BYTES), copies)


def _at_first_layer_back(work: Workload, layers: _Layers) -> _Passing:
    """The last layer is recomputed while every checkpoint still exists, which is no more than all layers kept would be; the head
    has its gradient.
    """
    head = work.shape.embedding_parameters if work.method is Method.FULL else 0
    kept = min(layers.kept + layers.at_work, layers.everything)
    return _Passing(kept, overhead=gathered(work, layers=2) + _buckets(work), graded=head)


def _at_last_layer_back(work: Workload, layers: _Layers) -> _Passing:
    """The first layer's backward pass: every gradient exists except its own and the embedding's; if the head is tied to the
    embedding, its part of that gradient exists.
    """
    shape, full = work.shape, work.method is Method.FULL
    embedding = 0 if shape.tied and not work.gathers else shape.embedding_parameters
    others = max(shape.parameters - embedding - shape.layer_parameters, 0)
    head = work.compute_bytes * shape.embedding_parameters if work.gathers and full else _buckets(work)
    reduction = reduced(work, shape.layer_parameters) if full else 0
    overhead = head + gathered(work, layers=2) + reduction
    return _Passing(layers.at_work, overhead=overhead, graded=others if full else 0)


def _buckets(work: Workload) -> int:
    """DeepSpeed's buffers of gradients exist during the backward pass; under ZeRO-3 the step of a whole model is a larger phase."""
    return 0 if work.method is Method.FULL and work.sharding is Sharding.ZERO3 else deepspeed.buckets(work)


def _at_step(work: Workload, stays: _Staying, made: int) -> Components:
    """The optimizer's step: every gradient exists, with the step's temporary tensors; DeepSpeed has freed the gradients that other
    GPUs use.
    """
    trained = work.shape.parameters if work.method is Method.FULL else 0
    own = trained // work.gpus if work.masters and not work.gathers else trained
    return _moment(work, stays, _Passing(0, 0, made, own))


@of_one_or_several
def _at_embedding(work: Workload) -> _Passing:
    """The embedding's gradient, as large as the embedding. Where the head is tied to it, the two gradients are added
    into a third, except in 32 bits under autocast, where the head's is added to in place.
    """
    shape = work.shape
    tied = shape.embedding_parameters if shape.tied else 0
    if not work.gathers:
        extra = model_states.gradient_bytes(work) * tied * (1 if work.autocasts else 2)
        if work.accumulates:
            extra = max(extra, model_states.gradient_bytes(work) * (tied or shape.embedding_parameters))
        return _Passing(overhead=extra, graded=shape.parameters)
    inner = max(shape.parameters - shape.root_parameters, 0)
    return _Passing(overhead=_root_gradients(work), graded=inner)


def _root_gradients(work: Workload) -> int:
    """What FSDP2 holds to reduce the gradients of embedding and head, its last group.

    Either the gathered weights with their gradients (three copies where tied), or, weights freed, the gradients and
    the reduction's input; beside them the input of the first layer's reduction, still on its way.
    """
    shape, narrow = work.shape, work.compute_bytes
    copies = 3 * shape.embedding_parameters if shape.tied else shape.root_parameters
    backward = narrow * (shape.root_parameters + copies)
    reduction = narrow * shape.root_parameters + reduced(work, shape.root_parameters)
    return max(backward, reduction) + reduced(work, shape.layer_parameters)


def reduced(work: Workload, parameters: int) -> int:
    """The input of a reduction: 32 bits wide under Mixed, as FSDP2's reduce_dtype and Megatron's gradients are."""
    if not work.gathers:
        return 0
    return parameters * (work.compute_bytes if work.narrow else 4)
