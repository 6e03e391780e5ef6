"""The components of memory at one moment, and the moments of a step, of which the largest is the peak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

WORKSPACE: Final = 32 * 2**20
"""Bytes of cuBLAS's workspace on data-center GPUs (CUBLAS_WORKSPACE_CONFIG's default in PyTorch), for each thread that
multiplies: the forward pass, and the backward pass's own."""


class Components(NamedTuple):
    """Bytes on one GPU by what they hold; the words of `plan` and of its JSON."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    logits: int = 0
    kv_cache: int = 0
    adapters: int = 0
    overhead: int = 0
    """Copies that the method needs: weights cast or gathered, gradients on their way between GPUs; and workspaces."""

    @property
    def total(self) -> int:
        """All together."""
        return sum(self)

    def most(self, other: Components) -> Components:
        """The larger of each part."""
        return Components(*map(max, self, other))

    def named(self) -> Iterator[tuple[str, int]]:
        """Every component under the word that users read: kvCache for kv_cache."""
        for name, held in zip(self._fields, self, strict=True):
            first, *rest = name.split("_")
            yield first + "".join(word.capitalize() for word in rest), held


class Course(NamedTuple):
    """All moments of a step that can be its peak, and what each takes altogether."""

    moments: tuple[Components, ...]
    totals: Sequence[int]
    peak: int
    """The most that any takes."""


def course_of(moments: Iterable[Components]) -> Course:
    """The course of a step that goes through these moments."""
    found = tuple(moments)
    totals = [sum(moment) for moment in found]
    return Course(found, totals, max(totals))
