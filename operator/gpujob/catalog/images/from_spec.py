"""A container image's facts from a GPURuntime's spec: of the catalog's rows, and of objects in the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpujob.catalog.images import consistency
from gpujob.catalog.images.runtime import Runtime
from gpujob.catalog.images.versions import release
from gpujob.values.quantity import parse_bytes
from gpujob.values.untrusted import one_line, table
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


LONGEST: Final = 300
"""The most characters of a GPURuntime's error."""


def unreadable_runtimes(raw: Mapping[str, Any], problem: str) -> tuple[Runtime, ...]:
    """The rest of a GPURuntime object that its schema rejects: a row for each stack that it may be for.

    If it were skipped, its name would fall back to the catalog's own row, which its admin wants to replace. Only the stack of the
    image is read from it; if that cannot be read either, it may be for both.
    """
    spec = table(raw, "spec")
    name, image = table(raw, "metadata").get("name"), spec.get("image")
    said = one_line("; ".join(problem.splitlines()))[:LONGEST] or "it is malformed"
    named = [backend for backend in Backend if backend.value == spec.get("backend")]
    return tuple(
        Runtime(
            name=one_line(str(name)[:253]),
            image=one_line(image[:512]) if isinstance(image, str) else "",
            backend=backend,
            backend_version="",
            framework="",
            framework_version="",
            framework_release=(),
            backend_release=(),
            source="GPURuntime",
            unreadable=said,
        )
        for backend in named or Backend
    )


def sentences(rows: Iterable[Runtime]) -> list[str]:
    """A sentence for each GPURuntime of some rows that cannot be read, one for all of its stacks."""
    found = (
        f"GPURuntime {row.name} cannot be read, so it is not used: {row.unreadable}" for row in rows if row.unreadable
    )
    return list(dict.fromkeys(found))
