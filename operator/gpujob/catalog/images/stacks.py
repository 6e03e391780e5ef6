"""The host drivers that the releases of CUDA and ROCm need, for images without drivers in their own row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpujob.catalog.images.versions import Release
from gpujob.values.vocabulary import Backend


@dataclass(frozen=True, slots=True)
class Stack:
    """Releases of a backend with a common prefix (CUDA 13, ROCm 7.14) and the host drivers that they run on."""

    backend: Backend
    version: str
    release: Release
    min_driver: str | None = None
    """The oldest driver; older ones are rejected."""
    tested_from: str | None = None
    tested_to: str | None = None
    """The oldest and the newest driver that the vendor names for it; others give a warning."""
    forward_drivers: tuple[str, ...] = ()
    """Older drivers that suffice on data-centre devices with a compatibility package in the image: the first of each branch."""
    toolkit_driver: str | None = None
    """The driver that came with the release; older ones may be unable to compile PTX of its compiler."""
    source: str = ""
    checked_on: str = ""


def stack_of(stacks: Iterable[Stack], backend: Backend, release: Release) -> Stack | None:
    """The row of a backend's release: the one with the longest matching prefix."""
    fitting = (row for row in stacks if row.backend is backend and release[: len(row.release)] == row.release)
    return max(fitting, key=lambda row: len(row.release), default=None)
