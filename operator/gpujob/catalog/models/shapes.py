"""The shape of a model: a row of the catalog, or a usual one of a size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpujob.catalog.models.code_kinds import LLAMA, Kind


@dataclass(frozen=True)
class ModelShape:
    """A transformer's published sizes, as far as memory depends on them; widths are in elements. Every formula uses their
    products, which are therefore cached."""

    name: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Width of the MLP, of one expert where there are several."""
    vocabulary: int
    tied: bool = False
    """Whether the head shares the embedding's weights."""
    kind: Kind = LLAMA
    """How its code is built."""
    positions: int = 0
    """Positions that have a learned embedding."""
    experts: int = 1
    active_experts: int = 1
    """Experts that one token passes, shared ones among them."""
    dense_layers: int = 0
    """Layers at the start whose MLP is one of `dense_ffn` width instead of experts."""
    dense_ffn: int = 0
    attention_parameters: int = 0
    """Parameters of one layer's attention where the four products of these widths are not what it has (latent attention)."""
    latent: int = 0
    """Width of a token's compressed keys and values in the cache of one layer; 0: not compressed."""
    window: int = 0
    """Tokens that `windowed_layers` of the layers keep in the cache; 0: all keep all."""
    windowed_layers: int = 0
    published: str = ""
    """The number format in which its weights are published, of `WeightFormat`; empty: 16 bits."""
    source: str = ""
    checked_on: str = ""

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate."""
        return self.kind.gated

    @cached_property
    def counted(self) -> int:
        """Parameters that these widths make: every product, and the biases of those kinds that have LayerNorm."""
        attention = self.attention_parameters or 2 * self.hidden * (self.query_width + self.key_width)
        attentions = self.layers + (self.layers // 2 if self.kind.cross else 0)
        width = self.ffn * self.experts * (self.layers - self.dense_layers) + self.dense_ffn * self.dense_layers
        mlp = (3 if self.gated else 2) * self.hidden * width
        biases = self.layers * (9 * self.hidden + self.ffn) if self.kind.layer_norm else 0
        root = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return attention * attentions + mlp + biases + root + self.positions * self.hidden

    @cached_property
    def query_width(self) -> int:
        """Width of all heads together."""
        return self.heads * self.head_dim

    @cached_property
    def key_width(self) -> int:
        """Width of the keys, and of the values, that a token leaves in the cache of one layer."""
        return self.kv_heads * self.head_dim

    @cached_property
    def active_ffn(self) -> int:
        """Width of the MLP that one token passes."""
        return self.ffn * self.active_experts

    @cached_property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding."""
        return min(self.vocabulary * self.hidden, self.parameters)

    @cached_property
    def matrices(self) -> tuple[int, ...]:
        """The other width of each matrix of a layer, which has the hidden width on one side, the narrowest first; experts are
        one matrix."""
        query, key, ffn = self.query_width, self.key_width, self.ffn * self.experts
        attention = (query, query + 2 * key) if self.kind.fused else (query, query, key, key)
        gates = () if not self.kind.gated else (2 * ffn,) if self.kind.fused or self.experts > 1 else (ffn, ffn)
        return tuple(sorted((*attention, ffn, *(gates or (ffn,)))))

    @cached_property
    def root_parameters(self) -> int:
        """Parameters outside the layers: the embedding, and the head unless it is tied."""
        return min(self.embedding_parameters * (1 if self.tied else 2), self.parameters)

    @cached_property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        return (self.parameters - self.root_parameters) // self.layers
