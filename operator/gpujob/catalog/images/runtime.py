"""A container image and its facts, from a row or an admin's GPURuntime, and the order in which images are tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from gpujob.catalog.images.versions import Release, plain
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


NonRoot = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A container image and its facts."""

    name: str
    image: str
    backend: Backend
    backend_version: str
    framework: str
    framework_version: str
    framework_release: Release
    backend_release: Release
    python: str | None = None
    architectures: tuple[str, ...] = ()
    min_driver: str | None = None
    driver_window: tuple[str | None, str | None] = (None, None)
    """The oldest amdgpu module, which is required, and the newest that was tested."""
    cpu_architectures: tuple[str, ...] = ("amd64",)
    features: frozenset[str] = frozenset()
    runs_as_non_root: NonRoot = "Unknown"
    size_bytes: int | None = None
    preference: int = 0
    source: str = ""
    checked_on: str = ""
    unreadable: str = ""
    """The error of the GPURuntime: then nothing else is known of the image, and it is never used."""
    stack: Stack | None = field(default=None, compare=False)
    """The catalog's facts about its release of CUDA or ROCm; set by the catalog."""


def in_order(runtimes: Iterable[Runtime]) -> tuple[Runtime, ...]:
    """Runtimes by preference, newest framework, newest backend, name."""
    by_name = sorted(runtimes, key=lambda row: row.name)
    return tuple(
        sorted(
            by_name,
            key=lambda row: (row.preference, plain(row.framework_release), plain(row.backend_release)),
            reverse=True,
        )
    )
