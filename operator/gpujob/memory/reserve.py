"""What a device must have beyond the peak: memory that the caching allocator holds in the wrong places, and contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.memory import activations, deepspeed, states, training
from gpujob.memory.moments import Components
from gpujob.memory.workload import Workload
from gpujob.vocabulary import Checkpointing, Method, Precision

CONTEXT: Final = 790 * 10**6
"""Bytes of a process's context and library workspaces beyond the allocator's (0.73 to 0.82 GB measured on an H100)."""
COMMUNICATOR: Final = 920 * 10**6
"""Bytes of NCCL's and RCCL's channels for one group of GPUs (0.9 GB measured on H100s)."""
UNFIT: Final = (7, 10)
"""The part of one moment's passing tensors that cannot lie in the blocks which another moment has left behind."""
UNFIT_WIDE: Final = (11, 20)
"""The same in 32 bits, where gradients and states are as large as the activations' and the loss's blocks."""
UNFIT_FEW: Final = (9, 10)
"""The same as UNFIT where layers are checkpointed, so that few and large blocks pass: nearly nothing is used twice."""
UNFIT_FEW_WIDE: Final = (3, 4)
"""The same as UNFIT_WIDE where layers are checkpointed."""


def contexts(work: Workload) -> int:
    """Bytes that the driver and the communication library take, which PyTorch's allocator does not know."""
    return CONTEXT + (COMMUNICATOR if work.gpus > 1 else 0)


def beyond_peak(work: Workload, moments: Sequence[Components]) -> int:
    """Bytes between the framework's peak and what the device must have usable."""
    return contexts(work) + _held(work, moments)


def _held(work: Workload, moments: Sequence[Components]) -> int:
    """Bytes that the allocator holds at its peak and no tensor lies in."""
    if work.method is Method.INFERENCE:
        return activations.forward_only(work) * work.tokens // 2
    if work.adapts:
        return _other_sizes(work) + _two_uses_of_adapters(work, moments)
    part, whole = _unfit(work)
    own = max(_own_streams(work), deepspeed.held(work))
    return _two_uses(work, moments) * part // whole + _cast_logits(work) + own


def _unfit(work: Workload) -> tuple[int, int]:
    wide = work.precision not in (Precision.BF16, Precision.FP16)
    if work.gathers:
        return UNFIT
    if work.checkpointing is Checkpointing.NONE:
        return UNFIT_WIDE if wide else UNFIT
    return UNFIT_FEW_WIDE if wide else UNFIT_FEW


def _other_sizes(work: Workload) -> int:
    """Blocks that the backward pass leaves to nobody: a copy of the 16-bit logits, and one layer's forward pass."""
    return activations.forward_only(work) * work.tokens + _logits16(work)


def _two_uses_of_adapters(work: Workload, moments: Sequence[Components]) -> int:
    """The optimizer's step finds no room where the loss was: gradients and, as PyTorch's AdamW for each (foreach)
    copies a state, a copy of the adapters lie beside what passed before.
    """
    learning = states.adapters(work)
    passing = max(m.total - m.adapters for m in moments)
    step = deepspeed.stepped(work) or states.adapter_copy(work)
    return passing + learning + step - max(m.total for m in moments)


def _logits16(work: Workload) -> int:
    return training.logits(work, 2)


def _cast_logits(work: Workload) -> int:
    """Under autocast the loss has its logits in blocks of two widths."""
    return _logits16(work) if work.autocasts else 0


def _two_uses(work: Workload, moments: Sequence[Components]) -> int:
    """The smaller of what passes at the loss and of what passes at the step; the larger one's blocks serve both in part.

    The optimizer's states, made in the first step, lie scattered where activations were. Blocks of activations are many
    and fit three quarters of the gradients; sharded gradients come from another stream and fit none.
    """
    steady = min(m.total - m.activations - m.logits for m in moments)
    at_loss = max(m.logits + m.activations // (1 if work.gathers else 4) for m in moments)
    at_step = max(m.total - steady for m in moments if not m.activations)
    return min(at_loss, at_step)


def _own_streams(work: Workload) -> int:
    """FSDP gathers and reduces on streams of their own, whose blocks no other stream can use."""
    if not work.gathers:
        return 0
    shape = work.shape
    gather = work.compute_bytes * (shape.root_parameters + 2 * shape.layer_parameters)
    reduction = training.reduced(work, shape.embedding_parameters + 2 * shape.layer_parameters)
    return gather + reduction + states.gradients(work, shape.embedding_parameters)
