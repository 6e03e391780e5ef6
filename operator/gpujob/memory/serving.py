"""The phases of inference that can be its peak, each in bytes on one GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpujob.memory import activations, model_states, segment_padding
from gpujob.memory.phases import WORKSPACE, Components
from gpujob.memory.workload import Workload
from gpujob.values.vocabulary import Precision

BESIDE_LOGITS: Final = 3
"""Tensors of the hidden width that a head over all positions leaves beside its logits (BertLMPredictionHead: the layers' output,
and two of its own).
"""


def moments(work: Workload) -> Iterator[Components]:
    """Building the model, then reading the prompts into the cache. Logits are gathered whole on each GPU.

    Decoders compute logits of the last position only (logits_to_keep, which generate() sets); heads of encoders, and of encoders
    with decoders, compute those of all positions after the layers.
    """
    weights, whole, cached = model_states.weights(work), work.shape.kind.own_loss, kv_cache(work)
    padded = segment_padding.of_weights(work)
    overhead = _gathered(work) + model_states.dequantised(work) + WORKSPACE + padded
    yield Components(weights=weights, overhead=untied(work) + padded)
    yield Components(
        weights=weights,
        activations=activations.forward_only(work) * work.tokens,
        logits=0 if whole else work.batch * work.shape.vocabulary * (2 + 4),
        kv_cache=cached,
        overhead=overhead,
    )
    if whole:
        yield Components(
            weights=weights,
            activations=BESIDE_LOGITS * work.compute_bytes * work.shape.hidden * work.tokens,
            logits=_all_logits(work),
            kv_cache=cached,
            overhead=overhead,
        )


def _all_logits(work: Workload) -> int:
    """Logits of all positions, as wide as the products; a bias after the product makes a second copy (BART, final_logits_bias)."""
    copies = 2 if work.shape.kind.biased_logits else 1
    return copies * work.compute_bytes * work.tokens * work.shape.vocabulary


def kv_cache(work: Workload) -> int:
    """Keys and values: 2 × layers × KV heads × head width × bytes, for each token of each sequence in the cache.

    Exact against vLLM's own count of blocks (Kwon et al., arXiv 2309.06180, section 3). Under tensor
    parallelism a GPU has its part of the heads, and at least one: what more GPUs than heads hold is a copy
    (vLLM, ModelConfig.get_num_kv_heads). Layers with a sliding window hold no more than it (Gemma 3's report, arXiv
    2503.19786, section 2). Latent attention keeps one compressed vector, whole on each GPU (DeepSeek-V2, arXiv 2405.04434,
    section 2.1). An encoder alone has none.
    """
    shape = work.shape
    if shape.kind.own_loss and not shape.kind.cross:
        return 0
    tokens = work.cached_tokens or work.sequence
    width = shape.latent or 2 * -(-shape.kv_heads // work.parts) * shape.head_dim
    whole = (shape.layers - shape.windowed_layers) * tokens
    windowed = shape.windowed_layers * min(tokens, shape.window)
    return width * cached_bytes(work) * (work.concurrency or work.batch) * (whole + windowed)


def cached_bytes(work: Workload) -> int:
    """Bytes of one number in the KV cache: 1 where the job sets FP8, as wide as the products otherwise.

    An engine caches in 8 bits on request (vLLM, --kv-cache-dtype fp8) or where the checkpoint has scales for it;
    weights that are published in FP8 alone do not change the cache.
    """
    return 1 if work.precision is Precision.FP8 else work.compute_bytes


def untied(work: Workload) -> int:
    """A tied head is created first and dropped when it is tied."""
    if not work.shape.tied:
        return 0
    return work.compute_bytes * work.shape.embedding_parameters // work.parts


def _gathered(work: Workload) -> int:
    """Sharded weights are gathered for the current layer and the next."""
    if not work.gathers:
        return 0
    return work.compute_bytes * (work.shape.root_parameters + 2 * work.shape.layer_parameters)
