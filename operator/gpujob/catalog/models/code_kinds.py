"""Kinds of models: the properties of their code that decide what PyTorch keeps for the backward pass.

A kind describes Hugging Face's modeling code of a family (transformers 5, models/*/modeling_*.py); `kind` of a catalog's row names
it. Counted on that code with PyTorch's fake tensors: bench/memory/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """The differences of a family from Llama, which is the default."""

    gated: bool = True
    """The MLP has a gate beside its up projection."""
    relu: bool = False
    """The MLP's activation is ReLU, which keeps only its result."""
    stepwise: bool = False
    """The MLP's activation is a formula of several steps (gelu_new), each of which keeps its input."""
    layer_norm: bool = False
    """LayerNorm, which keeps only its input; else RMSNorm in 32 bits."""
    wide_norms: bool = False
    """RMSNorm multiplies its weight in 32 bits too (Gemma, OLMo 2, T5)."""
    norms: int = 2
    """Norms of the hidden width in each layer."""
    head_norms: bool = False
    """Queries and keys have norms of their own."""
    parallel: bool = False
    """Attention and MLP read the same input."""
    fused: bool = False
    """Queries, keys and values are one product."""
    unrotated: bool = False
    """Values stay in that product, with the queries and keys before their rotary positions."""
    scores: bool = False
    """Attention has no fused kernel: a probability in 32 bits, and its cast, for each head and pair of tokens."""
    narrow_scores: bool = False
    """That probability has the width of the products (gpt-oss)."""
    biased: bool = False
    """The fused kernel gets a bias for each head and pair of tokens, which is trained and kept (T5); with dropout there is no such
    kernel.
    """
    broadcasts: bool = False
    """The single head of keys for all queries is not repeated before the fused kernel, which does not support that: PyTorch's own
    steps compute in 32 bits.
    """
    capped: bool = False
    """The logits pass a tanh, which keeps one more copy."""
    dropout: bool = False
    """Trained with dropout behind attention and MLP, which keeps a byte for each element."""
    inner_dropout: bool = False
    """Trained with dropout inside the MLP too."""
    own_loss: bool = False
    """The model's own loss, which does not cast the logits to 32 bits (encoders, encoders with decoders)."""
    biased_logits: bool = False
    """A bias is added to the logits behind their product (BART, final_logits_bias)."""
    cross: bool = False
    """Encoder and decoder: each second layer has another attention, over the encoder's output, with its norm."""


LLAMA: Final = Kind()


def _plain(**said: bool | int) -> Kind:
    return Kind(gated=False, layer_norm=True, **said)  # type: ignore[arg-type]


_T5: Final = dict.fromkeys(("wide_norms", "dropout", "inner_dropout", "biased", "own_loss", "cross"), True)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "llama": LLAMA,
        "qwen3": Kind(head_norms=True),
        "phi3": Kind(fused=True, unrotated=True),
        "gemma": Kind(wide_norms=True),
        "gemma2": Kind(wide_norms=True, norms=4, capped=True),
        "gemma3": Kind(wide_norms=True, norms=4, head_norms=True),
        "gpt-oss": Kind(stepwise=True, scores=True, narrow_scores=True),
        "olmo2": Kind(wide_norms=True, head_norms=True),
        "plain": _plain(),
        "gpt2": _plain(stepwise=True, fused=True, dropout=True),
        "gpt-neo": _plain(stepwise=True, scores=True),
        "gpt-bigcode": _plain(fused=True, dropout=True),
        "mpt": _plain(fused=True, scores=True),
        "gptj": _plain(stepwise=True, parallel=True, norms=1, scores=True),
        "neox": _plain(parallel=True, fused=True, unrotated=True),
        "phi": _plain(stepwise=True, parallel=True, norms=1, dropout=True),
        "falcon": _plain(parallel=True, norms=1, fused=True, broadcasts=True),
        "bloom": _plain(fused=True, scores=True),
        "opt": _plain(relu=True, dropout=True),
        "starcoder2": _plain(dropout=True),
        "bert": _plain(dropout=True, own_loss=True),
        "vit": _plain(),
        "bart": _plain(dropout=True, own_loss=True, biased_logits=True, cross=True),
        "t5": Kind(gated=False, relu=True, **_T5),
        "t5-gated": Kind(stepwise=True, **_T5),
    }
)
