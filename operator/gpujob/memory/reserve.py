"""What a device must have beyond the peak: memory that the caching allocator holds in the wrong places, and contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpujob.memory import activations, states, training
from gpujob.memory.moments import Components
from gpujob.memory.workload import Workload
from gpujob.vocabulary import Checkpointing, Method

CONTEXT: Final = 800 * 10**6
"""Bytes of a process's context and library workspaces beyond the allocator's (0.73 to 0.82 GB measured on an H100)."""
COMMUNICATOR: Final = 920 * 10**6
"""Bytes of NCCL's and RCCL's channels for one group of GPUs (0.9 GB measured on H100s)."""
UNFIT: Final = (7, 10)
"""The part of one moment's passing tensors that cannot lie in the blocks which another moment has left behind."""
UNFIT_LOGITS: Final = (9, 10)
"""The same where layers are checkpointed, so that few and large blocks pass: nearly nothing is used twice."""


def beyond_peak(work: Workload, moments: Sequence[Components]) -> int:
    """Bytes between the framework's peak and what the device must have usable."""
    context = CONTEXT + (COMMUNICATOR if work.gpus > 1 else 0)
    if work.method is Method.INFERENCE:
        return context + activations.forward_only(work) * work.tokens // 2
    if work.adapts:
        return context + _other_sizes(work)
    part, whole = UNFIT if work.checkpointing is Checkpointing.NONE or work.gathers else UNFIT_LOGITS
    return context + _two_uses(work, moments) * part // whole + _cast_logits(work) + _own_streams(work)


def _other_sizes(work: Workload) -> int:
    """Blocks that the backward pass leaves to nobody: a copy of the 16-bit logits, and one layer's forward pass."""
    return activations.forward_only(work) * work.tokens + _logits16(work)


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
