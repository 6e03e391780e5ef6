"""GPUJob's `model`: a model and its use, the input for the estimate of the memory of each GPU."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpujob.api.fields.amounts import Parameters
from gpujob.api.fields.base import Shape, a_set

Width = Annotated[int, Field(ge=1, le=1_048_576)]
Count = Annotated[int, Field(ge=1, le=4096)]
Tokens = Annotated[int, Field(ge=1, le=16_777_216)]
Target = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Lora(Shape):
    """The adapters of LoRA and QLoRA."""

    rank: Count | None = None
    """The rank of each adapter; 16 when absent."""
    targets: Annotated[tuple[Target, ...], a_set(items=7)] = ()
    """The linear modules that get an adapter; q_proj and v_proj when empty."""


class InferenceLoad(Shape):
    """The load of a server, for the size of the KV cache."""

    max_tokens: Tokens | None = None
    """Tokens of each sequence, prompt and answer together; sequenceLength when absent."""
    concurrency: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Sequences at once; batchPerGPU when absent."""


class ModelOverrides(Shape):
    """Sizes of the model that differ from those of the catalog, or of a usual model of its size."""

    layers: Count | None = None
    """Layers."""
    hidden: Width | None = None
    """Hidden width."""
    heads: Count | None = None
    """Attention heads."""
    kv_heads: Count | None = None
    """Heads of keys and values."""
    head_dim: Count | None = None
    """Width of a head."""
    ffn: Width | None = None
    """Width of the MLP, or of one expert if there are several."""
    vocabulary: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    """Tokens of the vocabulary."""
    tied_embeddings: bool | None = None
    """Whether the head shares the embedding's weights."""
    experts: Count | None = None
    """Experts of each layer."""
    active_experts: Count | None = None
    """Experts that process one token."""


class Model(Shape):
    """A model and its use; the operator estimates the memory that each GPU needs, and the plan shows it."""

    name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """A model of the catalog, for example llama-3.1-8b; kubectl gpujob catalog models lists them."""
    parameters: Parameters | None = None
    """Number of parameters, for example 8B: the estimate assumes a usual shape of that size, and its band is wider."""
    method: Literal["Full", "LoRA", "QLoRA", "Inference"] | None = None
    """The use of the model: Full training of all weights, LoRA or QLoRA adapters, or Inference. Full when absent."""
    precision: Literal["BF16", "Mixed", "FP16", "FP32", "FP8"] | None = None
    """Number formats: BF16, FP16 and FP32 are the format of all tensors; Mixed and FP8 train 32-bit weights with narrower products.
    FP8 is either of requires' FP8OCP and FP8FNUZ; under Inference its KV cache has 8 bits. When absent, Mixed
    under Full and BF16 under the other methods."""
    optimizer: (
        Literal[
            "AdamW", "AdamWForeach", "AdamW8Bit", "PagedAdamW8Bit", "Adafactor", "Lion", "SGD", "SGDMomentum"
        ]
        | None
    ) = None  # fmt: skip
    """The optimizer, for its states; AdamW when absent, which is fused=True, as current trainers set it. AdamWForeach is
    torch.optim.AdamW with neither fused nor foreach: it needs one more state while it steps."""
    batch_per_gpu: Annotated[int, Field(ge=1, le=65_536)] | None = Field(default=None, alias="batchPerGPU")
    """Sequences that one GPU handles at once (the micro-batch); 1 when absent."""
    gradient_accumulation: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Micro-batches between two steps; 1 when absent. With more, gradients stay in memory beside the next micro-batch."""
    sequence_length: Tokens | None = None
    """Tokens of each sequence, of each prompt under Inference; 2048 when absent."""
    gradient_checkpointing: Literal["None", "Layers", "Selective"] | None = None
    """Which activations are computed again in the backward pass; None when absent."""
    sharding: Literal["None", "ZeRO1", "ZeRO2", "ZeRO3", "FSDP", "TensorParallel"] | None = None
    """How the model is sharded over the GPUs of the job. When absent, each GPU holds the whole model on pools where it fits, and the
    estimate assumes sharding on other pools. TensorParallel is for Inference only: every GPU has a part of each matrix and of the KV
    heads; Inference on several GPUs assumes it when absent."""
    lora: Lora | None = None
    """The adapters of LoRA and QLoRA."""
    inference: InferenceLoad | None = None
    """The load of a server under Inference, for the size of the KV cache."""
    shape: ModelOverrides | None = None
    """Sizes that differ from the catalog's or from a usual model's."""
