"""The estimate for a workload: what the framework allocates at its peak, and what a device must have for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from gpujob.memory import activations, model_states, serving, training
from gpujob.memory.allocator import allocator_overhead
from gpujob.memory.phases import Components, Course, course_of
from gpujob.memory.workload import Workload
from gpujob.values.derived import derived
from gpujob.values.vocabulary import Checkpointing, Method

WIDER: Final = (15, 100)
"""What a usual shape is off, as a part of the peak: nine of ten models of the catalog lie within it."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Bytes on each GPU. All but `expected` is worked out when it is asked for: where that is too much already, nobody does."""

    course: Course
    work: Workload = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether the same is estimated, though it be of other work."""
        return isinstance(other, Estimate) and (self.course, self.high) == (other.course, other.high)

    @property
    def expected(self) -> int:
        """The peak that the framework allocates: torch.cuda.max_memory_allocated."""
        return self.course.peak

    @property
    def moments(self) -> tuple[Components, ...]:
        """All moments that can be the peak."""
        return self.course.moments

    @property
    def components(self) -> Components:
        """The parts of `expected`: those of the moment that is the peak."""
        return self.course.moments[self.course.totals.index(self.course.peak)]

    @derived
    def high(self) -> int:
        """What a device must have usable: the peak, what the allocator holds besides, and the driver's context. Never less
        than `expected`."""
        peak = self.course.peak
        held = max(peak + allocator_overhead.contexts(self.work), _held(self.work, self.course))
        return held + _doubt(self.work, peak)

    @derived
    def low(self) -> int:
        """The peak where the loss never holds all logits at once (chunked or fused cross entropy), and where the scales of
        4-bit weights are quantised too."""
        least = max(_lean(self.work, moment).total for moment in self.moments)
        return least - _doubt(self.work, least)

    @derived
    def least(self) -> Components:
        """The low end of each of `components`."""
        return Components(*(part + _doubt(self.work, -part) for part in _lean(self.work, self.components)))

    @derived
    def greatest(self) -> Components:
        """The high end of each of `components`."""
        return Components(*(part + _doubt(self.work, part) for part in self.components))

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


class Estimates:
    """The estimates of one workload on any number of GPUs: each is made when it is asked for, and once."""

    __slots__ = ("_known", "_work")

    def __init__(self, work: Workload) -> None:
        self._work, self._known = work, dict[int, Estimate]()

    def on(self, gpus: int) -> Estimate:
        """The estimate on so many GPUs."""
        found = self._known.get(gpus)
        if found is None:
            # From number to number, since each takes along what is known of the one before.
            self._work = self._work.on(gpus)
            found = self._known[gpus] = estimate(self._work)
        return found


def estimate(work: Workload) -> Estimate:
    """The estimate."""
    return Estimate(_course(work), work)


def _doubt(work: Workload, amount: int) -> int:
    """Bytes that an amount may be off where the shape is a usual one, rounded down."""
    return amount * WIDER[0] // WIDER[1] if work.inferred else 0


def _held(work: Workload, course: Course) -> int:
    """What a device must have. Layers that are recomputed leave the blocks that they would have kept, and no more; so
    without them is counted too, unless what they spare is clearly more than what is held. Gradients that wait for those of
    further micro-batches leave no less than those that do not.
    """
    held = course.peak + allocator_overhead.beyond_peak(work, course)
    if work.accumulates and work.method is Method.FULL:
        once = replace(work, accumulates=False)
        held = max(held, _held(once, _course(once)))
    if work.checkpointing is Checkpointing.NONE or work.method is Method.INFERENCE:
        return held
    made = activations.everything(work)
    spared = (made - activations.kept_by_layer(work, made)) * work.shape.layers * work.tokens
    if course.totals[0] + spared + allocator_overhead.contexts(work) >= held:
        return held
    whole = replace(work, checkpointing=Checkpointing.NONE)
    return min(held, _held(whole, _course(whole)))


def _lean(work: Workload, moment: Components) -> Components:
    """A moment where the loss takes the logits in pieces and the scales of 4-bit weights are quantised."""
    scales = (
        model_states.weights(work) - model_states.weights(replace(work, double_quantised=True)) if work.quantised else 0
    )
    logits = moment.logits
    if not work.chunked_loss and work.method is not Method.INFERENCE:
        logits //= training.CHUNKS
    return moment._replace(weights=moment.weights - scales, logits=logits)


def _course(work: Workload) -> Course:
    serves = work.method is Method.INFERENCE
    return course_of(serving.moments(work) if serves else training.moments(work))
