"""What is done with a model, with every default explicit; the names are those of GPUJob's `model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Final, TypeVar

from gpujob.catalog.models.shapes import ModelShape
from gpujob.values.derived import derived
from gpujob.values.vocabulary import Checkpointing, Method, Optimizer, Precision, Sharding

T = TypeVar("T")

ATTENTION_TARGETS: Final = ("q_proj", "v_proj")
"""PEFT's own targets for models of the Llama kind."""
MLP_TARGETS: Final = ("gate_proj", "up_proj", "down_proj")
LINEAR_TARGETS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", *MLP_TARGETS)


@dataclass(frozen=True)
class Workload:
    """One model under one method; sizes are for each GPU. Derived values are used many times and cached."""

    shape: ModelShape
    method: Method = Method.FULL
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.ADAMW
    batch: int = 1
    """Sequences that one GPU handles at once (a micro-batch)."""
    sequence: int = 2048
    """Tokens of each sequence; of each prompt under Inference."""
    accumulates: bool = False
    """Whether gradients of several micro-batches are accumulated before a step."""
    checkpointing: Checkpointing = Checkpointing.NONE
    sharding: Sharding = Sharding.NONE
    gpus: int = 1
    """GPUs of the whole gang; more than one without sharding is DistributedDataParallel."""
    rank: int = 16
    targets: tuple[str, ...] = ATTENTION_TARGETS
    """Modules with an adapter under LoRA and QLoRA."""
    cached_tokens: int | None = None
    """Tokens that the KV cache holds for each sequence under Inference; None: those of the prompt."""
    concurrency: int | None = None
    """Sequences in the KV cache under Inference; None: the batch."""
    four_bit: bool = False
    """Whether Inference reads weights of 4 bits, as QLoRA always does."""
    stored: str = ""
    """The format of the weights under Inference if they have less than 16 bits (`WeightFormat`); `precision` is that of the
    computation.
    """
    double_quantised: bool = False
    """Whether the scales of 4-bit weights have 8 bits."""
    tensor_parallel: bool = False
    """Whether all GPUs compute each layer of Inference together, each with its part of the matrices and of the KV heads (vLLM's
    tensor parallelism, Transformers' tp_plan); device_map="auto", which distributes layers, takes as much.
    """
    inferred: bool = False
    """Whether the shape is assumed instead of the model's own; the band is wider then."""
    chunked_loss: bool = False
    """Whether the loss takes the vocabulary in chunks, so that the logits never exist at once."""

    def but(self, **changes: Any) -> Workload:
        """`dataclasses.replace` at a fifth of its time."""
        other, mine = object.__new__(Workload), self.__dict__
        other.__dict__.update({name: mine[name] for name in _FIELDS}, **changes)
        return other

    def on(self, gpus: int) -> Workload:
        """The same on a number of GPUs, with all cached values that do not depend on it: sizing evaluates many numbers."""
        other = object.__new__(Workload)
        other.__dict__.update(self.__dict__, gpus=gpus, known=self.known)
        for name in OF_THEIR_NUMBER if (gpus > 1) == (self.gpus > 1) else OF_GPUS:
            other.__dict__.pop(name, None)
        return other

    @derived
    def known(self) -> tuple[dict[object, Any], dict[object, Any]]:
        """Results of functions with `of_one_or_several`, for one GPU and for several."""
        return {}, {}

    @property
    def tokens(self) -> int:
        """Tokens that one GPU processes at once; activations depend on nothing else of batch and sequence."""
        return self.batch * self.sequence

    @derived
    def adapts(self) -> bool:
        """Whether the model is frozen and only adapters learn."""
        return self.method in (Method.LORA, Method.QLORA)

    @derived
    def quantised(self) -> bool:
        """Whether the layers' weights have 4 bits."""
        return self.four_bit or self.method is Method.QLORA

    @derived
    def gathers(self) -> bool:
        """Whether each GPU keeps a part of the weights and gathers the rest for the computation."""
        spread = (Sharding.ZERO3, Sharding.FSDP) if self.deepspeed else (Sharding.ZERO2, Sharding.ZERO3, Sharding.FSDP)
        return self.gpus > 1 and self.sharding in spread

    @derived
    def parts(self) -> int:
        """The number of parts into which tensor parallelism divides every matrix and the KV heads."""
        return self.gpus if self.tensor_parallel and self.method is Method.INFERENCE else 1

    @derived
    def deepspeed(self) -> bool:
        """Whether DeepSpeed trains, with buffers that exist on any number of GPUs.

        It trains adapters under any of its stages. It trains whole models by 32-bit copies of 16-bit weights: under ZeRO-1 and
        ZeRO-3, and under any stage on one GPU, where nothing else shards. All else is PyTorch's own: ZeRO-2 and ZeRO-3 are FSDP2,
        which gathers once a step or for each layer, ZeRO-1 its ZeroRedundancyOptimizer.
        """
        if self.method is Method.INFERENCE or self.sharding in (Sharding.NONE, Sharding.FSDP):
            return False
        return self.adapts or (self.mixes and (self.sharding is not Sharding.ZERO2 or self.gpus == 1))

    @derived
    def narrow(self) -> bool:
        """Whether weights, gradients and states have 16 bits."""
        return self.precision in (Precision.BF16, Precision.FP16)

    @derived
    def mixes(self) -> bool:
        """Whether 32-bit weights are trained by narrower products."""
        return self.method is Method.FULL and self.precision in (Precision.MIXED, Precision.FP8)

    @derived
    def masters(self) -> bool:
        """Whether the weights have 16 bits, beside 32-bit copies that the optimizer keeps with its states (DeepSpeed)."""
        return self.mixes and self.deepspeed

    @derived
    def replicates(self) -> bool:
        """Whether every GPU holds the whole model and PyTorch's DistributedDataParallel reduces the gradients."""
        spread = self.sharding is Sharding.ZERO1 and self.method is Method.FULL and not self.deepspeed
        return self.gpus > 1 and (self.sharding is Sharding.NONE or spread)

    @derived
    def autocasts(self) -> bool:
        """Whether 32-bit weights are cast to 16 bits for each product (torch.autocast), not once when gathered."""
        return self.mixes and not self.deepspeed and (self.gpus == 1 or self.sharding is Sharding.NONE)

    @derived
    def shards(self) -> int:
        """GPUs over which the optimizer's states are sharded."""
        return self.gpus if self.sharding is not Sharding.NONE else 1

    @derived
    def compute_bytes(self) -> int:
        """Bytes of one element of the products' inputs and outputs."""
        return 4 if self.precision is Precision.FP32 else 2

    @derived
    def widths(self) -> dict[str, tuple[int, int]]:
        """Input and output width of the linear modules by their usual names, of one expert's; a plain MLP has no gate."""
        shape = self.shape
        hidden, query, key, ffn = shape.hidden, shape.query_width, shape.key_width, shape.ffn
        return {
            "q_proj": (hidden, query),
            "k_proj": (hidden, key),
            "v_proj": (hidden, key),
            "o_proj": (query, hidden),
            "gate_proj": (hidden, ffn) if shape.gated else (0, 0),
            "up_proj": (hidden, ffn),
            "down_proj": (ffn, hidden),
        }

    def inputs(self, targets: Iterable[str]) -> Iterator[int]:
        """Width of each module's output for a token, once for each pass through it."""
        active = self.shape.active_experts
        return (self.widths[name][0] * (active if name in MLP_TARGETS else 1) for name in targets)

    @derived
    def adapter_parameters(self) -> int:
        """Parameters of two low-rank factors (rank × in, out × rank) on each target of each layer, and of each expert."""
        experts = self.shape.experts
        each = sum(sum(self.widths[name]) * (experts if name in MLP_TARGETS else 1) for name in self.targets)
        return self.rank * each * self.shape.layers


_FIELDS: Final = tuple(field.name for field in fields(Workload))

OF_THEIR_NUMBER: Final = ("parts", "shards")
"""Values derived from the number of GPUs."""

OF_GPUS: Final = (*OF_THEIR_NUMBER, "gathers", "deepspeed", "masters", "replicates", "autocasts")
"""Values derived from whether there are several GPUs, or from nothing."""


def of_one_or_several(work_out: Callable[[Workload], T]) -> Callable[[Workload], T]:
    """Decorates a function of a workload that depends on whether it has several GPUs, not on how many: it runs once for all of
    them, and its result is cached with the workload.
    """

    @wraps(work_out)
    def kept(work: Workload) -> T:
        known = work.known[work.gpus > 1]
        if work_out not in known:
            known[work_out] = work_out(work)
        found: T = known[work_out]
        return found

    return kept
