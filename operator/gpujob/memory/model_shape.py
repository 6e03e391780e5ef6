"""A model's dimensions from its name, or usual ones from its number of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from gpujob.catalog.models.shapes import ModelShape

ASPECT: Final = 112
"""Hidden width for each layer of usual models (Llama 2 and 3, Qwen 2.5, Mistral: 100 to 130)."""
LAYER_SQUARES: Final = 13
"""Parameters of a layer in squares of the hidden width: grouped-query attention 2.5, gated MLP of 3.5 widths 10.5."""
VOCABULARY: Final = 128256
"""Llama 3's; the vocabularies of today lie between 100,000 and 256,000."""
HEAD_WIDTH: Final = 128
KEY_HEADS: Final = 8
MOST_LAYERS: Final = 4096
"""The largest number that a job may state."""
TIED_BELOW: Final = 4 * 10**9
"""Models with fewer parameters usually share the head's weights with the embedding."""


@lru_cache(maxsize=256)  # 0.2 ms where a job changes a size of a model; a choice calls it once or twice
def known_shape(shape: ModelShape, **said: int | bool) -> ModelShape:
    """Dimensions that differ from the catalog's; the number of parameters follows."""
    if not said:
        return shape
    changed = _with(shape, said)
    return replace(changed, parameters=max(shape.parameters + changed.counted - shape.counted, 1))


@lru_cache(maxsize=256)  # 0.3 ms of searching: 33 calls for 60 jobs with a model, 4 of them different
def usual_shape(parameters: int, **said: int | bool) -> ModelShape:
    """A decoder of the Llama kind with this many parameters in usual proportions, except for the given sizes. The others follow:
    the number of layers first, or the MLP's width if that number is given.
    """
    tied = bool(said.get("tied", parameters < TIED_BELOW))
    hidden = said.get("hidden") or max((_hidden(parameters, tied) + 64) // 128 * 128, 128)
    heads = max(hidden // HEAD_WIDTH, 1)
    usual = ModelShape(
        name="",
        parameters=parameters,
        layers=1,
        hidden=hidden,
        heads=heads,
        kv_heads=min(KEY_HEADS, heads),
        head_dim=HEAD_WIDTH,
        ffn=hidden * 7 // 2,
        vocabulary=VOCABULARY,
        tied=tied,
    )
    shape = _with(usual, said)
    if "layers" not in said:
        return replace(shape, layers=_layers(shape))
    return shape if "ffn" in said else replace(shape, ffn=_ffn(shape))


def _with(shape: ModelShape, said: Mapping[str, int | bool]) -> ModelShape:
    """The dimensions with the given sizes and what follows: the width of a head if heads share the hidden width, as many heads of
    keys as heads if each has its own, at most as many active experts as there are, and an unchanged fraction of layers with a
    window.
    """
    changed = replace(shape, **said)  # type: ignore[arg-type]
    follows = {
        "active_experts": min(changed.active_experts, changed.experts),
        "dense_layers": min(shape.dense_layers, changed.layers),
        "windowed_layers": shape.windowed_layers * changed.layers // shape.layers,
    }
    if "head_dim" not in said and shape.head_dim == shape.hidden // shape.heads:
        follows["head_dim"] = max(changed.hidden // changed.heads, 1)
    if "kv_heads" not in said:
        follows["kv_heads"] = changed.heads if shape.kv_heads == shape.heads else min(shape.kv_heads, changed.heads)
    return replace(changed, **follows)  # type: ignore[arg-type]


def _layers(shape: ModelShape) -> int:
    """As many layers of these widths as the parameters allow, at least one."""
    root, each = _parts(shape)
    return min(max(round((shape.parameters - root) / each), 1), MOST_LAYERS)


def _ffn(shape: ModelShape) -> int:
    """The width of the MLP at which this many layers have the parameters, at least the hidden width."""
    root, _ = _parts(shape)
    _, attention = _parts(replace(shape, ffn=0))
    mlp = (shape.parameters - root) // shape.layers - attention
    return max(mlp // (3 * shape.hidden * shape.experts), shape.hidden)


def _parts(shape: ModelShape) -> tuple[int, int]:
    """Parameters outside the layers, and of one layer."""
    root = shape.vocabulary * shape.hidden * (1 if shape.tied else 2)
    return root, replace(shape, layers=1).counted - root


def _hidden(parameters: int, tied: bool) -> int:
    """The hidden width h at which 13 h³ / 112 and the embedding have the parameters: by bisection."""
    low, high = 1, 1 << 20
    while low < high:
        middle = (low + high + 1) // 2
        total = LAYER_SQUARES * middle**3 // ASPECT + VOCABULARY * middle * (1 if tied else 2)
        low, high = (middle, high) if total <= parameters else (low, middle - 1)
    return low
