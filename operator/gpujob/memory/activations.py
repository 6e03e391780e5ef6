"""What a layer keeps for its backward pass: bytes for each token of the micro-batch.

Counted tensor by tensor as PyTorch's autograd saves them for a decoder of the Llama kind (pre-norm, rotary positions,
scaled_dot_product_attention, gated MLP) and of the GPT kind (LayerNorm, plain MLP). The method is that of Korthikanti
et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198, section 4), without its
term of attention scores, which flash attention does not keep, and with a gated MLP, which keeps four tensors of its
width. x is the bytes of an element of the products (2 in 16 bits), h the hidden width, q and k the widths of queries
and of keys, f the MLP's width that a token passes.
"""

from __future__ import annotations

from gpujob.memory.workload import MLP_TARGETS, Workload
from gpujob.vocabulary import Checkpointing, Precision


def kept_by_layer(work: Workload) -> int:
    """Bytes that one layer keeps for each token until its backward pass."""
    kinds = {
        Checkpointing.NONE: everything,
        Checkpointing.LAYERS: _input,
        Checkpointing.SELECTIVE: _selected,
    }
    return kinds[work.checkpointing](work)


def everything(work: Workload) -> int:
    """Bytes without checkpointing: norms, attention and MLP."""
    return _norms(work) + _attention(work) + _mlp(work) + (_adapter_inputs(work) if work.adapts else 0)


def at_work(work: Workload) -> int:
    """Bytes of the layer that is being computed backward: all it keeps, and the gradients in flight.

    Those are one of the MLP's width, or five where its activation goes in steps, and four of the hidden width
    (residual, norm, block, and their sum); where scores are kept, also the gradients before and after their softmax.
    """
    wide = 5 if work.shape.stepwise else 1
    in_flight = work.compute_bytes * (wide * work.shape.active_ffn + 4 * work.shape.hidden)
    return everything(work) + in_flight + 2 * _scores(work)


def forward_only(work: Workload) -> int:
    """Bytes of the layer that is being computed with no backward pass to follow.

    The widest moment is the MLP: gate, up and their product (two or five of its width in a plain one), beside residual,
    normalised input, output and the cast for the norm; tensor parallelism cuts the MLP, not the hidden width.
    """
    wide = 3 if work.shape.gated else 5 if work.shape.stepwise else 2
    return work.compute_bytes * (wide * work.shape.active_ffn // work.parts + 4 * work.shape.hidden)


def adapters_at_widest(work: Workload) -> int:
    """Bytes that adapters add to a forward pass in its widest moment, the MLP: the 32-bit cast of each input of theirs,
    and its dropout, a mask and a copy (lora_dropout, which most scripts set).
    """
    return (4 + 1 + 4) * sum(work.widths[name][0] for name in work.targets if name in MLP_TARGETS)


def last_norm(work: Workload) -> int:
    """Bytes of the norm after the last layer, which no checkpoint covers: a 32-bit input, and two outputs."""
    return work.shape.hidden * (4 + 2 * work.compute_bytes)


def _norms(work: Workload) -> int:
    """Two norms. RMSNorm works in 32 bits: it keeps its 32-bit input; trained, also what its weight multiplies and
    what the next product reads. Under autocast all are 32 bits wide and each of five products casts its own copy.
    bitsandbytes' 4-bit product keeps what it read although its weights are frozen (MatMul4Bit, `ctx.tensors`).
    """
    h, x = work.shape.hidden, work.compute_bytes
    if work.autocasts:
        return 2 * (4 + 4) * h + (5 if work.shape.gated else 4) * x * h
    if work.adapts:
        return 2 * ((4 if work.shape.gated else x) + (x if work.quantised else 0)) * h
    return 2 * ((4 + 2 * x) if work.shape.gated else 2 * x) * h


def _attention(work: Workload) -> int:
    """Queries, keys, values and the output, which the next product reads too.

    Where the scores are kept, so are keys and values repeated for every head.
    """
    shape, x = work.shape, work.compute_bytes
    repeated = 2 * (shape.query_width - shape.key_width) if _scores(work) else 0
    return x * (2 * shape.query_width + 2 * shape.key_width + repeated) + _scores(work)


def _scores(work: Workload) -> int:
    """PyTorch has no fused kernel for grouped queries in 32 bits: then one score for each head and token is kept."""
    shape = work.shape
    unfused = work.precision is Precision.FP32 and shape.kv_heads < shape.heads
    return work.compute_bytes * shape.heads * work.sequence if unfused else 0


def _mlp(work: Workload) -> int:
    """Gate, its activation, up and their product; a plain MLP has two, or five where its activation is a formula of
    several steps (gelu_new of GPT-2). A frozen last product keeps no input, unless it is quantised.
    """
    tensors = 4 if work.shape.gated else 5 if work.shape.stepwise else 2
    return work.compute_bytes * work.shape.active_ffn * (tensors - (1 if work.adapts and not work.quantised else 0))


def _adapter_inputs(work: Workload) -> int:
    """Each adapter casts its input to 32 bits, and keeps that and its low-rank product."""
    return 4 * sum(work.widths[name][0] + work.rank for name in work.targets)


def _input(work: Workload) -> int:
    """A checkpointed layer keeps its input alone (2sbh of Korthikanti); under autocast that is 32 bits wide."""
    return work.shape.hidden * (4 if work.autocasts else work.compute_bytes)


def _selected(work: Workload) -> int:
    """Selective checkpointing keeps the input, the attention's output, and every second product."""
    shape = work.shape
    wide = 2 if shape.gated else 1
    products = shape.query_width + 2 * shape.key_width + 2 * shape.hidden + wide * shape.active_ffn
    return _input(work) + work.compute_bytes * (shape.query_width + products // 2)
