"""The components of memory in one phase, and the phases of a step; the largest one is the peak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

WORKSPACE: Final = 32 * 2**20
"""Bytes of cuBLAS's workspace on data-center GPUs (CUBLAS_WORKSPACE_CONFIG's default in PyTorch), for each of two threads: the
forward pass, and the backward pass.
"""


class Components(NamedTuple):
    """Bytes on one GPU by their use, named as in `plan` and its JSON."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    logits: int = 0
    kv_cache: int = 0
    adapters: int = 0
    overhead: int = 0
    """Copies that the method needs: cast or gathered weights, gradients in flight between GPUs; and workspaces."""

    @property
    def total(self) -> int:
        """The sum of all."""
        return sum(self)

    def most(self, other: Components) -> Components:
        """The larger of each part."""
        return Components(*map(max, self, other))

    def named(self) -> Iterator[tuple[str, int]]:
        """Every component under its name in the output: kvCache for kv_cache."""
        for name, held in zip(self._fields, self, strict=True):
            first, *rest = name.split("_")
            yield first + "".join(word.capitalize() for word in rest), held


class Course(NamedTuple):
    """All phases of a step that can be its peak, with the total of each."""

    moments: tuple[Components, ...]
    totals: Sequence[int]
    peak: int
    """The largest total."""


def course_of(moments: Iterable[Components]) -> Course:
    """The step with these phases."""
    found = tuple(moments)
    totals = [sum(moment) for moment in found]
    return Course(found, totals, max(totals))
