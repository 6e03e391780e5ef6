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
"""The error of an assumed shape, relative to the peak: nine of ten models of the catalog are within it."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Bytes on each GPU. Everything except `expected` is computed on first use, because a device too small for that is rejected
    without the rest.
    """

    course: Course
    work: Workload = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether the estimates are equal, even for different work."""
        return isinstance(other, Estimate) and (self.course, self.high) == (other.course, other.high)

    @property
    def expected(self) -> int:
        """The peak that the framework allocates: torch.cuda.max_memory_allocated."""
        return self.course.peak

    @property
    def moments(self) -> tuple[Components, ...]:
        """All phases that can be the peak."""
        return self.course.moments

    @property
    def components(self) -> Components:
        """The parts of `expected`: those of the phase that is the peak."""
        return self.course.moments[self.course.totals.index(self.course.peak)]

    @derived
    def high(self) -> int:
        """What a device must have usable: the peak, the allocator's overhead, and the driver's context. Never less than `expected`."""
        peak = self.course.peak
        held = max(peak + allocator_overhead.contexts(self.work), _held(self.work, self.course))
        return held + _warning(self.work, peak)

    @derived
    def taken(self) -> int:
        """What a device must have: `high` without the part of it that a server leaves alone by default."""
        if self.work.method is not Method.INFERENCE:
            return self.high
        peak = self.course.peak
        return peak + allocator_overhead.taken_beyond_peak(self.work, self.course) + _warning(self.work, peak)

    @derived
    def low(self) -> int:
        """The peak if the loss never holds all logits at once (chunked or fused cross entropy), and if the scales of 4-bit weights
        are quantised too.
        """
        least = max(_lean(self.work, moment).total for moment in self.moments)
        return least - _warning(self.work, least)

    @derived
    def least(self) -> Components:
        """The low end of each of `components`."""
        return Components(*(part + _warning(self.work, -part) for part in _lean(self.work, self.components)))

    @derived
    def greatest(self) -> Components:
        """The high end of each of `components`."""
        return Components(*(part + _warning(self.work, part) for part in self.components))

    @property
    def most(self) -> Components:
        """The most that each part takes in any phase; a part that is absent at the peak may exist in another phase."""
        return reduce(Components.most, self.moments)

    @property
    def reserve(self) -> tuple[int, int]:
        """The difference of `low` and `high` to these parts: at the low end the excess of another phase that is the peak there; at
        the high end the allocator's unused blocks, and contexts.
        """
        return self.low - self.least.total, self.high - self.greatest.total


class Estimates:
    """The estimates of one workload on any number of GPUs: each is computed on first use, and once."""

    __slots__ = ("_known", "work")

    def __init__(self, work: Workload) -> None:
        self.work, self._known = work, dict[int, Estimate]()

    def on(self, gpus: int) -> Estimate:
        """The estimate on so many GPUs."""
        found = self._known.get(gpus)
        if found is None:
            # Derived from each other, because each reuses what the last one computed.
            self.work = self.work.on(gpus)
            found = self._known[gpus] = estimate(self.work)
        return found


def estimate(work: Workload) -> Estimate:
    """The estimate."""
    return Estimate(_course(work), work)


def _warning(work: Workload, amount: int) -> int:
    """The error in bytes of an amount for an assumed shape, rounded down."""
    return amount * WIDER[0] // WIDER[1] if work.inferred else 0


def _held(work: Workload, course: Course) -> int:
    """What a device must have. Recomputed layers leave at most the blocks that they would have kept; so the sum without
    recomputation counts too, unless it saves clearly more than is held. Gradients that wait for further micro-batches leave at
    least as much as others.
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
    """A phase in which the loss takes the logits in chunks and the scales of 4-bit weights are quantised."""
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
