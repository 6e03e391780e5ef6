"""Weights, gradients, optimizer states and adapters: tensors that live for a whole training, in bytes on one GPU.

The bytes per parameter are those of Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"
(arXiv 1910.02054, section 3.1), for PyTorch's own precision schemes.
"""

from __future__ import annotations

from typing import Final

from gpujob.memory.workload import Workload, of_one_or_several
from gpujob.values.vocabulary import Method, Optimizer, Precision, WeightFormat

STORED: Final = {Precision.BF16: 2, Precision.FP16: 2, Precision.MIXED: 4, Precision.FP32: 4, Precision.FP8: 4}
"""Bytes of a trained parameter: Mixed and FP8 keep 32-bit weights and compute in less."""

NF4: Final = (9, 16)
"""Bytes of a 4-bit parameter: 4 bits and a 32-bit scale for each block of 64 (QLoRA, arXiv 2305.14314, section 3)."""

NF4_DOUBLE: Final = (33, 64)
"""The same with scales of 8 bits (double quantisation, section 3 there), as torchao always has them and bitsandbytes by
bnb_4bit_use_double_quant; the 32-bit scales of the scales are one for 16,384 parameters."""

BYTES_OF_STORED: Final = {
    WeightFormat.FP8: (1, 1),
    WeightFormat.INT8: (1, 1),
    WeightFormat.INT4: (133, 256),
    WeightFormat.FP4: (9, 16),
    WeightFormat.NF4: (9, 16),
    WeightFormat.MXFP4: (17, 32),
}
"""Bytes of a parameter with its part of the scales: INT4 a 16-bit scale and a 4-bit zero for 128, FP4 8 bits for 16, MXFP4 8 bits
for 32 (OCP Microscaling Formats v1.0, section 5)."""

PADDED_TO: Final = 256
"""vLLM pads the hidden side of MXFP4 experts to a multiple of this (vllm/model_executor/layers/quantization/mxfp4.py, 0.11): the
2,880 of gpt-oss become 3,072."""

_MOMENTS: Final = {
    Optimizer.ADAMW: 2,
    Optimizer.ADAMW_FOREACH: 2,
    Optimizer.LION: 1,
    Optimizer.SGD_MOMENTUM: 1,
    Optimizer.SGD: 0,
    Optimizer.ADAFACTOR: 0,
    Optimizer.PAGED_ADAMW_8BIT: 0,
}
"""States of a parameter's own size. Adafactor keeps a row and a column of each matrix; paged states wait in the host."""

ADAPTER_BYTES: Final = 4
"""PEFT keeps adapters in 32 bits over 16-bit models (autocast_adapter_dtype)."""


def stored_bytes(work: Workload) -> int:
    """Bytes of one weight that is trained, or read at its full width."""
    return work.compute_bytes if work.masters else STORED[work.precision]


def weights(work: Workload) -> int:
    """The model's weights."""
    return _whole(work) // (work.gpus if work.gathers else work.parts)


@of_one_or_several
def _whole(work: Workload) -> int:
    """All weights. Quantised models keep embedding and head in 16 bits (bitsandbytes, torchao, vLLM)."""
    shape, total = work.shape, work.shape.parameters
    inner = max(total - shape.root_parameters, 0)
    if work.stored:
        return _as_stored(work)
    if work.quantised:
        part, of = nf4(work)
        return inner * part // of + 2 * (total - inner)
    if work.method is not Method.FULL and work.precision is Precision.FP8:
        return inner + 2 * (total - inner)
    return total * stored_bytes(work)


