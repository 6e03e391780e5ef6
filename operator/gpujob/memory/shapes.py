"""A model's shape from its name, or a usual one from its number of parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from gpujob.catalog.models import ModelShape

ASPECT: Final = 112
"""Hidden width for each layer of usual models (Llama 2 and 3, Qwen 2.5, Mistral: 100 to 130)."""
LAYER_SQUARES: Final = 13
"""Parameters of a layer in squares of the hidden width: grouped-query attention 2.5, gated MLP of 3.5 widths 10.5."""
VOCABULARY: Final = 128256
"""Llama 3's; the vocabularies of today lie between 100,000 and 256,000."""
HEAD_WIDTH: Final = 128
KEY_HEADS: Final = 8
TIED_BELOW: Final = 4 * 10**9
"""Models of fewer parameters usually share the head's weights with the embedding."""


@lru_cache(maxsize=256)
def usual_shape(parameters: int) -> ModelShape:
    """A decoder of the Llama kind with so many parameters, as such models are usually cut."""
    tied = parameters < TIED_BELOW
    hidden = max((_hidden(parameters, tied) + 64) // 128 * 128, 128)
    heads = max(hidden // HEAD_WIDTH, 1)
    root = VOCABULARY * hidden * (1 if tied else 2)
    layers = max(round((parameters - root) / (LAYER_SQUARES * hidden * hidden)), 1)
    return ModelShape(
        name="",
        parameters=parameters,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=min(KEY_HEADS, heads),
        head_dim=HEAD_WIDTH,
        ffn=hidden * 7 // 2,
        vocabulary=VOCABULARY,
        tied=tied,
    )


def _hidden(parameters: int, tied: bool) -> int:
    """The hidden width h at which 13 h³ / 112 and the embedding make the parameters: by bisection."""
    low, high = 1, 1 << 20
    while low < high:
        middle = (low + high + 1) // 2
        total = LAYER_SQUARES * middle**3 // ASPECT + VOCABULARY * middle * (1 if tied else 2)
        low, high = (middle, high) if total <= parameters else (low, middle - 1)
    return low
