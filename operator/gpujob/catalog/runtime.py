"""A container image and what it can do, of a row or of an admin's GPURuntime, and the order in which images are tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpujob.catalog import consistency
from gpujob.catalog.stacks import Stack
from gpujob.catalog.versions import Release, plain, release
from gpujob.quantity import parse_bytes
from gpujob.vocabulary import Backend

if TYPE_CHECKING:
    from gpujob.api.gpuruntime import GPURuntimeSpec

NonRoot = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A container image and what it can do."""

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
    """The oldest amdgpu module, which is needed, and the newest that was tried."""
    cpu_architectures: tuple[str, ...] = ("amd64",)
    features: frozenset[str] = frozenset()
    runs_as_non_root: NonRoot = "Unknown"
    size_bytes: int | None = None
    preference: int = 0
    source: str = ""
    checked_on: str = ""
    unreadable: str = ""
    """What is wrong with the GPURuntime: then nothing is known of the image, and it is never used."""
    stack: Stack | None = field(default=None, compare=False)
    """What the catalog knows of its release of CUDA or ROCm; set by the catalog."""


def runtime_of(name: str, spec: GPURuntimeSpec, *, source: str = "GPURuntime", checked_on: str = "") -> Runtime:
    """A Runtime of a GPURuntime's spec; raises CatalogInvalid, in one sentence, when the spec contradicts itself."""
    return consistency.checked(
        Runtime(
            name=name,
            image=spec.image,
            backend=Backend(spec.backend),
            backend_version=spec.backend_version,
            framework=spec.framework.name,
            framework_version=spec.framework.version,
            framework_release=release(spec.framework.version),
            backend_release=release(spec.backend_version),
            python=spec.python,
            architectures=tuple(spec.architectures),
            min_driver=spec.min_driver,
            driver_window=(spec.driver_window.min, spec.driver_window.max) if spec.driver_window else (None, None),
            cpu_architectures=tuple(spec.cpu_architectures) or ("amd64",),
            features=frozenset(spec.features),
            runs_as_non_root=spec.runs_as_non_root,
            size_bytes=None if spec.size is None else parse_bytes(spec.size),
            preference=spec.preference,
            source=source,
            checked_on=checked_on,
        )
    )


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