def _as_stored(work: Workload) -> int:
    """Weights in their published format: in MXFP4 only the experts' matrices are narrow, one side of them padded as kernels require."""
    shape = work.shape
    part, of = BYTES_OF_STORED[WeightFormat(work.stored)]
    inner = max(shape.parameters - shape.root_parameters, 0)
    narrow = inner
    padded = 0
    if work.stored == WeightFormat.MXFP4 and shape.experts > 1:
        matrices = (3 if shape.gated else 2) * shape.ffn * shape.experts * (shape.layers - shape.dense_layers)
        narrow = min(inner, matrices * shape.hidden)
        padded = matrices * (-(-shape.hidden // PADDED_TO) * PADDED_TO - shape.hidden)
    return (narrow + padded) * part // of + 2 * (shape.parameters - narrow)


def nf4(work: Workload) -> tuple[int, int]:
    """Bytes of a quantised parameter, as a fraction."""
    return NF4_DOUBLE if work.double_quantised else NF4


def dequantised(work: Workload) -> int:
    """A quantised product reads a 16-bit copy of its matrix, which is freed before the next: the bytes of the largest one."""
    shape = work.shape
    if not work.quantised:
        return 0
    return work.compute_bytes * shape.hidden * max(shape.ffn, shape.query_width) // work.parts


def gradient_bytes(work: Workload) -> int:
    """Bytes of one trained parameter's gradient: that of its weight."""
    return stored_bytes(work)


def gradients(work: Workload, parameters: int) -> int:
    """The gradients of a number of parameters until the optimizer uses them."""
    return parameters * gradient_bytes(work) // (work.gpus if work.gathers else 1)


def optimizer(work: Workload) -> int:
    """The optimizer's states under Full: for AdamW two moments; DeepSpeed adds the 32-bit weights (4P + 12P/n)."""
    if work.method is not Method.FULL:
        return 0
    return _states(work) // work.shards


@of_one_or_several
def _states(work: Workload) -> int:
    """The states of all parameters."""
    stored = STORED[work.precision]
    master = stored if work.masters else 0
    return work.shape.parameters * (state_bytes(work.optimizer, stored) + master)


def updates(work: Workload) -> int:
    """Temporary tensors of an optimizer's step.

    AdamW (foreach) computes the root of the second moment of every parameter before it uses the first, a copy as wide as the
    states (torch.optim.adam, _multi_tensor_adam: exp_avg_sq_sqrt); DeepSpeed has a fused one of its own. Adafactor computes one
    matrix's update in 32 bits, beside 32-bit copies of its weights and of its gradients and the product of its row and column; the
    largest matrix is the embedding, or its part on this GPU.
    """
    if work.optimizer is Optimizer.ADAMW_FOREACH and not work.deepspeed:
        return adapter_copy(work) if work.adapts else work.shape.parameters * stored_bytes(work) // work.shards
    if work.method is not Method.FULL or work.optimizer is not Optimizer.ADAFACTOR:
        return 0
    copies = 4 if stored_bytes(work) == 2 else 2
    return copies * 4 * work.shape.embedding_parameters // (work.gpus if work.gathers else 1)


def adapters(work: Workload, learning: bool = True) -> int:
    """Adapters with their states and, during training, gradients: 16 B for each parameter under AdamW (LoRA, arXiv 2106.09685,
    section 4.2). DeepSpeed trains 32-bit copies of 16-bit adapters and shards the copies.
    """
    if not work.adapts:
        return 0
    count = work.adapter_parameters
    state = state_bytes(work.optimizer, ADAPTER_BYTES)
    if work.deepspeed:
        narrow = work.compute_bytes * (2 if learning else 1)
        return count * narrow // (work.gpus if work.gathers else 1) + count * (ADAPTER_BYTES + state) // work.gpus
    return count * (ADAPTER_BYTES * (2 if learning else 1) + state) // (work.gpus if work.gathers else 1)


def adapter_copy(work: Workload) -> int:
    """A copy of the adapters."""
    count = work.adapter_parameters
    return ADAPTER_BYTES * count // (work.gpus if work.gathers else 1)


def state_bytes(kind: Optimizer, stored: int) -> int:
    return 2 if kind is Optimizer.ADAMW_8BIT else _MOMENTS[kind] * stored
