"""The estimate for a workload: what the framework allocates at its peak, and what a device must have for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Final

from gpujob.memory import reserve, serving, training
from gpujob.memory.moments import Components
from gpujob.memory.workload import Workload
from gpujob.vocabulary import Method

WIDER: Final = (15, 100)
"""What a usual shape is off, as a part of the peak: nine of ten models of the catalog lie within it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on each GPU."""

    low: int
    """The peak where the loss never holds all logits at once (chunked or fused cross entropy)."""
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
    doubt = expected * WIDER[0] // WIDER[1] if work.inferred else 0
    high = expected + reserve.beyond_peak(work, moments) + doubt
    return Estimate(min(least, expected) - doubt, expected, high, peak, moments)


def _unchunked(work: Workload, moment: Components) -> int:
    """Bytes of the logits that a loss in pieces would not hold."""
    if work.chunked_loss or work.method is Method.INFERENCE:
        return 0
    return moment.logits - moment.logits // training.CHUNKS


def _moments(work: Workload) -> tuple[Components, ...]:
    serves = work.method is Method.INFERENCE
    return tuple(serving.moments(work) if serves else training.moments(work))
