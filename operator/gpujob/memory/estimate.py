"""The estimate for a workload: what the framework allocates at its peak, and what a device must have for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from gpujob.memory import activations, reserve, serving, states, training
from gpujob.memory.moments import Components
from gpujob.memory.workload import Workload
from gpujob.vocabulary import Checkpointing, Method

WIDER: Final = (15, 100)
"""What a usual shape is off, as a part of the peak: nine of ten models of the catalog lie within it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on each GPU."""

    low: int
    """The peak where the loss never holds all logits at once (chunked or fused cross entropy), and where the scales of
    4-bit weights are quantised too."""
    expected: int
    """The peak that the framework allocates: torch.cuda.max_memory_allocated."""
    high: int
    """What a device must have usable: the peak, what the allocator holds besides, and the driver's context."""
    components: Components
    """The parts of `expected`: those of the moment that is the peak."""
    moments: tuple[Components, ...]
    """All moments that can be the peak."""

    @property
    def most(self) -> Components:
        """The most that each part takes at any moment; a part that is none at the peak may be some at another."""
        return reduce(Components.most, self.moments)


def estimate(work: Workload) -> Estimate:
    """The estimate; the components are those of the moment that is the peak."""
    moments = _moments(work)
    totals = [moment.total for moment in moments]
    expected = max(totals)
    peak = moments[totals.index(expected)]
    least = max(total - _unchunked(work, moment) for moment, total in zip(moments, totals, strict=True))
    least -= _scales(work)
    low = min(least, expected)
    high = max(expected + reserve.contexts(work), _held(work, moments))
    # Each end by a share of its own: without all logits at once `low` may be a small part of `expected`.
    return Estimate(low - _doubt(work, low), expected, high + _doubt(work, expected), peak, moments)


def _doubt(work: Workload, amount: int) -> int:
    """Bytes that an amount may be off where the shape is a usual one."""
    return amount * WIDER[0] // WIDER[1] if work.inferred else 0


def _held(work: Workload, moments: tuple[Components, ...]) -> int:
    """What a device must have. Layers that are recomputed leave the blocks that they would have kept, and no more; so
    without them is counted too, unless what they spare is clearly more than what is held. Gradients that wait for those of
    further micro-batches leave no less than those that do not.
    """
    held = max(moment.total for moment in moments) + reserve.beyond_peak(work, moments)
    if work.accumulates and work.method is Method.FULL:
        once = replace(work, accumulates=False)
        held = max(held, _held(once, _moments(once)))
    if work.checkpointing is Checkpointing.NONE or work.method is Method.INFERENCE:
        return held
    spared = (activations.everything(work) - activations.kept_by_layer(work)) * work.shape.layers * work.tokens
    if moments[0].total + spared + reserve.contexts(work) >= held:
        return held
    whole = replace(work, checkpointing=Checkpointing.NONE)
    return min(held, _held(whole, _moments(whole)))


def _scales(work: Workload) -> int:
    """Bytes that 4-bit weights would not have if their scales were quantised."""
    return states.weights(work) - states.weights(replace(work, double_quantised=True)) if work.quantised else 0


def _unchunked(work: Workload, moment: Components) -> int:
    """Bytes of the logits that a loss in pieces would not hold."""
    if work.chunked_loss or work.method is Method.INFERENCE:
        return 0
    return moment.logits - moment.logits // training.CHUNKS


def _moments(work: Workload) -> tuple[Components, ...]:
    serves = work.method is Method.INFERENCE
    return tuple(serving.moments(work) if serves else training.moments(work))
