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
    least: Components
    """The low end of each of `components`."""
    greatest: Components
    """The high end of each of `components`."""

    @property
    def most(self) -> Components:
        """The most that each part takes at any moment; a part that is none at the peak may be some at another."""
        return reduce(Components.most, self.moments)

    @property
    def reserve(self) -> tuple[int, int]:
        """What `low` and `high` have beyond these parts: what another moment takes more, where that is the peak at the low
        end; memory that the allocator holds and no tensor lies in, and contexts, at the high end.
        """
        return self.low - self.least.total, self.high - self.greatest.total


def estimate(work: Workload) -> Estimate:
    """The estimate; the components are those of the moment that is the peak."""
    moments = _moments(work)
    peak = max(moments, key=_total)
    low = max(_total(_lean(work, moment)) for moment in moments)
    high = max(peak.total + reserve.contexts(work), _held(work, moments))
    # Each end by a share of its own: without all logits at once `low` may be a small part of `expected`.
    low, high = low - _doubt(work, low), high + _doubt(work, peak.total)
    least = Components(*(part + _doubt(work, -part) for part in _lean(work, peak)))
    greatest = Components(*(part + _doubt(work, part) for part in peak))
    return Estimate(low, peak.total, high, peak, moments, least, greatest)


def _total(moment: Components) -> int:
    return moment.total


def _doubt(work: Workload, amount: int) -> int:
    """Bytes that an amount may be off where the shape is a usual one, rounded down."""
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


def _lean(work: Workload, moment: Components) -> Components:
    """A moment where the loss takes the logits in pieces and the scales of 4-bit weights are quantised."""
    scales = states.weights(work) - states.weights(replace(work, double_quantised=True)) if work.quantised else 0
    logits = moment.logits
    if not work.chunked_loss and work.method is not Method.INFERENCE:
        logits //= training.CHUNKS
    return moment._replace(weights=moment.weights - scales, logits=logits)


def _moments(work: Workload) -> tuple[Components, ...]:
    serves = work.method is Method.INFERENCE
    return tuple(serving.moments(work) if serves else training.moments(work))
