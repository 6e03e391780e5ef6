"""What a layer keeps for its backward pass: bytes for each token of the micro-batch.

Counted tensor by tensor as PyTorch's autograd saves them for a decoder of the Llama kind (pre-norm, rotary positions,
scaled_dot_product_attention, gated MLP) and of the GPT kind (LayerNorm, plain MLP). The method is that of Korthikanti
et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198, section 4), without its
term of attention scores, which flash attention does not keep, and with a gated MLP, which keeps four tensors of its
width. x is the bytes of an element of the products (2 in 16 bits), h the hidden width, q and k the widths of queries
and of keys, f the MLP's width that a token passes.
"""

from __future__ import annotations

from gpujob.memory.workload import MLP_TARGETS, Workload, of_one_or_several
from gpujob.values.vocabulary import Checkpointing, Precision


def kept_by_layer(work: Workload, whole: int) -> int:
    """Bytes that one layer keeps for each token until its backward pass; with checkpoints at most `whole`, the bytes without
    (`everything`).
    """
    if work.checkpointing is Checkpointing.NONE:
        return whole
    return min(_input(work) if work.checkpointing is Checkpointing.LAYERS else _selected(work), whole)


@of_one_or_several
def everything(work: Workload) -> int:
    """Bytes without checkpointing: norms, attention and MLP."""
    return _norms(work) + _attention(work) + _mlp(work) + (_adapter_inputs(work) if work.adapts else 0)


def at_work(work: Workload, whole: int) -> int:
    """Bytes of the layer in its backward pass: all that it computes (`everything`), and the gradients in flight.

    These are one of the MLP's width, or five if its activation has several steps, and four of the hidden width (residual, norm,
    block, and their sum); if scores are kept, also the gradients before and after their softmax.
    """
    wide = 5 if work.shape.kind.stepwise else 1
    in_flight = work.compute_bytes * (wide * work.shape.active_ffn + 4 * work.shape.hidden)
    return whole + in_flight + 2 * _scores(work)


