"""A container image's facts from a GPURuntime's spec: of the catalog's rows, and of objects in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpujob.catalog.images import consistency
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import release
from gpujob.values.quantity import parse_bytes
from gpujob.values.vocabulary import Backend

if TYPE_CHECKING:
    from gpujob.api.kinds.gpuruntime import GPURuntimeSpec


def runtime_of(name: str, spec: GPURuntimeSpec, *, source: str = "GPURuntime", checked_on: str = "") -> Runtime:
    """A Runtime of a GPURuntime's spec; raises CatalogInvalid, in one sentence, if the spec contradicts itself."""
    return consistency.checked(
        Runtime(
            name=name,
            image=spec.image,
            backend=Backend(spec.backend),
            backend_version=spec.backend_version,
            framework=spec.framework.name.lower(),
            framework_version=spec.framework.version,
            framework_release=release(spec.framework.version),
            backend_release=release(spec.backend_version),
            python=spec.python,
            architectures=tuple(spec.architectures),
            min_driver=spec.min_driver,
            driver_window=(spec.driver_window.min, spec.driver_window.max) if spec.driver_window else (None, None),
            cpu_architectures=tuple(spec.cpu_architectures) or ("amd64",),
            features=frozenset(spec.features),
            runs_as_non_root=spec.runs_as_non_root or "Unknown",
            size_bytes=None if spec.size is None else parse_bytes(spec.size),
            preference=spec.preference or 0,
            source=source,
            checked_on=checked_on,
        )
    )
