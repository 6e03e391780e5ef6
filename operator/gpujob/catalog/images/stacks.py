"""Which drivers the releases of CUDA and ROCm run on, for images whose own row does not say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpujob.catalog.images.versions import Release
from gpujob.values.vocabulary import Backend


@dataclass(frozen=True, slots=True)
class Stack:
    """Releases of a backend that begin alike (CUDA 13, ROCm 7.14) and the drivers of the host that they run on."""

    backend: Backend
    version: str
    release: Release
    min_driver: str | None = None
    """The oldest driver: what is older is refused."""
    tested_from: str | None = None
    tested_to: str | None = None
    """The oldest and the newest driver that the vendor names for it: what lies outside is a doubt."""
    forward_drivers: tuple[str, ...] = ()
    """Older drivers that a compatibility package in the image makes do on data-centre devices: the first of each branch."""
    toolkit_driver: str | None = None
    """The driver that came with the release: older ones may be unable to compile PTX that its compiler wrote."""
    source: str = ""
    checked_on: str = ""


def stack_of(stacks: Iterable[Stack], backend: Backend, release: Release) -> Stack | None:
    """The row of a backend's release: of those that it begins with, the longest."""
    fitting = (row for row in stacks if row.backend is backend and release[: len(row.release)] == row.release)
    return max(fitting, key=lambda row: len(row.release), default=None)