def forward_only(work: Workload) -> int:
    """Bytes of the layer in a forward pass without a backward pass: the MLP, or attention that computes its scores.

    In the MLP gate, up and their product (two or five of its width in a plain one) exist beside residual, normalised input, output
    and the cast for the norm; tensor parallelism divides the MLP and the heads, not the hidden width.
    """
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    wide = 3 if kind.gated else 5 if kind.stepwise else 2
    mlp = x * (wide * shape.active_ffn // work.parts + 4 * shape.hidden)
    widths = x * (2 * shape.hidden + 2 * (shape.query_width + shape.key_width) // work.parts)
    return max(mlp, widths + passing_scores(work) // work.parts)


def passing_scores(work: Workload) -> int:
    """Bytes of the scores that exist at once without a fused kernel (measured): the product, in 32 bits, their probabilities and
    their cast, and once more with a bias. PyTorch's own steps make no cast, but use queries, keys and values in 32 bits too.
    Some code keeps all of them in the width of the products."""
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    if _broadcasts(work):
        return (x + 8) * shape.heads * work.sequence + 3 * 4 * shape.query_width
    if not kind.scores:
        return 0
    each = 4 * x if kind.narrow_scores else 2 * x + 8 + (x if kind.fused else 0)
    return each * shape.heads * work.sequence


def adapters_at_widest(work: Workload) -> int:
    """Bytes that adapters add to a forward pass in its widest moment, the MLP: the 32-bit cast of each of their inputs, and the
    mask and copy of their dropout (lora_dropout, which most scripts set).
    """
    return (4 + 1 + 4) * sum(work.inputs(name for name in work.targets if name in MLP_TARGETS))


def last_norm(work: Workload) -> int:
    """Bytes of the norm after the last layer, which no checkpoint covers: a 32-bit input, and two outputs."""
    return work.shape.hidden * (4 + 2 * work.compute_bytes)


def _norms(work: Workload) -> int:
    """Norms, and the inputs of the products behind them.

    RMSNorm works in 32 bits: it keeps its 32-bit input; if trained, also the input of its weight's product. LayerNorm keeps only
    its input. Under autocast both are 32 bits wide, and each product casts its own copy. bitsandbytes' 4-bit product keeps its
    input although its weights are frozen (MatMul4Bit, `ctx.tensors`).
    """
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    wide = 4 if work.autocasts else x
    normed = wide if kind.layer_norm else 4
    if not (kind.layer_norm or work.adapts):
        normed += 4 if kind.wide_norms else wide
    heads = normed * (shape.query_width + shape.key_width) if kind.head_norms else 0
    # Halves, because every second layer of an encoder with a decoder has one norm and one dropout more.
    more = 1 if kind.cross else 0
    inputs = 2 if kind.parallel else 2 * kind.norms + more
    masks = 4 + more if kind.dropout and not work.adapts else 0
    return (normed * inputs + x * _reads(work) + masks) * shape.hidden // 2 + heads


def _reads(work: Workload) -> int:
    """Copies of the hidden width that products keep of their inputs, in halves: one behind each norm, or under autocast one for
    each product.
    """
    kind = work.shape.kind
    if work.autocasts:
        mlp = 2 if kind.gated and not kind.fused else 1
        return 2 * ((1 if kind.fused else 3) + mlp) + (3 if kind.cross else 0)
    if work.adapts and not work.quantised:
        return 0
    return 2 * min(kind.norms, 2) + (1 if kind.cross else 0)


def _attention(work: Workload) -> int:
    """Queries, keys, values and the output, which the next product reads too.

    If the scores are kept, keys and values repeated for every head are kept too; without a fused kernel for one head of keys also
    in 32 bits, as the queries are. A bias leaves a second layout of queries and keys.
    """
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    scores = _scores(work)
    repeated = 2 * (shape.query_width - shape.key_width) if scores and not _broadcasts(work) else 0
    before = shape.query_width + shape.key_width if kind.unrotated or kind.biased else 0
    wide = 3 * 4 * shape.query_width if _broadcasts(work) else 0
    one = x * (2 * shape.query_width + 2 * shape.key_width + before + repeated) + wide + scores
    return one * 3 // 2 if shape.kind.cross else one


def _scores(work: Workload) -> int:
    """Scores for each head and token of the sequence, if no fused kernel avoids them.

    PyTorch has no fused kernel for grouped queries in 32 bits: one score is kept. Model code of its own keeps a probability in 32
    bits and its cast to the narrower products'. A trained bias is kept beside a fused kernel, a third more for its sum. With
    dropout there is no such kernel (measured on T5): two of three attentions keep a probability in 32 bits, its mask and their
    product; the third, over the encoder's output, keeps the probability.
    """
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    if kind.biased:
        thirds = 2 * (4 + 1 + x) + 4 if kind.dropout and not work.adapts else 4 * x
        return thirds * shape.heads * work.sequence // 3
    if _broadcasts(work):
        return 4 * shape.heads * work.sequence
    if kind.scores:
        probability = x if kind.narrow_scores and not work.autocasts else 4 + (x if x < 4 else 0)
        return probability * shape.heads * work.sequence
    unfused = work.precision is Precision.FP32 and shape.kv_heads < shape.heads
    return x * shape.heads * work.sequence if unfused else 0


def score_block(work: Workload) -> int:
    """Bytes for each token of the largest tensor of scores, in 32 bits; 0 if a fused kernel avoids it."""
    kept = work.shape.kind.scores or _broadcasts(work)
    return 4 * work.shape.heads * work.sequence if kept else 0


def _broadcasts(work: Workload) -> bool:
    """Whether one head of keys for all queries rules out the fused kernel."""
    return work.shape.kind.broadcasts and work.shape.kv_heads == 1 < work.shape.heads


def _mlp(work: Workload) -> int:
    """Gate, its activation, up and their product. A plain MLP keeps its activation's input and output; with ReLU only the output,
    and with several steps (gelu_new) five tensors; autocast widens three of them to 32 bits (torch.pow).

    A frozen last product keeps no input, unless it is quantised. Experts also keep what they gather and scatter, and their router
    four numbers of 32 bits for each.
    """
    shape, kind, x = work.shape, work.shape.kind, work.compute_bytes
    tensors = (4 if kind.gated else 1 if kind.relu else 2) + (3 if kind.stepwise else 0)
    frozen = 1 if work.adapts and not work.quantised else 0
    widened = 6 if kind.stepwise and work.autocasts else 0
    inner = 1 + (x if kind.relu else 0) if kind.inner_dropout and not work.adapts else 0
    each = x * max(tensors - frozen, 0) + widened + inner
    routed = x * (1 if work.adapts else 2) * shape.hidden * shape.active_experts + 8 * shape.experts
    return each * shape.active_ffn + (routed if shape.experts > 1 else 0)


def _adapter_inputs(work: Workload) -> int:
    """Each adapter casts its input to 32 bits, and keeps the cast and its low-rank product."""
    return 4 * sum(width + work.rank for width in work.inputs(work.targets))


def _input(work: Workload) -> int:
    """A checkpointed layer keeps only its input (2sbh of Korthikanti); under autocast that is 32 bits wide."""
    return work.shape.hidden * (4 if work.autocasts else work.compute_bytes)


def _selected(work: Workload) -> int:
    """Selective checkpointing keeps the input, the attention's output, and every second product."""
    shape = work.shape
    wide = 2 if shape.gated else 1
    products = shape.query_width + 2 * shape.key_width + 2 * shape.hidden + wide * shape.active_ffn
    return _input(work) + work.compute_bytes * (shape.query_width + products // 2)
